/* Sends numbered datagrams as fast as it goes, and then does what its first argument says:
 *
 *   coalescing pause ADDRESS PORT COUNT   works without any call for half a second
 *   coalescing return ADDRESS PORT COUNT  returns from main
 *   coalescing exit ADDRESS PORT COUNT    leaves by _exit
 *   coalescing fork ADDRESS PORT COUNT    has a child send the second half, by a socket of its own
 *   coalescing ask ADDRESS PORT COUNT     sends and waits for an answer, as often as that, and says what it all took
 *
 * It prints the time (CLOCK_MONOTONIC, ns) at which it had sent the last, and how many threads it has.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in to;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int opened(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) exit(2);
    return fd;
}

static void send_from(int fd, uint32_t first, uint32_t end) {
    for (uint32_t number = first; number < end; number++) {
        if (send(fd, &number, sizeof number, 0) != sizeof number) exit(3);
    }
}

static int threads(void) {
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &count);
    return count;
}

static void ask(int fd, uint32_t count) {
    int64_t began_ns = now_ns();
    uint32_t answer;
    for (uint32_t number = 0; number < count; number++) {
        send_from(fd, number, number + 1);
        if (recv(fd, &answer, sizeof answer, 0) != sizeof answer || answer != number) exit(4);
    }
    printf("%ld\n", (long)(now_ns() - began_ns));
}

int main(int argc, char **argv) {
    if (argc != 5) return 1;
    const char *mode = argv[1];
    uint32_t count = atoi(argv[4]);
    to.sin_family = AF_INET;
    to.sin_port = htons(atoi(argv[3]));
    inet_pton(AF_INET, argv[2], &to.sin_addr);
    int fd = opened();
    if (!strcmp(mode, "ask")) {
        ask(fd, count);
        return 0;
    }
    uint32_t half = strcmp(mode, "fork") ? count : count / 2;
    send_from(fd, 0, half);
    int64_t sent_ns = now_ns();
    if (!strcmp(mode, "pause")) {
        while (now_ns() < sent_ns + 500 * 1000 * 1000) {}
    }
    if (half < count) {
        pid_t child = fork();
        if (child == 0) {
            send_from(opened(), half, count);
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    printf("%ld %d\n", (long)sent_ns, threads());
    fflush(stdout);
    if (!strcmp(mode, "exit")) _exit(0);
    return 0;
}
