/* How connections of TCP end, with whatever waits in them. */
#include "script.h"

#include <netinet/tcp.h>

EACH_WAY(bytes_before_the_end_are_read) {
    exchange_stream(fd);
    order_far(fd, "!s5000.!c.");
    sleep_ms(50);
    RECEIVE_STREAM(fd, 100);
    RECEIVE_STREAM(fd, 4900);
    RECEIVE_STREAM(fd, 1);
    RECEIVE_STREAM(fd, 1);
    CALL(close(fd));
}

/* In one segment: what is lost on the way does not come again after a reset. */
EACH_WAY(bytes_before_a_reset) {
    exchange_stream(fd);
    order_far(fd, "!s1000.!w50.!r.");
    sleep_ms(150);
    RECEIVE_STREAM(fd, 100);
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(write_after_the_far_end_closed) {
    exchange_stream(fd);
    order_far(fd, "!c.");
    far_ended();
    sleep_ms(50);
    SEND(fd, "x", MSG_NOSIGNAL);
    sleep_ms(50);
    SEND(fd, "x", MSG_NOSIGNAL);
    RECEIVE_STREAM(fd, 1);
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(both_halves_one_after_the_other) {
    exchange_stream(fd);
    order_far(fd, "!h.");
    RECEIVE_STREAM(fd, 1);
    for (int i = 0; i < 5; i++) SEND(fd, "still", MSG_NOSIGNAL);
    CALL(shutdown(fd, SHUT_WR));
    far_ended();
    CALL(shutdown(fd, SHUT_WR));
    CALL(shutdown(fd, SHUT_RD));
    CALL(close(fd));
}

EACH_WAY(this_half_and_then_much_comes) {
    exchange_stream(fd);
    order_far(fd, "!w50.!s300000.");
    CALL(shutdown(fd, SHUT_WR));
    RECEIVE_STREAM(fd, 400000);
    far_ended();
}

EACH_WAY(both_halves_at_once) {
    exchange_stream(fd);
    CALL(shutdown(fd, SHUT_RDWR));
    far_ended();
    RECEIVE_STREAM(fd, 1);
    SEND(fd, "x", MSG_NOSIGNAL);
    CALL(shutdown(fd, SHUT_RDWR));
    CALL(close(fd));
}

SCRIPT(shutdown_of_no_half) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(shutdown(fd, 3));
    CALL(shutdown(fd, -1));
    exchange_stream(fd);
}

SCRIPT(close_and_the_number_is_used_again) {
    for (int i = 0; i < 10; i++) {
        int fd = connected_stream(AF_INET);
        exchange_stream(fd);
        CALL(close(fd));
        far_ended();
    }
    int datagrams = bound(0);
    FAR_SENDS(.from = ECHO_PORT + 1, .to = PORT(0), .size = 3);
    RECV(datagrams, 10, 0);
}

SCRIPT(listener_after_its_connections_closed) {
    for (int i = 0; i < 3; i++) {
        int fd = accepted_stream(AF_INET, 0);
        exchange_stream(fd);
        CALL(close(fd));
        far_ended();
    }
}

static int shared;

static void *receives(void *argument) {
    (void)argument;
    RECEIVE_STREAM(shared, 100);
    return NULL;
}

SCRIPT(far_end_closes_while_a_thread_receives) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    struct thread *thread = start_thread("receives", receives, NULL);
    let_it_wait();
    order_far(shared, "!c.");
    join_thread(thread);
    CALL(close(shared));
}

SCRIPT(far_end_resets_while_a_thread_receives) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    struct thread *thread = start_thread("receives", receives, NULL);
    let_it_wait();
    order_far(shared, "!r.");
    join_thread(thread);
    GET(shared, SOL_SOCKET, SO_ERROR);
}

static void *sends_without_end(void *argument) {
    static char data[1 << 16];
    (void)argument;
    long last = 1;
    while (last > 0) last = send(shared, data, sizeof data, MSG_NOSIGNAL);
    say("a send failed: %s", strerrorname_np(errno));
    return NULL;
}

