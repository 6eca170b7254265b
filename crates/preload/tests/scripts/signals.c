/* Signals that arrive while a call waits, and from handlers that make calls. */
#include "script.h"

#include <setjmp.h>
#include <stdatomic.h>

static int shared, count;

static void on_signal(int number) { say("signal %d, number %d", number, ++count); }

SCRIPT(interrupts_receive) {
    int a = bound(0);
    handle(SIGALRM, on_signal, 0);
    alarm_in_ms(30);
    WAITS(30, RECV(a, 10, 0));
    alarm_in_ms(30);
    WAITS(30, RECVMSG(a, 10, 100, 0));
    alarm_in_ms(30);
    WAITS(30, READ(a, 10));
}

SCRIPT(restarts_receive) {
    int a = bound(0);
    handle(SIGALRM, on_signal, SA_RESTART);
    alarm_in_ms(20);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 60);
    WAITS(60, RECV(a, 10, 0));
}

SCRIPT(receive_with_a_timeout_is_never_restarted) {
    int a = bound(0);
    struct timeval time = { 1, 0 };
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    handle(SIGALRM, on_signal, SA_RESTART);
    alarm_in_ms(30);
    WAITS(30, RECV(a, 10, 0));
}

SCRIPT(poll_is_never_restarted) {
    int a = bound(0), epoll = EPOLL();
    handle(SIGALRM, on_signal, SA_RESTART);
    alarm_in_ms(30);
    WAITS(30, POLL(1000, { a, POLLIN, 0 }));
    alarm_in_ms(30);
    WAITS(30, SELECT(1000, READS(a), WRITES(), EXCEPTS()));
    EPOLL_ADD(epoll, a, EPOLLIN);
    alarm_in_ms(30);
    WAITS(30, EPOLL_WAIT(epoll, 10, 1000));
    alarm_in_ms(30);
    WAITS(30, EPOLL_WAIT(epoll, 10, -1));
}

SCRIPT(ignored_signals_interrupt_nothing) {
    int a = bound(0);
    signal(SIGALRM, SIG_IGN);
    alarm_in_ms(20);
    WAITS(60, POLL(60, { a, POLLIN, 0 }));
    alarm_in_ms(20);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 50);
    WAITS(50, RECV(a, 10, 0));
}

static void on_signal_receive(int number) {
    int errno_before = errno;
    say("signal %d", number);
    RECV(shared, 10, MSG_DONTWAIT);
    errno = errno_before;
}

SCRIPT(handler_receives_from_the_same_socket) {
    shared = bound(0);
    handle(SIGALRM, on_signal_receive, 0);
    alarm_in_ms(30);
    WAITS(30, RECV(shared, 10, 0));
    FAR_SENDS(.to = PORT(0), .size = 3);
    raise(SIGALRM);
    RECV(shared, 10, MSG_DONTWAIT);
}

static void on_signal_send(int number) {
    int errno_before = errno;
    say("signal %d", number);
    CALL(sendto(shared, "handler", 7, 0, V4(FAR, ECHO_PORT)));
    errno = errno_before;
}

SCRIPT(handler_sends_and_the_call_goes_on) {
    shared = bound(0);
    handle(SIGALRM, on_signal_send, SA_RESTART);
    alarm_in_ms(30);
    WAITS(30, RECV(shared, 10, 0));
}

static void on_signal_close(int number) {
    int errno_before = errno;
    say("signal %d", number);
    CALL(close(shared));
    errno = errno_before;
}

SCRIPT(handler_closes_the_socket) {
    shared = bound(0);
    handle(SIGALRM, on_signal_close, 0);
    alarm_in_ms(30);
    WAITS(30, RECV(shared, 10, 0));
    RECV(shared, 10, 0);
    shared = bound(0);
    handle(SIGALRM, on_signal_close, SA_RESTART);
    alarm_in_ms(30);
    WAITS(30, RECV(shared, 10, 0));
}

