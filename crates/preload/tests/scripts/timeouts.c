/* SO_RCVTIMEO and SO_SNDTIMEO, and other ways not to wait. */
#include "script.h"

static void set_timeout(int fd, int option, long seconds, long microseconds) {
    struct timeval time = { seconds, microseconds };
    CALL(setsockopt(fd, SOL_SOCKET, option, &time, sizeof time));
}

SCRIPT(receive_gives_up) {
    int a = bound(0);
    set_timeout(a, SO_RCVTIMEO, 0, 50000);
    WAITS(50, RECV(a, 10, 0));
    WAITS(50, RECVFROM(a, 10, 0));
    WAITS(50, READ(a, 10));
    WAITS(50, RECVMSG(a, 10, 0, 0));
    WAITS(0, RECV(a, 10, MSG_DONTWAIT));
    WAITS(50, RECV(a, 10, MSG_WAITALL | MSG_PEEK));
}

SCRIPT(receive_in_time) {
    int a = bound(0);
    set_timeout(a, SO_RCVTIMEO, 1, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, RECV(a, 10, 0));
    set_timeout(a, SO_RCVTIMEO, 0, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, RECV(a, 10, 0));
}

SCRIPT(a_damaged_datagram_does_not_prolong) {
    int a = bound(0);
    set_timeout(a, SO_RCVTIMEO, 0, 60000);
    FAR_SENDS(.to = PORT(0), .size = 3, .raw = RAW_BAD_CHECKSUM, .after_ms = 30);
    WAITS(60, RECV(a, 10, 0));
}

SCRIPT(values) {
    int a = bound(0);
    struct timeval time;
    socklen_t length = sizeof time;
    CALL(getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, &length));
    say("%ld s %ld us, length %u", (long)time.tv_sec, (long)time.tv_usec, length);
    set_timeout(a, SO_RCVTIMEO, 2, 500000);
    set_timeout(a, SO_SNDTIMEO, 1, 0);
    CALL(getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, &length));
    say("%ld s %ld us", (long)time.tv_sec, (long)time.tv_usec);
    CALL(getsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &time, &length));
    say("%ld s %ld us", (long)time.tv_sec, (long)time.tv_usec);
    set_timeout(a, SO_RCVTIMEO, 0, 1000000);
    set_timeout(a, SO_RCVTIMEO, 0, -1);
    set_timeout(a, SO_RCVTIMEO, -1, 0);
    WAITS(0, RECV(a, 10, 0));
    int short_value = 1;
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &short_value, 4));
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, no_memory(), sizeof time));
}

SCRIPT(poll_does_not_care) {
    int a = bound(0);
    set_timeout(a, SO_RCVTIMEO, 0, 10000);
    WAITS(50, POLL(50, { a, POLLIN, 0 }));
}

SCRIPT(unbound_socket) {
    int a = UDP();
    set_timeout(a, SO_RCVTIMEO, 0, 50000);
    WAITS(50, RECV(a, 10, 0));
    GETSOCKNAME(a);
}

static int shared;

static void *receives_for_a_second(void *unused) {
    WAITS(1000, RECV(shared, 10, 0));
    return unused;
}

SCRIPT(goes_on_when_the_socket_is_bound) {
    shared = UDP();
    set_timeout(shared, SO_RCVTIMEO, 1, 0);
    struct thread *thread = start_thread("thread", receives_for_a_second, NULL);
    sleep_ms(800);
    CALL(bind(shared, V4(NEAR, PORT(0))));
    join_thread(thread);
}

SCRIPT(goes_on_when_the_socket_is_the_kernels) {
    shared = bound(0);
    set_timeout(shared, SO_RCVTIMEO, 1, 0);
    struct thread *thread = start_thread("thread", receives_for_a_second, NULL);
    sleep_ms(800);
    SET(shared, SOL_SOCKET, SO_ZEROCOPY, 1);
    join_thread(thread);
}

SCRIPT(shared_by_copies) {
    int a = bound(0), copy = CALL(dup(a));
    set_timeout(copy, SO_RCVTIMEO, 0, 40000);
    WAITS(40, RECV(a, 10, 0));
    CALL(close(copy));
    WAITS(40, RECV(a, 10, 0));
}

SCRIPT(recvmmsg_looks_at_its_timeout_between) {
    int a = bound(0);
    set_timeout(a, SO_RCVTIMEO, 0, 50000);
    char data[4][10];
    struct iovec parts[4];
    struct mmsghdr messages[4] = { 0 };
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){ data[i], 10 };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
    }
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    WAITS(50, CALL(recvmmsg(a, messages, 4, 0, NULL)));
    WAITS(50, CALL(recvmmsg(a, messages, 4, 0, NULL)));
}
