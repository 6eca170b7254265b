/* The plain calls: what is sent arrives as it is, in order, with its source. */
#include "script.h"

SCRIPT(echo_by_every_call) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "send", 0);
    RECV(a, 100, 0);
    CALL(sendto(a, "sendto", 6, 0, NULL, 0));
    RECVFROM(a, 100, 0);
    CALL(write(a, "write", 5));
    READ(a, 100);
    struct iovec parts[2] = { { "send", 4 }, { "msg", 3 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    CALL(sendmsg(a, &message, 0));
    RECVMSG(a, 100, 0, 0);
    CALL(writev(a, parts, 2));
    RECV(a, 100, 0);
}

SCRIPT(source_of_each_datagram) {
    int a = bound(0);
    for (int i = 0; i < 3; i++) {
        /* One source at a time: a device with several queues keeps no order among sources. */
        FAR_SENDS(.from = PORT(5) + i, .to = PORT(0), .size = 4, .count = 2);
        for (int j = 0; j < 2; j++) RECVFROM(a, 10, 0);
    }
    RECVFROM(a, 10, MSG_DONTWAIT);
}

SCRIPT(order_is_kept) {
    int a = bound(0);
    /* A socket of the kernel's holds 49 behind a native XDP program on veth in Linux 6.1. */
    FAR_SENDS(.to = PORT(0), .size = 30, .count = 45);
    for (int i = 0; i < 45; i++) RECV(a, 100, 0);
    RECV(a, 100, MSG_DONTWAIT);
}

SCRIPT(what_the_far_end_sees) {
    int a = bound(0);
    far_opens(PORT(5));
    far_watches(PORT(5));
    SENDTO(a, "hello", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
    SENDTO(a, "odd length!", V4(FAR, PORT(5)));
    far_receives(PORT(5));
    far_watched(PORT(5));
    far_receives_nothing(PORT(5));
}

SCRIPT(zero_bytes) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(sendto(a, NULL, 0, 0, V4(FAR, PORT(5))));
    far_receives(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(send(a, "", 0, 0));
    far_receives(PORT(5));
    CALL(write(a, "", 0));
    far_receives(PORT(5));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 0, .count = 2);
    POLL(0, { a, POLLIN, 0 });
    RECVFROM(a, 10, 0);
    POLL(0, { a, POLLIN, 0 });
    RECVFROM(a, 0, 0);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 0, MSG_DONTWAIT);
}

SCRIPT(zero_bytes_wanted_takes_the_datagram) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 9, .count = 4);
    RECV(a, 0, 0);
    CALL(recv(a, NULL, 0, 0));
    READ(a, 0);
    RECV(a, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(shorter_buffer_cuts) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 100, .count = 4);
    RECV(a, 10, 0);
    RECVFROM(a, 99, 0);
    READ(a, 1);
    RECVMSG(a, 10, 0, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(sizes_at_the_mtu) {
    static const int sizes[] = { 1, 17, 18, 1471, 1472, 1473, 1480, 2960, 9000, 65507 };
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    static char data[65508];
    memset(data, 'm', sizeof data);
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        CALL(send(a, data, sizes[i], 0));
        RECV(a, 66000, 0);
    }
    CALL(send(a, data, 65508, 0));
    CALL(send(a, data, 1 << 20, 0));
    RECV(a, 66000, MSG_DONTWAIT);
}

SCRIPT(sizes_from_far) {
    static const int sizes[] = { 1472, 1473, 3000, 65507, 1 };
    int a = bound(0);
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        say("%d bytes", sizes[i]);
        FAR_SENDS(.to = PORT(0), .size = sizes[i]);
        RECVFROM(a, 66000, 0);
    }
}

SCRIPT(fragments_between_whole_datagrams) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 5, .letter = 'a');
    FAR_SENDS(.to = PORT(0), .size = 4000, .letter = 'b');
    FAR_SENDS(.to = PORT(0), .size = 5, .letter = 'c');
    for (int i = 0; i < 3; i++) RECV(a, 5000, 0);
}

SCRIPT(no_destination) {
    int a = UDP();
    SEND(a, "x", 0);
    CALL(write(a, "x", 1));
    CALL(sendto(a, "x", 1, 0, NULL, 0));
    struct iovec part = { "x", 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    CALL(sendmsg(a, &message, 0));
    GETSOCKNAME(a);
}

SCRIPT(destinations_that_are_refused) {
    int a = bound(0);
    SENDTO(a, "x", V4(FAR, 0));
    SENDTO(a, "x", V4(UNROUTED, PORT(5)));
    SENDTO(a, "x", V6(FAR6, PORT(5)));
    SENDTO(a, "x", (struct sockaddr *)v4(FAR, PORT(5)), 8);
    SENDTO(a, "x", (struct sockaddr *)v4(FAR, PORT(5)), 1);
    SENDTO(a, "x", (struct sockaddr *)v4(FAR, PORT(5)), 200);
    SENDTO(a, "x", V4("10.77.0.255", PORT(5)));
    SENDTO(a, "x", V4("255.255.255.255", PORT(5)));
    SENDTO(a, "x", V4("240.0.0.1", PORT(5)));
    struct sockaddr_in odd = *v4(FAR, ECHO_PORT);
    odd.sin_family = AF_UNSPEC;
    SENDTO(a, "unspec", (struct sockaddr *)&odd, sizeof odd);
    RECV(a, 10, 0);
    odd.sin_family = AF_UNIX;
    SENDTO(a, "x", (struct sockaddr *)&odd, sizeof odd);
    settle();
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(broadcast_needs_permission) {
    int a = bound(0);
    far_opens(PORT(5));
    SENDTO(a, "no", V4("10.77.0.255", PORT(5)));
    CALL(connect(a, V4("10.77.0.255", PORT(5))));
    SET(a, SOL_SOCKET, SO_BROADCAST, 1);
    SENDTO(a, "yes", V4("10.77.0.255", PORT(5)));
    far_receives(PORT(5));
    CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, INTERFACE, 4));
    SENDTO(a, "all", V4("255.255.255.255", PORT(5)));
    far_receives(PORT(5));
}

