/* Handlers that leave a call by siglongjmp. The call is left as if it had never been made. */
#include "script.h"

#include <setjmp.h>

static int shared;
static sigjmp_buf back;

static void on_signal_jump(int number) { siglongjmp(back, number); }

static void jump_in_us(int us) {
    handle(SIGALRM, on_signal_jump, 0);
    struct itimerval time = { .it_value = { 0, us } };
    setitimer(ITIMER_REAL, &time, NULL);
}

/* Leaves the statement by a jump after so many microseconds. */
#define LEAVE(us, statement)               \
    do {                                   \
        if (sigsetjmp(back, 1) == 0) {     \
            jump_in_us(us);                \
            statement;                     \
            say("came back");              \
        }                                  \
    } while (0)

static void goes_on(void) {
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, MSG_DONTWAIT);
    SENDTO(shared, "x", V4(FAR, ECHO_PORT));
    RECV(shared, 10, 0);
}

static void *other_thread(void *unused) {
    goes_on();
    int fd = bound(1);
    SENDTO(fd, "y", V4(FAR, ECHO_PORT));
    RECV(fd, 10, 0);
    CALL(close(fd));
    return unused;
}

static void port_is_free(void) {
    CALL(close(shared));
    shared = bound(0);
    goes_on();
}

SCRIPT(out_of_a_receive_soon) {
    char data[10];
    shared = bound(0);
    for (volatile int i = 0; i < 40; i++) LEAVE(20 + 10 * i, recv(shared, data, 10, 0));
    goes_on();
    join_thread(start_thread("thread", other_thread, NULL));
    port_is_free();
}

SCRIPT(out_of_a_receive_late) {
    char data[10];
    shared = bound(0);
    for (volatile int i = 0; i < 3; i++) LEAVE(30000, recv(shared, data, 10, 0));
    goes_on();
    join_thread(start_thread("thread", other_thread, NULL));
    port_is_free();
}

SCRIPT(out_of_a_receive_and_closed) {
    char data[10];
    for (volatile int i = 0; i < 6; i++) {
        shared = bound(0);
        LEAVE(i % 2 ? 100 : 10000, recv(shared, data, 10, 0));
        CALL(close(shared));
    }
    shared = bound(0);
    goes_on();
    port_is_free();
}

SCRIPT(out_of_calls_of_the_poll_family) {
    char data[10];
    shared = bound(0);
    int epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    for (volatile int i = 0; i < 4; i++) {
        volatile int us = i % 2 ? 100 : 10000;
        struct pollfd one = { shared, POLLIN, 0 };
        struct epoll_event event;
        struct iovec part = { data, 10 };
        struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
        fd_set set;
        FD_ZERO(&set);
        FD_SET(shared, &set);
        LEAVE(us, poll(&one, 1, -1));
        LEAVE(us, select(shared + 1, &set, NULL, NULL, NULL));
        LEAVE(us, epoll_wait(epoll, &event, 1, -1));
        LEAVE(us, recvmmsg(shared, &message, 1, 0, NULL));
    }
    goes_on();
    EPOLL_WAIT(epoll, 10, 0);
    join_thread(start_thread("thread", other_thread, NULL));
    CALL(close(epoll));
    port_is_free();
}

SCRIPT(out_of_a_wait_for_a_set_that_a_socket_comes_into) {
    int ends[2];
    CALL(pipe(ends));
    int epoll = EPOLL();
    EPOLL_ADD(epoll, ends[0], EPOLLIN);
    struct epoll_event event;
    shared = bound(0);
    for (volatile int i = 0; i < 4; i++) LEAVE(i % 2 ? 100 : 10000, epoll_wait(epoll, &event, 1, -1));
    EPOLL_ADD(epoll, shared, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 20);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 1000);
    goes_on();
    CALL(epoll_ctl(epoll, EPOLL_CTL_DEL, shared, NULL));
    WAITS(20, EPOLL_WAIT(epoll, 10, 20));
}

/* A pointer that points nowhere: EFAULT of the kernel, SIGSEGV of a library. Whoever was interrupted, others go on. */
static void out_of_faults(int on_alternate_stack) {
    static char alternate[65536];
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
    char data[10];
    shared = bound(0);
    if (on_alternate_stack) CALL(sigaltstack(&stack, NULL));
    handle(SIGSEGV, on_signal_jump, on_alternate_stack ? SA_ONSTACK : 0);
    for (volatile int i = 0; i < 3; i++) {
        FAR_SENDS(.to = PORT(0), .size = 3);
        if (sigsetjmp(back, 1) == 0) recv(shared, no_memory(), 10, MSG_DONTWAIT);
        if (sigsetjmp(back, 1) == 0) sendto(shared, no_memory(), 10, 0, V4(FAR, ECHO_PORT));
        while (recv(shared, data, 10, MSG_DONTWAIT) >= 0) {}
        join_thread(start_thread("thread", other_thread, NULL));
        goes_on();
        LEAVE(100, recv(shared, data, 10, 0));
    }
    port_is_free();
}

