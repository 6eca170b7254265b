/* Processes that share sockets. `program SCENARIO ECHO_ADDRESS`: a UDP echo answers at port 7 there. Prints what the
 * test looks at. `by kernel N`: datagrams that reached a reader through the kernel (Udp InDatagrams of this network
 * namespace). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100

static struct sockaddr_in far;

static void die(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static int bound(int port, int flags) {
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_DGRAM | flags, 0);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) != 0) die("bind");
    return fd;
}

/* One datagram there and back, at most a second. Says whether it came. */
static int exchange(int fd) {
    char data[64];
    struct timeval second = { 1, 0 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (sendto(fd, "hello", 5, 0, (struct sockaddr *)&far, sizeof far) != 5) die("sendto");
    return recv(fd, data, sizeof data, 0) == 5;
}

static int exchanges(int fd) {
    int came = 0;
    for (int i = 0; i < ROUNDS; i++) came += exchange(fd);
    return came;
}

static long in_datagrams(void) {
    char line[512];
    long count = -1, seen = 0;
    FILE *file = fopen("/proc/self/net/snmp", "r");
    while (file && fgets(line, sizeof line, file)) {
        /* The second line that begins so has the numbers. */
        if (strncmp(line, "Udp: ", 5) == 0 && seen++ == 1) sscanf(line, "Udp: %ld", &count);
    }
    if (file) fclose(file);
    return count;
}

/* Exchanges and says how many came, and how many of these by the kernel. */
static void measure(const char *who, int fd) {
    long before = in_datagrams();
    int came = exchanges(fd);
    printf("%s: came %d, by kernel %ld\n", who, came, in_datagrams() - before);
    fflush(stdout);
}

static void reap(pid_t pid) {
    if (waitpid(pid, NULL, 0) != pid) die("waitpid");
}

static void runs(int (*child)(void)) {
    pid_t pid = fork();
    if (pid == 0) _exit(child());
    reap(pid);
}

static int ends(void) { return 0; }

static int executes(void) { return execl("/bin/true", "true", NULL); }

static void helpers_do_not_cost(void) {
    int fd = bound(4000, SOCK_CLOEXEC);
    exchanges(fd);
    measure("alone", fd);
    runs(ends);
    measure("after a child", fd);
    runs(executes);
    measure("after fork and exec", fd);
    (void)!system("true");
    FILE *pipe = popen("true", "r");
    pclose(pipe);
    measure("after popen", fd);
    pid_t pid = vfork();
    if (pid == 0) {
        close(fd);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    reap(pid);
    measure("after vfork that closed", fd);
    pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        close(fd);
        _exit(0);
    }
    reap(pid);
    measure("after clone by syscall", fd);
}

static int leaks(const char *argument) {
    return execl("/bin/true", "true", argument, NULL);
}

static void a_leaked_socket_is_the_kernels(void) {
    int fd = bound(4000, 0);
    exchanges(fd);
    pid_t pid = fork();
    if (pid == 0) _exit(leaks("x"));
    reap(pid);
    measure("after execl with it", fd);
}

/* The parent is killed: the interface is free for the child. */
static void parent_is_killed(void) {
    int ready[2];
    if (pipe(ready) != 0) die("pipe");
    pid_t parent = fork();
    if (parent == 0) {
        int fd = bound(4000, 0);
        exchanges(fd);
        pid_t me = getpid();
        if (fork() != 0) {
            for (;;) exchange(fd);
        }
        (void)!write(ready[1], "x", 1);
        while (getppid() == me) usleep(1000);
        int own = bound(4001, 0);
        exchanges(own);
        measure("own socket", own);
        measure("inherited socket", fd);
        (void)!write(ready[1], "x", 1);
        _exit(0);
    }
    /* Only the child has the other end, so that none of these waits for one that has ended. */
    close(ready[1]);
    char byte;
    (void)!read(ready[0], &byte, 1);
    usleep(200000);
    kill(parent, SIGKILL);
    reap(parent);
    (void)!read(ready[0], &byte, 1);
}

static void daemon_is_accelerated(void) {
    int done[2];
    if (pipe(done) != 0) die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = bound(4000, 0);
        exchanges(fd);
        if (daemon(1, 1) != 0) die("daemon");
        exchange(fd);
        measure("daemon", fd);
        (void)!write(done[1], "x", 1);
        _exit(0);
    }
    reap(pid);
    char byte;
    (void)!read(done[0], &byte, 1);
}

/* Parent and child each wait in a set made after the fork; every datagram is read by one of them. */
static int serve(int fd) {
    int set = epoll_create1(0), count = 0;
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    char data[64];
    while (epoll_wait(set, &event, 1, 300) > 0) {
        while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0) count++;
    }
    return count;
}

static void workers_share_a_socket(void) {
    int fd = bound(4000, 0), sum = 0, status;
    exchanges(fd);
    pid_t workers[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = fork();
        if (workers[i] == 0) _exit(serve(fd));
    }
    for (int i = 0; i < 200; i++) {
        sendto(fd, "hello", 5, 0, (struct sockaddr *)&far, sizeof far);
        usleep(300);
    }
    sum = serve(fd);
    for (int i = 0; i < 2; i++) {
        waitpid(workers[i], &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("read together: %d\n", sum);
}

/* Each request is served by a child, which answers by a socket of its own. */
static void forking_server(void) {
    int fd = bound(4000, 0);
    exchanges(fd);
    int served = 0;
    for (int i = 0; i < 20; i++) {
        char data[64];
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        sendto(fd, "request", 7, 0, (struct sockaddr *)&far, sizeof far);
        if (recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &length) != 7) die("recvfrom");
        pid_t pid = fork();
        int status;
        if (pid == 0) {
            close(fd);
            int own = socket(AF_INET, SOCK_DGRAM, 0);
            connect(own, (struct sockaddr *)&from, length);
            send(own, data, 7, 0);
            _exit(recv(own, data, sizeof data, 0) == 7);
        }
        waitpid(pid, &status, 0);
        served += WEXITSTATUS(status);
    }
    printf("served: %d\n", served);
    measure("server", fd);
}

static double fork_us(void) {
    struct timespec from, to;
    double least = 1e9;
    for (int i = 0; i < 50; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        clock_gettime(CLOCK_MONOTONIC, &to);
        reap(pid);
        double us = (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3;
        if (us < least) least = us;
    }
    return least;
}

static void fork_costs(void) {
    double without = fork_us();
    int fd = bound(4000, 0);
    exchanges(fd);
    printf("fork: %.0f us without, %.0f us with an accelerated socket\n", without, fork_us());
    for (int i = 1; i <= 200; i++) bound(4000 + i, 0);
    printf("fork: %.0f us with 201\n", fork_us());
}

static const struct { const char *name; void (*run)(void); } scenarios[] = {
    { "helpers", helpers_do_not_cost },
    { "leaked", a_leaked_socket_is_the_kernels },
    { "killed", parent_is_killed },
    { "daemon", daemon_is_accelerated },
    { "workers", workers_share_a_socket },
    { "forking", forking_server },
    { "cost", fork_costs },
};

int main(int count, char **arguments) {
    if (count != 3) return 2;
    far = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7) };
    inet_pton(AF_INET, arguments[2], &far.sin_addr);
    for (unsigned i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(scenarios[i].name, arguments[1]) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 3;
}
