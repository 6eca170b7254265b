/* pthread_cancel of a thread in each call that is a cancellation point. */
#include "script.h"

static int shared, epoll;
static volatile int began;

static void clean_up(void *text) { say("cleaned up: %s", (const char *)text); }

static long in_recv(void) { char data[10]; return recv(shared, data, 10, 0); }
static long in_recvfrom(void) {
    char data[10];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    return recvfrom(shared, data, 10, 0, (struct sockaddr *)&from, &length);
}
static long in_read(void) { char data[10]; return read(shared, data, 10); }
static long in_recvmsg(void) {
    char data[10];
    struct iovec part = { data, 10 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    return recvmsg(shared, &message, 0);
}
static long in_recvmmsg(void) {
    char data[10];
    struct iovec part = { data, 10 };
    struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
    return recvmmsg(shared, &message, 1, 0, NULL);
}
static long in_poll(void) { struct pollfd one = { shared, POLLIN, 0 }; return poll(&one, 1, -1); }
static long in_ppoll(void) {
    struct pollfd one = { shared, POLLIN, 0 };
    sigset_t mask;
    sigfillset(&mask);
    return ppoll(&one, 1, NULL, &mask);
}
static long in_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(shared, &set);
    return select(shared + 1, &set, NULL, NULL, NULL);
}
static long in_pselect(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(shared, &set);
    sigset_t mask;
    sigemptyset(&mask);
    return pselect(shared + 1, &set, NULL, NULL, NULL, &mask);
}
static long in_epoll_wait(void) { struct epoll_event event; return epoll_wait(epoll, &event, 1, -1); }
static long in_epoll_pwait(void) {
    struct epoll_event event;
    sigset_t mask;
    sigemptyset(&mask);
    return epoll_pwait(epoll, &event, 1, -1, &mask);
}
static long in_sends(void) {
    while (1) sendto(shared, "x", 1, 0, V4(FAR, ECHO_PORT));
    return 0;
}
static long in_echoes(void) {
    char data[10];
    while (1) {
        sendto(shared, "x", 1, 0, V4(FAR, ECHO_PORT));
        recv(shared, data, 10, 0);
    }
    return 0;
}

static long (*wait_in)(void);

static void *waits(void *name) {
    pthread_cleanup_push(clean_up, name);
    began = 1;
    long result = wait_in();
    say("came back: %ld", result);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(const char *name, long (*call)(void), int after_ms) {
    wait_in = call;
    began = 0;
    struct thread *thread = start_thread(name, waits, (void *)name);
    while (!began) sched_yield();
    if (after_ms) sleep_ms(after_ms);
    CALL(pthread_cancel(thread_id(thread)));
    join_thread(thread);
}

/* The socket works, and its port is free when it is closed. */
static void goes_on(void) {
    settle();
    while (recv(shared, (char[10]){ 0 }, 10, MSG_DONTWAIT) >= 0) {}
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
    CALL(close(shared));
    shared = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
}

#define CANCEL(call, after_ms) cancel(#call, call, after_ms)

static void cancel_all(int after_ms) {
    CANCEL(in_recv, after_ms);
    CANCEL(in_recvfrom, after_ms);
    CANCEL(in_read, after_ms);
    CANCEL(in_recvmsg, after_ms);
    CANCEL(in_recvmmsg, after_ms);
    CANCEL(in_poll, after_ms);
    CANCEL(in_ppoll, after_ms);
    CANCEL(in_select, after_ms);
    CANCEL(in_pselect, after_ms);
    CANCEL(in_epoll_wait, after_ms);
    CANCEL(in_epoll_pwait, after_ms);
}

SCRIPT(calls_that_wait) {
    shared = bound(0);
    epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    cancel_all(20);
    goes_on();
}

SCRIPT(calls_that_begin_to_wait) {
    shared = bound(0);
    epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    for (int i = 0; i < 3; i++) cancel_all(0);
    goes_on();
}

static void *waits_for_events(void *unused) {
    began = 1;
    in_epoll_wait();
    return unused;
}

/* At each moment of the call's first microseconds: it enters the library more than once before it waits. */
SCRIPT(epoll_wait_that_begins) {
    shared = bound(0);
    epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    int cancelled = 0;
    for (int turns = 0; turns < rounds(1500); turns++) {
        pthread_t thread;
        void *end;
        began = 0;
        pthread_create(&thread, NULL, waits_for_events, NULL);
        while (!began) {}
        for (volatile int turn = 0; turn < turns % 300; turn++) {}
        pthread_cancel(thread);
        pthread_join(thread, &end);
        cancelled += end == PTHREAD_CANCELED;
    }
    say("cancelled: %d", cancelled);
    goes_on();
}

/* Nothing of the library's is left in a set that a thread waited for when a socket came in. */
SCRIPT(wait_for_a_set_that_a_socket_comes_into) {
    shared = bound(0);
    int cancelled = 0, ready = 0;
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        void *end;
        struct epoll_event event = { .events = EPOLLIN };
        epoll = epoll_create1(0);
        began = 0;
        pthread_create(&thread, NULL, waits_for_events, NULL);
        while (!began) {}
        usleep(i % 2 ? 1000 : 0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, shared, &event);
        if (i % 5 == 0) usleep(20);
        pthread_cancel(thread);
        pthread_join(thread, &end);
        cancelled += end == PTHREAD_CANCELED;
        struct pollfd one = { epoll, POLLIN, 0 };
        ready += poll(&one, 1, 0);
        close(epoll);
    }
    say("cancelled: %d, ready: %d", cancelled, ready);
    goes_on();
}

