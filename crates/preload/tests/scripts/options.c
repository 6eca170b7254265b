/* setsockopt(2) and getsockopt(2). */
#include "script.h"

SCRIPT(defaults) {
    int a = UDP();
    GET(a, SOL_SOCKET, SO_TYPE);
    GET(a, SOL_SOCKET, SO_DOMAIN);
    GET(a, SOL_SOCKET, SO_PROTOCOL);
    GET(a, SOL_SOCKET, SO_ERROR);
    GET(a, SOL_SOCKET, SO_REUSEADDR);
    GET(a, SOL_SOCKET, SO_REUSEPORT);
    GET(a, SOL_SOCKET, SO_BROADCAST);
    GET(a, SOL_SOCKET, SO_RCVBUF);
    GET(a, SOL_SOCKET, SO_SNDBUF);
    GET(a, SOL_SOCKET, SO_RCVLOWAT);
    GET(a, SOL_SOCKET, SO_SNDLOWAT);
    GET(a, SOL_SOCKET, SO_PRIORITY);
    GET(a, SOL_SOCKET, SO_MARK);
    GET(a, SOL_SOCKET, SO_KEEPALIVE);
    GET(a, SOL_SOCKET, SO_LINGER);
    GET(a, SOL_SOCKET, SO_ACCEPTCONN);
    GET(a, SOL_SOCKET, SO_DONTROUTE);
    GET(a, SOL_SOCKET, SO_BUSY_POLL);
    GET(a, SOL_SOCKET, SO_RXQ_OVFL);
    GET(a, SOL_SOCKET, SO_NO_CHECK);
    GET(a, SOL_SOCKET, SO_INCOMING_CPU);
    GET(a, SOL_SOCKET, SO_ZEROCOPY);
    GET(a, SOL_SOCKET, SO_PEEK_OFF);
    GET(a, IPPROTO_IP, IP_TTL);
    GET(a, IPPROTO_IP, IP_TOS);
    GET(a, IPPROTO_IP, IP_MTU_DISCOVER);
    GET(a, IPPROTO_IP, IP_MTU);
    GET(a, IPPROTO_IP, IP_RECVERR);
    GET(a, IPPROTO_IP, IP_MULTICAST_TTL);
    GET(a, IPPROTO_IP, IP_MULTICAST_LOOP);
    GET(a, IPPROTO_UDP, UDP_CORK);
    GET(a, IPPROTO_UDP, UDP_SEGMENT);
    GET(a, IPPROTO_UDP, UDP_GRO);
    GET(a, IPPROTO_UDP, UDP_NO_CHECK6_TX);
}

SCRIPT(after_traffic) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "hello", 0);
    RECV(a, 10, 0);
    GET(a, SOL_SOCKET, SO_TYPE);
    GET(a, SOL_SOCKET, SO_ERROR);
    GET(a, IPPROTO_IP, IP_MTU);
    SET(a, SOL_SOCKET, SO_KEEPALIVE, 1);
    SET(a, SOL_SOCKET, SO_PRIORITY, 3);
    SET(a, SOL_SOCKET, SO_RCVLOWAT, 10);
    GET(a, SOL_SOCKET, SO_RCVLOWAT);
    SEND(a, "tiny", 0);
    settle();
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, 0);
}

/* What changes a datagram, or what is told beside it, and only the kernel knows. */
static void goes_both_ways_with(int a, int level, int option, int value) {
    int result = setsockopt(a, level, option, &value, sizeof value);
    say("option %d of level %d set to %d: %d", option, level, value, result);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SENDTO(a, "there", V4(FAR, ECHO_PORT));
    RECVMSG(a, 10, 200, 0);
}

/* linux/in.h, in6.h, socket.h: not all are named by the C library. */
enum { RCVMARK = 75, UNICAST_IF = 50, OLD_PKTINFO = 2, OLD_HOPLIMIT = 8, AUTOFLOWLABEL = 70 };

SCRIPT(unknown_to_the_library) {
    int a = bound(0);
    goes_both_ways_with(a, SOL_SOCKET, RCVMARK, 1);
    goes_both_ways_with(a, SOL_SOCKET, RCVMARK, 0);
    goes_both_ways_with(a, SOL_SOCKET, SO_DONTROUTE, 1);
    goes_both_ways_with(a, IPPROTO_IP, UNICAST_IF, htonl(if_nametoindex(INTERFACE)));
    goes_both_ways_with(a, IPPROTO_IP, UNICAST_IF, 0);
}

SCRIPT(unknown_to_the_library6) {
    static const int options[] = { OLD_PKTINFO, OLD_HOPLIMIT, AUTOFLOWLABEL };
    for (unsigned i = 0; i < LENGTH_OF(options); i++) {
        int a = bound6(0), on = 1;
        say("option %d: %d", options[i], setsockopt(a, IPPROTO_IPV6, options[i], &on, sizeof on));
        SENDTO(a, "there", V6(FAR6, ECHO_PORT));
        RECVMSG(a, 10, 200, 0);
        CALL(close(a));
    }
}

