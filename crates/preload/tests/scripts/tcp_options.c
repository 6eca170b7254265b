/* Options of TCP connections: what the kernel answers, before, while and after something is sent. */
#include "script.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* Sets an option of a connection that is in use, uses it on, and asks for it. */
#define OPTION_IN_USE(name, level, option, value)   \
    EACH_WAY(name) {                                \
        exchange_stream(fd);                        \
        SET(fd, level, option, value);              \
        exchange_stream(fd);                        \
        GET(fd, level, option);                     \
        exchange_stream(fd);                        \
    }

OPTION_IN_USE(small_segments_at_once, IPPROTO_TCP, TCP_NODELAY, 0)
OPTION_IN_USE(time_until_given_up, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000)
OPTION_IN_USE(kept_alive, SOL_SOCKET, SO_KEEPALIVE, 1)
OPTION_IN_USE(priority, SOL_SOCKET, SO_PRIORITY, 3)

/* What the kernel answers changes with what was sent. */
SCRIPT(answers_at_once_or_not) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
    exchange_stream(fd);
}

SCRIPT(options_of_keeping_alive) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    SET(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    SET(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    SET(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    SET(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0);
    SET(fd, IPPROTO_TCP, TCP_KEEPINTVL, 40000);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    GET(fd, IPPROTO_TCP, TCP_KEEPINTVL);
    GET(fd, IPPROTO_TCP, TCP_KEEPCNT);
}

SCRIPT(connection_that_is_kept_alive) {
    int fd = connected_stream(AF_INET);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    SET(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    SET(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    exchange_stream(fd);
    sleep_ms(2500);
    exchange_stream(fd);
}

SCRIPT(marks_of_packets) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_IP, IP_TOS, 0x10);
    exchange_stream(fd);
    GET(fd, IPPROTO_IP, IP_TOS);
    SET(fd, IPPROTO_IP, IP_TTL, 5);
    exchange_stream(fd);
    GET(fd, IPPROTO_IP, IP_TTL);
    SET(fd, IPPROTO_IP, IP_TTL, 300);
    exchange_stream(fd);
}

SCRIPT(marks_of_packets_over_ipv6) {
    int fd = connected_stream(AF_INET6);
    exchange_stream(fd);
    SET(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x20);
    exchange_stream(fd);
    GET(fd, IPPROTO_IPV6, IPV6_TCLASS);
    SET(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 7);
    exchange_stream(fd);
    GET(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS);
}

SCRIPT(sizes_of_buffers) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_RCVBUF, 20000);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_RCVBUF);
    SET(fd, SOL_SOCKET, SO_SNDBUF, 20000);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_SNDBUF);
    order_far(fd, "!s200000.");
    RECEIVE_STREAM(fd, 200000);
    for (int i = 0; i < 10; i++) {
        send_stream(fd, 10000);
        RECEIVE_STREAM(fd, 10000);
    }
}

SCRIPT(size_of_segments) {
    int fd = CALL(socket(AF_INET, SOCK_STREAM, 0));
    SET(fd, IPPROTO_TCP, TCP_MAXSEG, 600);
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    SET(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_MAXSEG);
    order_far(fd, "!s50000.");
    RECEIVE_STREAM(fd, 50000);
    send_stream(fd, 20000);
    RECEIVE_STREAM(fd, 20000);
    SET(fd, IPPROTO_TCP, TCP_MAXSEG, 500);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_MAXSEG);
}

SCRIPT(window_that_is_clamped) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 8000);
    exchange_stream(fd);
    order_far(fd, "!s100000.");
    RECEIVE_STREAM(fd, 100000);
}

SCRIPT(congestion_control_by_name) {
    int fd = connected_stream(AF_INET);
    char name[16] = "";
    socklen_t length = sizeof name;
    exchange_stream(fd);
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
    say("%s, %u", name, length);
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    exchange_stream(fd);
    length = sizeof name;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
    say("%s, %u", name, length);
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonsense", 8));
    exchange_stream(fd);
}

