/* Groups: joined, left, and what is sent to them. */
#include "script.h"
#include "direct.h"


static struct ip_mreqn on_cable(const char *group) {
    return (struct ip_mreqn){ v4(group, 0)->sin_addr, { 0 }, (int)if_nametoindex(INTERFACE) };
}

static void join(int fd, const char *group) {
    struct ip_mreqn request = on_cable(group);
    CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
}

static void leave(int fd, const char *group) {
    struct ip_mreqn request = on_cable(group);
    CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request));
}

static int wildcard(int n) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, V4("0.0.0.0", PORT(n))) != 0) say("bind failed");
    return fd;
}

SCRIPT(joined_and_left) {
    int a = wildcard(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    join(a, GROUP);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECVFROM(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5, .address = OTHER_GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 6);
    RECV(a, 10, MSG_DONTWAIT);
    leave(a, GROUP);
    FAR_SENDS(.to = PORT(0), .size = 7, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(refused_memberships) {
    int a = wildcard(0);
    join(a, GROUP);
    join(a, GROUP);
    leave(a, OTHER_GROUP);
    join(a, NEAR);
    leave(a, GROUP);
    leave(a, GROUP);
    struct ip_mreqn nowhere = { v4(GROUP, 0)->sin_addr, { 0 }, 999 };
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &nowhere, sizeof nowhere));
    nowhere.imr_ifindex = 0;
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &nowhere, sizeof nowhere));
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &nowhere, 4));
    struct ip_mreq by_address = { v4(GROUP, 0)->sin_addr, v4(NEAR, 0)->sin_addr };
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_address, sizeof by_address));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(every_member_gets_a_copy) {
    int a = wildcard(0), b = wildcard(0), c = wildcard(0);
    join(a, GROUP);
    join(b, GROUP);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP, .count = 2);
    for (int i = 0; i < 3; i++) {
        RECV(a, 10, MSG_DONTWAIT);
        RECV(b, 10, MSG_DONTWAIT);
        RECV(c, 10, MSG_DONTWAIT);
    }
    CALL(close(a));
    FAR_SENDS(.to = PORT(0), .size = 5, .address = GROUP);
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(multicast_all_off_hears_only_its_own) {
    int a = wildcard(0), b = wildcard(0);
    join(a, GROUP);
    join(b, OTHER_GROUP);
    SET(b, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    FAR_SENDS(.to = PORT(0), .size = 5, .address = OTHER_GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(bound_to_the_group) {
    int a = UDP(), b = UDP();
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    SET(b, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(a, V4(GROUP, PORT(0))));
    CALL(bind(b, V4(OTHER_GROUP, PORT(0))));
    join(a, GROUP);
    join(b, OTHER_GROUP);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    FAR_SENDS(.to = PORT(0), .size = 5, .address = OTHER_GROUP);
    FAR_SENDS(.to = PORT(0), .size = 6);
    for (int i = 0; i < 2; i++) {
        RECVFROM(a, 10, MSG_DONTWAIT);
        RECVFROM(b, 10, MSG_DONTWAIT);
    }
    GETSOCKNAME(a);
}

SCRIPT(unicast_bound_hears_no_group) {
    int a = bound(0);
    join(a, GROUP);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(one_source_only) {
    int a = wildcard(0);
    struct ip_mreq_source request = { v4(GROUP, 0)->sin_addr, v4(NEAR, 0)->sin_addr, v4(FAR, 0)->sin_addr };
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    request.imr_sourceaddr = v4(NOBODY, 0)->sin_addr;
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(blocked_source) {
    int a = wildcard(0);
    join(a, GROUP);
    struct ip_mreq_source request = { v4(GROUP, 0)->sin_addr, v4(NEAR, 0)->sin_addr, v4(FAR, 0)->sin_addr };
    CALL(setsockopt(a, IPPROTO_IP, IP_BLOCK_SOURCE, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, IPPROTO_IP, IP_UNBLOCK_SOURCE, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 5, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(group_source_requests) {
    int a = wildcard(0);
    struct group_req request = { .gr_interface = if_nametoindex(INTERFACE) };
    memcpy(&request.gr_group, v4(GROUP, 0), sizeof(struct sockaddr_in));
    CALL(setsockopt(a, IPPROTO_IP, MCAST_JOIN_GROUP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, IPPROTO_IP, MCAST_LEAVE_GROUP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(sent_to_a_group) {
    int a = bound(0);
    far_joins(PORT(5), GROUP);
    SENDTO(a, "by the bound address", V4(GROUP, PORT(5)));
    far_receives(PORT(5));
    SENDTO(UDP(), "no route", V4(GROUP, PORT(5)));
    struct ip_mreqn cable = on_cable("0.0.0.0");
    CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &cable, sizeof cable));
    SENDTO(a, "hello", V4(GROUP, PORT(5)));
    far_receives(PORT(5));
    SET(a, IPPROTO_IP, IP_MULTICAST_TTL, 9);
    GET(a, IPPROTO_IP, IP_MULTICAST_TTL);
    SENDTO(a, "farther", V4(GROUP, PORT(5)));
    far_receives(PORT(5));
    CALL(connect(a, V4(GROUP, PORT(5))));
    GETSOCKNAME(a);
    SEND(a, "connected", 0);
    far_receives(PORT(5));
}

SCRIPT(loops_back_to_members) {
    int a = wildcard(0);
    join(a, GROUP);
    far_joins(PORT(0), GROUP);
    struct ip_mreqn cable = on_cable("0.0.0.0");
    CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &cable, sizeof cable));
    GET(a, IPPROTO_IP, IP_MULTICAST_LOOP);
    SENDTO(a, "looped", V4(GROUP, PORT(0)));
    far_receives(PORT(0));
    settle();
    RECVFROM(a, 10, MSG_DONTWAIT);
    SET(a, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    SENDTO(a, "not looped", V4(GROUP, PORT(0)));
    far_receives(PORT(0));
    settle();
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(ipv6_group) {
    int a = UDP6();
    CALL(bind(a, V6("::", PORT(0))));
    struct ipv6_mreq request = { v6(GROUP6, 0)->sin6_addr, if_nametoindex(INTERFACE) };
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 3, .address = GROUP6);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request));
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request));
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 4, .address = GROUP6);
    RECVFROM(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &request, sizeof request));
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 5, .address = GROUP6);
    RECV(a, 10, MSG_DONTWAIT);
    far_joins6(PORT(5), GROUP6);
    SET(a, IPPROTO_IPV6, IPV6_MULTICAST_IF, if_nametoindex(INTERFACE));
    SET(a, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 4);
    SENDTO(a, "hello", V6(GROUP6, PORT(5)));
    far_receives6(PORT(5));
}

SCRIPT(group_and_unicast_on_one_socket) {
    int a = wildcard(0), epoll = EPOLL();
    join(a, GROUP);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 4, .address = GROUP, .letter = 'g');
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 4, .letter = 'u');
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

