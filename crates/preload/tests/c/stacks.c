/* How much of the caller's stack each call takes: the stack below is painted, the call is made, and what is not as it was
 * painted is looked for. Says "CALL BYTES" a line. The arguments are the addresses of this end and of one that answers, of IPv4 and IPv6. With
 * "small" behind them it makes the calls in threads with stacks as small as may be, and says "end". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define PAINTED_BYTES (512 * 1024)
#define PAINT 0xa5
/* What the measuring itself may have below its frame. */
#define MARGIN_BYTES 1024

static struct sockaddr_in here, there;
static struct sockaddr_in6 here6, there6;
static int fd, fd6, others_fd, epoll, measures;
static const char *name;
/* Of the thread that is cancelled. */
static volatile unsigned char *cancelled_frame;

static __attribute__((noinline)) void paint(volatile unsigned char *frame) {
    for (volatile unsigned char *at = frame - PAINTED_BYTES; at < frame - MARGIN_BYTES; at++) *at = PAINT;
}

static __attribute__((noinline)) long depth_below(volatile unsigned char *frame) {
    volatile unsigned char *at = frame - PAINTED_BYTES;
    while (at < frame - MARGIN_BYTES && *at == PAINT) at++;
    return frame - at;
}

static __attribute__((noinline)) void say(long depth, const char *called) {
    /* Buffered output would be made on this stack. */
    char line[100];
    int length = snprintf(line, sizeof line, "%s %ld\n", called, depth);
    (void)!write(1, line, length);
}

static __attribute__((noinline)) long measured(void (*call)(void)) {
    volatile unsigned char *frame = __builtin_frame_address(0);
    /* Painting needs little of what is below its own frame. */
    paint(frame);
    call();
    return depth_below(frame);
}

static void run(const char *called, void (*call)(void)) {
    name = called;
    if (measures) {
        long depth = measured(call);
        say(depth, name);
    } else call();
}

/* Keeps the deepest of several calls. */
static void deepen(long *deepest, void (*call)(void)) {
    long depth = 0;
    if (measures) depth = measured(call);
    else call();
    if (depth > *deepest) *deepest = depth;
}

static void soon(void) { usleep(5000); }
static char data[3000];
static struct iovec parts[2] = { { data, 10 }, { data + 10, 20 } };

static void open_it(void) { fd = socket(AF_INET, SOCK_DGRAM, 0); }
static void bind_it(void) { if (bind(fd, (void *)&here, sizeof here)) abort(); }
static void connect_it(void) { if (connect(fd, (void *)&there, sizeof there)) abort(); }
static void disconnect_it(void) { struct sockaddr none = { .sa_family = AF_UNSPEC }; connect(fd, &none, sizeof none); }
static void send_it(void) { sendto(fd, data, 10, 0, (void *)&there, sizeof there); }
static void send_connected(void) { send(fd, data, 10, 0); }
static void write_it(void) { (void)!write(fd, data, 10); }
static void writev_it(void) { (void)!writev(fd, parts, 2); }
static void send_large(void) { sendto(fd, data, 3000, 0, (void *)&there, sizeof there); }
static void sendmsg_it(void) {
    struct msghdr message = { .msg_name = &there, .msg_namelen = sizeof there, .msg_iov = parts, .msg_iovlen = 2 };
    sendmsg(fd, &message, 0);
}
static void sendmmsg_it(void) {
    struct mmsghdr message = { .msg_hdr = { .msg_name = &there, .msg_namelen = sizeof there, .msg_iov = parts, .msg_iovlen = 2 } };
    sendmmsg(fd, &message, 1, 0);
}
static void recv_none(void) { recv(fd, data, 10, MSG_DONTWAIT); }
static void recv_one(void) { recv(fd, data, 10, 0); }
static void read_one(void) { (void)!read(fd, data, 10); }
static void recvfrom_one(void) {
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    recvfrom(fd, data, 10, 0, (void *)&from, &length);
}
static void recvmsg_one(void) {
    char control[200];
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control };
    recvmsg(fd, &message, 0);
}
static void recvmmsg_one(void) {
    struct mmsghdr message = { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 2 } };
    recvmmsg(fd, &message, 1, 0, NULL);
}
static void poll_it(void) { struct pollfd one = { fd, POLLIN, 0 }; poll(&one, 1, 30); }
static void select_it(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval time = { 0, 30000 };
    select(fd + 1, &set, NULL, NULL, &time);
}
static void epoll_create_it(void) { epoll = epoll_create1(0); }
static void epoll_add(void) {
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}
static void epoll_wait_it(void) { struct epoll_event event; epoll_wait(epoll, &event, 1, 30); }
static void set_option(void) { int on = 1; setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on); }
static void join_group(void) {
    struct ip_mreq request = { .imr_interface = here.sin_addr };
    inet_aton("239.77.1.2", &request.imr_multiaddr);
    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
}
static void get_option(void) { int value; socklen_t length = sizeof value; getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &length); }
static void set_flags(void) { fcntl(fd, F_SETFL, 0); }
static void ask_bytes(void) { int bytes; ioctl(fd, FIONREAD, &bytes); }
static void dup_it(void) { close(dup(fd)); }
static void fork_it(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
}
static void shut_down(void) { shutdown(fd, SHUT_RD); }
static void close_it(void) { close(fd); }
static void close_set(void) { close(epoll); }
static void close_range_it(void) { close_range(900, 1000, 0); }
static void handler(int number) { (void)number; }
static void handle(void) { signal(SIGUSR1, handler); }

