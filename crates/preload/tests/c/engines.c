/* Threads that each work with sockets of their own, while another one does what moves them between engines.
 *
 * engines WAY ADDRESS PORT THREADS ROUNDS DISTURBANCE...
 *
 * Each thread sends numbers to an echo and waits for each to come back, by WAY: blocking, nonblocking, epoll, poll, polls
 * (of two sockets, one of which gets nothing), select; bursts (of BURST at a time, which come back in any order).
 * What comes back late, twice, or to another socket is told, and the exit status is 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MOST 16
#define PATIENCE_MS 3000
#define BURST 16

static const char *way;
static struct sockaddr_in echo_at;
static uint32_t threads, rounds;
static int sockets[THREADS_MOST], sets[THREADS_MOST], idle[THREADS_MOST];
/* begun: threads that have exchanged something. */
static atomic_int working, begun, failures;

static void fail(const char *what, uint32_t thread, uint32_t round) {
    fprintf(stderr, "thread %u, round %u: %s: %s\n", thread, round, what, strerror(errno));
    failures++;
}

static int is(const char *name) { return strcmp(way, name) == 0; }

/* Waits until there is something to read. */
static int wait_by_way(uint32_t thread) {
    int fd = sockets[thread];
    struct epoll_event event;
    if (is("epoll")) return epoll_wait(sets[thread], &event, 1, PATIENCE_MS);
    if (is("polls")) {
        struct pollfd both[] = { { idle[thread], POLLIN, 0 }, { fd, POLLIN, 0 } };
        return poll(both, 2, PATIENCE_MS);
    }
    if (is("poll")) return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, PATIENCE_MS);
    if (is("select")) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        return select(fd + 1, &set, NULL, NULL, &(struct timeval){ PATIENCE_MS / 1000, 0 });
    }
    return 1;
}

static ssize_t receive(uint32_t thread, void *data, size_t size) {
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (;;) {
        ssize_t length = recv(sockets[thread], data, size, is("blocking") ? 0 : MSG_DONTWAIT);
        if (length >= 0 || (errno != EAGAIN && errno != EINTR)) return length;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 > PATIENCE_MS) return -1;
    }
}

/* Each of a burst comes back once. */
static void exchange_burst(uint32_t thread, uint32_t first) {
    uint32_t back[2], came = 0;
    for (uint32_t i = 0; i < BURST; i++) {
        uint32_t number[2] = { thread, first + i };
        if (send(sockets[thread], number, sizeof number, 0) != sizeof number) fail("send", thread, first + i);
    }
    for (uint32_t i = 0; i < BURST; i++) {
        if (recv(sockets[thread], back, sizeof back, 0) != sizeof back) return fail("receive", thread, first + i);
        uint32_t at = back[1] - first;
        if (back[0] != thread || at >= BURST || came & 1u << at) {
            fprintf(stderr, "thread %u, from %u: %u of thread %u came\n", thread, first, back[1], back[0]);
            failures++;
        } else came |= 1u << at;
    }
}

static void *work(void *argument) {
    uint32_t thread = (uintptr_t)argument, back[2];
    for (uint32_t round = 0; is("bursts") && round < rounds && failures < 10; round += BURST) exchange_burst(thread, round);
    if (is("bursts")) {
        working--;
        return NULL;
    }
    for (uint32_t round = 0; round < rounds && failures < 10; round++) {
        uint32_t number[2] = { thread, round };
        if (send(sockets[thread], number, sizeof number, 0) != sizeof number) fail("send", thread, round);
        int found;
        do found = wait_by_way(thread);
        while (found < 0 && errno == EINTR);
        if (found != 1) fail("nothing came", thread, round);
        else if (receive(thread, back, sizeof back) != sizeof back) fail("receive", thread, round);
        else if (back[0] != thread || back[1] != round) {
            fprintf(stderr, "thread %u, round %u: %u of thread %u came\n", thread, round, back[1], back[0]);
            failures++;
        }
        if (round == 0) begun++;
    }
    working--;
    return NULL;
}

/* What else the program does. Each is done every few milliseconds, to one thread's socket after the other. */

static void do_dup(int fd) {
    int copy = dup(fd);
    dup2(fd, copy);
    close(copy);
}

static void await(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) fail("a child", (uint32_t)status, 0);
}

static void do_fork(int fd) {
    (void)fd;
    pid_t child = fork();
    if (child == 0) _exit(0);
    await(child);
}

/* Children that are made once; the last of them ends with the program. What nobody has waited for at a fork stays in the first engine, as the
 * child has its epoll sets too: they are made when each thread has used its socket. */

static pid_t staying = -1;

static void do_fork_once(int fd) {
    static int done;
    if (begun < (int)threads || done++) return;
    do_fork(fd);
}

static void do_fork_twice(int fd) {
    static int done;
    (void)fd;
    if (begun < (int)threads || done++) return;
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) usleep(50000);
        _exit(0);
    }
    await(child);
}

