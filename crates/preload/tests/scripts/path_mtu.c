/* A router whose next leg carries less than the interface: it says so, and the kernel keeps it for the destination. */
#include "script.h"
#include "direct.h"


#define IP_MTU_ 14
#define WHOLE 1472
#define WHOLE6 1452

static char bytes[2000];

/* Sends datagrams. Before the next one, what the router says of it has come, however busy the machine is. */
static void send_some(int fd, const struct sockaddr *to, socklen_t length, int count, size_t size) {
    for (int i = 0; i < count; i++) {
        errno = 0;
        long sent = sendto(fd, bytes, size, 0, to, length);
        say("send %d: %ld %s", i, sent, sent < 0 ? strerrorname_np(errno) : "");
        settle_beyond();
        sleep_ms(5);
    }
}

static int opened(int family, int n) {
    int port = PORT(n);
    far_is_beyond();
    settle_by_marks();
    if (family == AF_INET6) far_opens6(port);
    else far_opens(port);
    return port;
}

SCRIPT(long_datagrams_through_a_router_with_a_narrow_leg) {
    int a = bound(0), port = opened(AF_INET, 1);
    for (int i = 0; i < 20; i++) {
        sendto(a, bytes, WHOLE, 0, V4(BEYOND(0), port));
        sleep_ms(3);
    }
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(long_datagrams_through_a_router_with_a_narrow_leg6) {
    int a = bound6(0), port = opened(AF_INET6, 1);
    for (int i = 0; i < 20; i++) {
        sendto(a, bytes, WHOLE6, 0, V6(BEYOND6(0), port));
        sleep_ms(3);
    }
    say("%d arrived", far_counts(AF_INET6, port, WHOLE6));
}

SCRIPT(connected) {
    int a = bound(0), port = opened(AF_INET, 1);
    CALL(connect(a, V4(BEYOND(0), port)));
    GET(a, IPPROTO_IP, IP_MTU_);
    send_some(a, NULL, 0, 6, WHOLE);
    GET(a, IPPROTO_IP, IP_MTU_);
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(connected6) {
    int a = bound6(0), port = opened(AF_INET6, 1);
    CALL(connect(a, V6(BEYOND6(0), port)));
    GET(a, IPPROTO_IPV6, IPV6_MTU);
    send_some(a, NULL, 0, 6, WHOLE6);
    GET(a, IPPROTO_IPV6, IPV6_MTU);
    say("%d arrived", far_counts(AF_INET6, port, WHOLE6));
}

SCRIPT(what_just_fits_and_what_just_does_not) {
    int a = bound(0), port = opened(AF_INET, 1);
    send_some(a, V4(BEYOND(0), port), 2, WHOLE);
    send_some(a, V4(BEYOND(0), port), 3, 1372);
    send_some(a, V4(BEYOND(0), port), 3, 1373);
    send_some(a, V4(BEYOND(0), port), 3, 100);
    say("%d whole", far_counts(AF_INET, port, WHOLE));
}

/* The error of a connected socket, before another send. */
SCRIPT(error_of_a_connected_socket) {
    int a = bound(0), port = opened(AF_INET, 1);
    CALL(connect(a, V4(BEYOND(0), port)));
    send_some(a, NULL, 0, 1, WHOLE);
    POLL(200, { a, POLLIN, 0 });
    GET(a, SOL_SOCKET, SO_ERROR);
    POLL(0, { a, POLLIN, 0 });
    send_some(a, NULL, 0, 3, WHOLE);
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

static const int MODES[] = { IP_PMTUDISC_DONT, IP_PMTUDISC_WANT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE, IP_PMTUDISC_INTERFACE,
                             IP_PMTUDISC_OMIT };

static void in_mode(int connects, int n) {
    int a = bound(2 * n), port = opened(AF_INET, 2 * n + 1);
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, MODES[n]);
    if (connects) CALL(connect(a, V4(BEYOND(n), port)));
    if (connects) send_some(a, NULL, 0, 4, WHOLE);
    else send_some(a, V4(BEYOND(n), port), 4, WHOLE);
    if (connects) GET(a, IPPROTO_IP, IP_MTU_);
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(each_mode) {
    for (int n = 0; n < (int)LENGTH_OF(MODES); n++) in_mode(0, n);
}

SCRIPT(each_mode_connected) {
    for (int n = 0; n < (int)LENGTH_OF(MODES); n++) in_mode(1, n);
}

static void in_mode6(int connects, int n) {
    int a = bound6(2 * n), port = opened(AF_INET6, 2 * n + 1);
    SET(a, IPPROTO_IPV6, IPV6_MTU_DISCOVER, MODES[n]);
    if (connects) CALL(connect(a, V6(BEYOND6(n), port)));
    if (connects) send_some(a, NULL, 0, 4, WHOLE6);
    else send_some(a, V6(BEYOND6(n), port), 4, WHOLE6);
    if (connects) GET(a, IPPROTO_IPV6, IPV6_MTU);
    say("%d arrived", far_counts(AF_INET6, port, WHOLE6));
}

SCRIPT(each_mode6) {
    for (int n = 0; n < (int)LENGTH_OF(MODES); n++) in_mode6(0, n);
}

SCRIPT(each_mode_connected6) {
    for (int n = 0; n < (int)LENGTH_OF(MODES); n++) in_mode6(1, n);
}

/* IPV6_MTU: the kernel cuts what is longer (named asks for 1280 bytes). */
SCRIPT(packets_no_longer_than_asked6) {
    int a = bound6(0), port = PORT(5);
    static const int limits[] = { 1280, 1400, 0 };
    far_opens6(port);
    for (unsigned i = 0; i < LENGTH_OF(limits); i++) {
        CALL(setsockopt(a, IPPROTO_IPV6, IPV6_MTU, &limits[i], sizeof limits[i]));
        send_some(a, V6(FAR6, port), 1, 1232);
        send_some(a, V6(FAR6, port), 1, 1233);
        send_some(a, V6(FAR6, port), 1, 1352);
        send_some(a, V6(FAR6, port), 1, 1353);
        for (int n = 0; n < 4; n++) far_receives6(port);
    }
    int on = 1;
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof on));
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_MTU, &limits[0], sizeof limits[0]));
    send_some(a, V6(FAR6, port), 1, 1233);
    far_receives6(port);
}

