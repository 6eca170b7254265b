/* epoll(7), level-triggered. */
#include "script.h"

SCRIPT(readable_until_read) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    WAITS(0, EPOLL_WAIT(epoll, 10, 0));
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, -1);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(ready_before_it_is_added) {
    int a = bound(0), epoll = EPOLL();
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(every_wish) {
    int a = UDP(), b = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLOUT);
    EPOLL_ADD(epoll, b, EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDBAND | EPOLLWRBAND | EPOLLPRI | EPOLLRDHUP);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, b, EPOLLRDNORM);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(timeout) {
    int a = bound(0), epoll = EPOLL();
    WAITS(50, EPOLL_WAIT(epoll, 10, 50));
    EPOLL_ADD(epoll, a, EPOLLIN);
    WAITS(50, EPOLL_WAIT(epoll, 10, 50));
    WAITS(1, EPOLL_WAIT(epoll, 10, 1));
}

SCRIPT(wakes) {
    int a = bound(0), b = bound(1), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_ADD(epoll, b, EPOLLIN);
    FAR_SENDS(.to = PORT(1), .size = 3, .after_ms = 40);
    WAITS(40, EPOLL_WAIT(epoll, 10, 1000));
    RECV(b, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, EPOLL_WAIT(epoll, 10, -1));
    RECV(a, 10, 0);
}

SCRIPT(refused_controls) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_ADD(epoll, a, EPOLLOUT);
    EPOLL_CTL(epoll, 99, a, EPOLLIN);
    EPOLL_ADD(epoll, 99, EPOLLIN);
    EPOLL_ADD(99, a, EPOLLIN);
    EPOLL_ADD(a, epoll, EPOLLIN);
    EPOLL_ADD(epoll, epoll, EPOLLIN);
    EPOLL_ADD(-1, a, EPOLLIN);
    CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, a, NULL));
    CALL(epoll_ctl(epoll, EPOLL_CTL_MOD, a, no_memory()));
    CALL(epoll_ctl(epoll, EPOLL_CTL_DEL, a, NULL));
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    int file = CALL(open("/proc/self/exe", O_RDONLY));
    EPOLL_ADD(epoll, file, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(refused_waits) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_WAIT(epoll, 0, 0);
    EPOLL_WAIT(epoll, -1, 0);
    EPOLL_WAIT(a, 10, 0);
    EPOLL_WAIT(99, 10, 0);
    EPOLL_WAIT(-1, 10, 0);
    CALL(epoll_wait(epoll, no_memory(), 10, 0));
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(epoll_wait(epoll, no_memory(), 10, 0));
    EPOLL_WAIT(epoll, 10, 0);
    CALL(epoll_create1(0x1234));
    CALL(epoll_create(0));
    CALL(epoll_create(-1));
    CALL(epoll_create(1));
}