/* What waited is gone with the jump, and the set with the close: the next one of that number is a new one. */
SCRIPT(out_of_a_wait_for_a_set_that_is_closed) {
    struct epoll_event event;
    int first = EPOLL();
    LEAVE(3000, epoll_wait(first, &event, 1, -1));
    CALL(close(first));
    int other = bound(1), second = EPOLL();
    EPOLL_ADD(second, other, EPOLLIN);
    POLL(0, { second, POLLIN, 0 });
    EPOLL_WAIT(second, 1, 0);
    FAR_SENDS(.to = PORT(1), .size = 3);
    POLL(0, { second, POLLIN, 0 });
    EPOLL_WAIT(second, 2, 0);
    RECV(other, 10, MSG_DONTWAIT);
}

SCRIPT(out_of_faults_in_calls) {
    out_of_faults(0);
}

SCRIPT(out_of_faults_in_calls_by_another_stack) {
    out_of_faults(1);
}

SCRIPT(out_of_sends) {
    shared = bound(0);
    for (volatile int i = 0; i < 100; i++) LEAVE(20 + i, ({ while (1) sendto(shared, "x", 1, 0, V4(FAR, PORT(9))); }));
    settle();
    while (recv(shared, (char[10]){ 0 }, 10, MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED) {}
    goes_on();
    join_thread(start_thread("thread", other_thread, NULL));
    port_is_free();
}

SCRIPT(out_of_opens_and_closes) {
    shared = bound(0);
    for (volatile int i = 0; i < 10; i++) {
        volatile int fd = -1;
        LEAVE(3000 + 400 * i, ({
            while (1) {
                fd = socket(AF_INET, SOCK_DGRAM, 0);
                bind(fd, V4(NEAR, PORT(2)));
                close(fd);
                fd = -1;
            }
        }));
        if (fd >= 0) close(fd);
    }
    goes_on();
    join_thread(start_thread("thread", other_thread, NULL));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    say("port free again %d", bind(fd, V4(NEAR, PORT(2))) == 0);
    port_is_free();
}

static volatile int may_jump, signals_end;

static void on_signal_jump_if_it_may(int number) {
    (void)number;
    if (!may_jump) return;
    may_jump = 0;
    siglongjmp(back, 1);
}

static void *send_signals(void *main_thread) {
    while (!signals_end) {
        if (may_jump) pthread_kill((pthread_t)main_thread, SIGALRM);
    }
    return NULL;
}

/* The first call of each name, of what is no socket. */
static void call_name(int which) {
    static char data[10];
    static struct iovec part = { data, 10 };
    static struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    static struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
    static struct epoll_event event;
    struct timespec now = { 0, 0 };
    struct timeval at_once = { 0, 0 };
    struct pollfd none = { -1, 0, 0 };
    switch (which) {
    case 0: recv(-1, data, 10, 0); break;
    case 1: recvfrom(-1, data, 10, 0, NULL, NULL); break;
    case 2: recvmsg(-1, &header, 0); break;
    case 3: recvmmsg(-1, &message, 1, 0, NULL); break;
    case 4: send(-1, data, 10, 0); break;
    case 5: sendto(-1, data, 10, 0, NULL, 0); break;
    case 6: sendmsg(-1, &header, 0); break;
    case 7: sendmmsg(-1, &message, 1, 0); break;
    case 8: readv(-1, &part, 1); break;
    case 9: writev(-1, &part, 1); break;
    case 10: poll(&none, 1, 0); break;
    case 11: ppoll(&none, 1, &now, NULL); break;
    case 12: select(0, NULL, NULL, NULL, &at_once); break;
    case 13: pselect(0, NULL, NULL, NULL, &now, NULL); break;
    case 14: epoll_wait(-1, &event, 1, 0); break;
    case 15: epoll_pwait(-1, &event, 1, 0, NULL); break;
    case 16: shutdown(-1, 0); break;
    case 17: ioctl(-1, FIONREAD, data); break;
    case 18: dup(-1); break;
    case 19: dup2(-1, 5); break;
    case 20: dup3(-1, 5, 0); break;
    case 21: getsockopt(-1, 0, 0, NULL, NULL); break;
    case 22: setsockopt(-1, 0, 0, NULL, 0); break;
    case 23: connect(-1, NULL, 0); break;
    }
}

static void *calls_another_name(void *unused) {
    struct epoll_event event;
    epoll_pwait2(-1, &event, 1, NULL, NULL);
    return unused;
}

static int leave_first_calls(void) {
    pthread_t sender, thread;
    handle(SIGALRM, on_signal_jump_if_it_may, 0);
    if (pthread_create(&sender, NULL, send_signals, (void *)pthread_self()) != 0) abort();
    for (volatile int i = 0; i < 24; i++) {
        if (sigsetjmp(back, 1) != 0) continue;
        may_jump = 1;
        call_name(i);
        /* A jump leaves it here, if not before. */
        while (1) {}
    }
    signals_end = 1;
    pthread_join(sender, NULL);
    if (pthread_create(&thread, NULL, calls_another_name, NULL) != 0) abort();
    pthread_join(thread, NULL);
    return 0;
}

/* A handler can come in the moment in which a name is looked for once in the life of a process, so there are several. */
SCRIPT(out_of_the_first_call_of_a_name) {
    for (int i = 0; i < 40; i++) reap(fork_child("child", leave_first_calls));
}
