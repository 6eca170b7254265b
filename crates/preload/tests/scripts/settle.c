/* What waits until all that is on its way has arrived. Frames of a cable with one queue keep their order: when a datagram to
 * the echo and its answer have passed, all that was sent before, at either end, has too. These datagrams go by sockets of
 * the kernel's that the library does not see. */
#include "script.h"
#include "direct.h"

#include <stdatomic.h>

#define MARKERS 4
/* Out of the way of a script's own. */
#define FIRST_MARKER_FD 900
#define MARK_TIMEOUT_MS 100
/* The kernel gives the library what came with the mark in one batch when the batch is done. */
#define BATCH_NS 100000

/* To the echo by IPv4, by IPv6, to itself over the loopback interface, and to the echo behind the router. */
static int markers[MARKERS] = { -1, -1, -1, -1 };
static struct sockaddr_storage destinations[MARKERS];
static atomic_uint last_mark;

static int marker_at(int at, int family) {
    long fd = direct(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);
    long marker = direct(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FIRST_MARKER_FD + at, 0, 0, 0);
    direct(SYS_close, fd, 0, 0, 0, 0, 0);
    if (marker < 0) say("no marker %d: %s", at, strerrorname_np(-marker));
    return marker;
}

static void go_to(int at, const struct sockaddr *address, socklen_t length) {
    markers[at] = marker_at(at, address->sa_family);
    memcpy(&destinations[at], address, length);
}

static void go_to_itself(int at) {
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof destinations[at];
    markers[at] = marker_at(at, AF_INET);
    direct(SYS_bind, markers[at], (long)&any, sizeof any, 0, 0, 0);
    direct(SYS_getsockname, markers[at], (long)&destinations[at], (long)&length, 0, 0, 0);
}

void settle_by_marks(void) {
    if (markers[0] >= 0) return;
    go_to(0, V4(FAR, ECHO_PORT));
    go_to(1, V6(FAR6, ECHO_PORT));
    go_to_itself(2);
    go_to(3, V4(BEYOND(15), ECHO_PORT));
}

static void send_mark(int at, unsigned mark) {
    socklen_t length = destinations[at].ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    direct(SYS_sendto, markers[at], (long)&mark, sizeof mark, 0, (long)&destinations[at], length);
}

static int comes_back(int marker, unsigned mark) {
    unsigned got;
    for (long end_us = now_us() + 1000L * MARK_TIMEOUT_MS; now_us() < end_us;) {
        struct pollfd readable = { marker, POLLIN, 0 };
        struct timespec time = { 0, 1000000L * MARK_TIMEOUT_MS };
        direct(SYS_ppoll, (long)&readable, 1, (long)&time, 0, 0, 0);
        while (direct(SYS_recvfrom, marker, (long)&got, sizeof got, MSG_DONTWAIT, 0, 0) >= 0) {
            if (got == mark) return 1;
        }
    }
    return 0;
}

/* 0 if marks do not come back, as where a link is down. */
static int marks_come_back(int first, int end) {
    unsigned mark = atomic_fetch_add(&last_mark, 1) + 1;
    int all = 1;
    for (int i = first; i < end; i++) send_mark(i, mark);
    for (int i = first; i < end; i++) all &= comes_back(markers[i], mark);
    struct timespec batch = { 0, BATCH_NS };
    direct(SYS_nanosleep, (long)&batch, 0, 0, 0, 0, 0);
    return all;
}

static void settle_by_time(void) {
    struct peer_request request = { .command = PEER_SETTLE };
    sleep_ms(1);
    far_asks(&request);
    sleep_ms(2);
}

void settle(void) {
    int errno_before = errno;
    if (markers[0] < 0 || !marks_come_back(0, 3)) settle_by_time();
    errno = errno_before;
}

void settle_beyond(void) {
    int errno_before = errno;
    if (markers[3] < 0 || !marks_come_back(3, 4)) sleep_ms(25);
    errno = errno_before;
}