static volatile int told;
static pid_t child;

static int ends_at_once(void) { return 0; }

static void *forks_when_told(void *unused) {
    began = 1;
    while (!told) {}
    child = fork_child("child", ends_at_once);
    say("forked");
    in_recv();
    say("not here");
    return unused;
}

/* fork is no cancellation point, whatever is done on the way. */
SCRIPT(cancelled_thread_that_forks) {
    for (int i = 0; i < 3; i++) {
        shared = bound(0);
        began = told = 0;
        struct thread *thread = start_thread("thread", forks_when_told, NULL);
        while (!began) sched_yield();
        CALL(pthread_cancel(thread_id(thread)));
        told = 1;
        join_thread(thread);
        reap(child);
        goes_on();
        CALL(close(shared));
    }
}

static void *cleans_up(void *unused) {
    (void)unused;
    say("ends");
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
    return NULL;
}

static void clean_up_with_calls(void *unused) { cleans_up(unused); }

static void *ends_at_any_time(void *unused) {
    int type;
    pthread_cleanup_push(clean_up_with_calls, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    began = 1;
    in_recv();
    say("not here");
    pthread_cleanup_pop(0);
    return unused;
}

SCRIPT(asynchronously_out_of_a_receive) {
    shared = bound(0);
    for (int after_ms = 0; after_ms < 40; after_ms += 20) {
        began = 0;
        struct thread *thread = start_thread("thread", ends_at_any_time, NULL);
        while (!began) sched_yield();
        if (after_ms) sleep_ms(after_ms);
        CALL(pthread_cancel(thread_id(thread)));
        join_thread(thread);
    }
    goes_on();
}

static void *waits_disabled_with_a_timeout(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    began = 1;
    WAITS(700, RECV(shared, 10, 0));
    return unused;
}

SCRIPT(disabled_its_timeout_goes_on) {
    shared = bound(0);
    struct timeval time = { 0, 700000 };
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    began = 0;
    struct thread *thread = start_thread("thread", waits_disabled_with_a_timeout, NULL);
    while (!began) sched_yield();
    sleep_ms(600);
    CALL(pthread_cancel(thread_id(thread)));
    join_thread(thread);
}

/* UDP_SEGMENT is for the kernel alone. */
SCRIPT(disabled_its_timeout_goes_on_when_the_kernel_has_the_socket) {
    shared = bound(0);
    struct timeval time = { 0, 700000 };
    int bytes = 12;
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    began = 0;
    struct thread *thread = start_thread("thread", waits_disabled_with_a_timeout, NULL);
    while (!began) sched_yield();
    sleep_ms(100);
    CALL(setsockopt(shared, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes));
    sleep_ms(500);
    CALL(pthread_cancel(thread_id(thread)));
    join_thread(thread);
}

SCRIPT(loops_that_send) {
    shared = bound(0);
    CANCEL(in_sends, 20);
    goes_on();
    CANCEL(in_echoes, 20);
    goes_on();
}

SCRIPT(calls_of_a_socket_of_the_kernels) {
    shared = CALL(socket(AF_INET, SOCK_DGRAM, 0));
    CALL(bind(shared, V4("127.0.0.1", PORT(0))));
    epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    cancel_all(10);
    CALL(close(shared));
    say("bound again %d", bound(0) >= 0);
}

static void *waits_disabled(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    began = 1;
    RECV(shared, 10, 0);
    WAITS(30, POLL(30, { shared, POLLIN, 0 }));
    SENDTO(shared, "x", V4(FAR, ECHO_PORT));
    RECV(shared, 10, 0);
    say("enabled");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    RECV(shared, 10, 0);
    say("not here");
    return unused;
}

SCRIPT(disabled_it_waits_until_it_is_enabled) {
    shared = bound(0);
    began = 0;
    struct thread *thread = start_thread("thread", waits_disabled, NULL);
    while (!began) sched_yield();
    sleep_ms(10);
    CALL(pthread_cancel(thread_id(thread)));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    join_thread(thread);
    goes_on();
}

static void *cancelled_before(void *unused) {
    while (!began) sched_yield();
    began = 2;
    RECV(shared, 10, MSG_DONTWAIT);
    say("not here");
    return unused;
}

SCRIPT(cancelled_before_the_call_it_takes_nothing) {
    shared = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    began = 0;
    struct thread *thread = start_thread("thread", cancelled_before, NULL);
    CALL(pthread_cancel(thread_id(thread)));
    began = 1;
    join_thread(thread);
    RECV(shared, 10, MSG_DONTWAIT);
    goes_on();
}

static void *two_wait(void *unused) {
    began++;
    in_recv();
    say("came back");
    return unused;
}

SCRIPT(another_that_waits_goes_on) {
    shared = bound(0);
    began = 0;
    struct thread *one = start_thread("one", two_wait, NULL), *two = start_thread("two", two_wait, NULL);
    while (began < 2) sched_yield();
    sleep_ms(20);
    CALL(pthread_cancel(thread_id(one)));
    join_thread(one);
    FAR_SENDS(.to = PORT(0), .size = 3);
    join_thread(two);
    goes_on();
}