SCRIPT(bytes_not_yet_sent_that_are_room) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
    POLL(0, { fd, POLLOUT, 0 });
    send_stream(fd, 50000);
    RECEIVE_STREAM(fd, 50000);
    SET(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1);
    send_stream(fd, 50000);
    RECEIVE_STREAM(fd, 50000);
    SET(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0);
    exchange_stream(fd);
}

SCRIPT(linger_that_waits) {
    int fd = connected_stream(AF_INET);
    struct linger wait = { 1, 2 };
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
    GET(fd, SOL_SOCKET, SO_LINGER);
    exchange_stream(fd);
    order_far(fd, "!d.");
    send_stream(fd, 100000);
    CALL(close(fd));
    far_ended();
}

SCRIPT(answers_about_what_a_connection_is) {
    int fd = accepted_stream(AF_INET, 0);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_TYPE);
    GET(fd, SOL_SOCKET, SO_DOMAIN);
    GET(fd, SOL_SOCKET, SO_PROTOCOL);
    GET(fd, SOL_SOCKET, SO_ACCEPTCONN);
    GET(fd, SOL_SOCKET, SO_REUSEADDR);
    GET(fd, SOL_SOCKET, SO_REUSEPORT);
    GET(fd, SOL_SOCKET, SO_BROADCAST);
    GET(fd, SOL_SOCKET, SO_OOBINLINE);
    GET(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT);
    GET(fd, IPPROTO_TCP, TCP_SYNCNT);
    GET(fd, IPPROTO_TCP, TCP_LINGER2);
    GET(fd, IPPROTO_TCP, TCP_ULP);
    GETSOCKNAME(fd);
    struct stat file;
    CALL(fstat(fd, &file));
    say("a socket: %d", S_ISSOCK(file.st_mode));
    CALL(isatty(fd));
    exchange_stream(fd);
}

SCRIPT(answer_into_little_room) {
    int fd = connected_stream(AF_INET);
    struct tcp_info info;
    exchange_stream(fd);
    for (socklen_t room = 0; room < 40; room += 13) {
        socklen_t length = room;
        CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
        say("%u", length);
    }
    socklen_t length = 2;
    int value = 0;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &length));
    say("%u", length);
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, null(), &length));
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, null()));
    exchange_stream(fd);
}

SCRIPT(facts_of_a_connection) {
    int fd = connected_stream(AF_INET);
    struct tcp_info info;
    socklen_t length = sizeof info;
    exchange_stream(fd);
    order_far(fd, "!s3000.");
    RECEIVE_STREAM(fd, 3000);
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    say("state %d, options %#x, segments of %u bytes", info.tcpi_state, info.tcpi_options & 7, info.tcpi_snd_mss);
    /* A far end that waits for its CPU is probed. */
    const char *retransmitted = info.tcpi_total_retrans < 4 ? "nothing or a probe" : "much";
    say("unacked %u, lost %u, retransmitted %s", info.tcpi_unacked, info.tcpi_lost, retransmitted);
    say("window scales %d and %d", info.tcpi_snd_wscale, info.tcpi_rcv_wscale);
    exchange_stream(fd);
}

