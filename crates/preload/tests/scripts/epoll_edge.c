/* epoll(7), edge-triggered: an event is told once for each arrival, whatever was left unread. */
#include "script.h"

SCRIPT(once_for_each_arrival) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(read_before_it_is_asked) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(writable_with_each_arrival) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLOUT | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(modify_tells_again) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(ready_before_it_is_added) {
    int a = bound(0), epoll = EPOLL();
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(more_than_fit_are_not_lost) {
    int epoll = EPOLL(), sockets[4];
    for (int i = 0; i < 4; i++) {
        sockets[i] = bound(i);
        EPOLL_ADD(epoll, sockets[i], EPOLLIN | EPOLLET);
    }
    for (int i = 0; i < 4; i++) FAR_SENDS(.to = PORT(i), .size = 3);
    EPOLL_WAIT(epoll, 1, 0);
    EPOLL_WAIT(epoll, 2, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(waits_for_the_next) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 1000);
    WAITS(30, EPOLL_WAIT(epoll, 10, 30));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, EPOLL_WAIT(epoll, 10, 1000));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(error_is_told_once) {
    int a = bound(0), epoll = EPOLL();
    CALL(connect(a, V4(FAR, PORT(5))));
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    SEND(a, "nobody listens", 0);
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll, 10, 0);
    SEND(a, "nobody listens", 0);
    settle();
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(local_and_far_arrivals) {
    int a = bound(0), b = bound(1), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    /* Used first: at its first use a socket gives all that the kernel has before what comes by the port. */
    EPOLL_WAIT(epoll, 10, 0);
    SENDTO(b, "local", V4(NEAR, PORT(0)));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    SENDTO(b, "local", V4(NEAR, PORT(0)));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(empty_datagram_is_an_arrival) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .raw = RAW_BAD_CHECKSUM);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

/* Fragments are the kernel's to send. */
SCRIPT(writable_after_a_send_in_fragments) {
    static char bytes[3000];
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLOUT | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    far_opens(PORT(1));
    CALL(sendto(a, bytes, sizeof bytes, 0, V4(FAR, PORT(1))));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    CALL(sendto(a, bytes, sizeof bytes, MSG_OOB, V4(FAR, PORT(1))));
    EPOLL_WAIT(epoll, 10, 0);
    struct iovec part = { bytes, sizeof bytes };
    struct mmsghdr message = { .msg_hdr = { V4(FAR, PORT(1)), &part, 1, NULL, 0, 0 } };
    CALL(sendmmsg(a, &message, 1, 0));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
}

/* A datagram that came by the kernel, with a report of an error before it: the set tells of the error once more. */
SCRIPT(arrival_beside_an_error_report) {
    int a = bound(0), epoll = EPOLL();
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    SENDTO(a, "refused", V4(FAR, PORT(8)));
    settle();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    RECV(a, 10, MSG_DONTWAIT);
    for (int i = 0; i < 3; i++) {
        FAR_SENDS(.to = PORT(0), .size = i == 1 ? 20 : 1473);
        RECV(a, 30, MSG_DONTWAIT);
        RECV(a, 30, MSG_DONTWAIT);
        EPOLL_WAIT(epoll, 10, 0);
        EPOLL_WAIT(epoll, 10, 0);
    }
}

static int none(void) { return 0; }

SCRIPT(told_before_a_fork_it_is_not_told_again) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    reap(fork_child("child", none));
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(not_told_before_a_fork_it_is_told_after) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    reap(fork_child("child", none));
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(told_before_the_fd_is_another_it_is_not_told_again) {
    int a = bound(0), b = bound(1), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    SENDTO(b, "local", V4(NEAR, PORT(0)));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    int copy = CALL(dup(a));
    CALL(close(a));
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(copy, 10, MSG_DONTWAIT);
    RECV(copy, 10, MSG_DONTWAIT);
}

/* The kernel tells it again as it is shut down. */
static void shut_down_unread(int a, int epoll) {
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    CALL(shutdown(a, SHUT_RD));
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(read_after_a_shutdown_it_is_not_told_again) {
    int a = bound(0), epoll = EPOLL();
    shut_down_unread(a, epoll);
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLRDHUP);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(arrival_after_a_shutdown_is_told) {
    int a = bound(0), epoll = EPOLL();
    shut_down_unread(a, epoll);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(arrival_while_unread_at_a_socket_of_the_kernel_is_told) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    SET(a, IPPROTO_UDP, 104 /* UDP_GRO */, 1);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    for (int i = 0; i < 3; i++) RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll, 10, 0);
}
