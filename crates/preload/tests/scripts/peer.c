/* The peer at the far end: `peer UNIX_SOCKET INTERFACE NEAR_IPV4 NEAR_IPV6 FAR_IPV4`. It ends with its standard input. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum kind { DATAGRAMS, HEADERS };

struct open_socket {
    enum kind kind;
    int family, port, fd;
};

static struct open_socket table[4096];
static size_t table_length;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *interface, *near_ipv4, *near_ipv6, *far_ipv4;

static void sleep_us(long us) {
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {}
}

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static socklen_t make_address(struct sockaddr_storage *out, int family, const char *ip, int port) {
    memset(out, 0, sizeof *out);
    if (family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        v6->sin6_scope_id = ip && strncmp(ip, "ff", 2) == 0 ? if_nametoindex(interface) : 0;
        check(!ip || inet_pton(AF_INET6, ip, &v6->sin6_addr) == 1, "IPv6 address");
        return sizeof *v6;
    }
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    check(!ip || inet_pton(AF_INET, ip, &v4->sin_addr) == 1, "IPv4 address");
    return sizeof *v4;
}

static int bound_socket(int family, int port) {
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, big = 4 << 20;
    check(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
    struct ip_mreqn here = { .imr_ifindex = (int)if_nametoindex(interface) };
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &here.imr_ifindex, sizeof here.imr_ifindex);
    } else {
        setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof one);
        setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof one);
        setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &here, sizeof here);
    }
    struct sockaddr_storage address;
    socklen_t length = make_address(&address, family, NULL, port);
    check(bind(fd, (struct sockaddr *)&address, length) == 0, "bind");
    return fd;
}

/* The socket at a port, made if there is none. */
static int socket_at(enum kind kind, int family, int port) {
    pthread_mutex_lock(&table_lock);
    int fd = -1;
    for (size_t i = 0; i < table_length; i++) {
        if (table[i].kind == kind && table[i].family == family && table[i].port == port) fd = table[i].fd;
    }
    if (fd < 0) {
        check(table_length < sizeof table / sizeof *table, "too many sockets");
        fd = kind == HEADERS ? socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP) : bound_socket(family, port);
        check(fd >= 0, "socket");
        table[table_length++] = (struct open_socket){ kind, family, port, fd };
    }
    pthread_mutex_unlock(&table_lock);
    return fd;
}

static void close_ports(int first, int count) {
    pthread_mutex_lock(&table_lock);
    size_t kept = 0;
    for (size_t i = 0; i < table_length; i++) {
        if (table[i].port >= first && table[i].port < first + count) close(table[i].fd);
        else table[kept++] = table[i];
    }
    table_length = kept;
    pthread_mutex_unlock(&table_lock);
}

static uint32_t add_up(const void *bytes, size_t length, uint32_t sum) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++) sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
    return sum;
}

static uint16_t fold(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return htons(~sum & 0xffff);
}

/* IPv4 header (perhaps with options), UDP header, data. Gives the length. */
static size_t make_raw(uint8_t *out, const struct peer_request *request, const uint8_t *data) {
    size_t options = request->raw == RAW_IP_OPTIONS ? 4 : 0, trailing = request->raw == RAW_TRAILING_BYTES ? 6 : 0;
    size_t length = 28 + options + request->size + trailing;
    memset(out, 0, length);
    struct iphdr *ip = (struct iphdr *)out;
    *ip = (struct iphdr){ .version = 4, .ihl = 5 + options / 4, .tot_len = htons(length), .ttl = 64, .protocol = 17 };
    inet_pton(AF_INET, far_ipv4, &ip->saddr);
    inet_pton(AF_INET, near_ipv4, &ip->daddr);
    memset(out + 20, 1, options); /* four times "no operation" */
    struct udphdr *udp = (struct udphdr *)(out + 20 + options);
    size_t udp_length = 8 + request->size + (request->raw == RAW_LENGTH_BEYOND ? 10 : 0);
    *udp = (struct udphdr){ .source = htons(request->from), .dest = htons(request->to), .len = htons(udp_length) };
    memcpy(udp + 1, data, request->size);
    uint32_t sum = add_up(&ip->saddr, 8, 17 + udp_length);
    udp->check = fold(add_up(udp, 8 + request->size, sum));
    if (request->raw == RAW_NO_CHECKSUM) udp->check = 0;
    if (request->raw == RAW_BAD_CHECKSUM) udp->check ^= htons(0x0101);
    return length;
}