SCRIPT(far_end_resets_while_a_thread_sends) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    order_far(shared, "!d.!w200.!r.");
    sleep_ms(20);
    struct thread *thread = start_thread("sends", sends_without_end, NULL);
    join_thread(thread);
}

SCRIPT(this_end_shuts_while_a_thread_sends) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    order_far(shared, "!d.!w300.");
    sleep_ms(20);
    struct thread *thread = start_thread("sends", sends_without_end, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_WR));
    join_thread(thread);
}

SCRIPT(signal_of_a_broken_pipe_ends_the_process) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(shutdown(fd, SHUT_WR));
    CALL(send(fd, "x", 1, 0));
    say("not reached");
}

SCRIPT(connection_that_nobody_accepts) {
    int listener = CALL(socket(AF_INET, SOCK_STREAM, 0));
    CALL(bind(listener, V4(NEAR, PORT(0))));
    CALL(listen(listener, 5));
    struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
    say("far end dials: %d", far_asks(&request).length);
    CALL(close(listener));
    far_ended();
}

SCRIPT(listener_that_does_not_wait) {
    int listener = CALL(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    CALL(bind(listener, V4(NEAR, PORT(0))));
    CALL(listen(listener, 5));
    CALL(accept(listener, NULL, NULL));
    POLL(0, { listener, POLLIN | POLLOUT, 0 });
    struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
    say("far end dials: %d", far_asks(&request).length);
    POLL(1000, { listener, POLLIN | POLLOUT, 0 });
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int fd = CALL(accept4(listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC));
    say("length %u, flags %#x %#x", length, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL) & O_NONBLOCK);
    exchange_stream(fd);
    CALL(accept(listener, NULL, NULL));
}

SCRIPT(set_of_a_listener_and_its_connections) {
    int listener = CALL(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), set = EPOLL();
    CALL(bind(listener, V4(NEAR, PORT(0))));
    CALL(listen(listener, 5));
    EPOLL_ADD(set, listener, EPOLLIN);
    for (int i = 0; i < 3; i++) {
        struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
        say("far end dials: %d", far_asks(&request).length);
        EPOLL_WAIT(set, 4, 1000);
        int fd = CALL(accept4(listener, NULL, NULL, 0));
        EPOLL_ADD(set, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
        exchange_stream(fd);
        EPOLL_WAIT(set, 4, 0);
        order_far(fd, "!s5.!w20.!c.");
        sleep_ms(80);
        EPOLL_WAIT(set, 4, 1000);
        RECEIVE_STREAM(fd, 5);
        RECEIVE_STREAM(fd, 1);
        CALL(close(fd));
        far_ended();
    }
    EPOLL_WAIT(set, 4, 0);
}

SCRIPT(connection_that_waits_in_a_set_until_it_is_made) {
    int fd = CALL(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), set = EPOLL();
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    EPOLL_ADD(set, fd, EPOLLOUT | EPOLLET);
    EPOLL_WAIT(set, 4, 1000);
    GET(fd, SOL_SOCKET, SO_ERROR);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET);
    for (int i = 0; i < 6; i++) {
        SEND(fd, "hello", 0);
        EPOLL_WAIT(set, 4, 1000);
        RECV(fd, 10, 0);
        RECV(fd, 10, 0);
    }
}

SCRIPT(connection_refused_in_a_set) {
    int fd = CALL(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLOUT | EPOLLET);
    EPOLL_WAIT(set, 4, 0);
    CALL(connect(fd, V4(FAR, PORT(3))));
    EPOLL_WAIT(set, 4, 1000);
    GET(fd, SOL_SOCKET, SO_ERROR);
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    EPOLL_WAIT(set, 4, 1000);
    CALL(fcntl(fd, F_SETFL, 0));
    exchange_stream(fd);
}