/* Python and Node.js say O_NONBLOCK so. */
EACH_WAY(nonblocking_by_ioctl_in_use) {
    int on = 1, off = 0;
    CALL(ioctl(fd, FIONBIO, &on));
    RECV(fd, 10, 0);
    send_stream(fd, 5);
    sleep_ms(20);
    RECEIVE_STREAM(fd, 5);
    RECV(fd, 10, 0);
    CALL(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CALL(ioctl(fd, FIONBIO, no_memory()));
    CALL(ioctl(fd, FIOCLEX));
    CALL(fcntl(fd, F_GETFD));
    CALL(ioctl(fd, FIONCLEX));
    CALL(ioctl(fd, FIONREAD, no_memory()));
    CALL(ioctl(fd, FIONBIO, &off));
    CALL(fcntl(fd, F_GETFL) & O_NONBLOCK);
    exchange_stream(fd);
    CALL(ioctl(fd, FIONBIO, &on));
    RECEIVE_STREAM(fd, 1);
    SEND(fd, "hello", MSG_NOSIGNAL);
    sleep_ms(20);
    RECEIVE_STREAM(fd, 5);
    CALL(ioctl(fd, FIONBIO, &off));
    exchange_stream(fd);
    CALL(ioctl(fd, FIOCLEX, NULL));
    CALL(ioctl(fd, FIONCLEX, NULL));
    exchange_stream(fd);
}

SCRIPT(bytes_that_wait_are_asked_for) {
    int fd = connected_stream(AF_INET), count = -1;
    exchange_stream(fd);
    CALL(ioctl(fd, FIONREAD, &count));
    say("%d", count);
    order_far(fd, "!s77.");
    sleep_ms(50);
    CALL(ioctl(fd, SIOCINQ, &count));
    say("%d", count);
    RECV(fd, 7, MSG_PEEK);
    CALL(ioctl(fd, SIOCINQ, &count));
    say("%d", count);
    RECEIVE_STREAM(fd, 70);
    CALL(ioctl(fd, SIOCINQ, &count));
    say("%d", count);
    CALL(ioctl(fd, SIOCOUTQNSD, &count));
    say("%d", count);
    order_far(fd, "!c.");
    sleep_ms(50);
    CALL(ioctl(fd, SIOCINQ, &count));
    say("%d", count);
}

/* Receives up to 10 bytes. Whether a control message of this type came first, and its number. */
static int receives_control(int fd, int type, int *number) {
    char data[10], control[100];
    struct iovec part = { data, 10 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 100 };
    CALL(recvmsg(fd, &message, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int is_there = header && header->cmsg_type == type;
    if (is_there && number) *number = *(int *)CMSG_DATA(header);
    return is_there;
}

SCRIPT(stamps_of_bytes) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    GET(fd, SOL_SOCKET, SO_TIMESTAMP);
    /* The kernel begins to stamp a little later. */
    sleep_ms(50);
    order_far(fd, "!s5.");
    sleep_ms(30);
    say("stamped: %d", receives_control(fd, SO_TIMESTAMP, NULL));
    exchange_stream(fd);
}

SCRIPT(bytes_that_wait_are_told_with_a_receive) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_INQ, 1);
    order_far(fd, "!s50.");
    sleep_ms(30);
    int left = -1;
    receives_control(fd, TCP_CM_INQ, &left);
    say("left: %d", left);
    RECEIVE_STREAM(fd, 40);
    exchange_stream(fd);
}

SCRIPT(time_of_a_receive_that_changes) {
    int fd = connected_stream(AF_INET);
    struct timeval time = { 0, 50000 }, none = { 0, 0 }, wrong = { 0, 2000000 };
    char byte;
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    WAITS(50, CALL(recv(fd, &byte, 1, 0)));
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof wrong));
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, 4));
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    order_far(fd, "!w80.!s1.");
    CALL(recv(fd, &byte, 1, 0));
    exchange_stream(fd);
}

SCRIPT(bound_to_an_interface) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, INTERFACE, sizeof INTERFACE));
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "nosuch", 7));
    exchange_stream(fd);
}

SCRIPT(rate_that_is_limited) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1000000);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_MAX_PACING_RATE);
    exchange_stream(fd);
}

SCRIPT(packets_from_far_away_are_dropped) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_IP, IP_MINTTL, 30);
    exchange_stream(fd);
    GET(fd, IPPROTO_IP, IP_MINTTL);
}

SCRIPT(busy_polling_of_its_own) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_BUSY_POLL, 20);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_BUSY_POLL);
}

SCRIPT(calls_for_sockets_that_are_not_connected) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(listen(fd, 5));
    CALL(accept(fd, NULL, NULL));
    CALL(bind(fd, V4(NEAR, PORT(1))));
    CALL(connect(fd, V4(FAR, PORT(2))));
    exchange_stream(fd);
}

SCRIPT(repaired_by_the_program) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_REPAIR, 1);
    GET(fd, IPPROTO_TCP, TCP_REPAIR);
    SET(fd, IPPROTO_TCP, TCP_REPAIR, 0);
    exchange_stream(fd);
}

SCRIPT(upper_protocol_that_is_not_there) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "nonsense", 8));
    exchange_stream(fd);
}