static void send_raw(const void *packet, size_t length, int protocol) {
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocol);
    struct sockaddr_storage address;
    socklen_t address_length = make_address(&address, AF_INET, near_ipv4, 0);
    check(fd >= 0 && sendto(fd, packet, length, 0, (struct sockaddr *)&address, address_length) >= 0, "send raw");
    close(fd);
}

/* A letter for each datagram, or for each piece that one is to be cut into. */
static void fill(uint8_t *data, const struct peer_request *request, int number) {
    int piece = request->segment ? request->segment : request->size, pieces = piece ? (request->size + piece - 1) / piece : 0;
    for (int i = 0; i < request->size; i++) data[i] = request->letter + (number * pieces + i / piece) % 26;
    if (request->is_numbered) memcpy(data, &number, sizeof number);
}

static void send_datagrams(const struct peer_request *request) {
    static _Thread_local uint8_t data[65536], packet[66000];
    const char *ip = request->address[0] ? request->address : request->family == AF_INET6 ? near_ipv6 : near_ipv4;
    struct sockaddr_storage address;
    socklen_t length = make_address(&address, request->family, ip, request->to);
    for (int i = 0; i < request->count; i++) {
        fill(data, request, i);
        if (request->raw != RAW_NONE) {
            send_raw(packet, make_raw(packet, request, data), IPPROTO_RAW);
        } else {
            int fd = socket_at(DATAGRAMS, request->family, request->from + i % request->sources);
            int ttl = request->ttl ? request->ttl : -1, v6 = request->family == AF_INET6;
            if (v6) setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &ttl, sizeof ttl);
            else if (ttl > 0) setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
            if (v6) setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &request->tos, sizeof request->tos);
            else setsockopt(fd, IPPROTO_IP, IP_TOS, &request->tos, sizeof request->tos);
            setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &request->segment, sizeof request->segment);
            /* An ICMP error of an earlier datagram is reported once, by whichever call comes next. */
            for (int attempt = 0; attempt < 3; attempt++) {
                if (sendto(fd, data, request->size, 0, (struct sockaddr *)&address, length) >= 0) break;
            }
        }
        if (request->gap_us) sleep_us(request->gap_us);
    }
}

static void send_icmp(const struct peer_request *request) {
    uint8_t packet[8 + 28 + 8] = { request->icmp_type, request->icmp_code };
    struct iphdr *ip = (struct iphdr *)(packet + 8);
    *ip = (struct iphdr){ .version = 4, .ihl = 5, .tot_len = htons(36), .ttl = 64, .protocol = 17 };
    inet_pton(AF_INET, near_ipv4, &ip->saddr);
    inet_pton(AF_INET, far_ipv4, &ip->daddr);
    ip->check = fold(add_up(ip, 20, 0));
    struct udphdr *udp = (struct udphdr *)(packet + 28);
    *udp = (struct udphdr){ .source = htons(request->to), .dest = htons(request->from), .len = htons(16) };
    uint16_t sum = fold(add_up(packet, sizeof packet, 0));
    memcpy(packet + 2, &sum, 2);
    send_raw(packet, sizeof packet, IPPROTO_ICMP);
}

static void open_port(const struct peer_request *request) {
    int fd = socket_at(DATAGRAMS, request->family, request->from);
    if (!request->group[0]) return;
    if (request->family == AF_INET6) {
        struct ipv6_mreq group = { .ipv6mr_interface = if_nametoindex(interface) };
        inet_pton(AF_INET6, request->group, &group.ipv6mr_multiaddr);
        check(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) == 0, "join");
    } else {
        struct ip_mreqn group = { .imr_ifindex = (int)if_nametoindex(interface) };
        inet_pton(AF_INET, request->group, &group.imr_multiaddr);
        check(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) == 0, "join");
    }
}

static void set_link(int is_up) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq asked = { 0 };
    snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", interface);
    check(ioctl(fd, SIOCGIFFLAGS, &asked) == 0, "flags of the interface");
    asked.ifr_flags = is_up ? asked.ifr_flags | IFF_UP : asked.ifr_flags & ~IFF_UP;
    check(ioctl(fd, SIOCSIFFLAGS, &asked) == 0, "set flags of the interface");
    close(fd);
}

