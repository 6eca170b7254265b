// A program that asks for times of arrival while datagrams come, and does without again, in turns. Arguments: own address, port. It says
// how long the calls took that ask, in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { TURNS = 41, BETWEEN = 4, FIRST = 30 };

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void receive(int fd, int count) {
    char bytes[16];
    while (count--)
        if (recv(fd, bytes, sizeof bytes, 0) < 0) exit(3);
}

static long set(int fd, int on) {
    long before_us = now_us();
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) != 0) exit(4);
    return now_us() - before_us;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (inet_pton(AF_INET, argv[1], &own.sin_addr) != 1 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0) return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    receive(fd, FIRST);
    for (int turn = 0; turn < TURNS; turn++) {
        printf("%ld\n", set(fd, 1));
        receive(fd, BETWEEN);
        set(fd, 0);
        receive(fd, BETWEEN);
    }
    return 0;
}
