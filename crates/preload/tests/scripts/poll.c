/* poll(2) and ppoll(2). */
#include "script.h"

SCRIPT(fresh_sockets) {
    int a = UDP(), b = bound(0);
    POLL(0, { a, POLLIN | POLLOUT | POLLPRI, 0 }, { b, POLLIN | POLLOUT | POLLRDHUP, 0 });
    POLL(0, { a, 0, 0 }, { b, 0, 0 });
    POLL(0, { b, POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLHUP | POLLERR, 0 });
}

SCRIPT(readable_until_read) {
    int a = bound(0);
    WAITS(0, POLL(0, { a, POLLIN, 0 }));
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    POLL(0, { a, POLLIN, 0 });
    POLL(0, { a, POLLIN | POLLRDNORM | POLLOUT, 0 });
    POLL(0, { a, POLLOUT, 0 });
    RECV(a, 10, 0);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, 0);
    POLL(0, { a, POLLIN, 0 });
}

SCRIPT(timeout) {
    int a = bound(0);
    WAITS(50, POLL(50, { a, POLLIN, 0 }));
    WAITS(1, POLL(1, { a, POLLIN, 0 }));
    WAITS(50, CALL(poll(NULL, 0, 50)));
}

SCRIPT(wakes) {
    int a = bound(0), b = bound(1);
    FAR_SENDS(.to = PORT(1), .size = 3, .after_ms = 40);
    WAITS(40, POLL(1000, { a, POLLIN, 0 }, { b, POLLIN, 0 }));
    WAITS(0, POLL(-1, { a, POLLIN, 0 }, { b, POLLIN, 0 }));
    RECV(b, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, POLL(-1, { a, POLLIN, 0 }, { b, POLLIN, 0 }));
}

static int send_later(void) {
    sleep_ms(40);
    int b = bound(1);
    return CALL(sendto(b, "local", 5, 0, V4(NEAR, PORT(0)))) != 5;
}

SCRIPT(wakes_by_local_sender) {
    int a = bound(0);
    int pid = fork_child("sender", send_later);
    WAITS(40, POLL(1000, { a, POLLIN, 0 }));
    RECVFROM(a, 10, 0);
    reap(pid);
}

SCRIPT(writable_and_waiting_for_read) {
    int a = bound(0), b = bound(1);
    WAITS(0, POLL(1000, { a, POLLIN, 0 }, { b, POLLOUT, 0 }));
}

SCRIPT(bad_descriptors) {
    int a = bound(0);
    CALL(close(a));
    WAITS(0, POLL(1000, { a, POLLIN, 0 }));
    WAITS(0, POLL(1000, { 99, POLLIN, 0 }, { -1, POLLIN, 0 }));
    WAITS(30, POLL(30, { -1, POLLIN, 0 }, { -5, POLLIN, 0 }));
    int b = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { b, POLLIN, 0 }, { 99, POLLIN, 0 }, { -1, POLLIN, 0 });
}

SCRIPT(bad_arguments) {
    int a = bound(0);
    CALL(poll(null(), 1, 0));
    CALL(poll(no_memory(), 1, 0));
    struct pollfd one = { a, POLLIN, 0 };
    volatile nfds_t too_many = 1 << 30;
    CALL(poll(&one, too_many, 0));
    struct timespec negative = { -1, 0 }, excessive = { 0, 1000000000 };
    CALL(ppoll(&one, 1, &negative, NULL));
    CALL(ppoll(&one, 1, &excessive, NULL));
}

SCRIPT(the_same_socket_several_times) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { a, POLLIN, 0 }, { a, POLLOUT, 0 }, { a, POLLIN | POLLOUT, 0 }, { a, 0, 0 });
}

SCRIPT(many_kinds_at_once) {
    int a = bound(0), pipes[2], counter = CALL(eventfd(0, 0)), timer = CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(pipe(pipes));
    POLL(0, { a, POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { counter, POLLIN, 0 }, { timer, POLLIN, 0 });
    struct itimerspec in_30_ms = { .it_value = { 0, 30000000 } };
    CALL(timerfd_settime(timer, 0, &in_30_ms, NULL));
    WAITS(30, POLL(1000, { a, POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { counter, POLLIN, 0 }, { timer, POLLIN, 0 }));
    CALL(write(pipes[1], "x", 1));
    CALL(eventfd_write(counter, 1));
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(-1, { a, POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { counter, POLLIN, 0 }, { timer, POLLIN, 0 });
    CALL(close(pipes[1]));
    POLL(-1, { a, POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { counter, POLLOUT, 0 });
}

static int event;

static int write_later(void) {
    sleep_ms(40);
    return CALL(eventfd_write(event, 1)) != 0;
}

SCRIPT(only_other_kinds_become_ready) {
    int a = bound(0), b = bound(1);
    event = CALL(eventfd(0, 0));
    int pid = fork_child("writer", write_later);
    WAITS(40, POLL(1000, { a, POLLIN, 0 }, { event, POLLIN, 0 }, { b, POLLIN, 0 }));
    reap(pid);
}

SCRIPT(ppoll_timeout_is_not_changed) {
    int a = bound(0);
    struct timespec timeout = { 0, 30000000 };
    struct pollfd one = { a, POLLIN, 0 };
    WAITS(30, CALL(ppoll(&one, 1, &timeout, NULL)));
    say("%ld.%09ld", (long)timeout.tv_sec, timeout.tv_nsec);
    struct timespec zero = { 0, 0 };
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(ppoll(&one, 1, &zero, NULL));
    show_pollfds(&one, 1);
    CALL(ppoll(&one, 1, NULL, NULL));
    struct timespec tiny = { 0, 1 };
    RECV(a, 10, 0);
    WAITS(0, CALL(ppoll(&one, 1, &tiny, NULL)));
}

static void on_signal(int number) { say("signal %d", number); }

SCRIPT(ppoll_unblocks_a_signal) {
    int a = bound(0);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    struct pollfd one = { a, POLLIN, 0 };
    struct timespec second = { 1, 0 };
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(ppoll(&one, 1, &second, &blocked));
    RECV(a, 10, 0);
    WAITS(0, CALL(ppoll(&one, 1, &second, &none)));
    raise(SIGUSR1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(ppoll(&one, 1, &second, &none));
    show_pollfds(&one, 1);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    say("blocked afterwards: %d", sigismember(&now, SIGUSR1));
}

SCRIPT(closed_then_other_kind_at_the_same_number) {
    int a = bound(0), pipes[2];
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(close(a));
    CALL(pipe(pipes));
    POLL(0, { a, POLLIN, 0 });
    CALL(write(pipes[1], "x", 1));
    POLL(0, { a, POLLIN, 0 });
    char byte;
    CALL(read(a, &byte, 1));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(a_hundred_sockets_one_ready) {
    struct pollfd set[100];
    for (int i = 0; i < 100; i++) {
        set[i] = (struct pollfd){ socket(AF_INET, SOCK_DGRAM, 0), POLLIN, 0 };
        bind(set[i].fd, V4(NEAR, i < 16 ? PORT(i) : 0));
    }
    CALL(poll(set, 100, 0));
    FAR_SENDS(.to = PORT(11), .size = 3);
    CALL(poll(set, 100, -1));
    show_pollfds(set, 100);
    FAR_SENDS(.to = PORT(2), .size = 3, .after_ms = 20);
    RECV(set[11].fd, 10, 0);
    WAITS(20, CALL(poll(set, 100, -1)));
    show_pollfds(set, 100);
}
