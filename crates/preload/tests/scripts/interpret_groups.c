/* Words about groups of hosts: multicast and broadcast. */
#include "interpret.h"

#define BROADCAST "10.77.0.255"

static const char *group(int n) { return n % 2 ? OTHER_GROUP : GROUP; }

static void change(int slot, int n, int option, int option6) {
    struct ip_mreqn request = { v4(group(n), 0)->sin_addr, { 0 }, (int)if_nametoindex(INTERFACE) };
    struct ipv6_mreq request6 = { v6(GROUP6, 0)->sin6_addr, if_nametoindex(INTERFACE) };
    if (families[slot] == AF_INET6) CALL(setsockopt(sockets[slot], IPPROTO_IPV6, option6, &request6, sizeof request6));
    else CALL(setsockopt(sockets[slot], IPPROTO_IP, option, &request, sizeof request));
}

/* Slot, group. In the other place the interface is not there. */
void join(void) { change(one, two, IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP); }

void leave(void) { change(one, two, IP_DROP_MEMBERSHIP, IPV6_LEAVE_GROUP); }

/* Port, to what, how many more. */
void far_to_group(void) {
    struct peer_request request = { .command = PEER_SEND, .family = two == 3 ? AF_INET6 : AF_INET, .from = PORT(FIRST_FAR),
                                    .to = PORT(one), .size = 5, .letter = 'g', .count = 1 + three };
    static const char *const to[] = { GROUP, OTHER_GROUP, BROADCAST, GROUP6 };
    snprintf(request.address, sizeof request.address, "%s", to[two % 4]);
    far_sends(request, to[two % 4]);
}

/* Slot, whether members on this host hear it too, to what. What they hear comes by the kernel: it has no order among others. */
void send_to_group(void) {
    struct ip_mreqn cable = { { 0 }, { 0 }, (int)if_nametoindex(INTERFACE) };
    int slot = one, index = (int)if_nametoindex(INTERFACE), is_v6 = families[slot] == AF_INET6, is_broadcast = three == 2;
    const char *to = is_broadcast ? BROADCAST : group(three);
    drain();
    if (is_v6) {
        SET(sockets[slot], IPPROTO_IPV6, IPV6_MULTICAST_IF, index);
        SET(sockets[slot], IPPROTO_IPV6, IPV6_MULTICAST_LOOP, two);
        CALL(sendto(sockets[slot], "to members", 10, MSG_NOSIGNAL, V6(GROUP6, PORT(FIRST_FAR))));
    } else {
        CALL(setsockopt(sockets[slot], IPPROTO_IP, IP_MULTICAST_IF, &cable, sizeof cable));
        SET(sockets[slot], IPPROTO_IP, IP_MULTICAST_LOOP, two);
        SET(sockets[slot], SOL_SOCKET, SO_BROADCAST, two);
        CALL(sendto(sockets[slot], "to members", 10, MSG_NOSIGNAL, V4(to, PORT(FIRST_FAR))));
    }
    settle();
    drain();
}
