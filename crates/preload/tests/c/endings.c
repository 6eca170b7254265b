// A server that ends by SIGTERM, in one of the ways that servers do. Arguments: way, address, port. It says "ready" when it is bound,
// echoes what comes, and ends with 0 when it was asked to. A way with "tells" in it never ends: its handler writes an "x" instead.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 3, PAYLOAD_MOST = 2048 };
static volatile sig_atomic_t asked_to_end;
static int fd, pipe_fds[2], signal_fd = -1, set = -1;
static sigjmp_buf out;
static const char *way;

static int begins(const char *name) { return !strncmp(way, name, strlen(name)); }
static int has(const char *word) { return strstr(way, word) != NULL; }

static void sets_flag(int signal) { (void)signal; asked_to_end = 1; }
static void tells(int signal) { (void)signal; if (write(1, "x", 1) != 1) _exit(8); }
static void writes_to_pipe(int signal) { (void)signal; if (write(pipe_fds[1], "x", 1) != 1) _exit(9); }
static void exits(int signal) { (void)signal; _exit(0); }
static void exits_orderly(int signal) { (void)signal; exit(0); }
static void jumps(int signal) { (void)signal; siglongjmp(out, 1); }
static void shuts_down(int signal) { (void)signal; asked_to_end = 1; shutdown(fd, SHUT_RDWR); }
static void does_nothing(int signal) { (void)signal; }

static void install(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(number, &action, NULL)) exit(10);
}

static sigset_t only(int number) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, number);
    return mask;
}

static int bound(const char *address, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &at.sin_addr);
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(made, (void *)&at, sizeof at)) exit(11);
    return made;
}

// Receives one datagram and answers it; what recvfrom said.
static ssize_t echo_one(int from, int flags) {
    char payload[PAYLOAD_MOST];
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    ssize_t got = recvfrom(from, payload, sizeof payload, flags, (void *)&peer, &length);
    if (got > 0 && sendto(from, payload, got, MSG_DONTWAIT, (void *)&peer, length) < 0 && errno == EBADF) exit(12);
    return got;
}

static void *thread_that_echoes(void *number) {
    while (!asked_to_end) echo_one((int)(long)number, 0);
    return NULL;
}

static void *thread_that_waits_for_the_signal(void *how) {
    sigset_t mask = only(SIGTERM);
    int number;
    sigwait(&mask, &number);
    asked_to_end = 1;
    if (!strcmp(how, "exit")) exit(0);
    shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void add(int number) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
    if (epoll_ctl(set, EPOLL_CTL_ADD, number, &event)) exit(13);
}

// What a descriptor that is ready says: the end, or a datagram.
static void follow(int ready) {
    struct signalfd_siginfo info;
    char byte;
    if (ready == signal_fd) {
        if (read(signal_fd, &info, sizeof info) == sizeof info) asked_to_end = 1;
    } else if (ready == pipe_fds[0]) {
        if (read(pipe_fds[0], &byte, 1) == 1) asked_to_end = 1;
    } else {
        echo_one(ready, MSG_DONTWAIT);
    }
}

// One wait of a loop over descriptors: that of the socket, and the one that tells of the signal where there is one.
static void wait_once(const sigset_t *mask) {
    int other = signal_fd >= 0 ? signal_fd : pipe_fds[0];
    if (has("poll") && !has("epoll")) {
        struct pollfd polled[2] = {{fd, POLLIN, 0}, {other, POLLIN, 0}};
        int found = mask ? ppoll(polled, 2, NULL, mask) : poll(polled, 2, -1);
        for (int i = 0; found > 0 && i < 2; i++)
            if (polled[i].revents) follow(polled[i].fd);
    } else if (has("select")) {
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        FD_SET(other, &readable);
        int most = (fd > other ? fd : other) + 1;
        int found = mask ? pselect(most, &readable, NULL, NULL, NULL, mask) : select(most, &readable, NULL, NULL, NULL);
        if (found > 0 && FD_ISSET(fd, &readable)) follow(fd);
        if (found > 0 && FD_ISSET(other, &readable)) follow(other);
    } else {
        struct epoll_event events[8];
        int room = has("one-event") ? 1 : 8;
        int found = mask ? epoll_pwait(set, events, room, -1, mask) : epoll_wait(set, events, room, -1);
        for (int i = 0; i < found; i++) follow(events[i].data.fd);
    }
}

