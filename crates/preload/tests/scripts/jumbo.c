/* Datagrams that fill frames longer than a page, over a cable with an MTU of 9000. */
#include "script.h"

/* At and beside what fits into one, two and three buffers of packet memory, and the MTU; the longest are fragments. */
static const int sizes[] = { 1, 1472, 1473, 3458, 3478, 3479, 3788, 3798, 3799, 4054, 4055, 7637, 7638,
                             7639, 8000, 8150, 8151, 8958, 8971, 8972, 8973, 20000 };
#define WHOLE 8972
#define WHOLE6 8952

static char data[20000];

/* Pieces in the wrong order would not be the same: 251 is prime. */
static void fill(void) {
    for (size_t i = 0; i < sizeof data; i++) data[i] = i % 251;
}

SCRIPT(sizes_there_and_back) {
    fill();
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(send(a, data, sizes[i], 0));
        RECV(a, 21000, 0);
    }
}

SCRIPT(sizes_there_and_back6) {
    fill();
    int a = UDP6();
    CALL(connect(a, V6(FAR6, ECHO_PORT)));
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(send(a, data, sizes[i] > 20 ? sizes[i] - 20 : sizes[i], 0));
        RECV(a, 21000, 0);
    }
}

SCRIPT(unconnected) {
    fill();
    int a = bound(0);
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(sendto(a, data, sizes[i], 0, V4(FAR, ECHO_PORT)));
        RECVFROM(a, 21000, 0);
    }
}

SCRIPT(sizes_from_far) {
    int a = bound(0);
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        say("%d bytes", sizes[i]);
        FAR_SENDS(.to = PORT(0), .size = sizes[i]);
        RECVMSG(a, 21000, 200, 0);
    }
}

SCRIPT(peeked_and_cut_off) {
    fill();
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(send(a, data, sizes[i], 0));
        RECV(a, 21000, MSG_PEEK);
        RECV(a, 100, MSG_PEEK | MSG_TRUNC);
        RECV(a, 4000, MSG_PEEK);
        RECVMSG(a, 3799, 0, MSG_TRUNC);
        RECV(a, 100, MSG_DONTWAIT);
    }
}

SCRIPT(peek_offset_within_one) {
    fill();
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SET(a, SOL_SOCKET, SO_PEEK_OFF, 3700);
    CALL(send(a, data, 8000, 0));
    RECV(a, 200, MSG_PEEK);
    RECV(a, 200, MSG_PEEK);
    RECV(a, 9000, MSG_PEEK);
    RECV(a, 9000, 0);
}

/* Those that nobody reads wait, in their order, also beside short ones. */
SCRIPT(several_wait_in_order) {
    int a = bound(0), b = bound(1);
    FAR_SENDS(.to = PORT(0), .size = 8000, .count = 5, .letter = 'a');
    FAR_SENDS(.to = PORT(1), .size = WHOLE, .count = 3, .letter = 'p');
    FAR_SENDS(.to = PORT(0), .size = 10, .count = 2, .letter = 'k');
    POLL(0, { a, POLLIN, 0 }, { b, POLLIN, 0 });
    int waiting = 0;
    CALL(ioctl(a, FIONREAD, &waiting));
    say("%d bytes are the next", waiting);
    for (int i = 0; i < 3; i++) RECVFROM(b, 9000, 0);
    for (int i = 0; i < 8; i++) RECVFROM(a, 9000, MSG_DONTWAIT);
}

SCRIPT(many_at_once) {
    static struct mmsghdr messages[8];
    static struct iovec parts[8][3];
    static char bytes[8][9000];
    fill();
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 8; i++) {
        /* From three places of memory. */
        parts[i][0] = (struct iovec){ data + i, 100 + i };
        parts[i][1] = (struct iovec){ data + 500, 3738 };
        parts[i][2] = (struct iovec){ data, 700 * i };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = parts[i], .msg_iovlen = 3 };
    }
    CALL(sendmmsg(a, messages, 8, 0));
    settle();
    for (int i = 0; i < 8; i++) {
        parts[i][0] = (struct iovec){ bytes[i], 3790 };
        parts[i][1] = (struct iovec){ bytes[i] + 3790, 9000 - 3790 };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = parts[i], .msg_iovlen = 2 };
    }
    CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 8; i++) show_data("  data", bytes[i], messages[i].msg_len);
}

SCRIPT(longest_whole_and_one_more_without_fragments) {
    fill();
    int a = UDP(), b = UDP6();
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    SET(b, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(connect(b, V6(FAR6, ECHO_PORT)));
    for (int more = 0; more < 2; more++) {
        CALL(send(a, data, WHOLE + more, 0));
        CALL(send(b, data, WHOLE6 + more, 0));
    }
    RECV(a, 10000, 0);
    RECV(b, 10000, 0);
    settle();
    RECV(a, 10000, MSG_DONTWAIT);
    RECV(b, 10000, MSG_DONTWAIT);
}

SCRIPT(waited_for_by_epoll) {
    fill();
    int a = UDP(), epoll = EPOLL();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    EPOLL_ADD(epoll, a, EPOLLIN);
    for (int i = 0; i < 5; i++) {
        CALL(send(a, data, 4000 + 1000 * i, 0));
        EPOLL_WAIT(epoll, 4, -1);
        RECV(a, 10000, 0);
    }
}

SCRIPT(with_times) {
    fill();
    int a = UDP();
    SET(a, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 5; i++) {
        CALL(send(a, data, 3700 + 1000 * i, 0));
        RECVMSG(a, 10000, 200, 0);
    }
}