SCRIPT(buffer_sizes) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_RCVBUF, 10000);
    GET(a, SOL_SOCKET, SO_RCVBUF);
    SET(a, SOL_SOCKET, SO_RCVBUF, 0);
    GET(a, SOL_SOCKET, SO_RCVBUF);
    SET(a, SOL_SOCKET, SO_RCVBUF, -1);
    GET(a, SOL_SOCKET, SO_RCVBUF);
    SET(a, SOL_SOCKET, SO_RCVBUFFORCE, 20000);
    GET(a, SOL_SOCKET, SO_RCVBUF);
    SET(a, SOL_SOCKET, SO_SNDBUF, 1);
    GET(a, SOL_SOCKET, SO_SNDBUF);
}

SCRIPT(a_datagram_larger_than_the_send_buffer) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SET(a, SOL_SOCKET, SO_SNDBUF, 1);
    static char data[20000];
    CALL(send(a, data, 20000, MSG_DONTWAIT));
    CALL(send(a, data, 100, 0));
    RECV(a, 200, 0);
}

SCRIPT(refused) {
    int a = bound(0), value = 1;
    socklen_t length = sizeof value;
    CALL(setsockopt(a, SOL_SOCKET, SO_BROADCAST, &value, 2));
    CALL(setsockopt(a, SOL_SOCKET, SO_BROADCAST, no_memory(), 4));
    CALL(setsockopt(a, SOL_SOCKET, SO_BROADCAST, null(), 4));
    CALL(setsockopt(a, SOL_SOCKET, SO_BROADCAST, &value, -1));
    CALL(setsockopt(a, SOL_SOCKET, SO_BROADCAST, &value, 100));
    CALL(setsockopt(a, SOL_SOCKET, 9999, &value, 4));
    CALL(setsockopt(a, IPPROTO_IP, 9999, &value, 4));
    CALL(setsockopt(a, IPPROTO_UDP, 9999, &value, 4));
    CALL(setsockopt(a, 9999, 1, &value, 4));
    CALL(setsockopt(a, IPPROTO_TCP, 1, &value, 4));
    CALL(setsockopt(a, SOL_SOCKET, SO_TYPE, &value, 4));
    CALL(setsockopt(a, SOL_SOCKET, SO_ERROR, &value, 4));
    CALL(setsockopt(a, IPPROTO_IPV6, IPV6_V6ONLY, &value, 4));
    CALL(getsockopt(a, SOL_SOCKET, SO_TYPE, &value, no_memory()));
    CALL(getsockopt(a, SOL_SOCKET, SO_TYPE, no_memory(), &length));
    CALL(getsockopt(a, SOL_SOCKET, SO_TYPE, null(), &length));
    CALL(getsockopt(a, SOL_SOCKET, 9999, &value, &length));
    CALL(getsockopt(a, IPPROTO_IP, 9999, &value, &length));
    CALL(getsockopt(a, 9999, 1, &value, &length));
    length = -1;
    CALL(getsockopt(a, SOL_SOCKET, SO_TYPE, &value, &length));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
}

SCRIPT(short_results) {
    int a = bound(0);
    unsigned char bytes[8];
    static const socklen_t sizes[] = { 0, 1, 2, 3, 4, 8 };
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        memset(bytes, 0xee, sizeof bytes);
        socklen_t length = sizes[i];
        CALL(getsockopt(a, SOL_SOCKET, SO_DOMAIN, bytes, &length));
        say("  length %u: %02x %02x %02x %02x %02x", length, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]);
        memset(bytes, 0xee, sizeof bytes);
        length = sizes[i];
        CALL(getsockopt(a, IPPROTO_IP, IP_TTL, bytes, &length));
        say("  length %u: %02x %02x %02x %02x %02x", length, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]);
    }
}

SCRIPT(bytes_are_enough_for_some) {
    int a = bound(0);
    unsigned char byte = 55;
    CALL(setsockopt(a, IPPROTO_IP, IP_TTL, &byte, 1));
    GET(a, IPPROTO_IP, IP_TTL);
    byte = 0x10;
    CALL(setsockopt(a, IPPROTO_IP, IP_TOS, &byte, 1));
    GET(a, IPPROTO_IP, IP_TOS);
    far_opens(PORT(5));
    SENDTO(a, "x", V4(FAR, PORT(5)));
    far_receives(PORT(5));
}

