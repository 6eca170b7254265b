/* shutdown(2) of datagram sockets. */
#include "script.h"

SCRIPT(not_connected) {
    int a = bound(0);
    CALL(shutdown(a, SHUT_RD));
    CALL(shutdown(a, SHUT_WR));
    CALL(shutdown(a, SHUT_RDWR));
    CALL(shutdown(a, 7));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    WAITS(0, RECV(a, 10, MSG_DONTWAIT));
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
}

/* One call gets what waited before and what came behind it. */
SCRIPT(many_received_at_once_after_both_ended) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    RECV(a, 10, MSG_PEEK);
    CALL(shutdown(a, SHUT_RDWR));
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 3);
    char data[4][10];
    struct iovec parts[4];
    struct mmsghdr messages[4] = { 0 };
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){ data[i], sizeof data[i] };
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    CALL(recvmmsg(a, messages, 4, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 4; i++) say("length %u", messages[i].msg_len);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(reading_ends) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    CALL(shutdown(a, SHUT_RD));
    POLL(0, { a, POLLIN | POLLOUT | POLLRDHUP, 0 });
    RECV(a, 10, 0);
    WAITS(0, RECV(a, 10, 0));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4);
    RECV(a, 10, 0);
    WAITS(0, RECV(a, 10, 0));
    WAITS(0, RECVFROM(a, 10, MSG_DONTWAIT));
    SEND(a, "still sends", 0);
    far_receives(PORT(5));
}

SCRIPT(writing_ends) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(shutdown(a, SHUT_WR));
    POLL(0, { a, POLLIN | POLLOUT | POLLRDHUP, 0 });
    signal(SIGPIPE, SIG_IGN);
    SEND(a, "x", 0);
    SEND(a, "x", MSG_NOSIGNAL);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    CALL(write(a, "x", 1));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(no_sigpipe_for_datagrams) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(shutdown(a, SHUT_WR));
    SEND(a, "x", 0);
    say("alive");
}

SCRIPT(both_end) {
    int a = bound(0), epoll = EPOLL();
    CALL(connect(a, V4(FAR, PORT(5))));
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLRDHUP);
    EPOLL_WAIT(epoll, 10, 0);
    CALL(shutdown(a, SHUT_RDWR));
    POLL(0, { a, POLLIN | POLLOUT | POLLRDHUP, 0 });
    EPOLL_WAIT(epoll, 10, 0);
    SELECT(0, READS(a), WRITES(a), EXCEPTS(a));
    WAITS(0, RECV(a, 10, 0));
    CALL(shutdown(a, SHUT_RDWR));
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "again", 0);
}

static int shared;

static void *read_in_vain(void *unused) {
    RECV(shared, 10, 0);
    return unused;
}

SCRIPT(wakes_a_reader) {
    shared = bound(0);
    CALL(connect(shared, V4(FAR, PORT(5))));
    struct thread *reader = start_thread("reader", read_in_vain, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_RD));
    join_thread(reader);
}

SCRIPT(wakes_a_reader_that_is_not_connected) {
    shared = bound(0);
    struct thread *reader = start_thread("reader", read_in_vain, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_RDWR));
    join_thread(reader);
}

static void *poll_in_vain(void *unused) {
    WAITS(20, POLL(1000, { shared, POLLIN, 0 }));
    return unused;
}

SCRIPT(wakes_poll) {
    shared = bound(0);
    CALL(connect(shared, V4(FAR, PORT(5))));
    struct thread *reader = start_thread("poller", poll_in_vain, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_RDWR));
    join_thread(reader);
}

static int epoll_set;

static void *epoll_in_vain(void *unused) {
    WAITS(20, EPOLL_WAIT(epoll_set, 10, 1000));
    return unused;
}

SCRIPT(wakes_epoll) {
    shared = bound(0);
    CALL(connect(shared, V4(FAR, PORT(5))));
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, shared, EPOLLIN | EPOLLET);
    struct thread *reader = start_thread("waiter", epoll_in_vain, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_RD));
    join_thread(reader);
}

/* The datagram was told of before; that reading ends is told beside it. */
static void tells_an_edge(int how) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLRDHUP | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    CALL(shutdown(a, how));
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(tells_an_edge_while_a_datagram_waits) { tells_an_edge(SHUT_RD); }

SCRIPT(of_writing_tells_an_edge_while_a_datagram_waits) { tells_an_edge(SHUT_WR); }

SCRIPT(reading_ends_for_the_connected_port_only) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(shutdown(a, SHUT_RD));
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    CALL(connect(a, &none, sizeof none));
    WAITS(0, RECV(a, 10, MSG_DONTWAIT));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
}
