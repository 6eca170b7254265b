/* bind(2): which addresses and ports a socket gets, and which it does not. */
#include "script.h"

SCRIPT(port_0_gives_a_port) {
    int a = UDP(), b = UDP();
    GETSOCKNAME(a);
    CALL(bind(a, V4(NEAR, 0)));
    GETSOCKNAME(a);
    CALL(bind(b, V4("0.0.0.0", 0)));
    GETSOCKNAME(b);
    SENDTO(a, "one", V4(FAR, ECHO_PORT));
    RECVFROM(a, 100, 0);
    SENDTO(b, "two", V4(FAR, ECHO_PORT));
    RECVFROM(b, 100, 0);
}

SCRIPT(wildcard_receives_from_cable_and_loopback) {
    int a = UDP(), b = UDP();
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    CALL(bind(b, V4("127.0.0.1", PORT(1))));
    FAR_SENDS(.to = PORT(0), .size = 5);
    SENDTO(b, "loop", V4("127.0.0.1", PORT(0)));
    settle();
    RECVFROM(a, 100, 0);
    RECVFROM(a, 100, 0);
    SENDTO(b, "own address", V4(NEAR, PORT(0)));
    settle();
    FAR_SENDS(.to = PORT(0), .size = 6, .letter = 'x');
    RECVFROM(a, 100, 0);
    RECVFROM(a, 100, 0);
    RECVFROM(a, 100, MSG_DONTWAIT);
}