SCRIPT(dontfrag6) {
    int a = bound6(0), port = opened(AF_INET6, 1);
    SET(a, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
    send_some(a, V6(BEYOND6(0), port), 3, WHOLE6);
    send_some(a, V6(BEYOND6(0), port), 2, 1352);
    send_some(a, V6(BEYOND6(0), port), 2, 1353);
    say("%d arrived", far_counts(AF_INET6, port, 1352));
}

/* A socket that no library sees has the kernel learn. */
static void learnt_before(int n, int port) {
    int fd = direct(SYS_socket, AF_INET, SOCK_DGRAM, 0, 0, 0, 0);
    struct sockaddr_in to = *v4(BEYOND(n), port);
    for (int i = 0; i < 2; i++) {
        direct(SYS_sendto, fd, (long)bytes, WHOLE, 0, (long)&to, sizeof to);
        sleep_ms(5);
    }
    direct(SYS_close, fd, 0, 0, 0, 0, 0);
    say("%d of another", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(learnt_before_the_socket_was_made) {
    int port = opened(AF_INET, 1);
    learnt_before(0, port);
    int a = bound(0);
    send_some(a, V4(BEYOND(0), port), 3, WHOLE);
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(learnt_before_it_was_connected) {
    int a = bound(0), port = opened(AF_INET, 1);
    learnt_before(0, port);
    CALL(connect(a, V4(BEYOND(0), port)));
    GET(a, IPPROTO_IP, IP_MTU_);
    send_some(a, NULL, 0, 3, WHOLE);
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

SCRIPT(destinations_in_turn) {
    int a = bound(0), port = opened(AF_INET, 1);
    for (int i = 0; i < 12; i++) {
        sendto(a, bytes, WHOLE, 0, V4(BEYOND(i % 4), port));
        sleep_ms(3);
    }
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
}

static void *waits(void *argument) {
    RECV((int)(intptr_t)argument, 10, 0);
    return NULL;
}

/* While another thread waits for an answer, perhaps asleep. */
SCRIPT(while_a_thread_receives) {
    int a = bound(0), port = opened(AF_INET, 1);
    struct thread *thread = start_thread("waiting", waits, (void *)(intptr_t)a);
    let_it_wait();
    for (int i = 0; i < 5; i++) {
        sendto(a, bytes, WHOLE, 0, V4(BEYOND(0), port));
        sleep_ms(5);
    }
    say("%d arrived", far_counts(AF_INET, port, WHOLE));
    CALL(sendto(a, "end", 3, 0, V4(NEAR, PORT(0))));
    join_thread(thread);
}

/* The kernel forgets the route that it found for the socket, which it does not send on itself. */
SCRIPT(asked_after_the_link_came_back) {
    int a = bound(0), b = UDP();
    far_opens(PORT(1));
    CALL(connect(a, V4(FAR, PORT(1))));
    CALL(connect(b, V4(FAR, PORT(1))));
    SEND(b, "before", 0);
    GET(a, IPPROTO_IP, IP_MTU_);
    far_link(0);
    SEND(b, "lost", 0);
    far_link(1);
    far_answers(AF_INET);
    SEND(a, "x", 0);
    SEND(b, "x", 0);
    GET(a, IPPROTO_IP, IP_MTU_);
    GET(b, IPPROTO_IP, IP_MTU_);
}
