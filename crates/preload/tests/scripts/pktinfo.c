/* Control messages about how a datagram came and should go. */
#include "script.h"

SCRIPT(where_it_came_to) {
    int a = UDP();
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    GET(a, IPPROTO_IP, IP_PKTINFO);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SENDTO(a, "self", V4("127.0.0.1", PORT(0)));
    settle();
    RECVMSG(a, 10, 200, MSG_DONTWAIT);
    SENDTO(a, "self", V4(NEAR, PORT(0)));
    settle();
    RECVMSG(a, 10, 200, MSG_DONTWAIT);
    SET(a, IPPROTO_IP, IP_PKTINFO, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
}

SCRIPT(group_and_broadcast) {
    int a = UDP();
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    struct ip_mreqn request = { v4(GROUP, 0)->sin_addr, { 0 }, (int)if_nametoindex(INTERFACE) };
    CALL(setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
    FAR_SENDS(.to = PORT(0), .size = 3, .address = GROUP);
    RECVMSG(a, 10, 200, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3, .address = "10.77.0.255");
    RECVMSG(a, 10, 200, MSG_DONTWAIT);
}

SCRIPT(everything_at_once) {
    int a = bound(0);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    SET(a, IPPROTO_IP, IP_RECVTOS, 1);
    SET(a, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
    SET(a, SOL_SOCKET, SO_TIMESTAMP, 1);
    FAR_SENDS(.to = PORT(0), .size = 3, .ttl = 17, .tos = 0x2c);
    RECVMSG(a, 10, 400, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .tos = 3);
    RECVMSG(a, 10, 400, 0);
}

SCRIPT(not_enough_room) {
    int a = bound(0);
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    SET(a, IPPROTO_IP, IP_PKTINFO, 1);
    FAR_SENDS(.to = PORT(0), .size = 20, .count = 8);
    RECVMSG(a, 30, 0, 0);
    RECVMSG(a, 30, 8, 0);
    RECVMSG(a, 30, 16, 0);
    RECVMSG(a, 30, 24, 0);
    RECVMSG(a, 30, 28, 0);
    RECVMSG(a, 30, 32, 0);
    RECVMSG(a, 10, 52, 0);
    RECVMSG(a, 30, 64, 0);
}

SCRIPT(ttl_and_tos_of_what_is_sent) {
    int a = bound(0);
    far_opens(PORT(5));
    far_watches(PORT(5));
    SET(a, IPPROTO_IP, IP_TTL, 33);
    SET(a, IPPROTO_IP, IP_TOS, 0xb8);
    GET(a, IPPROTO_IP, IP_TOS);
    SENDTO(a, "marked", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
    SET(a, IPPROTO_IP, IP_TTL, -1);
    SET(a, IPPROTO_IP, IP_TOS, 0);
    SET(a, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    SENDTO(a, "plain", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
    SET(a, SOL_SOCKET, SO_NO_CHECK, 1);
    SENDTO(a, "no checksum", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
}

static void send_with(int fd, int level, int type, const void *value, size_t size, const char *what) {
    char control[CMSG_SPACE(64)] = "";
    struct iovec part = { "hello", 5 };
    struct msghdr message = { .msg_name = v4(FAR, PORT(5)), .msg_namelen = sizeof(struct sockaddr_in), .msg_iov = &part,
                              .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size) };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){ .cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(size) };
    memcpy(CMSG_DATA(header), value, size);
    say("%s", what);
    CALL(sendmsg(fd, &message, 0));
}

SCRIPT(source_of_one_datagram) {
    int a = UDP();
    CALL(bind(a, V4("0.0.0.0", PORT(0))));
    far_opens(PORT(5));
    struct in_pktinfo info = { .ipi_ifindex = (int)if_nametoindex(INTERFACE) };
    send_with(a, IPPROTO_IP, IP_PKTINFO, &info, sizeof info, "by interface");
    far_receives(PORT(5));
    info = (struct in_pktinfo){ .ipi_spec_dst = v4(NEAR, 0)->sin_addr };
    send_with(a, IPPROTO_IP, IP_PKTINFO, &info, sizeof info, "by address");
    far_receives(PORT(5));
    info.ipi_spec_dst = v4(NOBODY, 0)->sin_addr;
    send_with(a, IPPROTO_IP, IP_PKTINFO, &info, sizeof info, "by an address that is not ours");
    info = (struct in_pktinfo){ .ipi_ifindex = 999 };
    send_with(a, IPPROTO_IP, IP_PKTINFO, &info, sizeof info, "by no interface");
}

SCRIPT(ttl_and_tos_of_one_datagram) {
    int a = bound(0), value = 44;
    far_opens(PORT(5));
    send_with(a, IPPROTO_IP, IP_TTL, &value, sizeof value, "ttl 44");
    far_receives(PORT(5));
    send_with(a, IPPROTO_IP, IP_TOS, &value, sizeof value, "tos 44");
    far_receives(PORT(5));
    unsigned char byte = 8;
    send_with(a, IPPROTO_IP, IP_TOS, &byte, sizeof byte, "tos 8 in a byte");
    far_receives(PORT(5));
    value = 0;
    send_with(a, IPPROTO_IP, IP_TTL, &value, sizeof value, "ttl 0");
    value = 256;
    send_with(a, IPPROTO_IP, IP_TTL, &value, sizeof value, "ttl 256");
    send_with(a, IPPROTO_IP, 99, &value, sizeof value, "type 99");
    send_with(a, SOL_SOCKET, 99, &value, sizeof value, "type 99 of the socket");
    send_with(a, 77, 99, &value, sizeof value, "another level");
    send_with(a, IPPROTO_IP, IP_TTL, &value, 2, "too short");
    SENDTO(a, "as before", V4(FAR, PORT(5)));
    far_receives(PORT(5));
}

/* Two control messages, of either family, to one destination. */
static void send_both(int fd, const void *to, socklen_t length, int v4_type, int v6_type) {
    char control[2 * CMSG_SPACE(4)] = "";
    struct iovec part = { "hello", 5 };
    struct msghdr message = { .msg_name = (void *)to, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1,
                              .msg_control = control, .msg_controllen = sizeof control };
    int values[] = { 44, 88 };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){ .cmsg_level = IPPROTO_IP, .cmsg_type = v4_type, .cmsg_len = CMSG_LEN(4) };
    memcpy(CMSG_DATA(header), &values[0], 4);
    header = CMSG_NXTHDR(&message, header);
    *header = (struct cmsghdr){ .cmsg_level = IPPROTO_IPV6, .cmsg_type = v6_type, .cmsg_len = CMSG_LEN(4) };
    memcpy(CMSG_DATA(header), &values[1], 4);
    CALL(sendmsg(fd, &message, 0));
}

SCRIPT(control_of_each_family) {
    int a = UDP6(), b = bound(1);
    CALL(bind(a, V6("::", PORT(0))));
    far_opens(PORT(5));
    far_opens6(PORT(6));
    send_both(a, v6("::ffff:" FAR, PORT(5)), sizeof(struct sockaddr_in6), IP_TOS, IPV6_TCLASS);
    far_receives(PORT(5));
    send_both(a, v6("::ffff:" FAR, PORT(5)), sizeof(struct sockaddr_in6), IP_TTL, IPV6_HOPLIMIT);
    far_receives(PORT(5));
    send_both(a, v6(FAR6, PORT(6)), sizeof(struct sockaddr_in6), IP_TOS, IPV6_TCLASS);
    far_receives6(PORT(6));
    send_both(a, v6(FAR6, PORT(6)), sizeof(struct sockaddr_in6), IP_TTL, IPV6_HOPLIMIT);
    far_receives6(PORT(6));
    send_both(b, v4(FAR, PORT(5)), sizeof(struct sockaddr_in), IP_TTL, IPV6_TCLASS);
    far_receives(PORT(5));
    CALL(connect(a, V6("::ffff:" FAR, PORT(5))));
    send_both(a, NULL, 0, IP_TTL, IPV6_TCLASS);
    far_receives(PORT(5));
}

SCRIPT(broken_control) {
    int a = bound(0);
    char control[64] = "";
    struct iovec part = { "hello", 5 };
    struct msghdr message = { .msg_name = v4(FAR, ECHO_PORT), .msg_namelen = sizeof(struct sockaddr_in), .msg_iov = &part,
                              .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ((struct cmsghdr *)control)->cmsg_len = 4;
    CALL(sendmsg(a, &message, 0));
    ((struct cmsghdr *)control)->cmsg_len = 1000;
    CALL(sendmsg(a, &message, 0));
    message.msg_control = nowhere();
    CALL(sendmsg(a, &message, 0));
    message.msg_controllen = 1;
    CALL(sendmsg(a, &message, 0));
    message.msg_controllen = 0;
    CALL(sendmsg(a, &message, 0));
    RECV(a, 10, 0);
}

SCRIPT(over_ipv6) {
    int a = bound6(0);
    SET(a, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    SET(a, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    SET(a, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 3, .ttl = 9, .tos = 0x14);
    RECVMSG(a, 10, 200, 0);
    far_opens6(PORT(5));
    SET(a, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 21);
    SET(a, IPPROTO_IPV6, IPV6_TCLASS, 0x28);
    SENDTO(a, "marked", V6(FAR6, PORT(5)));
    far_receives6(PORT(5));
}

SCRIPT(control_that_points_nowhere) {
    int a = bound(0);
    char data[10];
    struct iovec part = { data, sizeof data };
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    void *buffers[] = { null(), nowhere(), (void *)64 };
    for (size_t i = 0; i < LENGTH_OF(buffers); i++) {
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = buffers[i], .msg_controllen = 100 };
        CALL(recvmsg(a, &message, MSG_DONTWAIT));
        say("  length %zu, flags %x", message.msg_controllen, message.msg_flags);
    }
    RECV(a, 10, MSG_DONTWAIT);
}
