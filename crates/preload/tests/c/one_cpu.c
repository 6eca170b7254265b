// Two programs pinned to one CPU: `echo ADDRESS PORT` answers, `ask ADDRESS PORT MS` prints how many answers it got in the
// last half of the time.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 3;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char message[64] = {0};
    if (inet_pton(AF_INET, words[2], &at.sin_addr) != 1) return 4;
    if (!strcmp(words[1], "echo")) {
        if (bind(fd, (struct sockaddr *)&at, sizeof at)) return 5;
        printf("ready\n");
        fflush(stdout);
        for (;;) {
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            if (recvfrom(fd, message, sizeof message, 0, (struct sockaddr *)&from, &length) < 0) return 6;
            sendto(fd, message, sizeof message, 0, (struct sockaddr *)&from, length);
        }
    }
    struct timeval lost = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &lost, sizeof lost);
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) return 7;
    long time_ms = atol(words[4]), began_ms = now_ms(), answers = 0;
    for (long now = began_ms; now < began_ms + time_ms; now = now_ms()) {
        send(fd, message, sizeof message, 0);
        if (recv(fd, message, sizeof message, 0) > 0 && now >= began_ms + time_ms / 2) answers++;
    }
    printf("%ld\n", answers);
    return 0;
}