SCRIPT(modify_shows_what_is_ready) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLOUT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLPRI);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(one_at_a_time_is_fair) {
    int epoll = EPOLL(), sockets[4];
    for (int i = 0; i < 4; i++) {
        sockets[i] = bound(i);
        EPOLL_ADD(epoll, sockets[i], EPOLLIN);
    }
    FAR_SENDS(.to = PORT(2), .size = 3);
    FAR_SENDS(.to = PORT(0), .size = 3);
    FAR_SENDS(.to = PORT(3), .size = 3);
    for (int i = 0; i < 7; i++) EPOLL_WAIT(epoll, 1, 0);
    EPOLL_WAIT(epoll, 2, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(sockets[0], 10, 0);
    FAR_SENDS(.to = PORT(1), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(order_is_that_of_arrival) {
    int epoll = EPOLL(), sockets[6];
    for (int i = 0; i < 6; i++) {
        sockets[i] = bound(i);
        EPOLL_ADD(epoll, sockets[i], EPOLLIN);
    }
    static const int order[] = { 3, 1, 5, 0 };
    for (int i = 0; i < 4; i++) FAR_SENDS(.to = PORT(order[i]), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(sockets[5], 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(mixed_with_other_kinds) {
    int a = bound(0), epoll = EPOLL(), pipes[2], event = CALL(eventfd(0, 0));
    int timer = CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(pipe(pipes));
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_ADD(epoll, pipes[0], EPOLLIN);
    EPOLL_ADD(epoll, event, EPOLLIN);
    EPOLL_ADD(epoll, timer, EPOLLIN);
    struct itimerspec in_30_ms = { .it_value = { 0, 30000000 } };
    CALL(timerfd_settime(timer, 0, &in_30_ms, NULL));
    WAITS(30, EPOLL_WAIT(epoll, 10, 1000));
    uint64_t expirations;
    CALL(read(timer, &expirations, 8));
    FAR_SENDS(.to = PORT(0), .size = 3);
    WAITS(0, EPOLL_WAIT(epoll, 10, 1000));
    RECV(a, 10, 0);
    CALL(write(pipes[1], "x", 1));
    WAITS(0, EPOLL_WAIT(epoll, 10, 1000));
    char byte;
    CALL(read(pipes[0], &byte, 1));
    CALL(eventfd_write(event, 3));
    WAITS(0, EPOLL_WAIT(epoll, 10, 1000));
    eventfd_t value;
    CALL(eventfd_read(event, &value));
    CALL(close(pipes[1]));
    EPOLL_WAIT(epoll, 10, 1000);
    CALL(close(pipes[0]));
    EPOLL_WAIT(epoll, 10, 0);
}

static void work_us(int us) {
    long end_us = now_us() + us;
    while (now_us() < end_us) {}
}

/* Room for one event, and others that are always ready: each is told of, however long the program works between its calls. */
static void sees_each(int calls_us_apart) {
    int a = bound(0), epoll = EPOLL(), event = CALL(eventfd(1, 0)), more = CALL(eventfd(1, 0));
    EPOLL_ADD(epoll, event, EPOLLIN);
    EPOLL_ADD(epoll, more, EPOLLIN);
    EPOLL_ADD(epoll, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    struct epoll_event seen;
    int times[100] = { 0 };
    for (int i = 0; i < 30; i++) {
        if (epoll_wait(epoll, &seen, 1, 0) == 1) times[seen.data.u64]++;
        work_us(calls_us_apart);
    }
    say("each seen: %d %d %d", times[event] > 0, times[more] > 0, times[a] > 0);
}

SCRIPT(other_kinds_do_not_starve_sockets) { sees_each(0); }
SCRIPT(other_kinds_do_not_starve_sockets_of_a_program_that_works) { sees_each(200); }

SCRIPT(closing_the_socket_removes_it) {
    int a = bound(0), b = bound(1), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_ADD(epoll, b, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(close(a));
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    a = bound(2);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_ADD(epoll, a, EPOLLIN);
    FAR_SENDS(.to = PORT(2), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(closing_one_of_two_numbers_keeps_it) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    int copy = CALL(dup(a));
    CALL(close(a));
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, copy, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(copy, 10, 0);
    CALL(close(copy));
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(both_numbers_of_one_socket) {
    int a = bound(0), epoll = EPOLL(), copy = CALL(dup(a));
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_ADD(epoll, copy, EPOLLIN | EPOLLOUT);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(one_socket_in_two_sets) {
    int a = bound(0), one = EPOLL(), two = EPOLL();
    EPOLL_ADD(one, a, EPOLLIN);
    EPOLL_ADD(two, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(one, 10, 0);
    EPOLL_WAIT(two, 10, 0);
    EPOLL_WAIT(one, 10, 0);
    EPOLL_WAIT(two, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(one, 10, 0);
    EPOLL_WAIT(two, 10, 0);
}

SCRIPT(a_set_by_another_number) {
    int a = bound(0), epoll = EPOLL(), copy = CALL(dup(epoll));
    EPOLL_ADD(copy, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(copy, 10, 0);
    CALL(close(epoll));
    EPOLL_WAIT(copy, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(data_is_returned_as_it_was) {
    int a = bound(0), b = bound(1), epoll = EPOLL();
    struct epoll_event first = { .events = EPOLLIN, .data.u64 = 0x123456789abcdef0 }, seen = { 0 };
    CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, a, &first));
    first.data.u64 = 7;
    CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, b, &first));
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(epoll_wait(epoll, &seen, 1, 0));
    say("%llx", (unsigned long long)seen.data.u64);
    first.data.u64 = -1;
    CALL(epoll_ctl(epoll, EPOLL_CTL_MOD, a, &first));
    CALL(epoll_wait(epoll, &seen, 1, 0));
    say("%llx", (unsigned long long)seen.data.u64);
}

SCRIPT(errors_are_told_unasked) {
    int a = bound(0), epoll = EPOLL();
    CALL(connect(a, V4(FAR, PORT(5))));
    EPOLL_ADD(epoll, a, 0);
    SEND(a, "nobody listens", 0);
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    GET(a, SOL_SOCKET, SO_ERROR);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(a_thousand_sockets) {
    int epoll = EPOLL();
    static int sockets[1000];
    for (int i = 0; i < 1000; i++) {
        sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
        bind(sockets[i], V4(NEAR, i % 100 == 0 ? PORT(i / 100) : 0));
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = sockets[i] };
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i], &event) != 0) say("not added");
    }
    say("last number %d", sockets[999]);
    for (int i = 9; i >= 0; i--) FAR_SENDS(.to = PORT(i), .size = 3);
    EPOLL_WAIT(epoll, 64, 1000);
    for (int i = 0; i < 10; i++) RECV(sockets[i * 100], 10, MSG_DONTWAIT);
    EPOLL_WAIT(epoll, 64, 0);
    SENDTO(sockets[555], "hello", V4(FAR, ECHO_PORT));
    settle();
    WAITS(0, EPOLL_WAIT(epoll, 64, 1000));
    RECV(sockets[555], 10, MSG_DONTWAIT);
    for (int i = 0; i < 1000; i++) close(sockets[i]);
    EPOLL_WAIT(epoll, 64, 0);
}

static void on_signal(int number) { say("signal %d", number); }

SCRIPT(pwait_masks_signals) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    struct epoll_event events[4];
    WAITS(30, CALL(epoll_pwait(epoll, events, 4, 30, NULL)));
    WAITS(30, CALL(epoll_pwait(epoll, events, 4, 30, &blocked)));
    WAITS(0, CALL(epoll_pwait(epoll, events, 4, 1000, &none)));
    raise(SIGUSR1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(epoll_pwait(epoll, events, 4, 1000, &none));
    sigset_t pending;
    sigpending(&pending);
    say("pending: %d", sigismember(&pending, SIGUSR1));
}

SCRIPT(pwait2_has_nanoseconds) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    struct epoll_event events[4];
    struct timespec timeout = { 0, 30000000 }, zero = { 0, 0 }, negative = { -1, 0 }, tiny = { 0, 1000 };
    WAITS(30, CALL(epoll_pwait2(epoll, events, 4, &timeout, NULL)));
    WAITS(0, CALL(epoll_pwait2(epoll, events, 4, &tiny, NULL)));
    CALL(epoll_pwait2(epoll, events, 4, &zero, NULL));
    CALL(epoll_pwait2(epoll, events, 4, &negative, NULL));
    FAR_SENDS(.to = PORT(0), .size = 3);
    show_events(events, CALL(epoll_pwait2(epoll, events, 4, NULL, NULL)));
    show_events(events, CALL(epoll_pwait2(epoll, events, 4, &zero, NULL)));
}

/* A socket with a datagram that was taken in before it became the kernel's. */
static int given_away_unread(int epoll) {
    int a = bound(0);
    if (epoll >= 0) EPOLL_ADD(epoll, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { a, POLLIN, 0 });
    SET(a, IPPROTO_IP, IP_RECVOPTS, 1);
    return a;
}

SCRIPT(given_to_the_kernel_unread_and_read_tells_of_what_comes) {
    int epoll = EPOLL(), a = given_away_unread(epoll);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll, 10, 300);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(given_to_the_kernel_unread_and_read_is_polled) {
    int a = given_away_unread(-1);
    RECV(a, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 4, .after_ms = 30);
    WAITS(30, POLL(1000, { a, POLLIN, 0 }));
    RECV(a, 10, MSG_DONTWAIT);
}

/* The socket lives on by another fd, and its registration with it; the old number is another socket's. */
SCRIPT(registered_by_a_number_that_is_another_sockets_and_given_to_the_kernel) {
    int epoll = EPOLL(), a = bound(0), on = 1;
    int b = CALL(dup(a));
    EPOLL_ADD(epoll, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(b, 10, 0);
    CALL(close(a));
    int c = bound(1);
    CALL(setsockopt(b, IPPROTO_IP, IP_RECVOPTS, &on, sizeof on));
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, c, 0);
    FAR_SENDS(.to = PORT(0), .size = 4);
    EPOLL_WAIT(epoll, 10, 300);
    EPOLL_ADD(epoll, c, EPOLLIN);
    EPOLL_ADD(epoll, b, EPOLLIN);
    RECV(b, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    CALL(close(b));
    FAR_SENDS(.to = PORT(1), .size = 5);
    EPOLL_WAIT(epoll, 10, 300);
}
