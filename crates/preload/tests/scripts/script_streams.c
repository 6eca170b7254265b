/* Connections of TCP, for scripts. */
#include "script.h"

#include <netinet/tcp.h>

static int listener_at(int family, int n) {
    int fd = CALL(socket(family, SOCK_STREAM, 0)), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (family == AF_INET6) CALL(bind(fd, V6(NEAR6, PORT(n))));
    else CALL(bind(fd, V4(NEAR, PORT(n))));
    CALL(listen(fd, 5));
    return fd;
}

static void dont_delay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int connected_stream(int family) {
    int fd = CALL(socket(family, SOCK_STREAM, 0));
    if (family == AF_INET6) CALL(connect(fd, V6(FAR6, ECHO_PORT)));
    else CALL(connect(fd, V4(FAR, ECHO_PORT)));
    dont_delay(fd);
    return fd;
}

int accepted_stream(int family, int n) {
    int listener = listener_at(family, n);
    struct peer_request request = { .command = PEER_DIAL, .family = family, .to = PORT(n) };
    say("far end dials: %d", far_asks(&request).length);
    int fd = CALL(accept(listener, NULL, NULL));
    CALL(close(listener));
    dont_delay(fd);
    return fd;
}

void order_far(int fd, const char *orders) {
    begin_call();
    end_call(orders, send(fd, orders, strlen(orders), MSG_NOSIGNAL));
}

void receive_stream(int fd, long bytes, int flags, const char *text) {
    static _Thread_local unsigned char data[1 << 16];
    long received = 0, sum = 0, last = 1;
    errno = 0;
    while (received < bytes) {
        long wanted = bytes - received;
        last = recv(fd, data, wanted < (long)sizeof data ? (size_t)wanted : sizeof data, flags);
        if (last <= 0) break;
        for (long i = 0; i < last; i++) sum = (sum * 31 + data[i]) % 1000003;
        received += last;
    }
    say("%s: %ld bytes, sum %ld, %s", text, received, sum,
        last > 0 ? "more may come" : last == 0 ? "end" : strerrorname_np(errno));
}

void send_stream(int fd, long bytes) {
    static _Thread_local char data[1 << 16];
    for (size_t i = 0; i < sizeof data; i++) data[i] = 'a' + i % 26;
    long sent = 0;
    while (sent < bytes) {
        long wanted = bytes - sent;
        long last = send(fd, data + sent % 26, wanted < 60000 ? (size_t)wanted : 60000, MSG_NOSIGNAL);
        if (last < 0) {
            say("send after %ld: %s", sent, strerrorname_np(errno));
            return;
        }
        sent += last;
    }
    say("sent %ld", sent);
}

void exchange_stream(int fd) {
    for (int i = 0; i < 4; i++) {
        SEND(fd, "hello", MSG_NOSIGNAL);
        RECEIVE_STREAM(fd, 5);
    }
}

void far_ended(void) {
    struct peer_request request = { .command = PEER_ENDED, .after_ms = 3000 };
    struct peer_reply reply = far_asks(&request);
    say("far end saw: %s after %d bytes", reply.text, reply.length);
}
