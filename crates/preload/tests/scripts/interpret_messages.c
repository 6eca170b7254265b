/* Words about messages: several in a call, in several pieces, with control messages, and what a program asks to be told. */
#include "interpret.h"

#define MESSAGES 5
#define PIECE 7

static char data[MESSAGES][40];
static struct iovec parts[MESSAGES];
static struct mmsghdr messages[MESSAGES];
static struct sockaddr_storage names[MESSAGES];
static _Alignas(struct cmsghdr) char controls[MESSAGES][128];

static void prepare(int count, size_t size) {
    memset(data, 0xee, sizeof data);
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < count; i++) {
        parts[i] = (struct iovec){ data[i], size };
        messages[i].msg_hdr = (struct msghdr){ &names[i], sizeof names[i], &parts[i], 1, controls[i], sizeof controls[i], 0 };
        messages[i].msg_len = 777;
    }
}

/* Slot, number of messages, flags, size. */
void receive_many(void) {
    static const int flags[] = { 0, MSG_WAITFORONE, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC | MSG_WAITFORONE };
    prepare(MESSAGES, four ? 2 : 30);
    int got = CALL(recvmmsg(sockets[one], messages, 1 + two % MESSAGES, flags[three % 5] | MSG_DONTWAIT, NULL));
    for (int i = 0; i < got; i++) {
        unsigned length = messages[i].msg_len;
        say("  length %u", length);
        show_data("  data", data[i], length < parts[i].iov_len ? length : parts[i].iov_len);
        show_header(&messages[i].msg_hdr);
    }
    if (got >= 0 && got < MESSAGES) say("  the next length is %u", messages[got].msg_len);
}

static void show_at_far(int slot, int port) {
    if (families[slot] == AF_INET6) far_receives6(port);
    else far_receives(port);
}

/* Slot, number of messages, whether some are answered, to whom it is connected. Whether a refusal of the first comes before
 * the second is sent depends on the wire, so only one goes to where it is connected. */
void send_many(void) {
    int is_connected = four, count = is_connected ? 1 : 1 + two % MESSAGES;
    prepare(count, PIECE);
    for (int i = 0; i < count; i++) {
        int port = three && i % 2 ? ECHO_PORT : PORT(FIRST_FAR + i % 2);
        memset(data[i], 'A' + i, PIECE);
        memcpy(&names[i], far_address(one, port), far_length(one));
        messages[i].msg_hdr.msg_namelen = is_connected ? 0 : far_length(one);
        messages[i].msg_hdr.msg_name = is_connected ? NULL : &names[i];
        messages[i].msg_hdr.msg_control = NULL, messages[i].msg_hdr.msg_controllen = 0;
    }
    int sent = CALL(sendmmsg(sockets[one], messages, count, MSG_NOSIGNAL));
    for (int i = 0; i < count && sent >= 0; i++) say("  length %u", messages[i].msg_len);
    settle();
}

/* Slot, how: into two pieces. */
void receive_pieces(void) {
    char first[3], second[20];
    struct iovec pieces[] = { { first, sizeof first }, { NULL, 0 }, { second, sizeof second } };
    struct msghdr header = { .msg_iov = pieces, .msg_iovlen = 3, .msg_control = controls[0], .msg_controllen = two > 2 ? 20 : 128 };
    long got;
    memset(first, 0xee, sizeof first), memset(second, 0xee, sizeof second);
    switch (two) {
    case 0: got = CALL(readv(sockets[one], pieces, 3)); break;
    case 1: got = CALL(read(sockets[one], second, sizeof second)); break;
    default: got = CALL(recvmsg(sockets[one], &header, two == 2 ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_WAITALL));
    }
    if (got < 0) return;
    show_data("  first", first, sizeof first);
    show_data("  second", second, sizeof second);
    if (two > 1) show_header(&header);
}

static struct cmsghdr *add_control(struct msghdr *header, int level, int type, const void *value, size_t size) {
    struct cmsghdr *control = header->msg_control;
    header->msg_controllen = CMSG_SPACE(size);
    memset(control, 0, CMSG_SPACE(size));
    control->cmsg_level = level, control->cmsg_type = type, control->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(control), value, size);
    return control;
}