static void on_signal_open(int number) {
    int errno_before = errno;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    say("signal %d, new socket %d", number, fd);
    CALL(bind(fd, V4(NEAR, PORT(1))));
    CALL(close(fd));
    errno = errno_before;
}

SCRIPT(handler_opens_and_closes) {
    shared = bound(0);
    handle(SIGALRM, on_signal_open, SA_RESTART);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 100);
    alarm_in_ms(20);
    WAITS(100, RECV(shared, 10, 0));
}

static sigjmp_buf back;

static void on_signal_jump(int number) { siglongjmp(back, number); }

SCRIPT(handler_jumps_out_of_receive) {
    shared = bound(0);
    handle(SIGALRM, on_signal_jump, 0);
    if (sigsetjmp(back, 1) == 0) {
        alarm_in_ms(30);
        RECV(shared, 10, 0);
    }
    say("jumped");
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
    SENDTO(shared, "x", V4(FAR, ECHO_PORT));
    RECV(shared, 10, 0);
}

SCRIPT(many_signals_while_echoing) {
    shared = bound(0);
    handle(SIGALRM, no_signal, SA_RESTART);
    int good = 0;
    alarm_every_us(300);
    char data[10];
    for (int i = 0; i < 200; i++) {
        if (sendto(shared, "x", 1, 0, V4(FAR, ECHO_PORT)) == 1 && recv(shared, data, 10, 0) == 1) good++;
    }
    alarm_every_us(0);
    say("%d good", good);
}

static volatile int handled;

static void on_signal_echo(int number) {
    int errno_before = errno;
    (void)number;
    char data[10];
    (void)!sendto(shared, "h", 1, MSG_DONTWAIT, V4(FAR, ECHO_PORT + 1));
    (void)!recv(shared + 1, data, sizeof data, MSG_DONTWAIT);
    handled = handled + 1;
    alarm_again();
    errno = errno_before;
}

SCRIPT(handlers_call_in_the_middle_of_calls) {
    shared = bound(0);
    bound(1);
    int mine = bound(2), good = 0;
    handle(SIGALRM, on_signal_echo, SA_RESTART);
    alarms_us_apart(300);
    char data[10];
    for (int i = 0; i < 500; i++) {
        if (sendto(mine, "x", 1, 0, V4(FAR, ECHO_PORT)) == 1 && recv(mine, data, 10, 0) == 1) good++;
    }
    alarms_us_apart(0);
    say("%d good, handled some: %d", good, handled > 0);
}

static void *wait_for_it(void *unused) {
    WAITS(20, RECV(shared, 10, 0));
    return unused;
}

SCRIPT(a_signal_to_one_thread) {
    shared = bound(0);
    handle(SIGUSR1, on_signal, 0);
    struct thread *thread = start_thread("thread", wait_for_it, NULL);
    let_it_wait();
    pthread_kill(thread_id(thread), SIGUSR1);
    join_thread(thread);
}

SCRIPT(sigio_tells_of_data) {
    shared = bound(0);
    handle(SIGIO, on_signal, 0);
    CALL(fcntl(shared, F_SETOWN, getpid()));
    CALL(fcntl(shared, F_SETFL, O_ASYNC | O_NONBLOCK));
    FAR_SENDS(.to = PORT(0), .size = 3);
    say("signals: %d", count);
    RECV(shared, 10, 0);
}

SCRIPT(stopped_and_continued) {
    shared = bound(0);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        sleep_ms(20);
        kill(parent, SIGSTOP);
        sleep_ms(20);
        kill(parent, SIGCONT);
        _exit(0);
    }
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 80);
    WAITS(80, RECV(shared, 10, 0));
    reap(pid);
}

#define STOPPED_ROUNDS 20
#define STOPPED_MS 60

/* When the present round began, 0 between two, and whether the program was stopped too late in it. */
static struct rounds_of_child {
    atomic_long began_us;
    atomic_int is_late;
} *of_child;

