/* Sockets across execve(2), and programs that are started with them. */
#include "script.h"

#include <spawn.h>

extern char **environ;

PROGRAM(serves_its_argument) {
    int a = argument(0);
    GETSOCKNAME(a);
    SENDTO(a, "executed", V4(FAR, ECHO_PORT));
    RECVFROM(a, 20, 0);
    SET(a, SOL_SOCKET, SO_BROADCAST, 1);
    int b = UDP();
    say("number above the inherited: %d", b > a);
    SENDTO(b, "new", V4(FAR, ECHO_PORT));
    RECV(b, 20, 0);
}

PROGRAM(finds_it_closed) {
    int a = argument(0);
    GETSOCKNAME(a);
    RECV(a, 10, MSG_DONTWAIT);
    UDP();
    UDP();
}

PROGRAM(reads_what_was_queued) {
    int a = argument(0);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

PROGRAM(lists_its_descriptors) {
    for (int fd = 0; fd < 20000; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) say("open: %d", fd);
    }
}

static int a;

static int executes_server(void) { return EXEC("exec.serves_its_argument", a, 0); }

SCRIPT(socket_is_inherited) {
    a = bound(0);
    SENDTO(a, "before", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    reap(fork_child("child", executes_server));
    SENDTO(a, "after", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(in_place) {
    a = bound(0);
    SENDTO(a, "before", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    EXEC("exec.serves_its_argument", a, 0);
}

static int executes_prober(void) { return EXEC("exec.finds_it_closed", a, 0); }

SCRIPT(cloexec_closes) {
    a = CALL(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    CALL(bind(a, V4(NEAR, PORT(0))));
    reap(fork_child("child", executes_prober));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(cloexec_set_later) {
    a = bound(0);
    CALL(fcntl(a, F_SETFD, FD_CLOEXEC));
    reap(fork_child("child", executes_prober));
    CALL(fcntl(a, F_SETFD, 0));
    reap(fork_child("child again", executes_server));
}

static int executes_reader(void) { return EXEC("exec.reads_what_was_queued", a, 0); }

SCRIPT(queued_data_is_inherited) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    reap(fork_child("child", executes_reader));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(stamped_data_queued_behind_what_was_read_is_inherited) {
    a = bound(0);
    SET(a, SOL_SOCKET, SO_TIMESTAMP, 1);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3);
    RECV(a, 10, 0);
    EXEC("exec.reads_what_was_queued", a, 0);
}

SCRIPT(data_queued_behind_what_was_read_is_inherited) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3);
    RECV(a, 10, 0);
    reap(fork_child("child", executes_reader));
    RECV(a, 10, MSG_DONTWAIT);
}

static int executes_lister(void) { return EXEC("exec.lists_its_descriptors", 0, 0); }

SCRIPT(nothing_else_is_inherited) {
    a = bound(0);
    int epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    EPOLL_WAIT(epoll, 10, 1000);
    RECV(a, 10, 0);
    reap(fork_child("child", executes_lister));
}

SCRIPT(posix_spawn_with_a_socket) {
    a = bound(0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, a, 9);
    posix_spawn_file_actions_addclose(&actions, a);
    char *arguments[5], number[12];
    prepare_exec(arguments, "exec.serves_its_argument", 9, 0);
    snprintf(number, sizeof number, "%d", reserve_stream("spawned"));
    setenv("SCRIPT_STREAM", number, 1);
    pid_t pid = -1;
    CALL(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ));
    reap(pid);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

static void vfork_and_serve(void) {
    char *arguments[5], number[12];
    prepare_exec(arguments, "exec.serves_its_argument", a, 0);
    snprintf(number, sizeof number, "%d", reserve_stream("executed"));
    setenv("SCRIPT_STREAM", number, 1);
    pid_t pid = vfork();
    if (pid == 0) {
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    reap(pid);
}

SCRIPT(vfork_and_exec) {
    a = bound(0);
    vfork_and_serve();
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(failed_exec_changes_nothing) {
    a = bound(0);
    SENDTO(a, "before", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(execl("/nonexistent", "nonexistent", NULL));
    SENDTO(a, "after", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(system_and_popen) {
    a = bound(0);
    SENDTO(a, "before", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(system("exit 3"));
    FILE *pipe = popen("echo hello", "r");
    char line[20] = "";
    say("%s", pipe && fgets(line, sizeof line, pipe) ? line : "nothing");
    CALL(pclose(pipe));
    SENDTO(a, "after", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

PROGRAM(reads_standard_input) {
    READ(0, 20);
    CALL(write(1, "answer", 6));
}

static int executes_as_inetd(void) {
    dup2(a, 0);
    dup2(a, 1);
    close(a);
    return EXEC("exec.reads_standard_input", 0, 0);
}

SCRIPT(connected_socket_as_standard_streams) {
    a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 5);
    reap(fork_child("child", executes_as_inetd));
    far_receives(PORT(5));
}

static int executes_by_list(void) {
    char number[12];
    char *arguments[5];
    snprintf(number, sizeof number, "%d", a);
    prepare_exec(arguments, "exec.serves_its_argument", a, 0);
    CALL(execl("/proc/self/exe", "scripts", "exec.serves_its_argument", number, "0", "unused", "unused", "unused", NULL));
    return 1;
}

SCRIPT(execl_with_many_arguments) {
    a = bound(0);
    reap(fork_child("child", executes_by_list));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

static int set;

/* As the program that registered it would: it is there, tells nothing, and is armed by being modified. */
PROGRAM(has_a_one_shot_that_told) {
    int set = argument(0), a = argument(1);
    EPOLL_WAIT(set, 10, 0);
    EPOLL_ADD(set, a, EPOLLIN);
    EPOLL_CTL(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(set, 10, 0);
    EPOLL_WAIT(set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_CTL(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(set, 10, 1000);
    RECV(a, 10, MSG_DONTWAIT);
}

PROGRAM(deletes_a_one_shot_that_told) {
    int set = argument(0), a = argument(1);
    EPOLL_CTL(set, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(set, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(set, a, EPOLLIN);
    EPOLL_WAIT(set, 10, 0);
}

/* A set whose one-shot registration has told of a datagram, which is read, and one that has told nothing yet. */
static void one_shot_tells(void) {
    a = bound(0);
    int armed = bound(1);
    set = EPOLL();
    EPOLL_ADD(set, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_ADD(set, armed, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(set, 10, 0);
    RECV(a, 10, 0);
}

static int executes_modifier(void) { return EXEC("exec.has_a_one_shot_that_told", set, a); }
static int executes_deleter(void) { return EXEC("exec.deletes_a_one_shot_that_told", set, a); }

SCRIPT(one_shot_that_told_is_inherited_in_place) {
    one_shot_tells();
    executes_modifier();
}

SCRIPT(one_shot_that_told_is_inherited) {
    one_shot_tells();
    reap(fork_child("child", executes_modifier));
    EPOLL_WAIT(set, 10, 0);
    EPOLL_CTL(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(set, 10, 1000);
    EPOLL_WAIT(set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(one_shot_that_told_and_a_child_deletes) {
    one_shot_tells();
    reap(fork_child("child", executes_deleter));
    EPOLL_WAIT(set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_CTL(set, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(set, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(set, 10, 1000);
    EPOLL_WAIT(set, 10, 0);
}

SCRIPT(one_shot_that_told_and_the_parent_deletes_after_an_exec) {
    one_shot_tells();
    reap(fork_child("child", executes_modifier));
    EPOLL_CTL(set, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(set, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(set, 10, 1000);
    EPOLL_WAIT(set, 10, 0);
}

static int pipes[2];

static int child_waits(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    return 0;
}

SCRIPT(vfork_and_exec_beside_a_child_the_set_tells_of_the_socket) {
    a = bound(0);
    set = EPOLL();
    EPOLL_ADD(set, a, EPOLLIN);
    CALL(pipe(pipes));
    pid_t child = fork_child("child", child_waits);
    vfork_and_serve();
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(set, 10, 300);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[1], "e", 1));
    reap(child);
}