static void cut_segments(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ethtool_value none = { .cmd = ETHTOOL_STSO, .data = 0 };
    struct ifreq asked = { .ifr_data = (char *)&none };
    snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", interface);
    // A veth whose peer has a program in the driver has no such feature to switch off: segments are cut already.
    check(ioctl(fd, SIOCETHTOOL, &asked) == 0 || errno == EOPNOTSUPP, "cut segments");
    close(fd);
}

static void describe_control(struct msghdr *message, struct peer_reply *reply) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) memcpy(&reply->ttl, CMSG_DATA(c), 4);
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) reply->tos = *CMSG_DATA(c);
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            inet_ntop(AF_INET, &((struct in_pktinfo *)CMSG_DATA(c))->ipi_addr, reply->to, sizeof reply->to);
        }
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) memcpy(&reply->ttl, CMSG_DATA(c), 4);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) memcpy(&reply->tos, CMSG_DATA(c), 4);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            inet_ntop(AF_INET6, &((struct in6_pktinfo *)CMSG_DATA(c))->ipi6_addr, reply->to, sizeof reply->to);
        }
    }
}

static void receive(const struct peer_request *request, struct peer_reply *reply) {
    int fd = socket_at(DATAGRAMS, request->family, request->from);
    struct pollfd readable = { fd, POLLIN, 0 };
    if (poll(&readable, 1, request->after_ms) <= 0) return;
    struct sockaddr_storage from;
    char control[256];
    struct iovec data = { reply->text, sizeof reply->text };
    struct msghdr message = { &from, sizeof from, &data, 1, control, sizeof control, 0 };
    reply->length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC);
    if (reply->length < 0) return;
    describe_control(&message, reply);
    if (from.ss_family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&from;
        inet_ntop(AF_INET6, &v6->sin6_addr, reply->from, sizeof reply->from);
        reply->from_port = ntohs(v6->sin6_port);
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&from;
        inet_ntop(AF_INET, &v4->sin_addr, reply->from, sizeof reply->from);
        reply->from_port = ntohs(v4->sin_port);
    }
}

static void watched(const struct peer_request *request, struct peer_reply *reply) {
    static _Thread_local uint8_t packet[66000];
    struct pollfd readable = { socket_at(HEADERS, AF_INET, request->from), POLLIN, 0 };
    while (poll(&readable, 1, request->after_ms) > 0) {
        ssize_t length = recv(readable.fd, packet, sizeof packet, MSG_DONTWAIT);
        struct iphdr *ip = (struct iphdr *)packet;
        struct udphdr *udp = (struct udphdr *)(packet + 4 * ip->ihl);
        if (length < 28 || ntohs(udp->dest) != request->from) continue;
        reply->length = ntohs(udp->len) - 8;
        reply->df = (ntohs(ip->frag_off) & IP_DF) != 0;
        reply->checksum = udp->check != 0;
        reply->ttl = ip->ttl;
        reply->tos = ip->tos;
        return;
    }
}

/* One echoing thread. It is busy from before it takes a datagram until after it has sent it back. */
struct echoer {
    int fd;
    atomic_int is_busy;
};
static struct echoer echoers[2];

static void await_echoes(void) {
    for (int i = 0; i < 2; i++) {
        struct pollfd readable = { echoers[i].fd, POLLIN, 0 };
        while (poll(&readable, 1, 0) > 0 || echoers[i].is_busy) sleep_us(50);
    }
}

/* One thread that serves a connection; fd -1: none. It is busy from before it takes bytes until it has sent them back. */
static struct streamer {
    int fd;
    atomic_int is_busy;
} streamers[64];
static size_t streamers_made;
/* One that finds no room to send into is not waited for longer. */
#define STREAMS_SETTLE_WITHIN_US 50000

static struct streamer *new_streamer(int fd) {
    pthread_mutex_lock(&table_lock);
    struct streamer *self = &streamers[streamers_made++ % 64];
    self->fd = fd, self->is_busy = 0;
    pthread_mutex_unlock(&table_lock);
    return self;
}