/* Stops the program when it has begun to wait, and goes on with it when its time is over. A datagram comes in between. */
static void stop_in_each_round(pid_t program) {
    struct peer_request request = { .command = PEER_SEND, .to = PORT(0), .size = 3 };
    for (int i = 0; i < rounds(STOPPED_ROUNDS); i++) {
        while (of_child->began_us == 0) sleep_ms(1);
        long began_us = of_child->began_us;
        kill(program, SIGSTOP);
        of_child->is_late = now_us() - began_us > 1000 * STOPPED_MS / 2;
        far_asks(&request);
        sleep_ms(STOPPED_MS + 10);
        of_child->began_us = 0;
        kill(program, SIGCONT);
    }
}

SCRIPT(time_over_while_stopped_tells_what_came_before) {
    int missed = 0;
    char data[10];
    of_child = mmap(NULL, sizeof *of_child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t program = getpid(), pid = fork();
    if (pid == 0) {
        stop_in_each_round(program);
        _exit(0);
    }
    shared = bound(0);
    for (int i = 0; i < rounds(STOPPED_ROUNDS); i++) {
        struct pollfd readable = { shared, POLLIN, 0 };
        of_child->began_us = now_us();
        int got = poll(&readable, 1, STOPPED_MS);
        while (of_child->began_us) sleep_ms(1);
        missed += got != 1 && !of_child->is_late;
        (void)!recv(shared, data, sizeof data, 0);
    }
    say("%d missed", missed);
    reap(pid);
}

/* Programs whose handlers only set a flag look at it before each wait. A signal that comes in between is lost on the kernel too, but that is a
   few instructions: what a library does in the call before it waits must not be as well. */
enum { TURNS = 500, LOST_NS = 10000000 };
static long spread_ns;
static atomic_int turn, answered;
static volatile sig_atomic_t flag;
static pthread_t waiter;

static void sets_a_flag(int number) {
    (void)number;
    flag = 1;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *signals_each_turn(void *argument) {
    (void)argument;
    unsigned random = 12345;
    for (int i = 1; i <= TURNS; i++) {
        while (atomic_load(&turn) < i) continue;
        random = random * 1664525 + 1013904223;
        for (long until = now_ns() + random / 7 % spread_ns; now_ns() < until;) continue;
        pthread_kill(waiter, SIGUSR1);
        for (long until = now_ns() + LOST_NS; atomic_load(&answered) < i;) {
            if (now_ns() > until) {
                pthread_kill(waiter, SIGUSR1);
                until += LOST_NS;
            }
        }
    }
    return NULL;
}

static void waits_with_a_flag(const char *how, int set) {
    int lost = 0;
    struct epoll_event event;
    /* While a call begins. */
    long begun = now_ns();
    for (int i = 0; i < 100; i++) epoll_wait(set, &event, 1, 0);
    spread_ns = 1000 + (now_ns() - begun) / 100 / 2;
    atomic_store(&turn, 0);
    atomic_store(&answered, 0);
    struct thread *thread = start_thread("signals", signals_each_turn, NULL);
    for (int i = 1; i <= TURNS; i++) {
        begun = now_ns();
        flag = 0;
        atomic_store(&turn, i);
        while (!flag) epoll_wait(set, &event, 1, -1);
        lost += now_ns() - begun > LOST_NS;
        atomic_store(&answered, i);
    }
    join_thread(thread);
    if (lost > TURNS / 20) say("%s: %d of %d are lost", how, lost, TURNS);
    say("%s: done", how);
}

SCRIPT(handler_sets_a_flag_before_the_call_waits) {
    int a = bound(0), pipes[2], plain = EPOLL(), followed = EPOLL();
    handle(SIGUSR1, sets_a_flag, 0);
    waiter = pthread_self();
    CALL(pipe(pipes));
    EPOLL_ADD(plain, pipes[0], EPOLLIN);
    EPOLL_ADD(followed, a, EPOLLIN);
    waits_with_a_flag("a set of a pipe", plain);
    waits_with_a_flag("a set of a socket", followed);
}
