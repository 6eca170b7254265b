/* Words that leave a call in the middle: signals, whose handlers make calls and jump, and cancellation. What is written
 * down does not depend on the moment: everything that was sent was taken or arrives once, and handlers' own calls ended as
 * they always do. */
#include "interpret.h"

#include <setjmp.h>
#include <stdarg.h>

enum action {
    RETURN, SEND_TO_ECHO, TAKE, SET_OPTION, CLOSE_AND_OPEN, CONNECT, DISCONNECT, CHANGE_FLAGS, SHUT_DOWN, CHANGE_SET,
    ASK_AND_WAIT, OPEN_FOR_A_MOMENT, ACTIONS,
};

static struct taker taker, of_handler;
static sigjmp_buf back;
static pthread_t main_thread;
static volatile int runs, wanted_runs, jumps, must_jump, is_over, is_timed, is_armed;
static int action, target, own_fd;
static char handler_log[2000];
static int handler_log_length;

static void note(const char *what, long result) {
    int room = (int)sizeof handler_log - handler_log_length;
    const char *error = result < 0 ? strerrorname_np(errno) : "";
    int length = snprintf(handler_log + handler_log_length, room, " %s=%ld%s", what, result, error ? error : "?");
    if (length < room) handler_log_length += length;
}

/* The lowest free number is another one in a moment in which the library opens something of its own for a thread (docs/run.md). The
 * slot's socket gets the one that is the lowest when that is over. */
static int with_lowest_number(int fd) {
    sleep_ms(1);
    int copy = fcntl(fd, F_DUPFD, 0);
    int higher = copy > fd ? copy : fd;
    close(higher);
    return copy > fd ? fd : copy;
}

/* Or the one that it had. */
static int with_number(int fd, int wanted) {
    for (int tries = 1000; fd >= 0 && fd != wanted && tries > 0; tries--) {
        int copy = fcntl(fd, F_DUPFD, wanted);
        close(fd);
        fd = copy;
    }
    return fd;
}

void make_again(int slot, long results[2]) {
    int port = ports[slot], before = sockets[slot];
    sockets[slot] = socket(families[slot], SOCK_DGRAM, 0);
    if (has_neighbour()) sockets[slot] = before >= 0 ? with_number(sockets[slot], before) : with_lowest_number(sockets[slot]);
    results[0] = sockets[slot];
    places[slot] = place;
    results[1] = 0;
    if (port < 0) return;
    if (families[slot] == AF_INET6) results[1] = bind(sockets[slot], V6(are_wild[slot] ? "::" : NEAR6, PORT(port)));
    else results[1] = bind(sockets[slot], V4(are_wild[slot] ? "0.0.0.0" : NEAR, PORT(port)));
    if (results[1] != 0) ports[slot] = -1;
}

static void close_and_open(void) {
    long results[2];
    note("close", close(sockets[target]));
    if (sockets[target] < 0) families[target] = AF_INET;
    make_again(target, results);
    note("socket", results[0]);
    note("bind", results[1]);
}

static void ask_and_wait(void) {
    char data[10];
    struct timeval time = { 2, 0 };
    setsockopt(own_fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    long sent = sendto(own_fd, "ask", 3, 0, V4(FAR, ECHO_PORT));
    /* Another signal may come meanwhile. */
    long got;
    while ((got = recv(own_fd, data, sizeof data, 0)) < 0 && errno == EINTR) {}
    note("asked", sent);
    note("answer", got);
}

static void open_for_a_moment(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    note("bind", bind(fd, V4(NEAR, PORT(FOR_A_MOMENT))));
    note("close", close(fd));
}

static void send_to_echo(void) {
    long sent = -1;
    /* An error of an earlier datagram is told to whoever calls next. */
    for (int i = 0; i < 2 && sent < 0; i++) sent = sendto(sockets[target], "h", 1, MSG_NOSIGNAL, FAR_FOR(target, ECHO_PORT));
    note("send", sent);
}

static void change_set(void) {
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    note("epoll_ctl", epoll_ctl(sets[0], runs % 2 ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, sockets[target], &event));
}

static void act(void) {
    int fd = sockets[target], value = 20 + runs;
    socklen_t length = sizeof value;
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    switch (action) {
    case SEND_TO_ECHO: send_to_echo(); break;
    case TAKE: take_what_is_there(&of_handler, target); break;
    case SET_OPTION:
        note("setsockopt", setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value));
        note("getsockopt", getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &length) == 0 ? value : -1);
        break;
    case CLOSE_AND_OPEN: close_and_open(); break;
    case CONNECT: note("connect", connect(fd, FAR_FOR(target, PORT(FIRST_FAR + runs % 2)))); break;
    case DISCONNECT: note("connect", connect(fd, &none, sizeof none)); break;
    case CHANGE_FLAGS:
        note("set", fcntl(fd, F_SETFL, runs % 2 ? 0 : O_NONBLOCK));
        note("flags", fcntl(fd, F_GETFL));
        break;
    case SHUT_DOWN: note("shutdown", shutdown(fd, runs % 3)); break;
    case CHANGE_SET: change_set(); break;
    case ASK_AND_WAIT: ask_and_wait(); break;
    case OPEN_FOR_A_MOMENT: open_for_a_moment(); break;
    }
}

static void on_signal(int number) {
    int errno_before = errno;
    (void)number;
    if (runs >= wanted_runs) return;
    act();
    runs++;
    if (is_timed && runs >= wanted_runs) alarm_every_us(0);
    errno = errno_before;
    if (!jumps) return;
    if (taker.is_putting_down) must_jump = 1;
    else siglongjmp(back, 1);
}

