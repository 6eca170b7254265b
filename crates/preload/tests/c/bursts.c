// A program that computes while datagrams arrive, and reads then. Arguments: way, sockets, SO_RCVBUF (0: the default), address, first
// port, and for connected sockets the address and port of the far end, else "-" and 0.
// For each line on its standard input it reads until nothing comes for a while, and says what each socket got: how many,
// and how many came out of their order. "pause MS": it reads with pauses of so long, until the last number of all came.
// "once": it reads until nothing comes, and does not wait for more.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, BATCH = 32, QUIET_MS = 150 };
static int fds[MOST], count;
static unsigned got[MOST], disordered[MOST], next_number[MOST], last[MOST];
static const char *way;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void took(int at, const unsigned *number, ssize_t length) {
    if (length != 4) exit(3);
    got[at]++;
    if (*number < next_number[at]) disordered[at]++;
    next_number[at] = *number + 1;
    last[at] = *number;
}

// Reads until the socket says that it has nothing; how many it had.
static int drain(int at, int most) {
    int taken = 0;
    unsigned numbers[BATCH];
    while (taken < most) {
        if (!strcmp(way, "recvmmsg")) {
            struct mmsghdr messages[BATCH] = {0};
            struct iovec parts[BATCH];
            for (int i = 0; i < BATCH; i++) {
                parts[i] = (struct iovec){&numbers[i], 4};
                messages[i].msg_hdr.msg_iov = &parts[i];
                messages[i].msg_hdr.msg_iovlen = 1;
            }
            int n = recvmmsg(fds[at], messages, BATCH, MSG_DONTWAIT, NULL);
            if (n <= 0) break;
            for (int i = 0; i < n; i++) took(at, &numbers[i], messages[i].msg_len);
            taken += n;
        } else {
            ssize_t length = recv(fds[at], numbers, 4, !strcmp(way, "block") ? 0 : MSG_DONTWAIT);
            if (length < 0 && errno != EAGAIN) exit(4);
            if (length < 0) break;
            took(at, numbers, length);
            taken++;
        }
    }
    return taken;
}

// One step of reading; how many datagrams came.
static int step(int wait_ms) {
    int taken = 0;
    if (!strncmp(way, "epoll", 5)) {
        static int set = -1;
        int edge = !strcmp(way, "epoll-edge");
        if (set < 0) {
            set = epoll_create1(0);
            for (int i = 0; i < count; i++) {
                struct epoll_event event = {.events = EPOLLIN | (edge ? EPOLLET : 0), .data.u32 = i};
                if (epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event)) exit(5);
            }
        }
        struct epoll_event events[8];
        int n = epoll_wait(set, events, 8, wait_ms);
        // Level-triggered sets are read one datagram at a time: the others fill meanwhile.
        for (int i = 0; i < n; i++) taken += drain(events[i].data.u32, edge ? 1 << 30 : 1);
    } else if (!strcmp(way, "poll")) {
        struct pollfd polled[MOST];
        for (int i = 0; i < count; i++) polled[i] = (struct pollfd){fds[i], POLLIN, 0};
        poll(polled, count, wait_ms);
        for (int i = 0; i < count; i++)
            if (polled[i].revents) taken += drain(i, 1 << 30);
    } else {
        for (int i = 0; i < count; i++) taken += drain(i, 1 << 30);
    }
    return taken;
}

static int all_ended(unsigned end) {
    for (int i = 0; i < count; i++)
        if (last[i] != end) return 0;
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    way = argv[1];
    count = atoi(argv[2]);
    int buffer = atoi(argv[3]);
    for (int i = 0; i < count; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[5]) + i)};
        inet_pton(AF_INET, argv[4], &at.sin_addr);
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (buffer && setsockopt(fds[i], SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer)) return 6;
        struct timeval patience = {0, QUIET_MS * 1000};
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (bind(fds[i], (void *)&at, sizeof at)) return 7;
        struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[7]))};
        if (inet_pton(AF_INET, argv[6], &peer.sin_addr) == 1 && connect(fds[i], (void *)&peer, sizeof peer)) return 8;
    }
    printf("ready\n");
    fflush(stdout);
    char line[64];
    unsigned end;
    int pause_ms;
    while (fgets(line, sizeof line, stdin)) {
        memset(got, 0, sizeof got);
        memset(disordered, 0, sizeof disordered);
        memset(next_number, 0, sizeof next_number);
        memset(last, 0, sizeof last);
        long quiet = now_ms(), began = quiet;
        if (sscanf(line, "pause %d %u", &pause_ms, &end) == 2) {
            while (!all_ended(end) && now_ms() - began < 10000) {
                usleep(pause_ms * 1000);
                for (int i = 0; i < 2000; i++)
                    if (!step(0)) break;
            }
        } else if (!strncmp(line, "once", 4)) {
            while (step(0)) {}
        } else {
            while (now_ms() - quiet < QUIET_MS)
                if (step(QUIET_MS / 3)) quiet = now_ms();
        }
        for (int i = 0; i < count; i++) printf("%u/%u ", got[i], disordered[i]);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
