/* Connections of TCP that several processes have, one after the other or at once. */
#include "script.h"

#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int shared, pipes[2];

static int sends_once(void) {
    SEND(shared, "child", MSG_NOSIGNAL);
    return 0;
}

SCRIPT(child_sends_and_parent_receives) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", sends_once));
    RECEIVE_STREAM(shared, 5);
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}

static int receives_once(void) {
    RECEIVE_STREAM(shared, 5);
    return 0;
}

SCRIPT(parent_sends_and_child_receives) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pid_t child = fork_child("child", receives_once);
    SEND(shared, "hello", MSG_NOSIGNAL);
    reap(child);
    exchange_stream(shared);
}

static int receives_half(void) {
    RECEIVE_STREAM(shared, 50000);
    return 0;
}

SCRIPT(each_reads_a_half_of_what_came) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    order_far(shared, "!s100000.");
    RECEIVE_STREAM(shared, 10);
    RECEIVE_STREAM(shared, 49990);
    reap(fork_child("child", receives_half));
    exchange_stream(shared);
}

static int uses_it_in_turn(void) {
    char byte;
    for (int i = 0; i < 5; i++) {
        if (read(pipes[0], &byte, 1) != 1) return 1;
        exchange_stream(shared);
        if (write(pipes[1], "x", 1) != 1) return 1;
        sleep_ms(20);
    }
    return 0;
}

SCRIPT(both_use_it_in_turn) {
    int to[2], from[2];
    char byte;
    CALL(pipe(to));
    CALL(pipe(from));
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pipes[0] = to[0], pipes[1] = from[1];
    pid_t child = fork_child("child", uses_it_in_turn);
    for (int i = 0; i < 5; i++) {
        exchange_stream(shared);
        CALL(write(to[1], "x", 1));
        CALL(read(from[0], &byte, 1));
    }
    reap(child);
    exchange_stream(shared);
}

static int closes_it(void) {
    CALL(close(shared));
    return 0;
}

SCRIPT(child_closes_its_copy) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", closes_it));
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}

SCRIPT(parent_closes_and_the_child_goes_on) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    int to[2];
    CALL(pipe(to));
    pipes[0] = to[0], pipes[1] = -1;
    pid_t child = fork_child("child", receives_once);
    SEND(shared, "hello", MSG_NOSIGNAL);
    CALL(close(shared));
    reap(child);
    far_ended();
}

static int shuts_it(void) {
    CALL(shutdown(shared, SHUT_WR));
    return 0;
}

SCRIPT(child_shuts_it_for_both) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", shuts_it));
    far_ended();
    SEND(shared, "x", MSG_NOSIGNAL);
    RECEIVE_STREAM(shared, 1);
}

static int connects_its_own(void) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(close(fd));
    return 0;
}

SCRIPT(children_with_connections_of_their_own) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    for (int i = 0; i < 3; i++) reap(fork_child("child", connects_its_own));
    exchange_stream(fd);
}

static int accepts_one(void) {
    int fd = CALL(accept(shared, NULL, NULL));
    exchange_stream(fd);
    CALL(close(fd));
    return 0;
}

SCRIPT(workers_that_accept_in_turn) {
    shared = CALL(socket(AF_INET, SOCK_STREAM, 0));
    CALL(bind(shared, V4(NEAR, PORT(0))));
    CALL(listen(shared, 5));
    for (int i = 0; i < 3; i++) {
        pid_t child = fork_child("worker", accepts_one);
        struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
        say("far end dials: %d", far_asks(&request).length);
        reap(child);
        far_ended();
    }
}

static int uses_what_it_is_given(void) {
    int fd = take_fd(pipes[1], 0);
    exchange_stream(fd);
    CALL(close(fd));
    return 0;
}

SCRIPT(connection_is_given_to_another_process) {
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pipes));
    pid_t child = fork_child("child", uses_what_it_is_given);
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    give_fd(pipes[0], fd);
    CALL(close(fd));
    reap(child);
    far_ended();
}

SCRIPT(connection_is_given_away_and_used_on) {
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pipes));
    pid_t child = fork_child("child", uses_what_it_is_given);
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    give_fd(pipes[0], fd);
    reap(child);
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

SCRIPT(connection_is_given_to_the_same_process) {
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pipes));
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    give_fd(pipes[0], fd);
    CALL(close(fd));
    int taken = take_fd(pipes[1], 0);
    exchange_stream(taken);
    CALL(close(taken));
    far_ended();
}

SCRIPT(connection_that_exec_closes) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    exchange_stream(fd);
    char *arguments[] = { "true", NULL };
    pid_t child;
    CALL(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL));
    reap(child);
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

static char unread[2000];

static int ends_with_something_unread(void) {
    CALL(recv(shared, unread, 10, 0));
    return 0;
}

SCRIPT(child_ends_with_something_unread) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    order_far(shared, "!s1000.");
    reap(fork_child("child", ends_with_something_unread));
    RECEIVE_STREAM(shared, 990);
    exchange_stream(shared);
}

static int grandchild_uses_it(void) {
    exchange_stream(shared);
    return 0;
}

static int has_a_child_that_uses_it(void) {
    reap(fork_child("grandchild", grandchild_uses_it));
    exchange_stream(shared);
    return 0;
}

SCRIPT(grandchild_uses_it_too) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", has_a_child_that_uses_it));
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}
