/* sendmsg, recvmsg, sendmmsg and recvmmsg with vectors of every shape. */
#include "script.h"

static char data[8][32];
static struct iovec parts[8];
static struct mmsghdr messages[8];
static struct sockaddr_in names[8];

static void prepare(size_t size) {
    memset(data, 0xee, sizeof data);
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 8; i++) {
        parts[i] = (struct iovec){ data[i], size };
        messages[i].msg_hdr = (struct msghdr){ &names[i], sizeof names[i], &parts[i], 1, NULL, 0, 0 };
        messages[i].msg_len = 777;
    }
}

static void show(int count) {
    for (int i = 0; i < count; i++) {
        struct msghdr *header = &messages[i].msg_hdr;
        unsigned length = messages[i].msg_len, filled = length < parts[i].iov_len ? length : parts[i].iov_len;
        say("  %u from %s flags %x", length, address_text(header->msg_name, header->msg_namelen), header->msg_flags);
        show_data("  data", data[i], filled);
    }
    if (count >= 0 && count < 8) say("  the next length is %u", messages[count].msg_len);
}

SCRIPT(recvmmsg_takes_what_is_there) {
    int a = bound(0);
    prepare(32);
    FAR_SENDS(.from = PORT(5), .sources = 2, .to = PORT(0), .size = 4, .count = 3);
    show(CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, NULL)));
    show(CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, NULL)));
}

SCRIPT(recvmmsg_takes_what_waited_and_what_came_when_the_kernel_had_the_socket) {
    int a = bound(0);
    prepare(32);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    POLL(0, { a, POLLIN, 0 });
    SET(a, IPPROTO_IP, IP_RECVOPTS, 1);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4, .count = 2);
    show(CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, NULL)));
}

SCRIPT(recvmmsg_up_to_the_limit) {
    int a = bound(0);
    prepare(3);
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 5);
    show(CALL(recvmmsg(a, messages, 2, 0, NULL)));
    prepare(32);
    show(CALL(recvmmsg(a, messages, 2, 0, NULL)));
    CALL(recvmmsg(a, messages, 0, 0, NULL));
    show(CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, NULL)));
}

SCRIPT(recvmmsg_waits_for_one) {
    int a = bound(0);
    prepare(32);
    FAR_SENDS(.to = PORT(0), .size = 4, .after_ms = 30);
    int got = WAITS(30, CALL(recvmmsg(a, messages, 8, MSG_WAITFORONE, NULL)));
    show(got);
    FAR_SENDS(.to = PORT(0), .size = 4, .after_ms = 20);
    WAITS(20, CALL(recvmmsg(a, messages, 1, 0, NULL)));
}

SCRIPT(recvmmsg_waits_for_all) {
    int a = bound(0);
    prepare(32);
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 3, .after_ms = 20, .gap_us = 20000);
    int got = WAITS(60, CALL(recvmmsg(a, messages, 3, 0, NULL)));
    show(got);
}

