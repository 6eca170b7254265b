/* Sockets that are inherited. */
#include "script.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int a, b, epoll_set, pipes[4];

static int child_echoes(void) {
    SENDTO(a, "child", V4(FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
    GETSOCKNAME(a);
    return 0;
}

SCRIPT(child_uses_an_inherited_socket) {
    a = bound(0);
    SENDTO(a, "parent", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    reap(fork_child("child", child_echoes));
    SENDTO(a, "after", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

static int child_reads_late(void) {
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, 0);
    return 3;
}

static int child_lives(void) {
    char byte;
    return read(pipes[0], &byte, 1) != 1;
}

/* The parent's socket keeps what waits, as it stays what it is. */
SCRIPT(copy_refused_over_a_socket_that_a_child_has) {
    CALL(pipe(pipes));
    a = bound(0);
    int closed = dup(pipes[0]);
    close(closed);
    pid_t child = fork_child("child", child_lives);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(dup2(closed, a));
    CALL(dup3(pipes[0], a, 1));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[1], "x", 1));
    reap(child);
}

static int child_has_more_sent(void) {
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 2);
    return 0;
}

/* What is told of a datagram keeps it from going back to the kernel, where later ones wait meanwhile. */
SCRIPT(what_comes_around_a_fork_stays_in_order) {
    char data[10];
    a = bound(0), b = bound(1);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    reap(fork_child("child", child_has_more_sent));
    RECV(b, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    /* It takes in what came for the other one. */
    RECV(b, 10, MSG_DONTWAIT);
    for (int n = 0; n < 6; n++) say("%zd", recv(a, data, sizeof data, MSG_DONTWAIT));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(child_reads_what_came_after) {
    a = bound(0);
    reap(fork_child("child", child_reads_late));
    RECV(a, 10, MSG_DONTWAIT);
}

static int child_reads_queued(void) {
    RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

static int child_reads_both(void) {
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(child_reads_what_was_queued) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3);
    RECV(a, 10, 0);
    reap(fork_child("child", child_reads_queued));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

/* The child is the first that uses it. */
static int child_reads_the_first_of_what_comes(void) {
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 4);
    RECV(a, 10, 0);
    return 0;
}

static int child_reads_the_first_and_closes(void) {
    child_reads_the_first_of_what_comes();
    CALL(close(a));
    return 0;
}

static void read_the_rest(void) {
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "after", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(what_a_child_has_not_read_at_its_end_is_the_parents) {
    a = bound(0);
    reap(fork_child("child", child_reads_the_first_of_what_comes));
    read_the_rest();
}

SCRIPT(what_a_child_has_not_read_when_it_closes_is_the_parents) {
    a = bound(0);
    reap(fork_child("child", child_reads_the_first_and_closes));
    read_the_rest();
}

static int child_reads_all(void) {
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

/* Others may have the port of such a socket, and here nobody has. */
SCRIPT(what_waits_at_a_socket_alone_at_its_shared_port_is_the_childs) {
    a = bound(0);
    SET(a, SOL_SOCKET, SO_REUSEPORT, 1);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3);
    RECV(a, 10, 0);
    reap(fork_child("child", child_reads_all));
    RECV(a, 10, MSG_DONTWAIT);
}

/* What this reports is of when and by what a datagram came, which one that goes back to the kernel does not keep. The child is the first that
 * uses it. */
static int bound_with_all_that_is_told(void) {
    int fd = UDP();
    CALL((bind)(fd, V4(NEAR, PORT(0))));
    SET(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    SET(fd, IPPROTO_IP, IP_PKTINFO, 1);
    SET(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return fd;
}

SCRIPT(what_a_child_has_not_read_of_stamped_ones_at_its_end_is_the_parents) {
    a = bound_with_all_that_is_told();
    reap(fork_child("child", child_reads_the_first_of_what_comes));
    read_the_rest();
}

SCRIPT(what_a_child_has_not_read_of_stamped_ones_when_it_closes_is_the_parents) {
    a = bound_with_all_that_is_told();
    reap(fork_child("child", child_reads_the_first_and_closes));
    read_the_rest();
}

static int child_reads_when_it_is_closed_elsewhere(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(what_strangers_sent_before_a_connect_is_the_childs_when_the_parent_closes) {
    CALL(pipe(pipes));
    a = bound(0);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 5, .count = 3);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    pid_t child = fork_child("child", child_reads_when_it_is_closed_elsewhere);
    CALL(close(a));
    CALL(write(pipes[1], "x", 1));
    reap(child);
}

SCRIPT(room_to_send_is_told_when_a_child_has_read) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    reap(fork_child("child", child_reads_queued));
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    SELECT(0, READS(a), WRITES(a), EXCEPTS(a));
}

static int child_leaves_it(void) { return 0; }

SCRIPT(order_is_kept_by_a_parent_whose_child_reads_nothing) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3);
    reap(fork_child("child", child_leaves_it));
    POLL(0, { a, POLLIN, 0 });
    FAR_SENDS(.to = PORT(0), .size = 6, .count = 2);
    POLL(0, { a, POLLIN, 0 });
    for (int i = 0; i < 6; i++) {
        RECV(a, 10, MSG_DONTWAIT | MSG_PEEK);
        int bytes = -1;
        CALL(ioctl(a, FIONREAD, &bytes));
        say("next: %d", bytes);
        RECV(a, 10, MSG_DONTWAIT);
    }
}

static int child_reads_when_told(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    for (int i = 0; i < 3; i++) RECVFROM(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[3], "d", 1));
    CALL(read(pipes[0], &byte, 1));
    return 0;
}

/* A child that has `a`, which is in a set, and two datagrams wait. */
static pid_t fork_with_a_registered(unsigned events) {
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, events);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t child = fork_child("child", child_reads_when_told);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    EPOLL_WAIT(epoll_set, 10, 0);
    return child;
}

/* The parent has the socket no more. */
static void let_the_child_read_and_end(pid_t child) {
    char byte;
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "e", 1));
    reap(child);
    EPOLL_WAIT(epoll_set, 10, 0);
}

