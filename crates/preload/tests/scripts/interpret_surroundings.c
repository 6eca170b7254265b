/* Words about what lies around: another namespace, a router with a narrow leg, the link, VLANs. */
#include "interpret.h"

#include <net/route.h>
#include <sched.h>
#include <sys/syscall.h>

static int place_fds[2] = { -1, -1 };

void open_places(void) {
    place_fds[0] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    place_fds[1] = open(getenv("SCRIPT_OTHER_NAMESPACE"), O_RDONLY | O_CLOEXEC);
    if (place_fds[0] < 0 || place_fds[1] < 0) say("the other namespace is not found");
}

/* The other one has the addresses of both ends itself. */
void go_to_place(void) {
    place = one % 2;
    CALL(setns(place_fds[place], CLONE_NEWNET));
}

static void ask_beyond(struct peer_request *request, struct peer_reply *reply) {
    char far[200];
    snprintf(far, sizeof far, "%s", getenv(PEER_VARIABLE));
    far_is_beyond();
    *reply = far_asks(request);
    setenv(PEER_VARIABLE, far, 1);
}

void open_beyond(void) {
    struct peer_reply reply;
    for (int i = 0; i < 2; i++) {
        struct peer_request request = { .command = PEER_OPEN, .family = i ? AF_INET6 : AF_INET, .from = PORT(FIRST_FAR) };
        ask_beyond(&request, &reply);
    }
}

void forget_beyond(void) {
    struct peer_request request = { .command = PEER_RESET, .from = script_port() };
    struct peer_reply reply;
    ask_beyond(&request, &reply);
}

const struct sockaddr *beyond_address(int slot, int n, int port) {
    if (families[slot] == AF_INET6) return (struct sockaddr *)v6(BEYOND6(n), port);
    return (struct sockaddr *)v4(BEYOND(n), port);
}

static char bytes[3000];

static void count_beyond(int slot) {
    struct peer_reply reply;
    int count = 0, length = 0;
    settle_beyond();
    for (;;) {
        struct peer_request request = { .command = PEER_RECEIVE, .family = families[slot], .from = PORT(FIRST_FAR) };
        ask_beyond(&request, &reply);
        if (reply.length < 0) break;
        count++;
        length += reply.length;
    }
    say("%d arrived, %d bytes", count, length);
}

/* Around what the leg and the cable carry. Of IPv6 the header is 20 bytes longer. */
static int long_size(int slot, int index) {
    static const int sizes[] = { 1372, 1373, 1472, 1473, 100, 2900 };
    return sizes[index % LENGTH_OF(sizes)] - (families[slot] == AF_INET6 ? 20 : 0);
}

/* Slot, destination, size, how many more. */
void send_beyond(void) {
    int slot = one, size = long_size(slot, three);
    if (sockets[slot] < 0 || places[slot] != 0) return;
    for (int i = 0; i <= four; i++) {
        CALL(sendto(sockets[slot], bytes, size, MSG_NOSIGNAL, beyond_address(slot, two, PORT(FIRST_FAR)), far_length(slot)));
        settle();
        settle_beyond();
    }
    count_beyond(slot);
}

/* To whom the socket is connected. */
void send_long(void) {
    int slot = one, size = long_size(slot, two % 3);
    if (sockets[slot] < 0 || places[slot] != 0) return;
    CALL(send(sockets[slot], bytes, size, MSG_NOSIGNAL));
    settle();
    settle_beyond();
    if (families[slot] == AF_INET6) GET(sockets[slot], IPPROTO_IPV6, IPV6_MTU);
    else GET(sockets[slot], IPPROTO_IP, 14 /* IP_MTU */);
}

static void set_near_link(int is_up) {
    int fd = syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = { .ifr_name = INTERFACE };
    if (syscall(SYS_ioctl, fd, SIOCGIFFLAGS, &request) != 0) say("flags: %s", strerrorname_np(errno));
    request.ifr_flags = is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
    if (syscall(SYS_ioctl, fd, SIOCSIFFLAGS, &request) != 0) say("set flags: %s", strerrorname_np(errno));
    if (is_up) {
        struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
        memcpy(&route.rt_dst, v4("10.78.0.0", 0), sizeof route.rt_dst);
        memcpy(&route.rt_genmask, v4("255.255.0.0", 0), sizeof route.rt_genmask);
        memcpy(&route.rt_gateway, v4(FAR, 0), sizeof route.rt_gateway);
        if (syscall(SYS_ioctl, fd, SIOCADDRT, &route) != 0) say("route: %s", strerrorname_np(errno));
        struct in6_rtmsg route6 = { .rtmsg_dst_len = 64, .rtmsg_metric = 1024, .rtmsg_flags = RTF_UP | RTF_GATEWAY };
        route6.rtmsg_dst = v6("fd78::", 0)->sin6_addr;
        route6.rtmsg_gateway = v6(FAR6, 0)->sin6_addr;
        int fd6 = syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0);
        if (syscall(SYS_ioctl, fd6, SIOCADDRT, &route6) != 0) say("route6: %s", strerrorname_np(errno));
        syscall(SYS_close, fd6);
    }
    syscall(SYS_close, fd);
}

static void set_link(int is_far, int is_up) {
    if (is_far) far_link(is_up);
    else set_near_link(is_up);
}

/* Sends and takes of every socket. What becomes of it is not known. */
static void load(void) {
    char data[10];
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] < 0 || places[i] != 0) continue;
        for (int n = 0; n < 3; n++) sendto(sockets[i], "load", 4, MSG_NOSIGNAL, FAR_FOR(i, PORT(LOAD_SINK)));
        recv(sockets[i], data, sizeof data, MSG_DONTWAIT);
    }
}

static void forget_load(void) {
    char data[10];
    settle();
    for (int i = 0; i < SLOTS; i++) {
        for (int left = 400; sockets[i] >= 0 && left > 0; left--) {
            errno = 0;
            if (recv(sockets[i], data, sizeof data, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EBADF)) break;
        }
    }
}

/* Which end's link goes down; for how many milliseconds. */
void flap(void) {
    int is_far = one % 2;
    if (place != 0) return;
    take_the_rest();
    show_ledger();
    feed(0, 1);
    start_feeding(0, 100, 100);
    for (int i = 0; i < 3; i++) load();
    set_link(is_far, 0);
    long end_us = now_us() + 1000L * (1 + 4 * two);
    do load();
    while (now_us() < end_us);
    set_link(is_far, 1);
    load();
    far_answers(AF_INET);
    far_answers(AF_INET6);
    stop_feeding();
    forget_load();
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] < 0 || places[i] != 0) continue;
        CALL(sendto(sockets[i], "again", 5, MSG_NOSIGNAL, FAR_FOR(i, ECHO_PORT)));
        feed(i, 2);
    }
    take_the_rest();
    show_ledger();
}

/* Addresses of the VLAN interface and its far end. */
#define NEAR_VLAN "10.80.0.1"
#define FAR_VLAN "10.80.0.2"

void vlan_bind(void) {
    if (families[one] != AF_INET) return;
    CALL(bind(sockets[one], V4(NEAR_VLAN, PORT(two))));
}

/* As `far`. */
void vlan_far(void) {
    FAR_SENDS(.from = PORT(FIRST_FAR + two % 2), .to = PORT(one), .size = 3, .count = 1 + three % 3, .address = NEAR_VLAN);
}

void vlan_send(void) {
    if (families[one] != AF_INET) return;
    CALL(sendto(sockets[one], "tagged", 6, MSG_NOSIGNAL, V4(FAR_VLAN, two ? ECHO_PORT : PORT(CLOSED_FAR))));
    settle();
}