SCRIPT(overflow_is_counted) {
    int a = bound(0), received = 0;
    SET(a, SOL_SOCKET, SO_RCVBUF, 4096);
    SET(a, SOL_SOCKET, SO_RXQ_OVFL, 1);
    FAR_SENDS(.to = PORT(0), .size = 1000, .count = 100);
    char data[1000];
    while (recv(a, data, sizeof data, MSG_DONTWAIT) > 0) received++;
    say("some were lost: %d, some not: %d", received < 100, received > 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    char control[100];
    struct iovec part = { data, sizeof data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    CALL(recvmsg(a, &message, MSG_DONTWAIT));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    unsigned lost = 0;
    if (header) memcpy(&lost, CMSG_DATA(header), sizeof lost);
    say("header %d, all are accounted for: %d", header != NULL, lost + received == 100);
}

/* As large as a kernel has it whose net.core.rmem_max nobody raised: twice the default. */
SCRIPT(large_buffer_holds_many) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_RCVBUF, 212992);
    FAR_SENDS(.to = PORT(0), .size = 100, .count = 400);
    say("%d received", receives_all(a));
}

SCRIPT(default_buffer_holds_a_hundred) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 100, .count = 100);
    say("%d received", receives_all(a));
}

SCRIPT(a_full_socket_leaves_the_others_alone) {
    int a = bound(0), b = bound(1), received = 0;
    FAR_SENDS(.to = PORT(0), .size = 1000, .count = 3000);
    FAR_SENDS(.to = PORT(1), .size = 5, .count = 3);
    for (int i = 0; i < 4; i++) RECV(b, 10, MSG_DONTWAIT);
    static char data[2000];
    while (recv(a, data, sizeof data, MSG_DONTWAIT) == 1000) received++;
    say("some were lost: %d, some not: %d", received < 3000, received > 50);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(busy_poll_and_preferences) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_BUSY_POLL, 50);
    GET(a, SOL_SOCKET, SO_BUSY_POLL);
    SET(a, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    WAITS(30, RECV(a, 10, 0));
}

SCRIPT(peek_offset_moves) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_PEEK_OFF, 0);
    GET(a, SOL_SOCKET, SO_PEEK_OFF);
    FAR_SENDS(.to = PORT(0), .size = 10, .count = 2);
    RECV(a, 4, MSG_PEEK);
    GET(a, SOL_SOCKET, SO_PEEK_OFF);
    RECV(a, 4, MSG_PEEK);
    RECV(a, 10, MSG_PEEK);
    RECV(a, 10, MSG_DONTWAIT);
    GET(a, SOL_SOCKET, SO_PEEK_OFF);
    RECV(a, 10, MSG_PEEK | MSG_DONTWAIT);
}

SCRIPT(filter_of_the_program) {
    struct { uint16_t code; uint8_t jt, jf; uint32_t k; } refuse[] = { { 0x06, 0, 0, 0 } };
    struct { unsigned short count; void *code; } program = { 1, refuse };
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(setsockopt(a, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    SET(a, SOL_SOCKET, SO_DETACH_FILTER, 0);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(segments_are_sent_apart) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    SET(a, IPPROTO_UDP, UDP_SEGMENT, 4);
    SEND(a, "onetwothre", 0);
    far_receives(PORT(5));
    far_receives(PORT(5));
    far_receives(PORT(5));
    far_receives_nothing(PORT(5));
    SET(a, IPPROTO_UDP, UDP_SEGMENT, 0);
    SEND(a, "whole", 0);
    far_receives(PORT(5));
}

SCRIPT(gro_is_told) {
    int a = bound(0);
    SET(a, IPPROTO_UDP, UDP_GRO, 1);
    FAR_SENDS(.to = PORT(0), .size = 100);
    RECVMSG(a, 2000, 100, 0);
}

SCRIPT(device_changes_in_mid_life) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, INTERFACE, 4));
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(a, 10, MSG_DONTWAIT);
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "", 1));
    FAR_SENDS(.to = PORT(0), .size = 6);
    RECV(a, 10, MSG_DONTWAIT);
}

static int shared;

static void *poll_for_data(void *unused) {
    WAITS(40, POLL(1000, { shared, POLLIN, 0 }));
    RECV(shared, 10, MSG_DONTWAIT);
    return unused;
}

static void *receive_data(void *unused) {
    WAITS(40, RECV(shared, 10, 0));
    return unused;
}

/* An option that the stack has not, so the kernel serves the socket from then on. */
static void change_under(const char *name, void *(*waits)(void *)) {
    shared = bound(0);
    struct thread *thread = start_thread(name, waits, NULL);
    let_it_wait();
    SET(shared, IPPROTO_UDP, UDP_CORK, 1);
    sleep_ms(20);
    FAR_SENDS(.to = PORT(0), .size = 3);
    join_thread(thread);
}

SCRIPT(changed_while_a_thread_polls) { change_under("poller", poll_for_data); }
SCRIPT(changed_while_a_thread_receives) { change_under("reader", receive_data); }

SCRIPT(asked_for_when_the_kernel_has_the_socket_is_told_of_what_waited) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    POLL(0, { a, POLLIN, 0 });
    SET(a, IPPROTO_IP, IP_RECVOPTS, 1);
    SET(a, IPPROTO_IP, IP_RECVTTL, 1);
    RECVMSG(a, 10, 100, 0);
    SET(a, IPPROTO_IP, IP_RECVTTL, 0);
    RECVMSG(a, 10, 100, 0);
}