SCRIPT(broadcast_is_received) {
    int a = UDP(), b = bound(0);
    SET(a, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(a, V4("0.0.0.0", PORT(1))));
    FAR_SENDS(.to = PORT(1), .size = 3, .address = "10.77.0.255");
    RECVFROM(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3, .address = "10.77.0.255");
    RECV(b, 10, MSG_DONTWAIT);
}

SCRIPT(to_own_address) {
    int a = bound(0), b = bound(1);
    SENDTO(a, "to b", V4(NEAR, PORT(1)));
    settle();
    RECVFROM(b, 10, MSG_DONTWAIT);
    SENDTO(a, "to a", V4(NEAR, PORT(0)));
    settle();
    RECVFROM(a, 10, MSG_DONTWAIT);
    SENDTO(a, "0.0.0.0 is this host", V4("0.0.0.0", PORT(1)));
    settle();
    RECVFROM(b, 30, MSG_DONTWAIT);
}

SCRIPT(nobody_there_is_no_error_at_once) {
    int a = bound(0);
    SENDTO(a, "x", V4(NOBODY, PORT(5)));
    SENDTO(a, "y", V4(NOBODY, PORT(5)));
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(far_and_local_take_turns) {
    int a = bound(0), b = bound(1);
    for (int i = 0; i < 10; i++) {
        if (i % 3 == 0) CALL(sendto(b, "local", 5, 0, V4(NEAR, PORT(0))));
        else FAR_SENDS(.to = PORT(0), .size = 3, .letter = 'a' + i);
        settle();
    }
    for (int i = 0; i < 10; i++) RECVFROM(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(damaged_and_odd_packets) {
    int a = bound(0);
    FAR_SENDS(.raw = RAW_BAD_CHECKSUM, .to = PORT(0), .size = 6);
    RECV(a, 100, MSG_DONTWAIT);
    FAR_SENDS(.raw = RAW_NO_CHECKSUM, .to = PORT(0), .size = 6, .letter = 'b');
    RECV(a, 100, MSG_DONTWAIT);
    FAR_SENDS(.raw = RAW_TRAILING_BYTES, .to = PORT(0), .size = 6, .letter = 'c');
    RECV(a, 100, MSG_DONTWAIT);
    FAR_SENDS(.raw = RAW_LENGTH_BEYOND, .to = PORT(0), .size = 6, .letter = 'd');
    RECV(a, 100, MSG_DONTWAIT);
    FAR_SENDS(.raw = RAW_IP_OPTIONS, .to = PORT(0), .size = 6, .letter = 'e');
    RECV(a, 100, MSG_DONTWAIT);
    FAR_SENDS(.raw = RAW_NO_CHECKSUM, .to = PORT(0), .size = 0);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 100, MSG_DONTWAIT);
}

SCRIPT(damaged_datagram_does_not_wake) {
    int a = bound(0);
    FAR_SENDS(.raw = RAW_BAD_CHECKSUM, .to = PORT(0), .size = 6, .after_ms = 20);
    WAITS(60, POLL(60, { a, POLLIN, 0 }));
    FAR_SENDS(.raw = RAW_BAD_CHECKSUM, .to = PORT(0), .size = 6, .after_ms = 10);
    FAR_SENDS(.to = PORT(0), .size = 6, .after_ms = 40);
    WAITS(40, RECV(a, 10, 0));
}

SCRIPT(unbound_socket_receives_after_sending) {
    int a = UDP();
    RECV(a, 10, MSG_DONTWAIT);
    POLL(0, { a, POLLIN | POLLOUT, 0 });
    SENDTO(a, "hi", V4(FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
}

SCRIPT(address_buffers_of_every_length) {
    int a = bound(0);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4, .count = 8);
    static const socklen_t lengths[] = { 0, 1, 2, 4, 8, 15, 16, 17 };
    for (size_t i = 0; i < LENGTH_OF(lengths); i++) {
        unsigned char from[64];
        memset(from, 0xee, sizeof from);
        char data[8];
        socklen_t length = lengths[i];
        CALL(recvfrom(a, data, sizeof data, 0, (struct sockaddr *)from, &length));
        size_t written = sizeof from;
        while (written > 0 && from[written - 1] == 0xee) written--;
        say("  of %u: length %u, last byte written %zu", lengths[i], length, written);
    }
    socklen_t negative = -1;
    struct sockaddr_in from;
    char data[8];
    CALL(recvfrom(a, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &negative));
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 4, .count = 3);
    CALL(recvfrom(a, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &negative));
    CALL(recvfrom(a, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, NULL));
    CALL(recvfrom(a, data, sizeof data, MSG_DONTWAIT, NULL, NULL));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(what_was_peeked_at_comes_next) {
    int a = bound(0), b = bound(1);
    SENDTO(b, "local", V4(NEAR, PORT(0)));
    settle();
    RECV(a, 10, MSG_DONTWAIT | MSG_PEEK);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT | MSG_PEEK);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT | MSG_PEEK);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}
