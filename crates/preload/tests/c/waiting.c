/* Threads that wait in every way, and the far end that sends to them.
 *
 *   waiting receive ADDRESS PORT    threads in recv, epoll_wait and poll answer each datagram with its text, until each
 *                                   socket got "q"
 *   waiting send ADDRESS PORT MS    sends a few datagrams at a time to random sockets and waits for all answers
 *   waiting idle ADDRESS PORT       waits for a second as the first does, and says how much CPU time it took
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_RECV = 3, IN_EPOLL = 3, IN_POLL = 2, SOCKETS = IN_RECV + IN_EPOLL + IN_POLL };

static int sockets[SOCKETS], set, late_set, ended_event, is_idle;
static struct sockaddr_in base;

static struct sockaddr_in at(int n) {
    struct sockaddr_in address = base;
    address.sin_port = htons(ntohs(base.sin_port) + n);
    return address;
}

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

/* Reads one datagram and answers it; 1: it was the last. */
static int serve(int fd, int flags) {
    char data[64];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    ssize_t got = recvfrom(fd, data, sizeof data, flags, (struct sockaddr *)&from, &length);
    if (got < 0 && errno == EAGAIN && flags) return 0;
    if (got < 0) fail("recvfrom");
    if (got == 1) return 1;
    if (sendto(fd, data, got, 0, (struct sockaddr *)&from, length) != got) fail("answer");
    return 0;
}

static void *in_recv(void *argument) {
    while (!serve(*(int *)argument, 0)) {}
    return NULL;
}

static int still_open = IN_EPOLL;

/* Two threads at one set: either may find that the other was faster. */
static void *in_epoll(void *unused) {
    for (;;) {
        struct epoll_event events[2];
        int found = epoll_wait(set, events, 2, -1);
        if (found < 0) fail("epoll_wait");
        for (int i = 0; i < found; i++) {
            if (events[i].data.fd == ended_event) return unused;
            if (serve(events[i].data.fd, MSG_DONTWAIT) && __sync_sub_and_fetch(&still_open, 1) == 0) eventfd_write(ended_event, 1);
        }
    }
}

static void *in_poll(void *unused) {
    struct pollfd polled[IN_POLL];
    for (int i = 0; i < IN_POLL; i++) polled[i] = (struct pollfd){ sockets[IN_RECV + IN_EPOLL + i], POLLIN, 0 };
    for (int open = IN_POLL; open > 0;) {
        if (poll(polled, IN_POLL, -1) < 0) fail("poll");
        for (int i = 0; i < IN_POLL; i++) {
            if (polled[i].revents && serve(polled[i].fd, MSG_DONTWAIT)) open--;
        }
    }
    return unused;
}

/* Waits for a set before the process has any socket; one is put into it later. */
static void *in_late_epoll(void *unused) {
    struct epoll_event event;
    int found = epoll_wait(late_set, &event, 1, 10000);
    if (found != 1 || event.data.fd != sockets[IN_RECV + IN_EPOLL]) printf("the early waiter got %d\n", found);
    return unused;
}

static long cpu_us(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static void receive(void) {
    pthread_t early, threads[IN_RECV + 3];
    set = epoll_create1(0);
    late_set = epoll_create1(0);
    ended_event = eventfd(0, 0);
    if (!is_idle) pthread_create(&early, NULL, in_late_epoll, NULL);
    usleep(20000);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = ended_event };
    epoll_ctl(set, EPOLL_CTL_ADD, ended_event, &event);
    for (int i = 0; i < SOCKETS; i++) {
        struct sockaddr_in address = at(i);
        sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(sockets[i], (struct sockaddr *)&address, sizeof address) != 0) fail("bind");
        event.data.fd = sockets[i];
        if (i >= IN_RECV && i < IN_RECV + IN_EPOLL) epoll_ctl(set, EPOLL_CTL_ADD, sockets[i], &event);
    }
    event.data.fd = sockets[IN_RECV + IN_EPOLL];
    epoll_ctl(late_set, EPOLL_CTL_ADD, event.data.fd, &event);
    for (int i = 0; i < IN_RECV; i++) pthread_create(&threads[i], NULL, in_recv, &sockets[i]);
    pthread_create(&threads[IN_RECV], NULL, in_epoll, NULL);
    pthread_create(&threads[IN_RECV + 1], NULL, in_epoll, NULL);
    pthread_create(&threads[IN_RECV + 2], NULL, in_poll, NULL);
    if (is_idle) {
        usleep(300000);
        long before = cpu_us();
        usleep(1000000);
        printf("%ld\n", cpu_us() - before);
        fflush(stdout);
        _exit(0);
    }
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < IN_RECV + 3; i++) pthread_join(threads[i], NULL);
    pthread_join(early, NULL);
    printf("end\n");
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void send_all(long ms) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), seed = 1;
    struct timeval patience = { 3, 0 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    long until = now_ms() + ms, round = 0, sent = 0;
    for (; now_ms() < until; round++) {
        int count = 1 + rand_r((unsigned *)&seed) % 8;
        unsigned answered = 0;
        for (int i = 0; i < count; i++, sent++) {
            struct sockaddr_in to = at(rand_r((unsigned *)&seed) % SOCKETS);
            char text[32];
            int length = sprintf(text, "%ld %d", round, i);
            sendto(fd, text, length, 0, (struct sockaddr *)&to, sizeof to);
            if (rand_r((unsigned *)&seed) % 4 == 0) usleep(rand_r((unsigned *)&seed) % 300);
        }
        for (int i = 0; i < count; i++) {
            char text[64] = "";
            long of;
            int number;
            if (recv(fd, text, sizeof text - 1, 0) < 0) {
                printf("round %ld: %d of %d answered after %ld datagrams\n", round, i, count, sent);
                exit(1);
            }
            if (sscanf(text, "%ld %d", &of, &number) != 2 || of != round || answered >> number & 1) {
                printf("round %ld: answer '%s' came twice\n", round, text);
                exit(1);
            }
            answered |= 1u << number;
        }
        if (rand_r((unsigned *)&seed) % 16 == 0) usleep(rand_r((unsigned *)&seed) % 3000);
    }
    for (int i = 0; i < SOCKETS; i++) {
        struct sockaddr_in to = at(i);
        sendto(fd, "q", 1, 0, (struct sockaddr *)&to, sizeof to);
    }
    printf("all of %ld answered\n", sent);
}

int main(int argc, char **arguments) {
    if (argc < 4) return 2;
    base = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(atoi(arguments[3])) };
    inet_pton(AF_INET, arguments[2], &base.sin_addr);
    is_idle = strcmp(arguments[1], "idle") == 0;
    if (strcmp(arguments[1], "send") == 0) send_all(argc > 4 ? atol(arguments[4]) : 1000);
    else receive();
    return 0;
}
