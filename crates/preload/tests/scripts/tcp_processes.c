/* Connections of TCP that several processes have, one after the other or at once. */
#include "script.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

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

static int polls_first(void) {
    struct pollfd entry = { .fd = shared, .events = POLLIN };
    CALL(poll(&entry, 1, 2000));
    RECEIVE_STREAM(shared, 5);
    exchange_stream(shared);
    return 0;
}

SCRIPT(child_waits_by_poll_for_what_the_parent_sent) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pid_t child = fork_child("child", polls_first);
    sleep_ms(20);
    SEND(shared, "hello", MSG_NOSIGNAL);
    reap(child);
    exchange_stream(shared);
}

static int set;

static int waits_by_a_set(void) {
    struct epoll_event event = { .events = EPOLLIN };
    if (set < 0) {
        set = CALL(epoll_create1(0));
        CALL(epoll_ctl(set, EPOLL_CTL_ADD, shared, &event));
    }
    CALL(epoll_wait(set, &event, 1, 2000));
    RECEIVE_STREAM(shared, 5);
    exchange_stream(shared);
    return 0;
}

SCRIPT(child_waits_by_a_set_of_its_own) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    set = -1;
    pid_t child = fork_child("child", waits_by_a_set);
    sleep_ms(20);
    SEND(shared, "hello", MSG_NOSIGNAL);
    reap(child);
    exchange_stream(shared);
}

SCRIPT(child_waits_by_an_inherited_set) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    struct epoll_event event = { .events = EPOLLIN };
    set = CALL(epoll_create1(0));
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, shared, &event));
    exchange_stream(shared);
    pid_t child = fork_child("child", waits_by_a_set);
    sleep_ms(20);
    SEND(shared, "hello", MSG_NOSIGNAL);
    reap(child);
    CALL(epoll_wait(set, &event, 1, 0));
    SEND(shared, "again", MSG_NOSIGNAL);
    CALL(epoll_wait(set, &event, 1, 2000));
    RECEIVE_STREAM(shared, 5);
}

static int sleeps(void) {
    sleep_ms(300);
    return 0;
}

SCRIPT(child_that_does_not_use_it_while_the_parent_does) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pid_t child = fork_child("child", sleeps);
    for (int i = 0; i < 5; i++) exchange_stream(shared);
    reap(child);
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}

static int sleeps_and_uses_it(void) {
    sleep_ms(200);
    exchange_stream(shared);
    return 0;
}

SCRIPT(parent_begins_to_use_it_after_the_fork_and_then_the_child) {
    shared = connected_stream(AF_INET);
    pid_t child = fork_child("child", sleeps_and_uses_it);
    for (int i = 0; i < 3; i++) exchange_stream(shared);
    reap(child);
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}

/* Other delays in each round: one of them ends while the parent takes the connection from the kernel. */
static int looks_at_it(int delay_us) {
    struct timespec from, now;
    int refused = 0;
    char byte;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < delay_us);
    for (int i = 0; i < 300; i++) refused += recv(shared, &byte, 0, MSG_DONTWAIT) < 0 && errno != EAGAIN;
    return refused != 0;
}

/* Nothing that this process has is carried when it forks. */
static int uses_it_beside_a_child(int delay_us) {
    char hello[5];
    int status;
    shared = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(shared, V4(FAR, ECHO_PORT)) != 0) return 1;
    pid_t child = fork();
    if (child == 0) _exit(looks_at_it(delay_us));
    for (int turn = 0; turn < 800; turn++) {
        send(shared, "hello", 5, MSG_NOSIGNAL);
        if (recv(shared, hello, 5, MSG_WAITALL) != 5) return 1;
    }
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

SCRIPT(child_looks_at_it_while_the_parent_begins_to_use_it) {
    enum { ROUNDS = 60 };
    int refused = 0, warm = connected_stream(AF_INET);
    for (int i = 0; i < 50; i++) exchange_stream(warm);
    for (int i = 0; i < ROUNDS; i++) {
        int status;
        pid_t user = fork();
        if (user == 0) _exit(uses_it_beside_a_child(i * 500));
        waitpid(user, &status, 0);
        refused += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    say("%d children were refused", refused);
}

SCRIPT(two_children_use_it_in_turn) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pid_t idle = fork_child("idle", sleeps_and_uses_it);
    reap(fork_child("child", sends_once));
    RECEIVE_STREAM(shared, 5);
    reap(idle);
    exchange_stream(shared);
}

static int writes_by_another_program(void) {
    CALL(dup2(shared, 1));
    execl("/bin/echo", "echo", "hello", NULL);
    return 1;
}

SCRIPT(child_executes_a_program_that_writes_to_it) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", writes_by_another_program));
    RECEIVE_STREAM(shared, 6);
    exchange_stream(shared);
}

static int executes_true(void) {
    execl("/bin/true", "true", NULL);
    return 1;
}

SCRIPT(child_executes_a_program_that_has_it_open) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    reap(fork_child("child", executes_true));
    exchange_stream(shared);
    CALL(close(shared));
    far_ended();
}

static int passes_it_on_and_ends(void) {
    fork_child("grandchild", sleeps_and_uses_it);
    exchange_stream(shared);
    return 0;
}

SCRIPT(parent_ends_and_its_child_goes_on) {
    shared = connected_stream(AF_INET);
    pid_t child = fork_child("child", passes_it_on_and_ends);
    CALL(close(shared));
    reap(child);
    far_ended();
}

static int serves_what_was_accepted(void) {
    for (int i = 0; i < 30; i++) exchange_stream(shared);
    CALL(close(shared));
    return 0;
}

SCRIPT(child_for_each_connection_that_is_accepted) {
    int listener = CALL(socket(AF_INET, SOCK_STREAM, 0));
    CALL(bind(listener, V4(NEAR, PORT(0))));
    CALL(listen(listener, 5));
    for (int i = 0; i < 3; i++) {
        struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
        say("far end dials: %d", far_asks(&request).length);
        shared = CALL(accept(listener, NULL, NULL));
        pid_t child = fork_child("server", serves_what_was_accepted);
        CALL(close(shared));
        reap(child);
        far_ended();
    }
}

SCRIPT(one_that_the_parent_keeps_a_copy_of) {
    shared = connected_stream(AF_INET);
    pid_t child = fork_child("child", serves_what_was_accepted);
    sleep_ms(100);
    exchange_stream(shared);
    reap(child);
    exchange_stream(shared);
}

SCRIPT(parent_has_a_copy_by_another_fd) {
    shared = connected_stream(AF_INET);
    pid_t child = fork_child("child", serves_what_was_accepted);
    int copy = CALL(dup(shared));
    CALL(close(shared));
    exchange_stream(copy);
    reap(child);
    exchange_stream(copy);
    CALL(close(copy));
    far_ended();
}

SCRIPT(child_of_daemon_goes_on) {
    shared = connected_stream(AF_INET);
    exchange_stream(shared);
    pid_t child = fork_child("daemon's parent", passes_it_on_and_ends);
    reap(child);
    sleep_ms(300);
    exchange_stream(shared);
}
