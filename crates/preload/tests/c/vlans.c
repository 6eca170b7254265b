// Both ends of a link with a VLAN.
//   vlans near PARENT VLAN ADDRESS OF_VLAN GROUP    sockets bound to either interface, one in a group on the VLAN, and one of neither;
//                                                   all answer, and say what they got, by the interface that the kernel or
//                                                   the library names
//   vlans far PARENT VLAN ADDRESS OF_VLAN GROUP     sends to them by both interfaces, and counts the answers
//   vlans tagged PARENT VLAN ADDRESS OF_VLAN GROUP  sends to ADDRESS by the VLAN interface, which the near end need not have
// ADDRESS and OF_VLAN are the near end's.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BOUND = 5000, GROUP = 5001, ANY = 5002, ROUNDS = 10, MOST = 64, PATIENCE_MS = 20000, RETRY_MS = 200, LATE_MS = 1000 };

static void check(int is_well, const char *what) {
    if (is_well) return;
    perror(what);
    exit(2);
}

static struct sockaddr_in at(const char *address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    check(inet_pton(AF_INET, address, &name.sin_addr) == 1, address);
    return name;
}

static int opened(const char *device, int port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    check(fd >= 0, "socket");
    if (device) check(!setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, strlen(device) + 1), "SO_BINDTODEVICE");
    check(!setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on), "IP_PKTINFO");
    struct sockaddr_in name = at("0.0.0.0", port);
    check(!bind(fd, (void *)&name, sizeof name), "bind");
    return fd;
}

struct socket_of {
    const char *name;
    int fd, count;
    char got[MOST][96];
};

// Answers a datagram and writes it down; whether it was the last.
static int take(struct socket_of *of) {
    char text[32] = "", control[128], device[IF_NAMESIZE] = "-", to[INET_ADDRSTRLEN] = "-";
    struct sockaddr_in from;
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {&from, sizeof from, &part, 1, control, sizeof control, 0};
    if (recvmsg(of->fd, &message, MSG_DONTWAIT) < 0) return 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_level != IPPROTO_IP || each->cmsg_type != IP_PKTINFO) continue;
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(each), sizeof info);
        if_indextoname(info.ipi_ifindex, device);
        inet_ntop(AF_INET, &info.ipi_addr, to, sizeof to);
    }
    if (!strcmp(text, "end")) return 1;
    if (strcmp(text, "hello") && of->count < MOST)
        snprintf(of->got[of->count++], sizeof of->got[0], "%s to %s on %s", text, to, device);
    if (text[0] != 't') sendto(of->fd, text, strlen(text), 0, (void *)&from, sizeof from);
    return 0;
}

static int near_end(char **argv) {
    int has_vlan = if_nametoindex(argv[3]) != 0;
    struct socket_of sockets[] = {
        {.name = "bound to the VLAN", .fd = has_vlan ? opened(argv[3], BOUND) : -1},
        {.name = "bound to the parent", .fd = opened(argv[2], BOUND)},
        {.name = "in a group on the VLAN", .fd = opened(NULL, GROUP)},
        {.name = "anywhere", .fd = opened(NULL, ANY)},
    };
    enum { COUNT = sizeof sockets / sizeof sockets[0] };
    struct ip_mreqn joined = {.imr_ifindex = if_nametoindex(argv[3])};
    inet_pton(AF_INET, argv[6], &joined.imr_multiaddr);
    if (has_vlan)
        check(!setsockopt(sockets[2].fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &joined, sizeof joined), "IP_ADD_MEMBERSHIP");
    int is_over = 0;
    while (!is_over) {
        struct pollfd polled[COUNT];
        for (int i = 0; i < COUNT; i++) polled[i] = (struct pollfd){sockets[i].fd, POLLIN, 0};
        if (poll(polled, COUNT, PATIENCE_MS) <= 0) break;
        for (int i = 0; i < COUNT; i++)
            if (polled[i].revents) is_over |= take(&sockets[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        printf("%s:\n", sockets[i].name);
        for (int j = 0; j < sockets[i].count; j++) printf("  %s\n", sockets[i].got[j]);
    }
    puts(is_over ? "ended" : "nothing came any more");
    return 0;
}

// Sends, and waits for the answer; whether one came.
static int asked(int fd, const char *text, struct sockaddr_in to, int patience_ms) {
    char answer[32] = "";
    struct pollfd polled = {fd, POLLIN, 0};
    check(sendto(fd, text, strlen(text), 0, (void *)&to, sizeof to) >= 0, "sendto");
    if (poll(&polled, 1, patience_ms) <= 0) return 0;
    return recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT) > 0 && !strcmp(answer, text);
}

static void meet(int fd, struct sockaddr_in to) {
    for (int i = 0; i < PATIENCE_MS / RETRY_MS; i++)
        if (asked(fd, "hello", to, RETRY_MS)) {
            // Answers to those before may be on their way.
            char late[32];
            usleep(RETRY_MS * 1000);
            while (recv(fd, late, sizeof late, MSG_DONTWAIT) > 0) {}
            return;
        }
    puts("the near end does not answer");
    exit(3);
}

static int far_end(char **argv) {
    int by_parent = opened(argv[2], 0), by_vlan = opened(argv[3], 0), answers = 0;
    struct { int fd; const char *address; int port; char by; } to[] = {
        {by_vlan, argv[5], BOUND, 'v'}, {by_parent, argv[4], BOUND, 'p'}, {by_vlan, argv[6], GROUP, 'v'},
        {by_vlan, argv[5], ANY, 'v'},   {by_parent, argv[4], ANY, 'p'},   {by_parent, argv[6], GROUP, 'x'},
    };
    enum { COUNT = sizeof to / sizeof to[0] };
    meet(by_parent, at(argv[4], ANY));
    meet(by_vlan, at(argv[5], ANY));
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COUNT; i++) {
            char text[32];
            snprintf(text, sizeof text, "%c%d", to[i].by, round);
            // The group is not joined on the parent: nobody answers.
            answers += asked(to[i].fd, text, at(to[i].address, to[i].port), to[i].by == 'x' ? 10 : LATE_MS);
        }
    printf("%d of %d answered\n", answers, (COUNT - 1) * ROUNDS);
    asked(by_parent, "end", at(argv[4], ANY), 0);
    return 0;
}

static int tagged(char **argv) {
    int by_parent = opened(argv[2], 0), by_vlan = opened(argv[3], 0);
    meet(by_parent, at(argv[4], ANY));
    for (int round = 0; round < ROUNDS; round++) asked(by_vlan, "tagged", at(argv[4], ANY), 10);
    asked(by_parent, "end", at(argv[4], ANY), 0);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    if (!strcmp(argv[1], "near")) return near_end(argv);
    return !strcmp(argv[1], "far") ? far_end(argv) : tagged(argv);
}
