/* Threads that send at the same time, each by a socket of its own; or all by one.
 *
 *   senders own ADDRESS PORT THREADS COUNT     each thread sends COUNT datagrams of 8 bytes: its number, and theirs
 *   senders shared ADDRESS PORT THREADS COUNT
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 32, PAUSE_EVERY = 64, PAUSE_NS = 300 * 1000 };

static struct sockaddr_in to;
static uint32_t count;
static int shared = -1;
static pthread_barrier_t all_there;

static int opened(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) exit(2);
    return fd;
}

static void *sender(void *number) {
    uint32_t data[2] = { (uint32_t)(intptr_t)number, 0 };
    int fd = shared >= 0 ? shared : opened();
    pthread_barrier_wait(&all_there);
    for (data[1] = 0; data[1] < count; data[1]++) {
        if (send(fd, data, sizeof data, 0) != sizeof data) exit(3);
        /* What all send in this time fits into a receive buffer. */
        struct timespec pause = { 0, PAUSE_NS };
        if (data[1] % PAUSE_EVERY == PAUSE_EVERY - 1) nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) return 1;
    to.sin_family = AF_INET;
    inet_pton(AF_INET, argv[2], &to.sin_addr);
    to.sin_port = htons(atoi(argv[3]));
    int threads = atoi(argv[4]);
    count = atoi(argv[5]);
    if (threads < 1 || threads > THREADS_MOST) return 1;
    if (!strcmp(argv[1], "shared")) shared = opened();
    pthread_barrier_init(&all_there, NULL, threads);
    pthread_t thread[THREADS_MOST];
    for (intptr_t n = 0; n < threads; n++) pthread_create(&thread[n], NULL, sender, (void *)n);
    for (int n = 0; n < threads; n++) pthread_join(thread[n], NULL);
    return 0;
}
