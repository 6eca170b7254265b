/* How much of the caller's stack each call takes: the stack below is painted, the call is made, and what is not as it was
 * painted is looked for. Says "CALL BYTES" a line. With "small" as third argument it makes the calls in threads with stacks as
 * small as may be, and says "end". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAINTED_BYTES (512 * 1024)
#define PAINT 0xa5
/* What the measuring itself may have below its frame. */
#define MARGIN_BYTES 1024

static struct sockaddr_in here, there;
static int fd, epoll, measures;
static const char *name;

static __attribute__((noinline)) void measured(void (*call)(void)) {
    volatile unsigned char *frame = __builtin_frame_address(0);
    volatile unsigned char *bottom = frame - PAINTED_BYTES;
    for (volatile unsigned char *at = bottom; at < frame - MARGIN_BYTES; at++) *at = PAINT;
    call();
    volatile unsigned char *at = bottom;
    while (at < frame - MARGIN_BYTES && *at == PAINT) at++;
    long depth = frame - at;
    /* Buffered output would be made on this stack. */
    char line[100];
    int length = snprintf(line, sizeof line, "%s %ld\n", name, depth);
    (void)!write(1, line, length);
}

static void run(const char *called, void (*call)(void)) {
    name = called;
    if (measures) measured(call);
    else call();
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
    run("close again", close_it);
    run("fork", fork_it);
    return unused;
}

static void in_thread(size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, stack_bytes)) abort();
    if (pthread_create(&thread, &attributes, all, NULL)) abort();
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    here = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(6000) };
    there = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7) };
    inet_aton(arguments[1], &here.sin_addr);
    inet_aton(arguments[2], &there.sin_addr);
    measures = count == 3;
    if (measures) in_thread(2 * PAINTED_BYTES);
    else for (int i = 0; i < 3; i++) in_thread(PTHREAD_STACK_MIN);
    printf("end\n");
    return 0;
}
