/* Time stamps of datagrams. */
#include "script.h"
#include "direct.h"

#include <linux/net_tstamp.h>
#include <linux/sockios.h>

/* Whether the kernel stamps what comes to a socket of its own now. */
static int comes_stamped(long fd, const struct sockaddr_in *own) {
    char data[1], control[200];
    struct iovec part = { data, sizeof data };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    direct(SYS_sendto, fd, (long)"x", 1, 0, (long)own, sizeof *own);
    return direct(SYS_recvmsg, fd, (long)&header, 0, 0, 0, 0) == 1 && header.msg_controllen > 0;
}

/* The first socket of the host that wants times of arrival makes the kernel take them, by a worker and so later
 * (`net_enable_timestamp`): on a busy machine by more than 100 ms. */
static void let_stamping_begin(void) {
    int software = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof own;
    long fd = direct(SYS_socket, AF_INET, SOCK_DGRAM, 0, 0, 0, 0);
    direct(SYS_bind, fd, (long)&own, length, 0, 0, 0);
    direct(SYS_getsockname, fd, (long)&own, (long)&length, 0, 0, 0);
    direct(SYS_setsockopt, fd, SOL_SOCKET, SO_TIMESTAMPING, (long)&software, sizeof software, 0);
    while (!comes_stamped(fd, &own)) sleep_ms(1);
    direct(SYS_close, fd, 0, 0, 0, 0, 0);
}

SCRIPT(of_each_kind) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_TIMESTAMP, 1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SET(a, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    GET(a, SOL_SOCKET, SO_TIMESTAMP);
    GET(a, SOL_SOCKET, SO_TIMESTAMPNS);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SET(a, SOL_SOCKET, SO_TIMESTAMPNS, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
}

/* SO_TIMESTAMP_NEW and its kin (linux/socket.h): the same times in another structure, under another type. */
SCRIPT(of_each_kind_by_newer_options) {
    enum { TIMESTAMP_NEW = 63, TIMESTAMPNS_NEW, TIMESTAMPING_NEW };
    for (int option = TIMESTAMP_NEW; option <= TIMESTAMPING_NEW; option++) {
        int a = bound(0), flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
        FAR_SENDS(.to = PORT(0), .size = 3);
        RECVMSG(a, 10, 200, 0);
        SET(a, SOL_SOCKET, option, option == TIMESTAMPING_NEW ? flags : 1);
        let_stamping_begin();
        FAR_SENDS(.to = PORT(0), .size = 3);
        RECVMSG(a, 10, 200, 0);
        SET(a, SOL_SOCKET, option, 0);
        FAR_SENDS(.to = PORT(0), .size = 3);
        RECVMSG(a, 10, 200, 0);
        CALL(close(a));
    }
}

SCRIPT(timestamping_receive) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
    GET(a, SOL_SOCKET, SO_TIMESTAMPING);
    let_stamping_begin();
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
    SET(a, SOL_SOCKET, SO_TIMESTAMPING, 1 << 30);
    SET(a, SOL_SOCKET, SO_TIMESTAMPING, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECVMSG(a, 10, 200, 0);
}

/* SOF_TIMESTAMPING_OPT_RX_FILTER, Linux 6.12: a kernel without it refuses, everywhere the same. */
#define ONLY_WHAT_WAS_ASKED_FOR (1 << 17)

/* No device of this bed has a time of its own. */
SCRIPT(timestamping_of_the_device) {
    static const int asked[] = {
        SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE,
        SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE,
        SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RX_SOFTWARE,
        SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE,
        SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | ONLY_WHAT_WAS_ASKED_FOR,
        SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_SOFTWARE | ONLY_WHAT_WAS_ASKED_FOR,
        SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_RX_SOFTWARE
            | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_PKTINFO,
    };
    int a = bound(0);
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        SET(a, SOL_SOCKET, SO_TIMESTAMPING, asked[i]);
        GET(a, SOL_SOCKET, SO_TIMESTAMPING);
        let_stamping_begin();
        FAR_SENDS(.to = PORT(0), .size = 3);
        RECVMSG(a, 10, 200, 0);
    }
}

SCRIPT(timestamping_send) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_TIMESTAMPING,
        SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY);
    SENDTO(a, "stamped", V4(FAR, ECHO_PORT));
    settle();
    POLL(0, { a, POLLIN, 0 });
    RECVMSG(a, 100, 300, MSG_ERRQUEUE);
    RECV(a, 100, MSG_ERRQUEUE);
    /* Not by recvmsg: whether the echo has a stamp depends on the other sockets of this host. */
    RECV(a, 100, MSG_DONTWAIT);
}

SCRIPT(they_increase) {
    int a = bound(0), in_order = 1;
    SET(a, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    let_stamping_begin();
    struct timespec before, last = { 0, 0 };
    clock_gettime(CLOCK_REALTIME, &before);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 5, .gap_us = 20000);
    for (int i = 0; i < 5; i++) {
        char data[10], control[100];
        struct iovec part = { data, 10 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        CALL(recvmsg(a, &message, 0));
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof stamp);
        long since_ns = (stamp.tv_sec - before.tv_sec) * 1000000000L + stamp.tv_nsec - before.tv_nsec;
        long last_ns = (stamp.tv_sec - last.tv_sec) * 1000000000L + stamp.tv_nsec - last.tv_nsec;
        /* The peer waits 20 ms in between: these are times of arrival and not of reading. */
        in_order &= since_ns > 0 && (i == 0 || last_ns > 1500000L);
        last = stamp;
    }
    say("in order: %d", in_order);
}

SCRIPT(of_the_last_datagram) {
    int a = bound(0);
    struct timeval time = { 0, 0 };
    CALL(ioctl(a, SIOCGSTAMP, &time));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    CALL(ioctl(a, SIOCGSTAMP, &time));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    CALL(ioctl(a, SIOCGSTAMP, &time));
}

/* Datagrams that come one after the other while the option is set. None is lost, and each has a time of today. */
static void set_while_they_come(int option) {
    int a = bound(0), got = 0, of_today = 0, stamped = 0;
    struct timeval patience = { 2, 0 };
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    int few = 1 << 20;
    CALL(setsockopt(a, SOL_SOCKET, SO_RCVBUF, &few, sizeof few));
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 400, .gap_us = 100, .after_ms = 1);
    while (got < 400) {
        char data[10], control[100];
        struct iovec part = { data, 10 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        if (recvmsg(a, &message, 0) < 0) break;
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        if (first) {
            long seconds;
            memcpy(&seconds, CMSG_DATA(first), sizeof seconds);
            of_today += labs(seconds - time(NULL)) < 100;
            stamped++;
        }
        if (++got == 50) SET(a, SOL_SOCKET, option, 1);
    }
    say("%d came, all of those with a time have one of today: %d, most have: %d", got, of_today == stamped, stamped > 300);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(set_while_datagrams_come) { set_while_they_come(SO_TIMESTAMP); }
SCRIPT(set_while_datagrams_come_ns) { set_while_they_come(SO_TIMESTAMPNS); }

/* The first to be read has waited: it has the time of the call. */
SCRIPT(set_while_datagrams_wait) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    RECV(a, 10, MSG_PEEK);
    SET(a, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    for (int i = 0; i < 3; i++) {
        char data[10], control[100];
        struct iovec part = { data, 10 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        CALL(recvmsg(a, &message, i == 0 ? MSG_PEEK : 0));
        long seconds;
        memcpy(&seconds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof seconds);
        say("of today: %d", labs(seconds - time(NULL)) < 100);
    }
    RECV(a, 10, 0);
}