SCRIPT(twice_is_refused) {
    int a = bound(0);
    CALL(bind(a, V4(NEAR, PORT(1))));
    CALL(bind(a, V4(NEAR, PORT(0))));
    GETSOCKNAME(a);
    FAR_SENDS(.to = PORT(1), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(port_in_use_is_refused) {
    int a = bound(0), b = UDP();
    CALL(bind(b, V4(NEAR, PORT(0))));
    CALL(bind(b, V4("0.0.0.0", PORT(0))));
    GETSOCKNAME(b);
    CALL(bind(b, V4(NEAR, PORT(1))));
    FAR_SENDS(.to = PORT(1), .size = 4);
    RECV(b, 10, 0);
    CALL(close(a));
    int c = UDP();
    CALL(bind(c, V4("0.0.0.0", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 7);
    RECV(c, 10, 0);
}

SCRIPT(same_port_on_two_addresses) {
    int a = bound(0), b = UDP();
    CALL(bind(b, V4("127.0.0.1", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    SENDTO(b, "self", V4("127.0.0.1", PORT(0)));
    settle();
    RECVFROM(a, 10, MSG_DONTWAIT);
    RECVFROM(b, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(reuseaddr_gives_to_the_last) {
    int a = UDP(), b = UDP();
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(bind(b, V4(NEAR, PORT(0))));
    SET(b, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(b, V4(NEAR, PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    CALL(close(b));
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(reuseaddr_specific_beats_wildcard) {
    int a = UDP(), b = UDP();
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    SET(b, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(bind(b, V4("0.0.0.0", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(connected_beats_bound) {
    int a = UDP(), b = UDP();
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    SET(b, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(bind(b, V4(NEAR, PORT(0))));
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 4);
    RECVFROM(a, 10, MSG_DONTWAIT);
    RECVFROM(b, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(refused_addresses) {
    int a = UDP();
    CALL(bind(a, V4(FAR, PORT(0))));
    CALL(bind(a, V4(UNROUTED, PORT(0))));
    CALL(bind(a, V6(NEAR6, PORT(0))));
    CALL(bind(a, (struct sockaddr *)v4(NEAR, PORT(0)), 8));
    CALL(bind(a, (struct sockaddr *)v4(NEAR, PORT(0)), 0));
    CALL(bind(a, (struct sockaddr *)v4(NEAR, PORT(0)), -1));
    CALL(bind(a, null(), sizeof(struct sockaddr_in)));
    CALL(bind(a, no_memory(), sizeof(struct sockaddr_in)));
    struct sockaddr_in odd = *v4(NEAR, PORT(0));
    odd.sin_family = AF_UNSPEC;
    CALL(bind(a, (struct sockaddr *)&odd, sizeof odd));
    odd.sin_family = AF_UNIX;
    CALL(bind(a, (struct sockaddr *)&odd, sizeof odd));
    GETSOCKNAME(a);
    CALL(bind(-1, V4(NEAR, PORT(0))));
    CALL(bind(0, V4(NEAR, PORT(0))));
    CALL(bind(77, V4(NEAR, PORT(0))));
}

SCRIPT(unspecified_family_is_the_wildcard) {
    int a = UDP();
    struct sockaddr_in any = *v4("0.0.0.0", PORT(0));
    any.sin_family = AF_UNSPEC;
    CALL(bind(a, (struct sockaddr *)&any, sizeof any));
    GETSOCKNAME(a);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(longer_address_is_accepted) {
    int a = UDP();
    struct sockaddr_storage big = { 0 };
    memcpy(&big, v4(NEAR, PORT(0)), sizeof(struct sockaddr_in));
    CALL(bind(a, (struct sockaddr *)&big, sizeof big));
    GETSOCKNAME(a);
    CALL(bind(a, (struct sockaddr *)&big, sizeof big + 1));
}

SCRIPT(port_65535_and_port_1) {
    int a = UDP(), b = UDP();
    CALL(bind(a, V4(NEAR, 65535)));
    GETSOCKNAME(a);
    FAR_SENDS(.to = 65535, .size = 3);
    RECV(a, 10, 0);
    CALL(bind(b, V4(NEAR, 1)));
    SENDTO(b, "low", V4(FAR, ECHO_PORT));
    RECVFROM(b, 10, 0);
}

SCRIPT(sending_binds) {
    int a = UDP();
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    GETSOCKNAME(a);
    CALL(bind(a, V4(NEAR, PORT(0))));
    RECVFROM(a, 10, 0);
    SENDTO(a, "again", V4(FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
    GETSOCKNAME(a);
}

/* Sends before anything asks for what there is, so it is the kernel's until it has sent and received enough. */
SCRIPT(client_with_a_port_of_its_own) {
    bound(1);
    int a = UDP(), epoll = EPOLL();
    CALL((bind)(a, V4("0.0.0.0", PORT(0))));
    EPOLL_ADD(epoll, a, EPOLLIN);
    POLL(0, { a, POLLOUT, 0 });
    for (int i = 0; i < 4; i++) {
        SENDTO(a, "hello", V4(FAR, ECHO_PORT));
        EPOLL_WAIT(epoll, 10, -1);
        RECVFROM(a, 10, 0);
    }
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    GETSOCKNAME(a);
}

SCRIPT(connected_client_with_a_port_of_its_own_that_disconnects) {
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    bound(1);
    int a = UDP();
    CALL((bind)(a, V4("0.0.0.0", PORT(0))));
    CALL((connect)(a, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 3; i++) {
        SEND(a, "hello", 0);
        RECV(a, 10, 0);
    }
    GETSOCKNAME(a);
    CALL((connect)(a, &nowhere, sizeof nowhere));
    GETSOCKNAME(a);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(broadcast_and_group_addresses) {
    int a = UDP(), b = UDP(), c = UDP();
    CALL(bind(a, V4("10.77.0.255", PORT(0))));
    CALL(bind(b, V4(GROUP, PORT(0))));
    CALL(bind(c, V4("255.255.255.255", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3, .address = "10.77.0.255");
    RECVFROM(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    RECV(c, 10, MSG_DONTWAIT);
}

SCRIPT(free_and_transparent_addresses) {
    int a = UDP();
    SET(a, IPPROTO_IP, IP_FREEBIND, 1);
    CALL(bind(a, V4(UNROUTED, PORT(0))));
    GETSOCKNAME(a);
    far_watches(PORT(5));
    SENDTO(a, "odd source", V4(FAR, PORT(5)));
    far_watched(PORT(5));
}

SCRIPT(device_limits_where_from) {
    int a = bound(0);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "lo has no such route", V4(FAR, ECHO_PORT));
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, INTERFACE, 4));
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "nothere", 8));
    char name[IFNAMSIZ] = "";
    socklen_t length = sizeof name;
    CALL(getsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, name, &length));
    say("%s, length %u", name, length);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "", 0));
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, MSG_DONTWAIT);
}

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

SCRIPT(no_port_is_left) {
    int sockets[5];
    for (int i = 0; i < 5; i++) {
        sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
        /* Only a part of what the kernel would choose from is taken. */
        uint32_t range = 50003u << 16 | 50000;
        setsockopt(sockets[i], IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, sizeof range);
    }
    for (int i = 0; i < 4; i++) CALL(bind(sockets[i], V4(NEAR, 0)));
    CALL(bind(sockets[4], V4(NEAR, 0)));
    SENDTO(sockets[4], "no port", V4(FAR, ECHO_PORT));
    CALL(connect(sockets[4], V4(FAR, ECHO_PORT)));
    CALL(close(sockets[2]));
    SENDTO(sockets[4], "port", V4(FAR, ECHO_PORT));
    RECV(sockets[4], 10, 0);
}

SCRIPT(close_frees_the_port_at_once) {
    for (int i = 0; i < 20; i++) {
        int a = bound(0);
        FAR_SENDS(.to = PORT(0), .size = 4);
        if (i % 2) RECV(a, 10, 0);
        CALL(close(a));
    }
    int last = bound(0);
    RECV(last, 10, MSG_DONTWAIT);
}

SCRIPT(datagrams_before_bind_are_not_received) {
    int a = UDP();
    FAR_SENDS(.to = PORT(0), .size = 4);
    CALL(bind(a, V4(NEAR, PORT(0))));
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, MSG_DONTWAIT);
}