/* From here on the parent makes no call by which it could learn of its child. */
static void compute_while_the_child_reads(pid_t child) {
    char byte;
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    CALL(write(pipes[1], "e", 1));
    reap(child);
}

static pid_t fork_and_go_on(void) {
    a = bound(0), b = bound(1);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    pid_t child = fork_child("child", child_reads_when_told);
    RECV(b, 10, MSG_DONTWAIT);
    return child;
}

SCRIPT(what_waits_with_a_parent_that_computes_is_the_childs) {
    pid_t child = fork_and_go_on();
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    RECV(b, 10, MSG_DONTWAIT);
    compute_while_the_child_reads(child);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(what_comes_to_a_parent_that_computes_is_the_childs) {
    pid_t child = fork_and_go_on();
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    compute_while_the_child_reads(child);
    RECV(a, 10, MSG_DONTWAIT);
}

#define CALL_FIELD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP(test, value, yes, no) BPF_JUMP(BPF_JMP | test | BPF_K, value, yes, no)

/* From now on it is killed if it starts a thread. */
static void forbid_threads(int by_number) {
    struct sock_filter filter[] = {
        CALL_FIELD(nr),
        JUMP(BPF_JEQ, __NR_clone3, 3, 0),
        JUMP(BPF_JEQ, __NR_clone, 0, 3),
        CALL_FIELD(args[0]),
        JUMP(BPF_JSET, CLONE_VM, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (by_number)
        CALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    else
        CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static int threads_forbidden_by_number;

static int child_may_have_no_threads(void) {
    char byte;
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, 0);
    pid_t child = fork_child("grandchild", child_lives);
    forbid_threads(threads_forbidden_by_number);
    FAR_SENDS(.to = PORT(0), .size = 6);
    RECV(a, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[1], "x", 1));
    CALL(read(pipes[2], &byte, 0));
    reap(child);
    return 0;
}

SCRIPT(program_whose_filter_kills_it_for_a_thread_lives) {
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    for (threads_forbidden_by_number = 0; threads_forbidden_by_number < 2; threads_forbidden_by_number++)
        reap(fork_child("child", child_may_have_no_threads));
}

static int child_uses_it_and_computes(void) {
    char byte;
    RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[3], "u", 1));
    CALL(read(pipes[0], &byte, 1));
    return 0;
}