/* Ends the last call. */
static void on_end(int number) {
    (void)number;
    is_over = 1;
}

static void *send_signals(void *us) {
    /* A jump must not leave the function that makes this thread. */
    while (!is_armed) {}
    while (runs < wanted_runs) {
        spin_us((int)(intptr_t)us);
        pthread_kill(main_thread, SIGALRM);
    }
    return NULL;
}

static void arm(int us, timer_t end, pthread_t *sender) {
    struct itimerval time = { { 0, us < 100 ? 100 : us }, { 0, us } };
    struct itimerspec at_end = { { 0, 5000000 }, { 0, 8000000 + 1000L * us } };
    timer_settime(end, 0, &at_end, NULL);
    if (is_timed) setitimer(ITIMER_REAL, &time, NULL);
    else *sender = start_quiet_thread(send_signals, (void *)(intptr_t)us);
    is_armed = 1;
}

static void call_until_all_ran(int us, timer_t end, pthread_t *sender) {
    if (sigsetjmp(back, 1) == 0) arm(us, end, sender);
    /* A jump may have left a call, and the next signal comes at once where it waited: what is put down is put down once. */
    put_down_whole(&taker);
    while (runs < wanted_runs || !is_over) {
        take(&taker);
        if (must_jump) {
            must_jump = 0;
            siglongjmp(back, 1);
        }
    }
    jumps = 0;
}

static void interrupt_calls(int us) {
    static pthread_t sender;
    timer_t end;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
    if (timer_create(CLOCK_MONOTONIC, &event, &end) != 0) abort();
    call_until_all_ran(us, end, &sender);
    if (!is_timed) pthread_join(sender, NULL);
    timer_delete(end);
}

/* Calls of other words do not wait. */
static void let_none_wait(void) {
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) CALL(fcntl(sockets[i], F_SETFL, O_NONBLOCK));
    }
}

/* Slot, call, action, slot of the action, jumps, restarts, moment, runs, who sends and what else there is, food. */
void signal_comes(void) {
    static const int run_counts[] = { 1, 2, 5 };
    int slot = one, food = numbers[9];
    action = three % ACTIONS, target = four, main_thread = pthread_self();
    if (action == ASK_AND_WAIT && place != 0) action = RETURN;
    if (action == SHUT_DOWN && !may_be_given()) action = RETURN;
    /* What is on its way when these are called comes before or after. */
    if (action == CLOSE_AND_OPEN || action == CONNECT || action == DISCONNECT || action == SHUT_DOWN) food = 0;
    take_the_rest();
    show_ledger();
    runs = is_over = must_jump = is_armed = handler_log_length = 0;
    handler_log[0] = 0;
    wanted_runs = run_counts[numbers[7] % 3], jumps = numbers[4], is_timed = numbers[8] % 2;
    memset(&of_handler, 0xee, sizeof of_handler);
    begin_taking(&taker, slot, two % CALLS);
    CALL(fcntl(sockets[slot], F_SETFL, 0));
    own_fd = bound(OF_HANDLERS);
    handle(SIGALRM, on_signal, numbers[5] ? SA_RESTART : 0);
    handle(SIGUSR2, on_end, 0);
    if (numbers[8] / 2 && place == 0) start_neighbour();
    if (food == 1) feed(slot, 3);
    /* It opens a descriptor of its own. */
    if (food == 2) start_feeding(slot, 4, moment_us(numbers[6]) / 2);
    interrupt_calls(moment_us(numbers[6]));
    stop_feeding();
    stop_neighbour();
    close(own_fd);
    end_taking(&taker);
    let_none_wait();
    take_the_rest();
    show_ledger();
    show_sends(&taker);
    say("%d runs:%s", runs, handler_log);
}

static volatile int began;

static void left(void *unused) {
    (void)unused;
    put_down(&taker);
}

static void *take_until_cancelled(void *unused) {
    pthread_cleanup_push(left, NULL);
    began = 1;
    while (1) take(&taker);
    pthread_cleanup_pop(0);
    return unused;
}

/* Slot, call, moment, food, whether another thread asks. */
void cancel_thread(void) {
    int slot = one;
    void *end;
    take_the_rest();
    show_ledger();
    begin_taking(&taker, slot, two % CALLS);
    CALL(fcntl(sockets[slot], F_SETFL, 0));
    if (numbers[4] && place == 0) start_neighbour();
    if (four == 1) feed(slot, 3);
    int us = moment_us(three);
    if (four == 2) start_feeding(slot, 4, us / 2);
    began = 0;
    pthread_t thread = start_quiet_thread(take_until_cancelled, NULL);
    while (!began) {}
    /* Its first send binds the socket, which is not to depend on who is sooner. */
    while (is_sender(&taker) && !__atomic_load_n(&taker.ends[0], __ATOMIC_ACQUIRE)) {}
    spin_us(us);
    pthread_cancel(thread);
    pthread_join(thread, &end);
    say("cancelled %d", end == PTHREAD_CANCELED);
    stop_feeding();
    stop_neighbour();
    end_taking(&taker);
    let_none_wait();
    take_the_rest();
    show_ledger();
    show_sends(&taker);
    feed(slot, 2);
    take_the_rest();
    show_ledger();
}

/* The port is free when its socket is closed, and what comes then is the next one's. */
void reopen(void) {
    long results[2];
    if (sockets[one] < 0) return;
    CALL(close(sockets[one]));
    errno = 0;
    make_again(one, results);
    say("socket %ld, bind %ld %s", results[0], results[1], results[1] ? strerrorname_np(errno) : "");
    CALL(fcntl(sockets[one], F_SETFL, O_NONBLOCK));
    feed(one, 2);
    take_the_rest();
    show_ledger();
}