static void ppoll_it(void) {
    struct pollfd one = { fd, POLLIN, 0 };
    struct timespec time = { 0, 30000000 };
    sigset_t none;
    sigemptyset(&none);
    ppoll(&one, 1, &time, &none);
}
static void pselect_it(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timespec time = { 0, 30000000 };
    sigset_t none;
    sigemptyset(&none);
    pselect(fd + 1, &set, NULL, NULL, &time, &none);
}
static void epoll_pwait_it(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    epoll_pwait(epoll, &event, 1, 30, &none);
}
static void set_timestamp(void) { int on = 1; setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on); }
static void exec_nothing(void) {
    char *arguments[] = { "none", NULL };
    execve("/none", arguments, environ);
}
static void exec_nothing_by_name(void) { execlp("nw-there-is-none", "none", NULL); }
static void spawn_it(void) {
    char *arguments[] = { "true", NULL };
    pid_t pid;
    if (posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) == 0) waitpid(pid, NULL, 0);
}

/* A signal comes to this thread in 20 ms, and again until it ended a call: on a busy machine the first may come before that waits. */
static volatile sig_atomic_t handled;
static timer_t timer;
static void note(int number) { (void)number; handled = 1; }
static void signal_soon(void) {
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
    event._sigev_un._tid = syscall(SYS_gettid);
    struct itimerspec time = { .it_value = { 0, 20000000 }, .it_interval = { 0, 20000000 } };
    static int is_made;
    struct sigaction action = { .sa_handler = note };
    sigaction(SIGALRM, &action, NULL);
    if (is_made++) timer_delete(timer);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) abort();
    handled = 0;
    timer_settime(timer, 0, &time, NULL);
}
static void was_ended_by_the_signal(long result) {
    struct itimerspec none = { .it_value = { 0, 0 }, .it_interval = { 0, 0 } };
    if (result >= 0 || errno != EINTR || !handled) abort();
    timer_settime(timer, 0, &none, NULL);
}
static void recv_until_signal(void) { was_ended_by_the_signal(recv(fd, data, 10, 0)); }
static void poll_until_signal(void) {
    struct pollfd one = { fd, POLLIN, 0 };
    was_ended_by_the_signal(poll(&one, 1, -1));
}
static void epoll_until_signal(void) {
    struct epoll_event event;
    was_ended_by_the_signal(epoll_wait(epoll, &event, 1, -1));
}

static void open_6(void) { fd6 = socket(AF_INET6, SOCK_DGRAM, 0); }
static void bind_6(void) { if (bind(fd6, (void *)&here6, sizeof here6)) abort(); }
static void send_6(void) { sendto(fd6, data, 10, 0, (void *)&there6, sizeof there6); }
static void send_large_6(void) { sendto(fd6, data, 3000, 0, (void *)&there6, sizeof there6); }
static void recv_6(void) { struct timeval time = { 1, 0 }; setsockopt(fd6, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time); if (recv(fd6, data, 10, 0) < 0) abort(); }
static void set_option_6(void) { int on = 1; setsockopt(fd6, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on); }
static void recvmsg_6(void) {
    char control[200];
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control };
    recvmsg(fd6, &message, 0);
}
static void connect_6(void) { if (connect(fd6, (void *)&there6, sizeof there6)) abort(); }
static void close_6(void) { close(fd6); }

static void open_others(void) {
    struct sockaddr_in own = here;
    own.sin_port = htons(6001);
    others_fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(others_fd, (void *)&own, sizeof own)) abort();
}
static void others_first(void) { recv(others_fd, data, 10, MSG_DONTWAIT); }
static void others_send(void) { sendto(others_fd, data, 10, 0, (void *)&there, sizeof there); }
static void others_recv(void) { recv(others_fd, data, 10, 0); }
static void others_close(void) { close(others_fd); }
static void *another(void *unused) {
    run("first use in a second thread", others_first);
    run("sendto in a second thread", others_send);
    run("recv in a second thread", others_recv);
    run("fork in a second thread", fork_it);
    run("close in a second thread", others_close);
    return unused;
}

