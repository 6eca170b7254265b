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

SCRIPT(goes_before_data_that_came_later) {
    int a = bound(0);
    for (int i = 0; i < 10; i++) {
        CALL(connect(a, V4(FAR, PORT(5))));
        SEND(a, "nobody listens", 0);
        settle();
        CALL(connect(a, V4(FAR, PORT(6))));
        FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
        RECV(a, 10, 0);
        RECV(a, 10, 0);
        RECV(a, 10, MSG_DONTWAIT);
    }
}

SCRIPT(goes_before_data_that_came_earlier) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    for (int i = 0; i < 10; i++) {
        FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3, .count = 2);
        RECV(a, 10, 0);
        FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0));
        RECV(a, 10, 0);
        RECV(a, 10, 0);
        RECV(a, 10, MSG_DONTWAIT);
    }
}

SCRIPT(of_a_socket_not_connected_goes_before_data) {
    int a = bound(0);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    for (int i = 0; i < 10; i++) {
        SENDTO(a, "nobody listens", V4(FAR, PORT(5)));
        settle();
        FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
        RECV(a, 10, 0);
        RECV(a, 10, 0);
        RECVMSG(a, 30, 200, MSG_ERRQUEUE);
    }
}

SCRIPT(of_ipv6_goes_before_data_that_came_later) {
    int a = bound6(0);
    for (int i = 0; i < 10; i++) {
        CALL(connect(a, V6(FAR6, PORT(5))));
        SEND(a, "nobody listens", 0);
        settle();
        CALL(connect(a, V6(FAR6, PORT(6))));
        FAR_SENDS(.family = AF_INET6, .from = PORT(6), .to = PORT(0), .size = 3);
        RECV(a, 10, 0);
        RECV(a, 10, 0);
        RECV(a, 10, MSG_DONTWAIT);
    }
}

SCRIPT(goes_before_data_that_came_before_the_socket_was_shut_down) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3, .count = 2);
    far_closes(PORT(5));
    CALL(shutdown(a, SHUT_RD));
    SEND(a, "nobody listens", 0);
    settle();
    for (int i = 0; i < 4; i++) RECV(a, 10, 0);
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

enum { VECTOR = 4 };
static struct mmsghdr vector[VECTOR];
static struct sockaddr_in vector_names[VECTOR];

/* Messages "a", "bb", ... to a port of the far end each, or with 0 to where the socket is connected. */
static void prepare_vector(const int *ports) {
    static char letters[] = "abbcccdddd";
    static struct iovec parts[VECTOR];
    for (int i = 0, at = 0; i < VECTOR; at += ++i) {
        parts[i] = (struct iovec){ letters + at, i + 1 };
        vector[i] = (struct mmsghdr){ { .msg_iov = &parts[i], .msg_iovlen = 1 }, 777 };
        if (!ports[i]) continue;
        vector_names[i] = *v4(FAR, ports[i]);
        vector[i].msg_hdr.msg_name = &vector_names[i];
        vector[i].msg_hdr.msg_namelen = sizeof vector_names[i];
    }
}

static void show_lengths(void) {
    say("lengths %u %u %u %u", vector[0].msg_len, vector[1].msg_len, vector[2].msg_len, vector[3].msg_len);
}

/* An error that came before is told by the whole call, which sends nothing; the next one sends all. */
static void vector_after_an_error(int flags, int receives_errors) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    if (receives_errors) SET(a, IPPROTO_IP, IP_RECVERR, 1);
    for (int round = 0; round < 3; round++) {
        FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0));
        prepare_vector((int[VECTOR]){ 0 });
        CALL(sendmmsg(a, vector, VECTOR, flags));
        show_lengths();
        far_receives_nothing(PORT(5));
        CALL(sendmmsg(a, vector, VECTOR, flags));
        show_lengths();
        for (int i = 0; i < VECTOR; i++) far_receives(PORT(5));
        if (receives_errors) RECVMSG(a, 100, 200, MSG_ERRQUEUE);
        RECV(a, 10, MSG_DONTWAIT);
    }
}

SCRIPT(sendmmsg_tells_an_error_and_sends_nothing) {
    vector_after_an_error(0, 0);
}

SCRIPT(sendmmsg_without_waiting_tells_an_error) {
    vector_after_an_error(MSG_DONTWAIT, 0);
}

SCRIPT(sendmmsg_with_recverr_tells_an_error) {
    vector_after_an_error(0, 1);
}

