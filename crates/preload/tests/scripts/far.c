/* Requests to the peer. They go around the C library and what is preloaded, so that nothing of them meets what is tested. */
#include "script.h"
#include "direct.h"

#include <sys/un.h>

int port_number(int port);

struct peer_reply far_asks(struct peer_request *request) {
    if (request->family == 0) request->family = AF_INET;
    if (request->from == 0) request->from = FAR_PORT;
    if (request->count == 0) request->count = 1;
    if (request->sources == 0) request->sources = 1;
    if (request->letter == 0) request->letter = 'a';
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    snprintf(name.sun_path, sizeof name.sun_path, "%s", getenv(PEER_VARIABLE));
    struct peer_reply reply = { .length = -1 };
    long fd = direct(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0);
    long outcome = fd < 0 ? fd : direct(SYS_connect, fd, (long)&name, sizeof name, 0, 0, 0);
    if (outcome < 0) {
        say("the peer is not reached: %s", strerrorname_np(-outcome));
    } else {
        long sent, got;
        while ((sent = direct(SYS_sendto, fd, (long)request, sizeof *request, 0, 0, 0)) == -EINTR) {}
        while ((got = direct(SYS_recvfrom, fd, (long)&reply, sizeof reply, 0, 0, 0)) == -EINTR) {}
        if (got != sizeof reply) say("the peer gave no answer: %ld %s", got, got < 0 ? strerrorname_np(-got) : "");
    }
    direct(SYS_close, fd, 0, 0, 0, 0, 0);
    return reply;
}

void far_sends(struct peer_request request, const char *text) {
    int errno_before = errno;
    request.command = PEER_SEND;
    say("far sends %s", text);
    if (request.after_ms) order_for_later();
    request.after_ms = later_ms(request.after_ms);
    far_asks(&request);
    if (request.after_ms == 0) settle();
    errno = errno_before;
}

void far_icmp(struct peer_request request, const char *text) {
    request.command = PEER_ICMP;
    say("far sends ICMP %s", text);
    if (request.after_ms) order_for_later();
    request.after_ms = later_ms(request.after_ms);
    far_asks(&request);
    if (request.after_ms == 0) settle();
}

static void at_port(enum peer_command command, int family, int port, const char *group) {
    struct peer_request request = { .command = command, .family = family, .from = port };
    if (group) snprintf(request.group, sizeof request.group, "%s", group);
    far_asks(&request);
}

void far_opens(int port) { at_port(PEER_OPEN, AF_INET, port, NULL); }
void far_opens6(int port) { at_port(PEER_OPEN, AF_INET6, port, NULL); }
void far_joins(int port, const char *group) { at_port(PEER_OPEN, AF_INET, port, group); }
void far_joins6(int port, const char *group) { at_port(PEER_OPEN, AF_INET6, port, group); }
void far_closes(int port) { at_port(PEER_CLOSE, AF_INET, port, NULL); }
void far_watches(int port) { at_port(PEER_WATCH, AF_INET, port, NULL); }
void far_forgets(void) { at_port(PEER_RESET, AF_INET, script_port(), NULL); }

static void receives(int family, int port, int wait_ms) {
    struct peer_request request = { .command = PEER_RECEIVE, .family = family, .from = port, .after_ms = wait_ms };
    struct peer_reply reply = far_asks(&request);
    int at = port - script_port();
    if (reply.length < 0) {
        say("far +%d: nothing", at);
        return;
    }
    struct sockaddr_in6 from6 = { .sin6_family = AF_INET6, .sin6_port = htons(reply.from_port) };
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(reply.from_port) };
    inet_pton(AF_INET6, reply.from, &from6.sin6_addr);
    inet_pton(AF_INET, reply.from, &from.sin_addr);
    const char *name = family == AF_INET6 ? address_text(&from6, sizeof from6) : address_text(&from, sizeof from);
    say("far +%d: from %s to %s ttl %d tos %d", at, name, reply.to, reply.ttl, reply.tos);
    size_t kept = reply.length < (int)sizeof reply.text ? (size_t)reply.length : sizeof reply.text;
    if ((size_t)reply.length > kept) say("  %d bytes, of which:", reply.length);
    show_data("  data", reply.text, kept);
}

void far_receives(int port) { receives(AF_INET, port, 500); }
void far_receives6(int port) { receives(AF_INET6, port, 500); }
void far_receives_nothing(int port) { receives(AF_INET, port, 30); }

int far_counts(int family, int port, int size) {
    int count = 0;
    for (int length = 0; length >= 0;) {
        struct peer_request request = { .command = PEER_RECEIVE, .family = family, .from = port, .after_ms = 60 };
        length = far_asks(&request).length;
        count += length == size;
    }
    return count;
}

void far_is_beyond(void) { setenv(PEER_VARIABLE, getenv("SCRIPT_BEYOND"), 1); }

/* Ports go up by PORTS from run to run. */
const char *BEYOND(int n) {
    static _Thread_local char text[32];
    int run = script_port() / PORTS;
    snprintf(text, sizeof text, "10.78.%d.%d", run >> 4, (run & 15) << 4 | n);
    return text;
}

const char *BEYOND6(int n) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "fd78::%x:%x", script_port() / PORTS + 1, n);
    return text;
}

void far_watched(int port) {
    struct peer_request request = { .command = PEER_WATCHED, .from = port, .after_ms = 500 };
    struct peer_reply reply = far_asks(&request);
    if (reply.length < 0) say("far +%d: no header", port - script_port());
    else say("far +%d: header: %d bytes, df %d, ttl %d, tos %d, checksum %s", port - script_port(), reply.length, reply.df,
             reply.ttl, reply.tos, reply.checksum ? "given" : "zero");
}

void far_link(int is_up) {
    struct peer_request request = { .command = PEER_LINK, .size = is_up };
    far_asks(&request);
}

void far_answers(int family) {
    int fd = direct(SYS_socket, family, SOCK_DGRAM, 0, 0, 0, 0);
    struct sockaddr_storage to = { 0 };
    socklen_t length = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char data[10];
    long got = -1;
    if (family == AF_INET6) memcpy(&to, v6(FAR6, ECHO_PORT), length);
    else memcpy(&to, v4(FAR, ECHO_PORT), length);
    for (long end_us = now_us() + 5000000; got < 0 && now_us() < end_us;) {
        direct(SYS_sendto, fd, (long)"up", 2, 0, (long)&to, length);
        sleep_ms(1);
        got = direct(SYS_recvfrom, fd, (long)data, sizeof data, MSG_DONTWAIT, 0, 0);
    }
    if (got < 0) say("the link stays down");
    direct(SYS_close, fd, 0, 0, 0, 0, 0);
}