static void *to_be_cancelled(void *unused) {
    cancelled_frame = __builtin_frame_address(0);
    if (measures) paint(cancelled_frame);
    recv(fd, data, 10, 0);
    return unused;
}

static void in_thread(size_t stack_bytes, void *(*calls)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, stack_bytes)) abort();
    if (pthread_create(&thread, &attributes, calls, NULL)) abort();
    pthread_join(thread, NULL);
}

/* The stack of a thread that was cancelled is looked at when it has ended. */
static void cancel(void) {
    size_t stack_bytes = measures ? 2 * PAINTED_BYTES : (size_t)PTHREAD_STACK_MIN;
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) abort();
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, stack_bytes)) abort();
    if (pthread_create(&thread, &attributes, to_be_cancelled, NULL)) abort();
    usleep(50000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) abort();
    if (measures) say(depth_below(cancelled_frame), "recv that is cancelled");
    munmap(stack, stack_bytes);
}

/* Connections: one that is made to the far end, and one that it makes then. */
static int listener, stream;
static void listen_it(void) {
    struct sockaddr_in own = here;
    int on = 1;
    own.sin_port = htons(6003);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&own, sizeof own) || listen(listener, 1)) abort();
}
static void stream_open(void) { stream = socket(AF_INET, SOCK_STREAM, 0); }
static void stream_connect(void) { if (connect(stream, (void *)&there, sizeof there)) abort(); }
static void stream_accept(void) { if ((stream = accept(listener, NULL, NULL)) < 0) abort(); }
static void stream_send(void) { if (send(stream, data, 10, 0) != 10) abort(); }
static void stream_recv(void) { if (recv(stream, data, 10, MSG_WAITALL) != 10) abort(); }
static void stream_recv_none(void) { if (recv(stream, data, 10, MSG_DONTWAIT) >= 0) abort(); }
static void stream_poll(void) { struct pollfd one = { stream, POLLIN, 0 }; if (poll(&one, 1, 1000) != 1) abort(); }
/* Only the kernel has it: a connection that was adopted is released. */
static void stream_option(void) { setsockopt(stream, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); }
static void stream_shut_down(void) { shutdown(stream, SHUT_WR); }
static void stream_close(void) { close(stream); }

/* Adopted in some call of these, and again after an option that only the kernel has. */
static void exchange_by_stream(const char *whose) {
    char called[60];
    for (int part = 0; part < 2; part++) {
        long sends = 0, receives = 0, polls = 0, nothing = 0;
        for (int i = 0; i < 40; i++) {
            deepen(&sends, stream_send);
            deepen(&polls, stream_poll);
            deepen(&receives, stream_recv);
            deepen(&nothing, stream_recv_none);
        }
        const char *when = part ? " after an option" : "";
        const char *names[] = { "send", "poll", "recv", "recv of nothing" };
        long depths[] = { sends, polls, receives, nothing };
        for (int i = 0; i < 4 && measures; i++) {
            snprintf(called, sizeof called, "%s by a connection %s%s", names[i], whose, when);
            say(depths[i], called);
        }
        if (!part) run("setsockopt of a connection", stream_option);
    }
    run("shutdown of a connection", stream_shut_down);
    run("close of a connection", stream_close);
}

static void connections(void) {
    run("listen", listen_it);
    run("socket of a connection", stream_open);
    run("connect of a connection", stream_connect);
    int made = stream;
    run("accept", stream_accept);
    exchange_by_stream("accepted");
    stream = made;
    exchange_by_stream("made");
    close(listener);
}

static long by_kernel(void) {
    char line[512];
    long count = -1, seen = 0;
    FILE *file = fopen("/proc/self/net/snmp", "r");
    while (file && fgets(line, sizeof line, file))
        /* The second line that begins so has the numbers. */
        if (strncmp(line, "Udp: ", 5) == 0 && seen++ == 1) sscanf(line, "Udp: %ld", &count);
    if (file) fclose(file);
    return count;
}

static volatile int is_busy;
static void *compute(void *unused) {
    while (is_busy) {}
    return unused;
}

/* Exchanges until a datagram comes by the kernel, or past it; false: none did in ten seconds. */
static int exchanged_until(int wanted_by_kernel, long *sends, long *receives) {
    time_t end = time(NULL) + 10;
    while (time(NULL) < end) {
        long before = by_kernel();
        deepen(sends, send_it);
        deepen(receives, recv_one);
        if ((by_kernel() > before) == wanted_by_kernel) return 1;
    }
    return 0;
}

