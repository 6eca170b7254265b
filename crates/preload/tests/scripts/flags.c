/* Flags of the data calls. */
#include "script.h"

SCRIPT(dontwait_on_nothing) {
    int a = bound(0);
    WAITS(0, RECV(a, 10, MSG_DONTWAIT));
    WAITS(0, RECVFROM(a, 10, MSG_DONTWAIT));
    WAITS(0, RECVMSG(a, 10, 100, MSG_DONTWAIT));
    FAR_SENDS(.to = PORT(0), .size = 3);
    WAITS(0, RECV(a, 10, MSG_DONTWAIT));
}

SCRIPT(peek_leaves_it_there) {
    int a = bound(0);
    FAR_SENDS(.from = PORT(5), .sources = 2, .to = PORT(0), .size = 20, .count = 2);
    RECV(a, 5, MSG_PEEK);
    RECVFROM(a, 30, MSG_PEEK);
    RECV(a, 30, MSG_PEEK | MSG_TRUNC);
    RECV(a, 5, MSG_PEEK | MSG_TRUNC);
    RECVMSG(a, 5, 0, MSG_PEEK);
    POLL(0, { a, POLLIN, 0 });
    RECVFROM(a, 30, 0);
    RECVFROM(a, 30, MSG_PEEK);
    RECVFROM(a, 30, 0);
    RECV(a, 30, MSG_PEEK | MSG_DONTWAIT);
}

SCRIPT(peek_waits) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 4, .after_ms = 30);
    WAITS(30, RECV(a, 10, MSG_PEEK));
    WAITS(0, RECV(a, 10, 0));
}

SCRIPT(trunc_gives_the_whole_length) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 100, .count = 4);
    RECV(a, 10, MSG_TRUNC);
    RECV(a, 0, MSG_TRUNC);
    RECVMSG(a, 10, 0, MSG_TRUNC);
    RECV(a, 200, MSG_TRUNC);
}

SCRIPT(waitall_means_nothing) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 10, .count = 2);
    RECV(a, 100, MSG_WAITALL);
    RECV(a, 5, MSG_WAITALL);
    FAR_SENDS(.to = PORT(0), .size = 10, .after_ms = 20);
    WAITS(20, RECV(a, 100, MSG_WAITALL));
    RECV(a, 100, MSG_WAITALL | MSG_DONTWAIT);
}

SCRIPT(oob_and_unknown_flags) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "x", MSG_OOB);
    RECV(a, 10, MSG_OOB | MSG_DONTWAIT);
    SEND(a, "eor", MSG_EOR);
    RECV(a, 10, 0);
    SEND(a, "nosignal", MSG_NOSIGNAL);
    RECV(a, 10, MSG_NOSIGNAL);
    SEND(a, "dontroute", MSG_DONTROUTE);
    RECV(a, 10, 0);
    SEND(a, "confirm", MSG_CONFIRM);
    RECV(a, 10, 0);
    SEND(a, "unknown", 0x01000000);
    RECV(a, 10, 0x01000000);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(errqueue_is_empty) {
    int a = bound(0);
    WAITS(0, RECV(a, 10, MSG_ERRQUEUE));
    FAR_SENDS(.to = PORT(0), .size = 3);
    WAITS(0, RECVMSG(a, 10, 100, MSG_ERRQUEUE));
    RECV(a, 10, 0);
}

SCRIPT(more_joins_one_datagram) {
    int a = UDP();
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "one ", MSG_MORE);
    far_receives_nothing(PORT(5));
    SEND(a, "two ", MSG_MORE);
    SEND(a, "three", 0);
    far_receives(PORT(5));
    SEND(a, "next", 0);
    far_receives(PORT(5));
}

SCRIPT(more_keeps_the_first_destination) {
    int a = bound(0);
    far_opens(PORT(5));
    far_opens(PORT(6));
    CALL(sendto(a, "first ", 6, MSG_MORE, V4(FAR, PORT(5))));
    CALL(sendto(a, "second", 6, 0, V4(FAR, PORT(6))));
    far_receives(PORT(5));
    far_receives_nothing(PORT(6));
}