static int child_waits_for_two(void) {
    RECV(a, 10, 0);
    RECV(a, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(what_came_to_a_child_that_computes_is_read_by_another) {
    char byte;
    struct timeval time = { 3, 0 };
    a = bound(0);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    pid_t first = fork_child("first", child_uses_it_and_computes);
    CALL(read(pipes[2], &byte, 1));
    /* An agent asks the kernel meanwhile who else has the port. */
    CALL(poll(NULL, 0, 500));
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    reap(fork_child("second", child_waits_for_two));
    CALL(write(pipes[1], "e", 1));
    reap(first);
}

SCRIPT(what_waits_at_a_socket_that_the_parent_closes_is_the_childs) {
    a = bound(0);
    pid_t child = fork_with_a_registered(EPOLLIN);
    CALL(close(a));
    let_the_child_read_and_end(child);
}

SCRIPT(what_waits_at_a_socket_that_the_parent_replaces_by_dup2_is_the_childs) {
    a = bound(0), b = bound(1);
    pid_t child = fork_with_a_registered(EPOLLIN | EPOLLOUT);
    CALL(dup2(b, a));
    let_the_child_read_and_end(child);
}

/* What the parent registers after a fork that child does not know. */
static void register_and_fork_again(unsigned events) {
    EPOLL_ADD(epoll_set, a, events);
    reap(fork_child("second", child_leaves_it));
    FAR_SENDS(.to = PORT(0), .size = 3);
}

static void show_what_the_set_tells(void) {
    EPOLL_WAIT(epoll_set, 10, 300);
    while (RECV(a, 10, MSG_DONTWAIT) >= 0) {}
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 300);
}

SCRIPT(registered_after_a_child_has_read_is_told_of_behind_another_fork) {
    a = bound(0), epoll_set = EPOLL();
    reap(fork_child("child", child_reads_queued));
    register_and_fork_again(EPOLLIN | EPOLLONESHOT);
    show_what_the_set_tells();
}

SCRIPT(registered_before_a_child_reads_is_told_of_behind_another_fork) {
    char byte;
    a = bound(0), epoll_set = EPOLL();
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t first = fork_child("child", child_reads_when_told);
    register_and_fork_again(EPOLLIN);
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    FAR_SENDS(.to = PORT(0), .size = 4);
    show_what_the_set_tells();
    CALL(write(pipes[1], "e", 1));
    reap(first);
    show_what_the_set_tells();
}

SCRIPT(changed_in_a_set_after_a_child_has_read_is_told_of_as_asked) {
    a = bound(0), b = bound(1), epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLOUT);
    EPOLL_ADD(epoll_set, b, EPOLLIN | EPOLLOUT);
    reap(fork_child("child", child_reads_both));
    EPOLL_CTL(epoll_set, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, b, EPOLLIN);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(1), .size = 3);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static int child_does_nothing(void) { return 0; }

static int child_waits_for_the_end(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    return 0;
}

SCRIPT(what_came_before_and_after_a_shutdown_keeps_its_order) {
    a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 1);
    POLL(1000, { a, POLLIN, 0 });
    CALL(shutdown(a, SHUT_WR));
    FAR_SENDS(.to = PORT(0), .size = 2, .count = 2);
    reap(fork_child("child", child_does_nothing));
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
}

/* A living child has it, so it is in the set still. */
SCRIPT(socket_shut_down_unread_and_closed_stays_in_the_set_of_both) {
    a = bound(0);
    int epoll = EPOLL();
    CALL(pipe(pipes));
    FAR_SENDS(.to = PORT(0), .size = 1);
    POLL(1000, { a, POLLIN, 0 });
    CALL(shutdown(a, SHUT_RD));
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    pid_t child = fork_child("child", child_waits_for_the_end);
    CALL(close(a));
    EPOLL_WAIT(epoll, 10, 0);
    CALL(write(pipes[1], "e", 1));
    reap(child);
    EPOLL_WAIT(epoll, 10, 0);
}

/* UDP_SEGMENT is for the kernel alone. */
SCRIPT(what_waited_at_a_fork_comes_first_when_the_kernel_takes_the_socket) {
    a = bound(0);
    int bytes = 12;
    FAR_SENDS(.to = PORT(0), .size = 1, .count = 2);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t child = fork_child("child", child_waits_for_the_end);
    POLL(0, { a, POLLIN, 0 });
    FAR_SENDS(.to = PORT(0), .size = 2, .count = 2);
    CALL(setsockopt(a, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes));
    for (int i = 0; i < 5; i++) RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[1], "e", 1));
    reap(child);
}

