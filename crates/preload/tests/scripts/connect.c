/* connect(2) of datagram sockets, again and undone. */
#include "script.h"
#include <linux/filter.h>

SCRIPT(names) {
    int a = UDP();
    GETPEERNAME(a);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    GETSOCKNAME(a);
    GETPEERNAME(a);
    SEND(a, "hello", 0);
    RECVFROM(a, 10, 0);
}

SCRIPT(only_the_peer_is_heard) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4);
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(what_is_queued_stays) {
    int a = bound(0);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
    CALL(connect(a, V4(FAR, PORT(5))));
    RECVFROM(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(again_changes_the_peer) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(connect(a, V4(FAR, PORT(6))));
    GETPEERNAME(a);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 4);
    RECVFROM(a, 10, MSG_DONTWAIT);
    RECVFROM(a, 10, MSG_DONTWAIT);
    SEND(a, "to 6", 0);
    far_receives(PORT(6));
    far_receives_nothing(PORT(5));
}

SCRIPT(undone_by_unspec) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    CALL(connect(a, &none, sizeof none));
    GETPEERNAME(a);
    GETSOCKNAME(a);
    SEND(a, "x", 0);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
    CALL(connect(a, &none, sizeof none));
    CALL(connect(a, &none, 2));
    CALL(connect(a, &none, 1));
}

SCRIPT(undone_loses_a_port_nobody_chose) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    CALL(connect(a, &none, sizeof none));
    GETSOCKNAME(a);
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
}

SCRIPT(sendto_another_one) {
    int a = bound(0);
    far_opens(PORT(5));
    far_opens(PORT(6));
    CALL(connect(a, V4(FAR, PORT(5))));
    SENDTO(a, "to 6", V4(FAR, PORT(6)));
    far_receives(PORT(6));
    SENDTO(a, "to 5", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    SEND(a, "to 5", 0);
    far_receives(PORT(5));
    GETPEERNAME(a);
}

SCRIPT(refused) {
    int a = UDP();
    CALL(connect(a, V4(UNROUTED, PORT(5))));
    CALL(connect(a, V6(FAR6, PORT(5))));
    CALL(connect(a, (struct sockaddr *)v4(FAR, PORT(5)), 8));
    CALL(connect(a, null(), sizeof(struct sockaddr_in)));
    CALL(connect(a, no_memory(), sizeof(struct sockaddr_in)));
    CALL(connect(a, V4("10.77.0.255", PORT(5))));
    CALL(connect(a, (struct sockaddr *)v4(FAR, PORT(5)), -1));
    GETSOCKNAME(a);
    GETPEERNAME(a);
    CALL(connect(a, V4(FAR, 0)));
    GETPEERNAME(a);
    SEND(a, "port 0", 0);
}

SCRIPT(a_failure_leaves_the_peer) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(connect(a, V4(UNROUTED, PORT(5))));
    CALL(connect(a, V6(FAR6, PORT(5))));
    GETPEERNAME(a);
    SEND(a, "hello", 0);
    WAITS(0, POLL(100, { a, POLLIN, 0 }));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(wildcard_is_this_host) {
    int a = UDP(), b = bound(0);
    CALL(connect(a, V4("0.0.0.0", PORT(0))));
    GETPEERNAME(a);
    GETSOCKNAME(a);
    SEND(a, "self", 0);
    settle();
    RECVFROM(b, 10, MSG_DONTWAIT);
}

SCRIPT(bound_wildcard_gets_an_address) {
    int a = UDP();
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    CALL(connect(a, V4(FAR, PORT(5))));
    GETSOCKNAME(a);
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    CALL(connect(a, &none, sizeof none));
    GETSOCKNAME(a);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
    CALL(connect(a, V4("127.0.0.1", PORT(5))));
    GETSOCKNAME(a);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(to_itself) {
    int a = bound(0);
    CALL(connect(a, V4(NEAR, PORT(0))));
    SEND(a, "me", 0);
    settle();
    RECVFROM(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(two_sockets_of_one_port_to_two_peers) {
    int a = UDP(), b = UDP(), listener = UDP();
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    SET(b, SOL_SOCKET, SO_REUSEADDR, 1);
    SET(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(listener, V4("0.0.0.0", PORT(0))));
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(bind(b, V4(NEAR, PORT(0))));
    CALL(connect(b, V4(FAR, PORT(6))));
    FAR_SENDS(.from = PORT(5), .sources = 3, .to = PORT(0), .size = 3, .count = 6);
    for (int i = 0; i < 3; i++) {
        RECVFROM(a, 10, MSG_DONTWAIT);
        RECVFROM(b, 10, MSG_DONTWAIT);
        RECVFROM(listener, 10, MSG_DONTWAIT);
    }
}

SCRIPT(while_another_thread_waits_with_poll) {
    int a = bound(0);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3, .after_ms = 20);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3, .after_ms = 60);
    CALL(connect(a, V4(FAR, PORT(5))));
    WAITS(60, RECVFROM(a, 10, 0));
}

/* The flow of another socket has just left, and frames that come to it late are the kernel's. Not these: they are nobody's when
 * they come, and stay so. */
SCRIPT(datagrams_of_a_stranger_are_not_received_after_a_connect_to_it) {
    char data[10];
    int other = bound(1), s = bound(0);
    CALL(connect(s, V4(FAR, PORT(5))));
    struct sock_filter all = { BPF_RET | BPF_K, 0, 0, 0xffff };
    struct sock_fprog filter = { 1, &all };
    CALL(setsockopt(other, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3, .count = 2);
    CALL(connect(s, V4(FAR, PORT(6))));
    CALL(recv(s, data, sizeof data, MSG_DONTWAIT));
}

/* The kernel chooses the port, and gives it up with the connection. What had come stays. */
static int disconnected_while_something_waits(int set) {
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int a = UDP();
    if (set >= 0) EPOLL_ADD(set, a, EPOLLIN | EPOLLET);
    for (int i = 0; i < 2; i++) SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    POLL(300, { a, POLLIN, 0 });
    settle();
    if (set >= 0) EPOLL_WAIT(set, 10, 0);
    CALL(connect(a, &none, sizeof none));
    if (set >= 0) EPOLL_WAIT(set, 10, 0);
    return a;
}

SCRIPT(what_waits_stays_over_a_disconnect_that_gives_the_port_up) {
    int bytes = 0, a = disconnected_while_something_waits(-1);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(ioctl(a, FIONREAD, &bytes));
    SEND(a, "again", 0);
    settle();
    for (int i = 0; i < 4; i++) RECVFROM(a, 10, MSG_DONTWAIT);
    SEND(a, "once more", 0);
    POLL(300, { a, POLLIN, 0 });
    for (int i = 0; i < 2; i++) RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(what_waits_is_told_once_over_a_disconnect_that_gives_the_port_up) {
    int set = EPOLL(), a = disconnected_while_something_waits(set);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    EPOLL_WAIT(set, 10, 0);
    RECVFROM(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(set, 10, 0);
    SEND(a, "again", 0);
    EPOLL_WAIT(set, 10, 300);
    EPOLL_WAIT(set, 10, 0);
    for (int i = 0; i < 3; i++) RECVFROM(a, 10, MSG_DONTWAIT);
}