static void end_streamer(struct streamer *self, int fd) {
    pthread_mutex_lock(&table_lock);
    if (self->fd == fd) self->fd = -1, self->is_busy = 0;
    pthread_mutex_unlock(&table_lock);
}

static int is_a_streamer_busy(void) {
    int is_busy = 0;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < streamers_made && i < 64; i++) {
        struct pollfd readable = { streamers[i].fd, POLLIN, 0 };
        is_busy |= streamers[i].fd >= 0 && (poll(&readable, 1, 0) > 0 || streamers[i].is_busy);
    }
    pthread_mutex_unlock(&table_lock);
    return is_busy;
}

static void await_streams(void) {
    for (int waited_us = 0; waited_us < STREAMS_SETTLE_WITHIN_US && is_a_streamer_busy(); waited_us += 50) sleep_us(50);
}

/* How TCP connections ended, until somebody asks. */
static struct ended {
    char text[64];
    long bytes;
} ends[64];
static size_t ends_made, ends_told;
/* How many scripts began. */
static atomic_int generation;

static void note_end(const char *text, long bytes, int of) {
    if (of != generation) return;
    pthread_mutex_lock(&table_lock);
    struct ended *end = &ends[ends_made++ % 64];
    snprintf(end->text, sizeof end->text, "%s", text);
    end->bytes = bytes;
    pthread_mutex_unlock(&table_lock);
}

static void tell_end(const struct peer_request *request, struct peer_reply *reply) {
    for (int waited = 0; waited <= request->after_ms; waited++, sleep_us(1000)) {
        pthread_mutex_lock(&table_lock);
        int is_one = ends_told < ends_made;
        if (is_one) {
            struct ended *end = &ends[ends_told++ % 64];
            snprintf(reply->text, sizeof reply->text, "%s", end->text);
            reply->length = end->bytes;
        }
        pthread_mutex_unlock(&table_lock);
        if (is_one) return;
    }
}

static void send_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent <= 0) return;
        data += sent, length -= sent;
    }
}

/* Does what a letter says; 0: the connection is closed. */
static int obey(struct streamer *self, int fd, char letter, int number) {
    static _Thread_local char data[1 << 16];
    struct linger none = { 1, 0 };
    for (size_t i = 0; i < sizeof data; i++) data[i] = 'a' + i % 26;
    switch (letter) {
    case 's':
        for (int left = number; left > 0; left -= 26 * 2520) send_all(fd, data, left < 26 * 2520 ? left : 26 * 2520);
        return 1;
    case 'w':
        self->is_busy = 0;
        sleep_us(1000L * number);
        self->is_busy = 1;
        return 1;
    case 'h': shutdown(fd, SHUT_WR); return 1;
    case 'd': return 1;
    case 'o': send(fd, "u", 1, MSG_OOB | MSG_NOSIGNAL); return 1;
    case 'r': setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none); return 0;
    default: return 0;
    }
}

static void *serve_stream(void *argument) {
    static _Thread_local char data[1 << 16];
    int fd = (int)(intptr_t)argument, one = 1, is_order = 0, number = 0, is_silent = 0, of = generation;
    char letter = 0;
    long bytes = 0;
    struct streamer *self = new_streamer(fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        struct pollfd readable = { fd, POLLIN, 0 };
        self->is_busy = 0;
        poll(&readable, 1, -1);
        self->is_busy = 1;
        ssize_t length = recv(fd, data, sizeof data, 0), kept = 0;
        if (length <= 0) {
            note_end(length == 0 ? "end" : strerror(errno), bytes, of);
            end_streamer(self, fd);
            close(fd);
            return NULL;
        }
        bytes += length;
        for (ssize_t i = 0; i < length; i++) {
            if (!is_order && data[i] == '!') is_order = 1, letter = 0, number = 0;
            else if (!is_order) data[kept++] = data[i];
            else if (!letter) letter = data[i];
            else if (data[i] != '.') number = 10 * number + data[i] - '0';
            else {
                is_order = 0;
                if (!is_silent) send_all(fd, data, kept);
                kept = 0, is_silent |= letter == 'd';
                if (!obey(self, fd, letter, number)) {
                    note_end("by itself", bytes, of);
                    end_streamer(self, fd);
                    close(fd);
                    return NULL;
                }
            }
        }
        if (!is_silent) send_all(fd, data, kept);
    }
}