/* More than the rings hold. Used before: a kernel whose veth gives each frame under a native program a page (6.1) keeps 98 for a socket. */
SCRIPT(burst_that_nobody_read_keeps_its_order) {
    a = bound(0);
    int bytes = 1 << 20;
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes));
    POLL(0, { a, POLLIN, 0 });
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 300);
    settle();
    reap(fork_child("child", child_does_nothing));
    for (int i = 0; i < 301; i++) RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(what_came_before_a_connect_is_still_there) {
    a = bound(0);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 5, .count = 2);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "of the peer", 0);
    settle();
    reap(fork_child("child", child_does_nothing));
    for (int i = 0; i < 4; i++) RECVFROM(a, 20, MSG_DONTWAIT);
}

SCRIPT(what_waits_at_one_device_is_still_there) {
    a = UDP();
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, INTERFACE, sizeof INTERFACE));
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    reap(fork_child("child", child_does_nothing));
    for (int i = 0; i < 3; i++) RECVFROM(a, 20, MSG_DONTWAIT);
}

static int child_closes(void) {
    CALL(close(a));
    RECV(a, 10, 0);
    return 0;
}

SCRIPT(child_closes_its_copy) {
    a = bound(0);
    reap(fork_child("child", child_closes));
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, 0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

static int child_waits_then_reads(void) {
    char byte;
    (void)!read(pipes[0], &byte, 1);
    RECV(a, 10, 0);
    return 0;
}

SCRIPT(parent_closes_and_the_child_serves) {
    a = bound(0);
    CALL(pipe(pipes));
    pid_t pid = fork_child("child", child_waits_then_reads);
    CALL(close(a));
    FAR_SENDS(.to = PORT(0), .size = 5);
    CALL(write(pipes[1], "x", 1));
    reap(pid);
}

static int child_makes_its_own(void) {
    b = bound(1);
    SENDTO(b, "own", V4(FAR, ECHO_PORT));
    RECV(b, 10, 0);
    CALL(close(b));
    return 0;
}

SCRIPT(child_makes_sockets_of_its_own) {
    a = bound(0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    reap(fork_child("child", child_makes_its_own));
    b = bound(1);
    FAR_SENDS(.to = PORT(1), .size = 5);
    RECV(b, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, 0);
}

static int child_while_parent_reads(void) {
    sleep_ms(30);
    SENDTO(a, "from child", V4(FAR, ECHO_PORT));
    return 0;
}

SCRIPT(parent_reads_while_the_child_sends) {
    a = bound(0);
    pid_t pid = fork_child("child", child_while_parent_reads);
    WAITS(30, RECV(a, 20, 0));
    reap(pid);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, 0);
}

static int child_counts(void) {
    char data[10];
    int count = 0;
    struct timeval time = { 0, 150000 };
    setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    while (recv(a, data, sizeof data, 0) > 0) count++;
    return count;
}

SCRIPT(both_read_and_nothing_is_lost) {
    a = bound(0);
    int number = reserve_stream("child");
    pid_t pid = fork();
    if (pid == 0) {
        use_stream(number);
        _exit(child_counts());
    }
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 60, .gap_us = 500, .after_ms = 20);
    int own = child_counts(), status;
    waitpid(pid, &status, 0);
    say("together %d", own + WEXITSTATUS(status));
}