/* A member of the group that the library does not see: another process would be one. */
static int unseen_member(int port) {
    struct ip_mreqn request = { v4(GROUP, 0)->sin_addr, { 0 }, (int)if_nametoindex(INTERFACE) };
    struct sockaddr_in *any = v4("0.0.0.0", port);
    int one = 1, fd = (int)direct(SYS_socket, AF_INET, SOCK_DGRAM, 0, 0, 0, 0);
    say("unseen: %ld", direct(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, (long)&one, sizeof one, 0));
    say("unseen: %ld", direct(SYS_bind, fd, (long)any, sizeof *any, 0, 0, 0));
    say("unseen: %ld", direct(SYS_setsockopt, fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, (long)&request, sizeof request, 0));
    return fd;
}

static int seen_member(int port) {
    struct ip_mreqn request = { v4(GROUP, 0)->sin_addr, { 0 }, (int)if_nametoindex(INTERFACE) };
    int fd = UDP();
    SET(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(fd, V4("0.0.0.0", port)));
    CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
    return fd;
}

static void both_receive(int seen, int unseen) {
    char data[10];
    FAR_SENDS(.to = PORT(0), .size = 3, .address = GROUP);
    RECV(seen, 10, MSG_DONTWAIT);
    say("unseen: %ld", direct(SYS_recvfrom, unseen, (long)data, 10, MSG_DONTWAIT, 0, 0));
}

SCRIPT(group_shared_with_a_member_before) {
    int unseen = unseen_member(PORT(0)), seen = seen_member(PORT(0));
    both_receive(seen, unseen);
}

SCRIPT(group_shared_with_a_member_that_comes_later) {
    int seen = seen_member(PORT(0));
    FAR_SENDS(.to = PORT(0), .size = 3, .address = GROUP);
    RECV(seen, 10, MSG_DONTWAIT);
    int unseen = unseen_member(PORT(0));
    sleep_ms(600);
    POLL(10, { seen, POLLIN, 0 });
    both_receive(seen, unseen);
}