static void dial(const struct peer_request *request, struct peer_reply *reply);

static void *serve(void *argument) {
    int connection = (int)(intptr_t)argument;
    struct peer_request request;
    struct peer_reply reply = { .length = -1 };
    if (recv(connection, &request, sizeof request, 0) == sizeof request) {
        int later = request.after_ms && request.command <= PEER_ICMP;
        if (later) {
            send(connection, &reply, sizeof reply, MSG_NOSIGNAL);
            sleep_us(1000L * request.after_ms);
        }
        switch (request.command) {
        case PEER_SEND: send_datagrams(&request); break;
        case PEER_ICMP: send_icmp(&request); break;
        case PEER_OPEN: open_port(&request); break;
        case PEER_RECEIVE: receive(&request, &reply); break;
        case PEER_WATCH: socket_at(HEADERS, AF_INET, request.from); break;
        case PEER_WATCHED: watched(&request, &reply); break;
        case PEER_CLOSE: close_ports(request.from, 1); break;
        case PEER_SETTLE:
            await_echoes();
            await_streams();
            break;
        case PEER_RESET:
            close_ports(request.from, PORTS);
            generation++;
            ends_told = ends_made;
            break;
        case PEER_LINK: set_link(request.size); break;
        case PEER_CUT: cut_segments(); break;
        case PEER_DIAL: dial(&request, &reply); break;
        case PEER_ENDED: tell_end(&request, &reply); break;
        }
        if (!later) send(connection, &reply, sizeof reply, MSG_NOSIGNAL);
        /* Whoever asked closes first: a receiver that looks for the answer in the moment in which answer and end come finds
         * the end alone (`__skb_wait_for_more_packets` looks for one after the other). */
        while (recv(connection, &request, sizeof request, 0) > 0) {}
    }
    close(connection);
    return NULL;
}

static void *echo(void *argument) {
    static _Thread_local char data[65536];
    struct echoer *self = argument;
    for (;;) {
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        struct pollfd readable = { self->fd, POLLIN, 0 };
        poll(&readable, 1, -1);
        self->is_busy = 1;
        ssize_t size = recvfrom(self->fd, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (size >= 0) sendto(self->fd, data, size, 0, (struct sockaddr *)&from, length);
        self->is_busy = 0;
    }
    return NULL;
}

static void start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, function, argument) == 0, "thread");
    pthread_detach(thread);
}

static void dial(const struct peer_request *request, struct peer_reply *reply) {
    int fd = socket(request->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage address;
    socklen_t length = make_address(&address, request->family, request->family == AF_INET6 ? near_ipv6 : near_ipv4, request->to);
    if (connect(fd, (struct sockaddr *)&address, length) == 0) {
        reply->length = 0;
        start(serve_stream, (void *)(intptr_t)fd);
    } else {
        close(fd);
    }
}

static void *accept_streams(void *argument) {
    for (;;) {
        int connection = accept((int)(intptr_t)argument, NULL, NULL);
        if (connection >= 0) start(serve_stream, (void *)(intptr_t)connection);
    }
    return NULL;
}

static void listen_to_streams(void) {
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, none = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none);
    struct sockaddr_storage address;
    socklen_t length = make_address(&address, AF_INET6, NULL, ECHO_PORT);
    check(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 64) == 0, "listen");
    start(accept_streams, (void *)(intptr_t)fd);
}

static void *accept_requests(void *argument) {
    for (;;) {
        int connection = accept((int)(intptr_t)argument, NULL, NULL);
        check(connection >= 0, "accept");
        start(serve, (void *)(intptr_t)connection);
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    interface = arguments[2], near_ipv4 = arguments[3], near_ipv6 = arguments[4], far_ipv4 = arguments[5];
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    snprintf(name.sun_path, sizeof name.sun_path, "%s", arguments[1]);
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    check(bind(door, (struct sockaddr *)&name, sizeof name) == 0 && listen(door, 64) == 0, arguments[1]);
    for (int i = 0; i < 2; i++) {
        echoers[i].fd = bound_socket(i ? AF_INET6 : AF_INET, ECHO_PORT);
        start(echo, &echoers[i]);
    }
    listen_to_streams();
    start(accept_requests, (void *)(intptr_t)door);
    char byte;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    return 0;
}
