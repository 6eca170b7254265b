/* Errors that come back from the network. */
#include "script.h"

SCRIPT(refused_on_receive) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "nobody listens", 0);
    settle();
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    WAITS(0, RECV(a, 10, 0));
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(refused_on_send) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "one", 0);
    settle();
    SEND(a, "two", 0);
    settle();
    SEND(a, "three", 0);
    settle();
    CALL(write(a, "four", 4));
    GETPEERNAME(a);
}

SCRIPT(refused_by_every_call) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    char data[10];
    struct iovec part = { data, 10 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct mmsghdr messages = { message, 0 };
    for (int call = 0; call < 7; call++) {
        CALL(send(a, "x", 1, MSG_DONTWAIT));
        settle();
        switch (call) {
        case 0: CALL(read(a, data, 10)); break;
        case 1: CALL(readv(a, &part, 1)); break;
        case 2: CALL(recvmsg(a, &message, 0)); break;
        case 3: CALL(recvmmsg(a, &messages, 1, 0, NULL)); break;
        case 4: CALL(sendmsg(a, &message, 0)); break;
        case 5: CALL(sendmmsg(a, &messages, 1, 0)); break;
        case 6: CALL(writev(a, &part, 1)); break;
        }
    }
}

SCRIPT(so_error_takes_it) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "x", 0);
    settle();
    GET(a, SOL_SOCKET, SO_ERROR);
    GET(a, SOL_SOCKET, SO_ERROR);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(wakes_a_reader) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0), .after_ms = 40);
    WAITS(40, RECV(a, 10, 0));
}

SCRIPT(wakes_poll_and_epoll) {
    int a = bound(0), epoll = EPOLL();
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0), .after_ms = 40);
    WAITS(40, POLL(1000, { a, POLLIN, 0 }));
    GET(a, SOL_SOCKET, SO_ERROR);
    EPOLL_ADD(epoll, a, EPOLLIN);
    FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0), .after_ms = 40);
    WAITS(40, EPOLL_WAIT(epoll, 10, 1000));
}

SCRIPT(data_before_and_after) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    far_closes(PORT(5));
    SEND(a, "x", 0);
    settle();
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(peek_takes_the_error) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "x", 0);
    settle();
    RECV(a, 10, MSG_PEEK | MSG_DONTWAIT);
    RECV(a, 10, MSG_PEEK | MSG_DONTWAIT);
}

SCRIPT(not_connected_hears_nothing) {
    int a = bound(0);
    SENDTO(a, "x", V4(FAR, PORT(5)));
    settle();
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "y", V4(FAR, PORT(5)));
    GET(a, SOL_SOCKET, SO_ERROR);
}

SCRIPT(recverr_tells_more) {
    int a = bound(0);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    SENDTO(a, "question", V4(FAR, PORT(5)));
    settle();
    POLL(0, { a, POLLIN, 0 });
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    POLL(0, { a, POLLIN, 0 });
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    RECV(a, 100, MSG_DONTWAIT);
    SENDTO(a, "question", V4(FAR, PORT(5)));
    settle();
    RECV(a, 100, MSG_DONTWAIT);
    RECVMSG(a, 3, 200, MSG_ERRQUEUE);
    SENDTO(a, "next", V4(FAR, ECHO_PORT));
    RECV(a, 100, 0);
}

SCRIPT(recverr_keeps_several) {
    int a = bound(0), epoll = EPOLL();
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    CALL(sendto(a, "one", 3, 0, V4(FAR, PORT(5))));
    settle();
    CALL(sendto(a, "two", 3, 0, V4(FAR, PORT(6))));
    settle();
    CALL(sendto(a, "three", 5, 0, V4(FAR, PORT(6))));
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    for (int i = 0; i < 4; i++) RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    GET(a, SOL_SOCKET, SO_ERROR);
}

SCRIPT(other_icmp_codes) {
    static const int codes[][2] = { { 3, 0 }, { 3, 1 }, { 3, 2 }, { 3, 9 }, { 3, 10 }, { 3, 13 }, { 11, 0 }, { 12, 0 } };
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    for (size_t i = 0; i < LENGTH_OF(codes); i++) {
        say("type %d code %d", codes[i][0], codes[i][1]);
        FAR_ICMP(.icmp_type = codes[i][0], .icmp_code = codes[i][1], .from = PORT(5), .to = PORT(0));
        GET(a, SOL_SOCKET, SO_ERROR);
    }
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    for (size_t i = 0; i < LENGTH_OF(codes); i++) {
        say("type %d code %d", codes[i][0], codes[i][1]);
        FAR_ICMP(.icmp_type = codes[i][0], .icmp_code = codes[i][1], .from = PORT(5), .to = PORT(0));
        GET(a, SOL_SOCKET, SO_ERROR);
        RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    }
}

SCRIPT(icmp_for_another_peer_is_not_ours) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(6), .to = PORT(0));
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(ttl_runs_out) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SET(a, IPPROTO_IP, IP_TTL, 1);
    SEND(a, "one hop is enough", 0);
    RECV(a, 100, 0);
    SET(a, IPPROTO_IP, IP_TTL, 0);
    SET(a, IPPROTO_IP, IP_TTL, 256);
    SET(a, IPPROTO_IP, IP_TTL, -1);
    GET(a, IPPROTO_IP, IP_TTL);
}

SCRIPT(too_long_without_fragments) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    static char data[4000];
    memset(data, 'd', sizeof data);
    CALL(send(a, data, 1472, 0));
    RECV(a, 4000, 0);
    CALL(send(a, data, 1473, 0));
    GET(a, SOL_SOCKET, SO_ERROR);
    GET(a, IPPROTO_IP, IP_MTU);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    CALL(send(a, data, 4000, 0));
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    CALL(send(a, data, 1473, 0));
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    CALL(send(a, data, 1473, 0));
    RECV(a, 4000, 0);
}

SCRIPT(refused_over_ipv6) {
    int a = bound6(0);
    CALL(connect(a, V6(FAR6, PORT(5))));
    SEND(a, "nobody listens", 0);
    settle();
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    SET(a, IPPROTO_IPV6, IPV6_RECVERR, 1);
    SEND(a, "nobody listens", 0);
    settle();
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    GET(a, SOL_SOCKET, SO_ERROR);
}

SCRIPT(a_peer_that_comes_back) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "early", 0);
    settle();
    RECV(a, 10, MSG_DONTWAIT);
    far_opens(PORT(5));
    SEND(a, "now", 0);
    far_receives(PORT(5));
    far_closes(PORT(5));
    SEND(a, "late", 0);
    settle();
    SEND(a, "later", 0);
}

SCRIPT(error_and_nonblocking_loop) {
    int a = bound(0), refused = 0, again = 0;
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "x", 0);
    settle();
    char data[10];
    for (int i = 0; i < 10; i++) {
        ssize_t got = recv(a, data, sizeof data, 0);
        refused += got < 0 && errno == ECONNREFUSED;
        again += got < 0 && errno == EAGAIN;
    }
    say("refused %d, again %d", refused, again);
}

SCRIPT(report_that_nobody_reads_is_an_error_to_poll) {
    int a = bound(0);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    SENDTO(a, "refused", V4(FAR, PORT(8)));
    settle();
    for (int i = 0; i < 3; i++) RECV(a, 10, MSG_DONTWAIT);
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    POLL(0, { a, POLLIN, 0 });
    RECVMSG(a, 10, 200, MSG_ERRQUEUE);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
}
