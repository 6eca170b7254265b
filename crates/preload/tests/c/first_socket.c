// Opens its first UDP socket in one of several situations and says what that took. Arguments: situation, address.
// "threads" has a second thread; "mappings" has many areas of memory; "plain" has neither. Output: room in the table of descriptors
// before the socket, whether the process was registered for membarrier before it, CPU time of the calls in us.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    printf("%ld %d %ld\n", end, registered, cpu_us() - begun);
    return 0;
}