static void do_exec(int fd) {
    (void)fd;
    if (staying >= 0 || begun < (int)threads) return;
    staying = fork();
    if (staying == 0) {
        for (int open = 3; open < 100; open++) close(open);
        execlp("sleep", "sleep", "60", NULL);
        _exit(1);
    }
}

static void do_child(int fd) {
    (void)fd;
    if (staying >= 0 || begun < (int)threads) return;
    staying = fork();
    if (staying == 0) {
        sleep(60);
        _exit(0);
    }
}

static void do_group(int fd) {
    struct ip_mreqn group = { { inet_addr("239.7.7.7") }, { 0 }, 0 };
    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
    setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group);
}

static void do_times(int fd) {
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &off, sizeof off);
}

static void do_option(int fd) {
    int size = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    socklen_t length = sizeof size;
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &length);
}

static void do_poll_all(int fd) {
    (void)fd;
    struct pollfd all[THREADS_MOST];
    for (uint32_t i = 0; i < threads; i++) all[i] = (struct pollfd){ sockets[i], POLLIN, 0 };
    poll(all, threads, 0);
}

static void do_one_set(int fd) {
    static int set = -1;
    if (set < 0) set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = fd };
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL);
    epoll_wait(set, &event, 1, 0);
}

static void do_set_in_set(int fd) {
    static int outer = -1;
    if (outer < 0) outer = epoll_create1(0);
    for (uint32_t i = 0; i < threads; i++) {
        if (sockets[i] != fd) continue;
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
        epoll_ctl(outer, EPOLL_CTL_ADD, sets[i], &event);
        epoll_wait(outer, &event, 1, 0);
        epoll_ctl(outer, EPOLL_CTL_DEL, sets[i], &event);
    }
}

static void do_open(int fd) {
    (void)fd;
    int other = socket(AF_INET, SOCK_DGRAM, 0);
    connect(other, (struct sockaddr *)&echo_at, sizeof echo_at);
    uint32_t number[2] = { 99, 99 }, back[2] = { 0 };
    setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 3, 0 }, sizeof(struct timeval));
    send(other, number, sizeof number, 0);
    if (recv(other, back, sizeof back, 0) != sizeof back || back[0] != 99) fail("a new socket", 99, 99);
    close(other);
}

static void do_connect(int fd) {
    connect(fd, (struct sockaddr *)&echo_at, sizeof echo_at);
}

static void do_nothing(int fd) { (void)fd; }

static const struct {
    const char *name;
    void (*act)(int fd);
} DISTURBANCES[] = {
    { "nothing", do_nothing }, { "dup", do_dup },       { "fork", do_fork },       { "group", do_group },
    { "times", do_times },     { "option", do_option }, { "poll", do_poll_all },   { "set", do_one_set },
    { "nested", do_set_in_set }, { "open", do_open },   { "connect", do_connect },
    { "fork-once", do_fork_once }, { "fork-twice", do_fork_twice }, { "exec", do_exec }, { "child", do_child },
};

static void disturb(const char *name, int fd) {
    for (size_t i = 0; i < sizeof DISTURBANCES / sizeof *DISTURBANCES; i++) {
        if (strcmp(DISTURBANCES[i].name, name) == 0) DISTURBANCES[i].act(fd);
    }
}

int main(int count, char **arguments) {
    if (count < 6) return 2;
    way = arguments[1];
    echo_at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(atoi(arguments[3])) };
    inet_pton(AF_INET, arguments[2], &echo_at.sin_addr);
    threads = atoi(arguments[4]);
    rounds = atoi(arguments[5]);
    for (uint32_t i = 0; i < threads; i++) {
        sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (connect(sockets[i], (struct sockaddr *)&echo_at, sizeof echo_at) != 0) return 2;
        setsockopt(sockets[i], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ PATIENCE_MS / 1000, 0 }, sizeof(struct timeval));
        if (is("polls")) {
            idle[i] = socket(AF_INET, SOCK_DGRAM, 0);
            if (connect(idle[i], (struct sockaddr *)&echo_at, sizeof echo_at) != 0) return 2;
        }
        sets[i] = epoll_create1(0);
        struct epoll_event event = { .events = EPOLLIN, .data.fd = sockets[i] };
        if (is("epoll")) epoll_ctl(sets[i], EPOLL_CTL_ADD, sockets[i], &event);
    }
    pthread_t ids[THREADS_MOST];
    working = threads;
    for (uint32_t i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)i);
    for (uint32_t turn = 0; working > 0; turn++) {
        usleep(3000);
        for (int i = 6; i < count; i++) disturb(arguments[i], sockets[turn % threads]);
    }
    for (uint32_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    if (staying > 0) {
        if (waitpid(staying, NULL, WNOHANG) != 0) fail("the child has ended", 0, 0);
        kill(staying, SIGKILL);
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