/* With spin = auto threads that compute on each CPU have a socket lent to the kernel, and it is taken back when they end. */
static void lent_to_the_kernel(void) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    long sends = 0, receives = 0, count = 2 * sysconf(_SC_NPROCESSORS_ONLN);
    if (count > MOST) count = MOST;
    is_busy = 1;
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, compute, NULL)) abort();
    int is_lent = exchanged_until(1, &sends, &receives);
    is_busy = 0;
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    if (!is_lent) return;
    say(sends, "sendto beside threads that compute");
    say(receives, "recv beside threads that compute");
    sends = receives = 0;
    if (!exchanged_until(0, &sends, &receives)) return;
    say(sends, "sendto that takes back a socket lent to the kernel");
    say(receives, "recv that takes back a socket lent to the kernel");
}

static void answered(const char *called, void (*call)(void)) {
    send_it();
    soon();
    run(called, call);
}

static void *all(void *unused) {
    run("socket", open_it);
    run("bind", bind_it);
    run("sendto", send_it);
    soon();
    run("recv", recv_one);
    run("recv of nothing", recv_none);
    for (int i = 0; i < 3; i++) {
        run("sendto again", send_it);
        run("recv that waits", recv_one);
    }
    answered("read", read_one);
    answered("recvfrom", recvfrom_one);
    answered("recvmsg", recvmsg_one);
    answered("recvmmsg", recvmmsg_one);
    answered("poll", poll_it);
    answered("select", select_it);
    while (recv(fd, data, 10, MSG_DONTWAIT) >= 0) {}
    run("poll that waits", poll_it);
    run("select that waits", select_it);
    run("epoll_create1", epoll_create_it);
    run("epoll_ctl", epoll_add);
    run("epoll_wait that waits", epoll_wait_it);
    answered("epoll_wait", epoll_wait_it);
    run("ppoll that waits", ppoll_it);
    run("pselect that waits", pselect_it);
    run("epoll_pwait that waits", epoll_pwait_it);
    answered("ppoll", ppoll_it);
    while (recv(fd, data, 10, MSG_DONTWAIT) >= 0) {}
    answered("epoll_pwait", epoll_pwait_it);
    while (recv(fd, data, 10, MSG_DONTWAIT) >= 0) {}
    signal_soon();
    run("recv with a handler", recv_until_signal);
    signal_soon();
    run("poll with a handler", poll_until_signal);
    signal_soon();
    run("epoll_wait with a handler", epoll_until_signal);
    cancel();
    open_others();
    in_thread(measures ? 2 * PAINTED_BYTES : (size_t)PTHREAD_STACK_MIN, another);
    if (here6.sin6_family) {
        run("socket of IPv6", open_6);
        run("bind of IPv6", bind_6);
        run("sendto of IPv6", send_6);
        run("recv of IPv6", recv_6);
        run("sendto of fragments of IPv6", send_large_6);
        run("setsockopt of IPv6", set_option_6);
        recv_6();
        run("connect of IPv6", connect_6);
        send_6();
        run("recvmsg of IPv6", recvmsg_6);
        run("close of IPv6", close_6);
    }
    run("execve that fails", exec_nothing);
    run("execlp that fails", exec_nothing_by_name);
    run("posix_spawnp", spawn_it);
    run("setsockopt of times", set_timestamp);
    answered("recvmsg with a time", recvmsg_one);
    run("sendmsg", sendmsg_it);
    run("sendmmsg", sendmmsg_it);
    run("sendto of fragments", send_large);
    run("setsockopt", set_option);
    run("setsockopt of a group", join_group);
    run("getsockopt", get_option);
    run("fcntl", set_flags);
    run("ioctl", ask_bytes);
    run("dup", dup_it);
    run("connect", connect_it);
    run("send", send_connected);
    run("write", write_it);
    run("writev", writev_it);
    run("connect to nobody", disconnect_it);
    run("sigaction", handle);
    run("close_range", close_range_it);
    run("shutdown", shut_down);
    run("close", close_it);
    run("close of a set", close_set);
    run("socket again", open_it);
    run("bind again", bind_it);
    const char *spin = getenv("NEARWIRE_SPIN");
    if (measures && spin && strcmp(spin, "auto") == 0) lent_to_the_kernel();
    run("close again", close_it);
    connections();
    run("fork", fork_it);
    return unused;
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    here = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(6000) };
    there = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7) };
    inet_aton(arguments[1], &here.sin_addr);
    inet_aton(arguments[2], &there.sin_addr);
    if (inet_pton(AF_INET6, arguments[3], &here6.sin6_addr) == 1 && inet_pton(AF_INET6, arguments[4], &there6.sin6_addr) == 1) {
        here6.sin6_family = there6.sin6_family = AF_INET6;
        here6.sin6_port = htons(6002);
        there6.sin6_port = htons(7);
    }
    measures = count == 5;
    if (measures) in_thread(2 * PAINTED_BYTES, all);
    else for (int i = 0; i < 2; i++) in_thread(PTHREAD_STACK_MIN, all);
    printf("end\n");
    return 0;
}