SCRIPT(levels_and_options_that_are_not_there) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, 250, 1, 1);
    SET(fd, SOL_SOCKET, 9999, 1);
    SET(fd, IPPROTO_UDP, 1, 1);
    SET(fd, IPPROTO_IPV6, IPV6_TCLASS, 1);
    GET(fd, 250, 1);
    GET(fd, SOL_SOCKET, 9999);
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, null(), 4));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &fd, 1));
    exchange_stream(fd);
}

/* The kernel's socket hears nothing while the connection is carried: it must not probe, and end it. */
SCRIPT(one_with_keepalives_that_only_receives_for_longer_than_they_take) {
    int fd = connected_stream(AF_INET);
    int one = 1, two = 2;
    CALL(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one));
    CALL(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &two, sizeof two));
    order_far(fd, "!s100.");
    for (int i = 0; i < 50; i++) RECEIVE_STREAM(fd, 1);
    sleep_ms(4500);
    for (int i = 0; i < 50; i++) RECEIVE_STREAM(fd, 1);
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

EACH_WAY(bytes_that_wait_by_ioctl) {
    int bytes = -1;
    exchange_stream(fd);
    order_far(fd, "!s1000.");
    sleep_ms(50);
    CALL(ioctl(fd, FIONREAD, &bytes));
    say("to read: %d", bytes);
    RECEIVE_STREAM(fd, 400);
    CALL(ioctl(fd, SIOCINQ, &bytes));
    say("to read: %d", bytes);
    RECEIVE_STREAM(fd, 600);
    CALL(ioctl(fd, SIOCOUTQ, &bytes));
    say("to send: %d", bytes);
    exchange_stream(fd);
}

SCRIPT(figures_of_a_connection) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    struct tcp_info info;
    socklen_t length = sizeof info;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    say("state %d, segments of %d, lost %d, out %d, sent again %d", info.tcpi_state, info.tcpi_snd_mss, info.tcpi_lost, info.tcpi_unacked,
        info.tcpi_retransmits);
    say("round trip %s, window %s", info.tcpi_rtt > 0 && info.tcpi_rtt < 1000000 ? "known" : "none", info.tcpi_snd_cwnd > 0 ? "open" : "shut");
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_MAXSEG);
    GET(fd, IPPROTO_TCP, TCP_NODELAY);
    GET(fd, SOL_SOCKET, SO_KEEPALIVE);
    exchange_stream(fd);
}

EACH_WAY(options_that_change_between_exchanges) {
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_KEEPALIVE);
    SET(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    GET(fd, SOL_SOCKET, SO_KEEPALIVE);
    SET(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_KEEPALIVE);
    CALL(shutdown(fd, SHUT_WR));
    far_ended();
}

EACH_WAY(pieces_under_a_cork) {
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_CORK, 1);
    SEND(fd, "one ", MSG_NOSIGNAL);
    SEND(fd, "two ", MSG_NOSIGNAL);
    CALL(recv(fd, (char[1]){ 0 }, 1, MSG_DONTWAIT));
    SET(fd, IPPROTO_TCP, TCP_CORK, 0);
    RECEIVE_STREAM(fd, 8);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_CORK, 1);
    send_stream(fd, 5000);
    RECEIVE_STREAM(fd, 5000);
    GET(fd, IPPROTO_TCP, TCP_CORK);
    SET(fd, IPPROTO_TCP, TCP_CORK, 0);
    exchange_stream(fd);
}

EACH_WAY(time_to_wait_that_changes) {
    struct timeval wait = { .tv_usec = 50000 };
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait));
    RECEIVE_STREAM(fd, 1);
    exchange_stream(fd);
    wait.tv_usec = 0;
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait));
    order_far(fd, "!w100.!s10.");
    RECEIVE_STREAM(fd, 10);
}

EACH_WAY(small_buffer_that_holds_a_sender_up) {
    exchange_stream(fd);
    SET(fd, SOL_SOCKET, SO_SNDBUF, 10000);
    for (int i = 0; i < 10; i++) {
        send_stream(fd, 30000);
        RECEIVE_STREAM(fd, 30000);
    }
    SET(fd, SOL_SOCKET, SO_RCVBUF, 10000);
    order_far(fd, "!s300000.");
    RECEIVE_STREAM(fd, 300000);
    exchange_stream(fd);
}
