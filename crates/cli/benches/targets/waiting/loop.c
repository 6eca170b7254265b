// A server with an event loop: one thread takes messages in by epoll, three answer them. In C, as the library serves calls of
// the C library, and Rust's wrappers of epoll make system calls of their own.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { WORKERS = 3, BYTES = 64, ROOM = 1024 };
struct message {
    char bytes[BYTES];
    struct sockaddr_in from;
};
static struct message queue[ROOM];
static unsigned first, end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int fd;

static void *work(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (first == end) pthread_cond_wait(&filled, &lock);
        struct message message = queue[first++ % ROOM];
        pthread_mutex_unlock(&lock);
        sendto(fd, message.bytes, BYTES, 0, (struct sockaddr *)&message.from, sizeof message.from);
    }
    return unused;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (inet_pton(AF_INET, words[1], &at.sin_addr) != 1 || bind(fd, (struct sockaddr *)&at, sizeof at)) return 1;
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) return 1;
    for (int at = 0; at < WORKERS; at++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL)) return 1;
    }
    for (;;) {
        struct message message;
        epoll_wait(set, &event, 1, -1);
        for (;;) {
            socklen_t length = sizeof message.from;
            if (recvfrom(fd, message.bytes, BYTES, 0, (struct sockaddr *)&message.from, &length) < 0) break;
            pthread_mutex_lock(&lock);
            if (end - first < ROOM) queue[end++ % ROOM] = message;
            pthread_mutex_unlock(&lock);
            pthread_cond_signal(&filled);
        }
    }
}