SCRIPT(sendmmsg_of_nothing_leaves_an_error) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_ICMP(.icmp_type = 3, .icmp_code = 3, .from = PORT(5), .to = PORT(0));
    prepare_vector((int[VECTOR]){ 0 });
    CALL(sendmmsg(a, vector, 0, 0));
    CALL(sendmmsg(a, vector, 1, 0));
    GET(a, SOL_SOCKET, SO_ERROR);
}

SCRIPT(sendmmsg_to_several_hears_errors_only_with_recverr) {
    int a = bound(0);
    far_opens(PORT(6));
    for (int receives_errors = 0; receives_errors < 2; receives_errors++) {
        SET(a, IPPROTO_IP, IP_RECVERR, receives_errors);
        SENDTO(a, "x", V4(FAR, PORT(5)));
        settle();
        prepare_vector((int[VECTOR]){ PORT(6), PORT(6), PORT(6), PORT(6) });
        CALL(sendmmsg(a, vector, VECTOR, 0));
        show_lengths();
        CALL(sendmmsg(a, vector, VECTOR, 0));
        say("%d came", far_counts(AF_INET, PORT(6), 1));
        RECVMSG(a, 100, 200, MSG_ERRQUEUE);
        RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    }
}

/* Nobody listens, so errors come while and after the call sends: whether it is cut short, and how often, is a matter of time.
 * Who sends the rest again sends all, and nothing of it is left in the socket. */
static void vector_to_nobody(int is_connected, int receives_errors) {
    int a = bound(0), told = 0;
    if (is_connected) CALL(connect(a, V4(FAR, PORT(5))));
    if (receives_errors) SET(a, IPPROTO_IP, IP_RECVERR, 1);
    for (int round = 0; round < 20; round++) {
        int port = is_connected ? 0 : PORT(5);
        prepare_vector((int[VECTOR]){ port, port, port, port });
        for (int sent = 0; sent < VECTOR;) {
            int more = sendmmsg(a, vector + sent, VECTOR - sent, 0);
            if (more == 0 || (more < 0 && errno != ECONNREFUSED)) say("%d, errno %d", more, errno);
            told += more < 0;
            sent += more > 0 ? more : 0;
        }
        for (int i = 0; i < VECTOR; i++)
            if (vector[i].msg_len != (unsigned)i + 1) say("length %u", vector[i].msg_len);
    }
    settle();
    say("errors were told: %s", told ? "yes" : "no");
    while (recv(a, vector, 1, MSG_DONTWAIT | MSG_ERRQUEUE) >= 0) {}
    int error;
    socklen_t size = sizeof error;
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &size);
    GET(a, SOL_SOCKET, SO_ERROR);
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "question", V4(FAR, ECHO_PORT));
    if (!is_connected) RECV(a, 10, 0);
}

SCRIPT(sendmmsg_to_nobody) {
    vector_to_nobody(0, 0);
}

SCRIPT(sendmmsg_to_nobody_with_recverr) {
    vector_to_nobody(0, 1);
}

SCRIPT(sendmmsg_to_nobody_connected) {
    vector_to_nobody(1, 0);
}

SCRIPT(sendmmsg_to_nobody_connected_with_recverr) {
    vector_to_nobody(1, 1);
}

SCRIPT(error_queue_is_told_by_priority_where_asked) {
    int a = bound(0), epoll = EPOLL();
    SET(a, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    EPOLL_ADD(epoll, a, EPOLLPRI);
    SENDTO(a, "question", V4(FAR, PORT(5)));
    settle();
    SELECT(0, READS(), WRITES(), EXCEPTS(a));
    SELECT(0, READS(a), WRITES(), EXCEPTS(a));
    POLL(0, { a, POLLPRI, 0 });
    POLL(0, { a, POLLIN, 0 });
    EPOLL_WAIT(epoll, 10, 0);
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
    SELECT(0, READS(), WRITES(), EXCEPTS(a));
    POLL(0, { a, POLLPRI, 0 });
    SENDTO(a, "next", V4(FAR, ECHO_PORT));
    WAITS(0, POLL(1000, { a, POLLIN | POLLPRI, 0 }));
    RECV(a, 100, 0);
}

SCRIPT(error_queue_wakes_who_waits_for_priority) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1);
    SET(a, IPPROTO_IP, IP_RECVERR, 1);
    SENDTO(a, "question", V4(FAR, PORT(5)));
    SELECT(1000, READS(), WRITES(), EXCEPTS(a));
    RECVMSG(a, 100, 200, MSG_ERRQUEUE);
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