SCRIPT(recvmmsg_timeout_is_looked_at_after_each) {
    int a = bound(0);
    prepare(32);
    struct timespec time = { 0, 120000000 };
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 3, .after_ms = 20, .gap_us = 200000);
    int got = WAITS(220, CALL(recvmmsg(a, messages, 8, 0, &time)));
    show(got);
    struct timespec bad = { 0, -1 };
    CALL(recvmmsg(a, messages, 8, MSG_DONTWAIT, &bad));
    sleep_ms(300);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(recvmmsg_stops_at_a_bad_buffer) {
    int a = bound(0);
    prepare(32);
    parts[1].iov_base = null();
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 4);
    show(CALL(recvmmsg(a, messages, 4, MSG_DONTWAIT, NULL)));
    GET(a, SOL_SOCKET, SO_ERROR);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(recvmmsg_peeks_the_same) {
    int a = bound(0);
    prepare(32);
    FAR_SENDS(.to = PORT(0), .size = 4, .count = 2);
    show(CALL(recvmmsg(a, messages, 3, MSG_PEEK | MSG_DONTWAIT, NULL)));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(sendmmsg_sends_all) {
    int a = bound(0);
    far_opens(PORT(5));
    far_opens(PORT(6));
    prepare(4);
    for (int i = 0; i < 4; i++) {
        memset(data[i], 'a' + i, 4);
        names[i] = *v4(FAR, PORT(5 + i % 2));
    }
    CALL(sendmmsg(a, messages, 4, 0));
    say("lengths %u %u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len, messages[3].msg_len);
    for (int i = 0; i < 2; i++) {
        far_receives(PORT(5));
        far_receives(PORT(6));
    }
    CALL(sendmmsg(a, messages, 0, 0));
    CALL(sendmmsg(a, nowhere(), 2, 0));
}

SCRIPT(sendmmsg_stops_at_an_error) {
    int a = bound(0);
    far_opens(PORT(5));
    prepare(4);
    for (int i = 0; i < 4; i++) names[i] = *v4(i == 2 ? UNROUTED : FAR, PORT(5));
    CALL(sendmmsg(a, messages, 4, 0));
    say("lengths %u %u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len, messages[3].msg_len);
    far_receives(PORT(5));
    far_receives(PORT(5));
    far_receives_nothing(PORT(5));
    CALL(sendmmsg(a, messages + 2, 2, 0));
    parts[3].iov_base = nowhere();
    CALL(sendmmsg(a, messages + 3, 1, 0));
}

SCRIPT(scattered) {
    int a = bound(0);
    char one[4] = "", two[3] = "", three[20] = "";
    struct iovec into[] = { { one, 3 }, { NULL, 0 }, { two, 2 }, { three, 19 } };
    FAR_SENDS(.to = PORT(0), .size = 8, .count = 3);
    CALL(readv(a, into, 4));
    say("'%s' '%s' '%s'", one, two, three);
    struct msghdr message = { .msg_iov = into, .msg_iovlen = 3 };
    CALL(recvmsg(a, &message, 0));
    say("flags %x '%s' '%s'", message.msg_flags, one, two);
    message.msg_iovlen = 0;
    CALL(recvmsg(a, &message, 0));
    say("flags %x", message.msg_flags);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(gathered) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    struct iovec from[] = { { "one ", 4 }, { NULL, 0 }, { "two ", 4 }, { "", 0 }, { "three", 5 } };
    CALL(writev(a, from, 5));
    far_receives(PORT(5));
    struct msghdr message = { .msg_iov = from, .msg_iovlen = 3 };
    CALL(sendmsg(a, &message, 0));
    far_receives(PORT(5));
    message.msg_iovlen = 0;
    CALL(sendmsg(a, &message, 0));
    far_receives(PORT(5));
    CALL(writev(a, from, 0));
    far_receives_nothing(PORT(5));
}

SCRIPT(refused_vectors) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    struct iovec bad[] = { { "good", 4 }, { null(), 4 } };
    CALL(writev(a, bad, 2));
    volatile int less_than_none = -1, too_many = 1025;
    CALL(writev(a, bad, less_than_none));
    CALL(writev(a, bad, too_many));
    CALL(writev(a, null(), 2));
    CALL(readv(a, nowhere(), 1));
    struct iovec negative = { "x", -1 };
    CALL(writev(a, &negative, 1));
    struct msghdr message = { .msg_iov = bad, .msg_iovlen = 2 };
    CALL(sendmsg(a, &message, 0));
    message.msg_iovlen = 1025;
    CALL(sendmsg(a, &message, 0));
    message.msg_iov = nowhere();
    message.msg_iovlen = 1;
    CALL(sendmsg(a, &message, 0));
    CALL(sendmsg(a, null(), 0));
    CALL(sendmsg(a, nowhere(), 0));
    CALL(recvmsg(a, null(), MSG_DONTWAIT));
    CALL(recvmsg(a, nowhere(), MSG_DONTWAIT));
    settle();
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(a_thousand_parts) {
    static struct iovec many[1024];
    static char bytes[1024];
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 1024; i++) {
        bytes[i] = 'A' + i % 26;
        many[i] = (struct iovec){ &bytes[i], 1 };
    }
    CALL(writev(a, many, 1024));
    RECV(a, 2000, 0);
}

SCRIPT(name_lengths) {
    int a = bound(0);
    struct sockaddr_in from;
    char bytes[10];
    struct iovec part = { bytes, 10 };
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 4);
    struct msghdr message = { .msg_name = &from, .msg_namelen = 4, .msg_iov = &part, .msg_iovlen = 1 };
    CALL(recvmsg(a, &message, 0));
    say("length %u", message.msg_namelen);
    message.msg_namelen = 0;
    CALL(recvmsg(a, &message, 0));
    say("length %u", message.msg_namelen);
    message.msg_name = NULL;
    message.msg_namelen = 77;
    CALL(recvmsg(a, &message, 0));
    say("length %u", message.msg_namelen);
    message.msg_name = &from;
    message.msg_namelen = -1;
    CALL(recvmsg(a, &message, 0));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(recvmmsg_keeps_an_error_for_the_next_call) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 3; i++) {
        prepare(32);
        parts[1].iov_base = null();
        FAR_SENDS(.from = ECHO_PORT + 1, .to = PORT(0), .size = 4);
        SEND(a, "one", 0);
        SEND(a, "two", 0);
        settle();
        CALL(recvmmsg(a, messages, 4, MSG_DONTWAIT, NULL));
        POLL(0, { a, POLLIN, 0 });
        if (i == 0) RECV(a, 10, MSG_DONTWAIT);
        if (i == 1) SEND(a, "x", 0);
        if (i == 2) GET(a, SOL_SOCKET, SO_ERROR);
        POLL(0, { a, POLLIN, 0 });
        RECV(a, 10, MSG_DONTWAIT);
        SEND(a, "y", 0);
        RECV(a, 10, 0);
    }
}

SCRIPT(recvmmsg_writes_the_rest_of_its_timeout) {
    int a = bound(0);
    prepare(32);
    struct timespec time = { 5, 123 };
    CALL(recvmmsg(a, messages, 4, MSG_DONTWAIT, &time));
    say("%ld s %ld ns", (long)time.tv_sec, time.tv_nsec);
    FAR_SENDS(.to = PORT(0), .size = 4);
    CALL(recvmmsg(a, messages, 1, 0, &time));
    say("%ld s", (long)time.tv_sec);
    FAR_SENDS(.to = PORT(0), .size = 4);
    CALL(recvmmsg(a, messages, 1, 0, nowhere()));
    CALL(recvmmsg(a, messages, 1, 0, null()));
}

/* Of a client's first datagrams the kernel has some; then it is accelerated, by a send that goes elsewhere. */
SCRIPT(connected_socket_whose_first_sends_go_elsewhere_hears_its_peer) {
    far_opens(PORT(5));
    int server = bound(0), client = UDP();
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(server, 10, 0);
    CALL(connect(client, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 12; i++) {
        SENDTO(client, "elsewhere", V4(FAR, PORT(5)));
    }
    for (int i = 0; i < 3; i++) {
        SEND(client, "to the peer", 0);
        RECV(client, 20, 0);
    }
}