static int child_waits_in_epoll(void) {
    EPOLL_WAIT(epoll_set, 10, 1000);
    RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(child_waits_in_an_inherited_set) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    reap(fork_child("child", child_waits_in_epoll));
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static int child_removes(void) {
    EPOLL_CTL(epoll_set, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll_set, b, EPOLLIN);
    return 0;
}

SCRIPT(child_changes_an_inherited_set) {
    a = bound(0), b = bound(1);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    reap(fork_child("child", child_removes));
    FAR_SENDS(.to = PORT(0), .size = 3);
    FAR_SENDS(.to = PORT(1), .size = 3);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static int child_connects(void) {
    CALL(connect(a, V4(FAR, PORT(5))));
    return 0;
}

SCRIPT(child_changes_the_socket) {
    a = bound(0);
    reap(fork_child("child", child_connects));
    GETPEERNAME(a);
    FAR_SENDS(.from = PORT(6), .to = PORT(0), .size = 3);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

static int grandchild(void) {
    SENDTO(a, "grandchild", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
    return 0;
}

static int child_forks(void) {
    reap(fork_child("grandchild", grandchild));
    SENDTO(a, "child", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
    return 0;
}

SCRIPT(grandchildren) {
    a = bound(0);
    reap(fork_child("child", child_forks));
    SENDTO(a, "parent", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
}

SCRIPT(killed_child_leaves_the_parent_alone) {
    a = bound(0);
    int number = reserve_stream("child");
    pid_t pid = fork();
    if (pid == 0) {
        use_stream(number);
        char data[10];
        (void)!recv(a, data, sizeof data, 0);
        _exit(0);
    }
    let_it_wait();
    kill(pid, SIGKILL);
    reap(pid);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(vfork_and_exit) {
    a = bound(0);
    pid_t pid = vfork();
    if (pid == 0) _exit(5);
    reap(pid);
    SENDTO(a, "parent", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
}

static void *fork_in_thread(void *unused) {
    reap(fork_child("child of the thread", child_echoes));
    return unused;
}

SCRIPT(a_thread_forks) {
    a = bound(0);
    struct thread *thread = start_thread("thread", fork_in_thread, NULL);
    join_thread(thread);
    SENDTO(a, "parent", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
}

static int become_daemon(void) {
    int number = reserve_stream("daemon");
    CALL(daemon(1, 1));
    use_stream(number);
    SENDTO(a, "daemon", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
    (void)!write(pipes[1], "x", 1);
    return 0;
}

SCRIPT(daemon_keeps_its_socket) {
    a = bound(0);
    CALL(pipe(pipes));
    /* daemon(3) ends the child with its own exit; the daemon says through the pipe that it is done. */
    reap(fork_child("child", become_daemon));
    char byte;
    CALL(close(pipes[1]));
    CALL(read(pipes[0], &byte, 1));
}

static int child_reads_queued_from(void) {
    RECVFROM(a, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(child_reads_what_was_queued_v6) {
    a = bound6(0);
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 5, .count = 3);
    RECVFROM(a, 10, 0);
    reap(fork_child("child", child_reads_queued_from));
    RECVFROM(a, 10, MSG_DONTWAIT);
    RECVFROM(a, 10, MSG_DONTWAIT);
}

static int child_ends(void) { return 0; }

SCRIPT(order_and_hops_are_kept) {
    a = bound(0);
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    SET(a, IPPROTO_IP, IP_RECVTOS, 1);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 3, .ttl = 33, .tos = 8);
    RECVMSG(a, 10, 100, 0);
    reap(fork_child("child", child_ends));
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 2, .letter = 'x');
    for (int i = 0; i < 5; i++) RECVMSG(a, 10, 100, MSG_DONTWAIT);
}

SCRIPT(packet_information_is_kept) {
    a = bound(0);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    FAR_SENDS(.to = PORT(0), .size = 5, .count = 2);
    RECVMSG(a, 10, 100, 0);
    reap(fork_child("child", child_ends));
    RECVMSG(a, 10, 100, MSG_DONTWAIT);
}

static int child_of_clone(int number, int (*function)(void)) {
    pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        use_stream(number);
        _exit(function());
    }
    return pid;
}

SCRIPT(clone_by_syscall) {
    a = bound(0);
    SENDTO(a, "before", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
    reap(child_of_clone(reserve_stream("child"), child_echoes));
    SENDTO(a, "parent", V4(FAR, ECHO_PORT));
    RECV(a, 20, 0);
}

static int child_sets_option(void) {
    SET(a, SOL_SOCKET, SO_RCVBUF, 20000);
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    return 0;
}

SCRIPT(child_sets_options) {
    a = bound(0);
    reap(fork_child("child", child_sets_option));
    RECV(a, 10, 0);
    GET(a, SOL_SOCKET, SO_RCVBUF);
}

static int child_modifies_a_one_shot(void) {
    EPOLL_WAIT(epoll_set, 10, 0);
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll_set, 10, 1000);
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    return 0;
}

static void one_shot_tells(void) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, 0);
}

SCRIPT(one_shot_that_told_is_the_childs_too) {
    one_shot_tells();
    reap(fork_child("child", child_modifies_a_one_shot));
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 6);
    EPOLL_WAIT(epoll_set, 10, 0);
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll_set, 10, 1000);
    EPOLL_WAIT(epoll_set, 10, 0);
}

SCRIPT(one_shot_that_told_and_the_parent_deletes) {
    one_shot_tells();
    reap(fork_child("child", child_modifies_a_one_shot));
    EPOLL_CTL(epoll_set, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(epoll_set, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 6);
    EPOLL_WAIT(epoll_set, 10, 1000);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static int child_is_told_and_reads_nothing(void) {
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll_set, 10, 1000);
    EPOLL_WAIT(epoll_set, 10, 0);
    return 0;
}

SCRIPT(one_shot_that_told_the_child_tells_the_parent_nothing) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLONESHOT);
    reap(fork_child("child", child_is_told_and_reads_nothing));
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 0);
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll_set, 10, 1000);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static int child_wants_room_only(void) {
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLOUT);
    EPOLL_WAIT(epoll_set, 10, 0);
    return 0;
}

SCRIPT(changed_by_a_child_it_stays_so_for_the_parent) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    reap(fork_child("child", child_wants_room_only));
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

static int child_waits_then_is_told(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[3], "d", 1));
    CALL(read(pipes[0], &byte, 1));
    return 0;
}

