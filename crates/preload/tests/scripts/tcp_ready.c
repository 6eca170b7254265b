/* Whether connections of TCP are ready, and who is told: poll, select, epoll, signals. */
#include "script.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

EACH_WAY(poll_in_each_state) {
    exchange_stream(fd);
    POLL(0, { fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0 });
    order_far(fd, "!s10.");
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 10);
    POLL(0, { fd, POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, 0 });
    order_far(fd, "!h.");
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0 });
    POLL(0, { fd, 0, 0 });
    CALL(shutdown(fd, SHUT_WR));
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0 });
    POLL(0, { fd, 0, 0 });
}

EACH_WAY(poll_after_this_end_shut_its_half) {
    exchange_stream(fd);
    CALL(shutdown(fd, SHUT_WR));
    far_ended();
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(poll_after_reading_was_shut) {
    exchange_stream(fd);
    CALL(shutdown(fd, SHUT_RD));
    POLL(0, { fd, POLLIN | POLLOUT | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 1);
    SEND(fd, "still", MSG_NOSIGNAL);
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 5);
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(poll_after_a_reset) {
    exchange_stream(fd);
    order_far(fd, "!r.");
    far_ended();
    sleep_ms(50);
    POLL(0, { fd, POLLIN | POLLOUT | POLLRDHUP, 0 });
    POLL(0, { fd, 0, 0 });
    GET(fd, SOL_SOCKET, SO_ERROR);
    POLL(0, { fd, POLLIN | POLLOUT | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 1);
}

EACH_WAY(epoll_level_in_each_state) {
    int set = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    EPOLL_WAIT(set, 4, 1000);
    order_far(fd, "!s10.");
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(fd, 10);
    EPOLL_WAIT(set, 4, 1000);
    order_far(fd, "!h.");
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    CALL(shutdown(fd, SHUT_WR));
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    CALL(close(fd));
    EPOLL_WAIT(set, 4, 0);
}

EACH_WAY(epoll_edge_in_each_state) {
    int set = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
    EPOLL_WAIT(set, 4, 0);
    order_far(fd, "!s10.");
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_WAIT(set, 4, 0);
    RECEIVE_STREAM(fd, 4);
    EPOLL_WAIT(set, 4, 0);
    order_far(fd, "!s1.");
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(fd, 7);
    order_far(fd, "!h.");
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_WAIT(set, 4, 0);
}

static void reset_in_a_set(uint32_t events) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(set, fd, events);
    EPOLL_WAIT(set, 4, 0);
    order_far(fd, "!r.");
    far_ended();
    sleep_ms(50);
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_WAIT(set, 4, 0);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN);
    EPOLL_WAIT(set, 4, 1000);
}

SCRIPT(reset_in_a_set_for_receiving) { reset_in_a_set(EPOLLIN); }
SCRIPT(reset_in_a_set_for_receiving_by_edge) { reset_in_a_set(EPOLLIN | EPOLLET); }
SCRIPT(reset_in_a_set_for_the_other_end_by_edge) { reset_in_a_set(EPOLLRDHUP | EPOLLET); }
SCRIPT(reset_in_a_set_for_room_by_edge) { reset_in_a_set(EPOLLOUT | EPOLLET); }
SCRIPT(reset_in_a_set_for_nothing) { reset_in_a_set(0); }
SCRIPT(reset_in_a_set_for_nothing_by_edge) { reset_in_a_set(EPOLLET); }
SCRIPT(reset_in_a_set_once) { reset_in_a_set(EPOLLIN | EPOLLONESHOT); }

SCRIPT(edge_is_told_again_by_a_change) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLET);
    exchange_stream(fd);
    order_far(fd, "!s10.");
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET);
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_CTL(set, EPOLL_CTL_DEL, fd, 0);
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLET);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(fd, 10);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET);
    EPOLL_WAIT(set, 4, 0);
}

SCRIPT(two_sets_of_one_connection) {
    int fd = connected_stream(AF_INET), level = EPOLL(), edge = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(level, fd, EPOLLIN);
    EPOLL_ADD(edge, fd, EPOLLIN | EPOLLET);
    order_far(fd, "!s10.");
    EPOLL_WAIT(edge, 4, 1000);
    EPOLL_WAIT(level, 4, 1000);
    EPOLL_WAIT(level, 4, 1000);
    EPOLL_WAIT(edge, 4, 0);
    RECEIVE_STREAM(fd, 10);
    EPOLL_WAIT(level, 4, 0);
    EPOLL_WAIT(edge, 4, 0);
}

SCRIPT(set_in_a_set) {
    int fd = connected_stream(AF_INET), inner = EPOLL(), outer = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(inner, fd, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN);
    EPOLL_WAIT(outer, 4, 0);
    order_far(fd, "!s10.");
    EPOLL_WAIT(outer, 4, 1000);
    POLL(0, { inner, POLLIN, 0 });
    EPOLL_WAIT(inner, 4, 0);
    RECEIVE_STREAM(fd, 10);
    EPOLL_WAIT(outer, 4, 0);
    POLL(0, { inner, POLLIN, 0 });
}

SCRIPT(copy_of_a_connection_in_a_set) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    exchange_stream(fd);
    int copy = CALL(dup(fd));
    EPOLL_ADD(set, copy, EPOLLIN);
    EPOLL_ADD(set, fd, EPOLLIN);
    SEND(fd, "x", 0);
    sleep_ms(50);
    EPOLL_WAIT(set, 1, 1000);
    CALL(close(copy));
    sleep_ms(20);
    epoll_and_show_sorted(set, "both, as the file is open");
    RECEIVE_STREAM(fd, 1);
    CALL(close(fd));
    EPOLL_WAIT(set, 4, 0);
}

