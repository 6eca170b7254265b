// Opens its first UDP socket in one of several situations and says what that took. Arguments: situation, address.
// "threads" has a second thread; "mappings" has many areas of memory; "plain" has neither. Output: room in the table of descriptors
// before the socket, whether the process was registered for membarrier before it, CPU time of the calls in us, and bytes behind a set of
// select(2) that changed when its count was the limit of open files.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAPPINGS = 30000, PAGE_BYTES = 4096 };

static void *waits(void *nothing) { pause(); return nothing; }

static long table_end(void) {
    char line[256];
    long end = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "FDSize: %ld", &end);
    if (status) fclose(status);
    return end;
}

enum { BEHIND_BYTES = 2048 };

static int changed_behind_a_set(void) {
    struct { fd_set set; unsigned char behind[BEHIND_BYTES]; } sets;
    int ends[2], changed = 0;
    if (pipe(ends) || write(ends[1], "x", 1) != 1) return -1;
    memset(sets.behind, 0, sizeof sets.behind);
    // A descriptor of nobody: where the kernel reads so far it says EBADF, and where it writes so far the bit is gone.
    sets.behind[BEHIND_BYTES / 4] = 1;
    FD_ZERO(&sets.set);
    FD_SET(ends[0], &sets.set);
    struct timeval soon = {0, 0};
    if (select(getdtablesize(), &sets.set, NULL, NULL, &soon) != 1) return -2;
    for (int at = 0; at < BEHIND_BYTES; at++) changed += sets.behind[at] != (at == BEHIND_BYTES / 4);
    close(ends[0]);
    close(ends[1]);
    return changed;
}

static long cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    pthread_t thread;
    if (!strcmp(arguments[1], "threads") && pthread_create(&thread, NULL, waits, NULL)) return 3;
    // Neighbours with other permissions are areas of their own.
    for (int area = 0; !strcmp(arguments[1], "mappings") && area < MAPPINGS; area++)
        if (mmap(NULL, PAGE_BYTES, area % 2 ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return 4;
    long end = table_end();
    int registered = !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    struct sockaddr_in local = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, arguments[2], &local.sin_addr) != 1) return 5;
    local.sin_port = htons(7000);
    long begun = cpu_us();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&local, sizeof local)) return 6;
    long took_us = cpu_us() - begun;
    printf("%ld %d %ld %d\n", end, registered, took_us, changed_behind_a_set());
    return 0;
}