SCRIPT(changed_by_the_parent_before_a_child_looks_it_is_told_of_as_asked) {
    char byte;
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t child = fork_child("child", child_waits_then_is_told);
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 300);
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "e", 1));
    reap(child);
}

static int child_closes_the_set_and_reads(void) {
    CALL(close(epoll_set));
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, 0);
    return 0;
}

SCRIPT(child_that_closed_the_set_reads_and_the_parent_is_told_of_the_next) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    reap(fork_child("child", child_closes_the_set_and_reads));
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 300);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(deleted_by_the_parent_before_a_child_looks_it_is_told_of_no_more) {
    char byte;
    a = bound(0), b = bound(1);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN);
    EPOLL_ADD(epoll_set, b, EPOLLIN);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t child = fork_child("child", child_waits_then_is_told);
    EPOLL_CTL(epoll_set, EPOLL_CTL_DEL, a, 0);
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    FAR_SENDS(.to = PORT(1), .size = 6);
    EPOLL_WAIT(epoll_set, 10, 300);
    CALL(write(pipes[1], "e", 1));
    reap(child);
}

static int child_is_told_of_the_set(void) {
    EPOLL_WAIT(epoll_set, 10, 0);
    return 0;
}

static int child_is_told_and_reads_one(void) {
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll_set, 10, 0);
    return 0;
}

static int child_peeks(void) {
    RECV(a, 10, MSG_DONTWAIT | MSG_PEEK);
    return 0;
}

static int child_waits_and_is_told(void) {
    char byte;
    CALL(read(pipes[0], &byte, 1));
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll_set, 10, 0);
    return 0;
}

/* Two datagrams wait that an edge-triggered set has told of. */
static void edge_tells_of_two(void) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(epoll_set, 10, 0);
    EPOLL_WAIT(epoll_set, 10, 0);
}

static void edge_tells_of_the_next_alone(void) {
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 300);
    EPOLL_WAIT(epoll_set, 10, 0);
    for (int i = 0; i < 3; i++) RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(edge_told_before_a_fork_is_not_told_again) {
    edge_tells_of_two();
    reap(fork_child("child", child_does_nothing));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_told_before_a_fork_is_not_told_to_the_child) {
    edge_tells_of_two();
    reap(fork_child("child", child_is_told_of_the_set));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_told_before_a_fork_and_the_child_reads) {
    edge_tells_of_two();
    reap(fork_child("child", child_is_told_and_reads_one));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_told_before_a_fork_and_the_child_reads_at_once) {
    edge_tells_of_two();
    reap(fork_child("child", child_reads_queued));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_told_before_a_fork_and_the_child_peeks) {
    edge_tells_of_two();
    reap(fork_child("child", child_peeks));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_told_before_a_fork_and_the_parent_closes) {
    edge_tells_of_two();
    CALL(pipe(pipes));
    pid_t child = fork_child("child", child_waits_and_is_told);
    CALL(close(a));
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "g", 1));
    reap(child);
    EPOLL_WAIT(epoll_set, 10, 0);
}

SCRIPT(edge_told_after_a_fork_and_the_parent_closes) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    CALL(pipe(pipes));
    pid_t child = fork_child("child", child_waits_and_is_told);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(close(a));
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "g", 1));
    reap(child);
    EPOLL_WAIT(epoll_set, 10, 0);
}

SCRIPT(edge_told_before_a_second_fork_is_not_told_again) {
    edge_tells_of_two();
    reap(fork_child("child", child_does_nothing));
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll_set, 10, 0);
    reap(fork_child("second", child_does_nothing));
    edge_tells_of_the_next_alone();
}

