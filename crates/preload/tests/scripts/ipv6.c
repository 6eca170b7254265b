/* IPv6 sockets, and IPv4 through them. */
#include "script.h"

SCRIPT(echo) {
    int a = UDP6();
    CALL(bind(a, V6(NEAR6, PORT(0))));
    GETSOCKNAME(a);
    SENDTO(a, "hello", V6(FAR6, ECHO_PORT));
    RECVFROM(a, 10, 0);
    CALL(connect(a, V6(FAR6, ECHO_PORT)));
    GETPEERNAME(a);
    CALL(write(a, "again", 5));
    READ(a, 10);
    SENDTO(a, "given", V6(FAR6, ECHO_PORT));
    RECVMSG(a, 10, 100, 0);
}

SCRIPT(sizes_at_the_mtu) {
    static const int sizes[] = { 0, 1, 1452, 1453, 4000, 65487 };
    static char data[66000];
    int a = UDP6();
    memset(data, 'm', sizeof data);
    CALL(connect(a, V6(FAR6, ECHO_PORT)));
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(send(a, data, sizes[i], 0));
        RECV(a, 66000, 0);
    }
    CALL(send(a, data, 65508, 0));
    CALL(send(a, data, 65528, 0));
}

SCRIPT(mapped_addresses) {
    int a = UDP6();
    GET(a, IPPROTO_IPV6, IPV6_V6ONLY);
    CALL(bind(a, V6("::", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVFROM(a, 10, 0);
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 4);
    RECVFROM(a, 10, 0);
    SENDTO(a, "v4", V6("::ffff:" FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
    SENDTO(a, "v6", V6(FAR6, ECHO_PORT));
    RECVFROM(a, 10, 0);
    SENDTO(a, "plain v4", V4(FAR, ECHO_PORT));
    WAITS(0, POLL(50, { a, POLLIN, 0 }));
    RECVFROM(a, 10, MSG_DONTWAIT);
}

/* What an IPv6 socket sends to a mapped address goes by its IPv4 options, and the rest by those of IPv6. */
static void sends_to_both(int a) {
    SENDTO(a, "by IPv4", V6("::ffff:" FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
    SENDTO(a, "by IPv6", V6(FAR6, PORT(6)));
    far_receives6(PORT(6));
}

SCRIPT(options_of_each_family) {
    int a = UDP6();
    CALL(bind(a, V6("::", PORT(0))));
    far_opens(PORT(5));
    far_opens6(PORT(6));
    far_watches(PORT(5));
    SET(a, IPPROTO_IPV6, IPV6_TCLASS, 0x28);
    SET(a, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33);
    sends_to_both(a);
    SET(a, IPPROTO_IP, IP_TOS, 0xb8);
    SET(a, IPPROTO_IP, IP_TTL, 44);
    sends_to_both(a);
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    sends_to_both(a);
    SET(a, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
    sends_to_both(a);
}

SCRIPT(connected_to_a_mapped_address) {
    int a = UDP6();
    CALL(connect(a, V6("::ffff:" FAR, ECHO_PORT)));
    GETSOCKNAME(a);
    GETPEERNAME(a);
    SEND(a, "hello", 0);
    RECVFROM(a, 10, 0);
    SENDTO(a, "v6", V6(FAR6, ECHO_PORT));
    CALL(connect(a, V6(FAR6, ECHO_PORT)));
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    GETPEERNAME(a);
}

SCRIPT(bound_to_a_mapped_address) {
    int a = UDP6(), b = UDP();
    CALL(bind(a, V6("::ffff:" NEAR, PORT(0))));
    GETSOCKNAME(a);
    CALL(bind(b, V4(NEAR, PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVFROM(a, 10, MSG_DONTWAIT);
    SENDTO(a, "v6", V6(FAR6, ECHO_PORT));
    SENDTO(a, "v4", V6("::ffff:" FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
}

SCRIPT(v6only) {
    int a = UDP6(), b = UDP();
    SET(a, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    CALL(bind(a, V6("::", PORT(0))));
    CALL(bind(b, V4("0.0.0.0", PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 4);
    RECVFROM(a, 10, MSG_DONTWAIT);
    RECVFROM(b, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "v4", V6("::ffff:" FAR, ECHO_PORT));
    SET(a, IPPROTO_IPV6, IPV6_V6ONLY, 0);
}

SCRIPT(both_families_want_one_port) {
    int a = UDP6(), b = UDP();
    CALL(bind(a, V6("::", PORT(0))));
    CALL(bind(b, V4("0.0.0.0", PORT(0))));
    CALL(bind(b, V4(NEAR, PORT(0))));
    int c = bound(1), d = UDP6();
    CALL(bind(d, V6("::", PORT(1))));
    CALL(bind(d, V6(NEAR6, PORT(1))));
    FAR_SENDS(.to = PORT(1), .size = 3);
    FAR_SENDS(.family = AF_INET6, .to = PORT(1), .size = 4);
    RECV(c, 10, MSG_DONTWAIT);
    RECV(d, 10, MSG_DONTWAIT);
}

SCRIPT(refused_addresses) {
    int a = UDP6();
    CALL(bind(a, V6(FAR6, PORT(0))));
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(bind(a, (struct sockaddr *)v6(NEAR6, PORT(0)), 20));
    CALL(bind(a, (struct sockaddr *)v6(NEAR6, PORT(0)), 24));
    CALL(bind(a, V6("fe80::1", PORT(0))));
    CALL(connect(a, V6("2001:db8::1", PORT(0))));
    SENDTO(a, "x", V6("2001:db8::1", PORT(5)));
    SENDTO(a, "x", V6(FAR6, 0));
    SENDTO(a, "x", (struct sockaddr *)v6(FAR6, ECHO_PORT), 20);
    CALL(connect(a, (struct sockaddr *)v6(FAR6, ECHO_PORT), 20));
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    CALL(connect(a, &none, sizeof none));
}

SCRIPT(pktinfo_of_mapped) {
    int a = UDP6();
    CALL(bind(a, V6("::", PORT(0))));
    SET(a, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    SET(a, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
}

SCRIPT(loopback_and_self) {
    int a = UDP6();
    CALL(bind(a, V6("::", PORT(0))));
    SENDTO(a, "one", V6("::1", PORT(0)));
    SENDTO(a, "two", V6(NEAR6, PORT(0)));
    SENDTO(a, "three", V6("::ffff:127.0.0.1", PORT(0)));
    SENDTO(a, "four", V6("::", PORT(0)));
    settle();
    for (int i = 0; i < 5; i++) RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(flow_labels_and_scopes) {
    int a = bound6(0);
    struct sockaddr_in6 to = *v6(FAR6, ECHO_PORT);
    to.sin6_flowinfo = htonl(0x12345);
    SENDTO(a, "flow", (struct sockaddr *)&to, sizeof to);
    RECVFROM(a, 10, 0);
    to.sin6_scope_id = 77;
    SENDTO(a, "scope", (struct sockaddr *)&to, sizeof to);
    RECVFROM(a, 10, 0);
}

SCRIPT(from_far_in_turns) {
    int a = UDP6(), epoll = EPOLL();
    CALL(bind(a, V6("::", PORT(0))));
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    for (int i = 0; i < 6; i++) {
        FAR_SENDS(.family = i % 2 ? AF_INET6 : AF_INET, .to = PORT(0), .size = 3);
        EPOLL_WAIT(epoll, 10, 0);
    }
    for (int i = 0; i < 7; i++) RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(address_is_converted_to_ipv4) {
    int a = UDP6(), family = AF_INET;
    CALL(connect(a, V6("::ffff:" FAR, ECHO_PORT)));
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_ADDRFORM, &family, sizeof family));
    GETSOCKNAME(a);
    SEND(a, "hello", 0);
    RECVFROM(a, 10, 0);
}