static int loop_over_descriptors(void) {
    sigset_t blocked = only(SIGTERM), during;
    set = epoll_create1(0);
    add(fd);
    if (begins("signalfd")) {
        sigprocmask(SIG_BLOCK, &blocked, NULL);
        signal_fd = signalfd(-1, &blocked, SFD_NONBLOCK);
        add(signal_fd);
    } else if (begins("pipe")) {
        install(SIGTERM, writes_to_pipe, SA_RESTART);
        add(pipe_fds[0]);
    } else {
        install(SIGTERM, has("tells") ? tells : sets_flag, SA_RESTART);
    }
    int is_masked = begins("masked");
    sigprocmask(SIG_SETMASK, NULL, &during);
    if (is_masked) sigprocmask(SIG_BLOCK, &blocked, NULL);
    printf("ready\n");
    fflush(stdout);
    while (!asked_to_end) {
        wait_once(is_masked ? &during : NULL);
        // What comes while data is always there is delivered by no call with a mask: the program looks itself.
        sigset_t pending;
        if (is_masked && !has("tells") && !sigpending(&pending) && sigismember(&pending, SIGTERM)) break;
    }
    return 0;
}

static void several_messages(int flags) {
    char payloads[4][PAYLOAD_MOST];
    struct iovec parts[4];
    struct mmsghdr messages[4] = {0};
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){payloads[i], PAYLOAD_MOST};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    recvmmsg(fd, messages, 4, flags, NULL);
}

static void every_millisecond(void) {
    struct itimerval often = {{0, 1000}, {0, 1000}};
    install(SIGALRM, does_nothing, SA_RESTART);
    setitimer(ITIMER_REAL, &often, NULL);
}

static int loop_over_calls(void) {
    int restarts = has("restart") ? SA_RESTART : 0;
    if (has("exits-orderly")) install(SIGTERM, exits_orderly, restarts);
    else if (has("exits")) install(SIGTERM, exits, restarts);
    else if (has("jumps")) install(SIGTERM, jumps, restarts);
    else if (has("tells")) install(SIGTERM, tells, restarts);
    else if (has("shuts-down")) install(SIGTERM, shuts_down, restarts);
    else if (has("once")) install(SIGTERM, sets_flag, SA_RESETHAND);
    else if (has("by-signal")) signal(SIGTERM, sets_flag);
    else if (!has("default")) install(SIGTERM, sets_flag, restarts);
    if (has("often")) every_millisecond();
    if (has("timeout")) {
        struct timeval patience = {0, 100000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    printf("ready\n");
    fflush(stdout);
    if (has("jumps") && sigsetjmp(out, 1)) return 0;
    while (!asked_to_end) {
        if (has("messages")) several_messages(has("first") ? MSG_WAITFORONE : 0);
        else echo_one(fd, has("nonblocking") ? MSG_DONTWAIT : 0);
    }
    return 0;
}

static int with_threads(const char *address, int port) {
    pthread_t threads[THREADS];
    int fds[THREADS];
    sigset_t blocked = only(SIGTERM);
    install(SIGTERM, has("pipe") ? writes_to_pipe : sets_flag, SA_RESTART);
    install(SIGUSR1, does_nothing, 0);
    // The threads of some leave the signal to the first one; of others the first one leaves it to them.
    if (has("sigwait") || has("suspends")) pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    int count = has("sigwait") ? 1 : THREADS;
    for (int i = 0; i < count; i++) {
        fds[i] = has("sigwait") || has("one-socket") ? fd : bound(address, port + 1 + i);
        void *argument = has("sigwait") ? (void *)(has("exit") ? "exit" : "flag") : (void *)(long)fds[i];
        void *(*what)(void *) = has("sigwait") ? thread_that_waits_for_the_signal : thread_that_echoes;
        if (pthread_create(&threads[i], NULL, what, argument)) exit(14);
    }
    if (has("others")) pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    printf("ready\n");
    fflush(stdout);
    if (has("suspends")) {
        sigset_t none;
        sigemptyset(&none);
        while (!asked_to_end) sigsuspend(&none);
    } else if (has("pipe")) {
        struct pollfd polled = {pipe_fds[0], POLLIN, 0};
        while (poll(&polled, 1, -1) != 1) {}
        asked_to_end = 1;
    } else {
        while (!asked_to_end) echo_one(fd, 0);
    }
    for (int i = 0; i < count; i++) {
        struct timespec until;
        do {
            if (!has("sigwait")) pthread_kill(threads[i], SIGUSR1);
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 20000000;
            if (until.tv_nsec >= 1000000000) until = (struct timespec){until.tv_sec + 1, until.tv_nsec - 1000000000};
        } while (pthread_timedjoin_np(threads[i], NULL, &until));
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    way = argv[1];
    fd = bound(argv[2], atoi(argv[3]));
    if (pipe2(pipe_fds, O_NONBLOCK)) return 3;
    if (begins("threads")) return with_threads(argv[2], atoi(argv[3]));
    return begins("calls") ? loop_over_calls() : loop_over_descriptors();
}