SCRIPT(more_is_ended_by_an_empty_send) {
    int a = UDP();
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "one", MSG_MORE);
    CALL(send(a, NULL, 0, 0));
    far_receives(PORT(5));
    SEND(a, "lost", MSG_MORE);
    CALL(close(a));
    far_receives_nothing(PORT(5));
}

SCRIPT(cork_joins_one_datagram) {
    int a = UDP();
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    SET(a, IPPROTO_UDP, UDP_CORK, 1);
    GET(a, IPPROTO_UDP, UDP_CORK);
    SEND(a, "one ", 0);
    CALL(write(a, "two ", 4));
    far_receives_nothing(PORT(5));
    SET(a, IPPROTO_UDP, UDP_CORK, 0);
    far_receives(PORT(5));
    SEND(a, "alone", 0);
    far_receives(PORT(5));
}

SCRIPT(cork_and_errors) {
    int a = UDP();
    SET(a, IPPROTO_UDP, UDP_CORK, 1);
    SEND(a, "x", 0);
    SET(a, IPPROTO_UDP, UDP_CORK, 0);
    static char data[40000];
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(send(a, data, sizeof data, MSG_MORE));
    CALL(send(a, data, sizeof data, MSG_MORE));
    SEND(a, "small", 0);
    settle();
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(proxy_of_flags_on_send) {
    int a = UDP();
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    SEND(a, "dontwait", MSG_DONTWAIT);
    RECV(a, 10, 0);
    SEND(a, "peek", MSG_PEEK);
    RECV(a, 10, 0);
    SEND(a, "trunc", MSG_TRUNC);
    RECV(a, 10, 0);
    SEND(a, "errqueue", MSG_ERRQUEUE);
    RECV(a, 10, 0);
}

SCRIPT(more_by_every_call) {
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    struct iovec parts[] = { { "part ", 5 }, { "and part ", 9 } };
    struct mmsghdr messages[] = { { { .msg_iov = parts, .msg_iovlen = 2 }, 0 }, { { .msg_iov = parts, .msg_iovlen = 1 }, 0 } };
    CALL(sendmsg(a, &messages[0].msg_hdr, MSG_MORE));
    CALL(write(a, "written", 7));
    far_receives(PORT(5));
    CALL(sendmmsg(a, messages, 2, MSG_MORE));
    CALL(writev(a, parts, 1));
    far_receives(PORT(5));
    SEND(a, "", MSG_MORE);
    SEND(a, "after nothing", 0);
    far_receives(PORT(5));
    SEND(a, "alone", 0);
    far_receives(PORT(5));
    far_receives_nothing(PORT(5));
}

SCRIPT(more_and_a_send_that_is_refused) {
    static char data[70000];
    int a = bound(0);
    far_opens(PORT(5));
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "begun ", MSG_MORE);
    CALL(send(a, data, sizeof data, 0));
    SEND(a, "ended", 0);
    far_receives(PORT(5));
    SEND(a, "begun ", MSG_MORE);
    CALL(send(a, null(), 10, 0));
    SEND(a, "alone", 0);
    far_receives(PORT(5));
    far_receives_nothing(PORT(5));
}

SCRIPT(more_before_a_socket_has_an_address) {
    int a = UDP();
    far_opens(PORT(5));
    CALL(sendto(a, "one ", 4, MSG_MORE, V4(FAR, PORT(5))));
    CALL(sendto(a, "two", 3, 0, V4(FAR, PORT(5))));
    far_receives(PORT(5));
    SENDTO(a, "three", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(receive_flags_that_no_one_defined) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    RECV(a, 10, 0x04000000);
    RECVMSG(a, 10, 0, MSG_OOB);
    RECVMSG(a, 10, 0, (int)0x80000000);
    RECV(a, 10, MSG_EOR | MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 20);
    WAITS(20, RECV(a, 10, MSG_OOB));
}