/* UDP_SEGMENT is for the kernel alone. */
SCRIPT(edge_told_before_the_kernel_takes_the_socket_and_a_fork) {
    int bytes = 12;
    edge_tells_of_two();
    CALL(setsockopt(a, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes));
    reap(fork_child("child", child_does_nothing));
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_not_told_before_a_fork_is_told_once) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    reap(fork_child("child", child_does_nothing));
    EPOLL_WAIT(epoll_set, 10, 0);
    edge_tells_of_the_next_alone();
}

SCRIPT(edge_not_told_before_a_fork_is_told_to_the_child) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    reap(fork_child("child", child_is_told_and_reads_one));
    edge_tells_of_the_next_alone();
}

/* What comes since the fork is news to both, whatever the set has told before. */
SCRIPT(edge_told_before_a_fork_tells_the_child_of_the_next) {
    edge_tells_of_two();
    CALL(pipe(pipes));
    pid_t child = fork_child("child", child_waits_and_is_told);
    FAR_SENDS(.to = PORT(0), .size = 5);
    CALL(write(pipes[1], "g", 1));
    reap(child);
    EPOLL_WAIT(epoll_set, 10, 0);
    for (int i = 0; i < 3; i++) RECV(a, 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll_set, 10, 0);
}

/* The parent has the datagrams when the child takes the socket. */
SCRIPT(edge_told_after_a_fork_and_the_child_waits_too) {
    char byte;
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    CALL(pipe(pipes));
    CALL(pipe(pipes + 2));
    pid_t child = fork_child("child", child_waits_then_is_told);
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(epoll_set, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(write(pipes[1], "g", 1));
    CALL(read(pipes[2], &byte, 1));
    EPOLL_WAIT(epoll_set, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    EPOLL_WAIT(epoll_set, 10, 300);
    EPOLL_WAIT(epoll_set, 10, 0);
    CALL(write(pipes[1], "e", 1));
    reap(child);
}

/* Others of the set tell what they would have told: edge-triggered, one-shot and level-triggered ones. */
SCRIPT(edge_told_before_a_fork_beside_others_in_the_set) {
    int other[4];
    a = bound(0), b = bound(1);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLOUT | EPOLLET);
    EPOLL_ADD(epoll_set, b, EPOLLIN | EPOLLOUT | EPOLLET);
    for (int i = 0; i < 4; i++) other[i] = CALL(eventfd(0, EFD_NONBLOCK));
    EPOLL_ADD(epoll_set, other[0], EPOLLIN | EPOLLET);
    EPOLL_ADD(epoll_set, other[1], EPOLLIN | EPOLLONESHOT);
    EPOLL_ADD(epoll_set, other[2], EPOLLIN);
    EPOLL_ADD(epoll_set, other[3], EPOLLIN | EPOLLET);
    epoll_and_show_sorted(epoll_set, "first");
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    eventfd_write(other[3], 1);
    epoll_and_show_sorted(epoll_set, "told");
    for (int i = 0; i < 3; i++) eventfd_write(other[i], 1);
    reap(fork_child("child", child_reads_both));
    epoll_and_show_sorted(epoll_set, "after the fork");
    epoll_and_show_sorted(epoll_set, "again");
    FAR_SENDS(.to = PORT(0), .size = 4);
    FAR_SENDS(.to = PORT(1), .size = 4);
    epoll_and_show_sorted(epoll_set, "the next");
}

SCRIPT(edge_told_of_room_before_a_fork) {
    a = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLOUT | EPOLLET);
    EPOLL_WAIT(epoll_set, 10, 0);
    reap(fork_child("child", child_is_told_and_reads_one));
    edge_tells_of_the_next_alone();
}

/* UDP_SEGMENT is for the kernel alone. */
SCRIPT(edge_told_of_what_came_from_this_host_before_the_kernel_takes_the_socket) {
    int bytes = 12;
    a = bound(0), b = bound(1);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, a, EPOLLIN | EPOLLET);
    EPOLL_WAIT(epoll_set, 10, 0);
    SENDTO(b, "abc", V4(NEAR, PORT(0)));
    settle();
    EPOLL_WAIT(epoll_set, 10, 300);
    CALL(setsockopt(a, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes));
    edge_tells_of_the_next_alone();
}