/* What a control message says of this one datagram. */
static void add_wish(struct msghdr *header, int slot, int which) {
    int number = which == 0 ? 9 : 0x28, is_v6 = families[slot] == AF_INET6;
    struct in_pktinfo info = { .ipi_spec_dst = v4(NEAR, 0)->sin_addr };
    struct in6_pktinfo info6 = { .ipi6_addr = v6(NEAR6, 0)->sin6_addr };
    header->msg_control = controls[0];
    switch (which) {
    case 0: add_control(header, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_HOPLIMIT : IP_TTL, &number, sizeof number); break;
    case 1: add_control(header, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_TCLASS : IP_TOS, &number, sizeof number); break;
    case 2:
        if (is_v6) add_control(header, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof info6);
        else add_control(header, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    }
}

/* Slot, how: in two pieces, to where it is connected or to a port of the far end. */
void send_pieces(void) {
    struct iovec pieces[] = { { "first ", 6 }, { "", 0 }, { "second", 6 } };
    struct msghdr header = { .msg_iov = pieces, .msg_iovlen = 3 };
    memcpy(&names[0], far_address(one, PORT(FIRST_FAR)), far_length(one));
    long sent;
    switch (two) {
    case 0: sent = CALL(writev(sockets[one], pieces, 3)); break;
    case 1: sent = CALL(write(sockets[one], "written", 7)); break;
    case 2: sent = CALL(sendmsg(sockets[one], &header, MSG_NOSIGNAL)); break;
    default:
        header.msg_name = &names[0], header.msg_namelen = far_length(one);
        add_wish(&header, one, two - 3);
        sent = CALL(sendmsg(sockets[one], &header, MSG_NOSIGNAL));
    }
    settle();
    if (two > 2 && sent > 0 && places[one] == 0) show_at_far(one, PORT(FIRST_FAR));
}

/* Slot, whether by option: one call, several datagrams. */
void send_segments(void) {
    char bytes[30];
    struct iovec piece = { bytes, sizeof bytes };
    uint16_t size = 12;
    memset(bytes, 's', sizeof bytes);
    memcpy(&names[0], far_address(one, PORT(SECOND_FAR)), far_length(one));
    struct msghdr header = { &names[0], far_length(one), &piece, 1, controls[0], 0, 0 };
    if (two && !may_be_given()) return;
    if (two) SET(sockets[one], IPPROTO_UDP, UDP_SEGMENT, 12);
    else add_control(&header, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
    CALL(sendmsg(sockets[one], &header, MSG_NOSIGNAL));
    if (two) SET(sockets[one], IPPROTO_UDP, UDP_SEGMENT, 0);
    settle();
}

/* Slot, what, whether it is wanted: told with each datagram that is received. */
void ask_for(void) {
    static const struct { int level, option; } asked[] = {
        { IPPROTO_IP, IP_RECVTTL }, { IPPROTO_IP, IP_RECVTOS }, { IPPROTO_IPV6, IPV6_RECVPKTINFO }, { IPPROTO_IPV6, IPV6_RECVHOPLIMIT },
        { IPPROTO_IPV6, IPV6_RECVTCLASS }, { SOL_SOCKET, SO_RXQ_OVFL }, { SOL_SOCKET, SO_TIMESTAMP }, { SOL_SOCKET, SO_TIMESTAMPNS },
        { IPPROTO_IP, 20 /* IP_ORIGDSTADDR */ }, { IPPROTO_UDP, UDP_GRO }, { IPPROTO_IP, IP_PKTINFO }, { IPPROTO_IPV6, IPV6_RECVERR },
    };
    size_t which = two % LENGTH_OF(asked);
    if (asked[which].option == UDP_GRO && asked[which].level == IPPROTO_UDP && !may_be_given()) return;
    /* The kernel keeps what these tell when a datagram arrives. */
    if (asked[which].option == IP_PKTINFO || asked[which].option == UDP_GRO) drain();
    asks_beside = 1;
    say("level %d option %d", asked[which].level, asked[which].option);
    SET(sockets[one], asked[which].level, asked[which].option, three == 0);
}

/* Port, TTL, TOS: read back by `IP_RECVTTL` and its relatives. */
void far_marked(void) {
    static const int classes[] = { 0x28, 3, 0xff };
    FAR_SENDS(.family = four ? AF_INET6 : AF_INET, .from = PORT(FIRST_FAR), .to = PORT(one), .size = 4, .letter = 'm',
              .ttl = 3 + 60 * two, .tos = classes[three % 3]);
}

/* Slot, what, port: an IPv6 socket that speaks IPv4. */
void map_address(void) {
    int is_far = two > 0;
    struct sockaddr *address = (struct sockaddr *)v6(is_far ? "::ffff:" FAR : "::ffff:" NEAR, PORT(is_far ? FIRST_FAR : three));
    socklen_t length = sizeof(struct sockaddr_in6);
    if (families[one] != AF_INET6) return;
    switch (two) {
    case 0:
        if (CALL(bind(sockets[one], address, length)) == 0) ports[one] = three, are_wild[one] = 1;
        break;
    case 1:
        if (CALL(sendto(sockets[one], "mapped", 6, MSG_NOSIGNAL, address, length)) == 6 && places[one] == 0) far_receives(PORT(FIRST_FAR));
        break;
    default: CALL(connect(sockets[one], address, length));
    }
    settle();
}