SCRIPT(lowest_number_of_bytes_that_wakes) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_RCVLOWAT, 10);
    GET(fd, SOL_SOCKET, SO_RCVLOWAT);
    EPOLL_ADD(set, fd, EPOLLIN);
    order_far(fd, "!s5.");
    sleep_ms(50);
    POLL(0, { fd, POLLIN, 0 });
    EPOLL_WAIT(set, 4, 0);
    SELECT(0, READS(fd), WRITES(), EXCEPTS());
    order_far(fd, "!s5.");
    EPOLL_WAIT(set, 4, 1000);
    POLL(0, { fd, POLLIN, 0 });
    RECEIVE_STREAM(fd, 10);
    SET(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
    exchange_stream(fd);
}

SCRIPT(receive_waits_for_the_lowest_number) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_RCVLOWAT, 10);
    /* A receive that has a part already is not woken by the rest: Linux counts what is left alone. */
    order_far(fd, "!w50.!s5.!w50.!s5.");
    RECV(fd, 20, 0);
    RECV(fd, 20, MSG_DONTWAIT);
}

SCRIPT(select_of_each_kind) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SELECT(0, READS(fd), WRITES(fd), EXCEPTS(fd));
    order_far(fd, "!o.");
    sleep_ms(50);
    SELECT(0, READS(fd), WRITES(fd), EXCEPTS(fd));
    order_far(fd, "!c.");
    sleep_ms(50);
    SELECT(0, READS(fd), WRITES(fd), EXCEPTS(fd));
}

SCRIPT(poll_of_connections_and_other_files) {
    int fd = connected_stream(AF_INET), datagrams = bound(1), pipes[2];
    CALL(pipe(pipes));
    exchange_stream(fd);
    POLL(0, { fd, POLLIN, 0 }, { datagrams, POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { -1, POLLIN, 0 });
    FAR_SENDS(.from = ECHO_PORT + 1, .to = PORT(1), .size = 3);
    POLL(1000, { fd, POLLIN, 0 }, { datagrams, POLLIN, 0 });
    SEND(fd, "x", 0);
    sleep_ms(50);
    POLL(1000, { fd, POLLIN, 0 }, { datagrams, POLLIN, 0 }, { pipes[0], POLLIN, 0 });
    CALL(write(pipes[1], "x", 1));
    POLL(1000, { fd, POLLIN, 0 }, { datagrams, POLLIN, 0 }, { pipes[0], POLLIN, 0 });
    RECEIVE_STREAM(fd, 1);
    RECV(datagrams, 10, 0);
}

SCRIPT(epoll_wakes) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLRDHUP);
    for (int i = 0; i < 5; i++) {
        order_far(fd, "!w60.x");
        WAITS(60, EPOLL_WAIT(set, 4, 3000));
        RECEIVE_STREAM(fd, 1);
    }
    WAITS(50, EPOLL_WAIT(set, 4, 50));
    order_far(fd, "!w60.!c.");
    WAITS(60, EPOLL_WAIT(set, 4, 3000));
}

SCRIPT(select_wakes) {
    int fd = connected_stream(AF_INET);
    for (int i = 0; i < 5; i++) {
        order_far(fd, "!w60.x");
        WAITS(60, SELECT(3000, READS(fd), WRITES(), EXCEPTS()));
        RECEIVE_STREAM(fd, 1);
    }
    WAITS(50, SELECT(50, READS(fd), WRITES(), EXCEPTS()));
}

SCRIPT(exclusive_set) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLEXCLUSIVE);
    SEND(fd, "x", 0);
    EPOLL_WAIT(set, 4, 1000);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN);
    RECEIVE_STREAM(fd, 1);
    EPOLL_WAIT(set, 4, 0);
}

static volatile int signals_seen;

static void count_signal(int number) {
    (void)number;
    signals_seen++;
}

SCRIPT(signal_of_a_connection_that_is_ready) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    handle(SIGIO, count_signal, SA_RESTART);
    CALL(fcntl(fd, F_SETOWN, getpid()));
    CALL(fcntl(fd, F_SETFL, O_ASYNC));
    signals_seen = 0;
    order_far(fd, "!s10.");
    sleep_ms(100);
    say("told: %d", signals_seen > 0);
    RECEIVE_STREAM(fd, 10);
    CALL(fcntl(fd, F_SETFL, 0));
    sleep_ms(20);
    signals_seen = 0;
    exchange_stream(fd);
    say("told: %d", signals_seen > 0);
}

SCRIPT(signal_of_urgent_data) {
    int fd = connected_stream(AF_INET), at_mark = -1;
    exchange_stream(fd);
    handle(SIGURG, count_signal, SA_RESTART);
    CALL(fcntl(fd, F_SETOWN, getpid()));
    signals_seen = 0;
    order_far(fd, "!s3.!o.!s2.");
    sleep_ms(100);
    say("told: %d", signals_seen > 0);
    POLL(0, { fd, POLLIN | POLLPRI, 0 });
    CALL(ioctl(fd, SIOCATMARK, &at_mark));
    say("at the mark: %d", at_mark);
    RECV(fd, 10, 0);
    CALL(ioctl(fd, SIOCATMARK, &at_mark));
    say("at the mark: %d", at_mark);
    RECV(fd, 10, MSG_OOB);
    RECV(fd, 10, 0);
    exchange_stream(fd);
}

SCRIPT(urgent_data_in_line) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_OOBINLINE, 1);
    order_far(fd, "!s3.!o.!s2.");
    sleep_ms(100);
    RECV(fd, 10, 0);
    RECV(fd, 10, 0);
    RECV(fd, 10, MSG_OOB);
    exchange_stream(fd);
}
