/* Sockets that travel through a Unix socket. */
#include "script.h"

static int pair[2], a;

void give_fd(int through, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = "";
    struct iovec part = { "s", 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd) };
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CALL(sendmsg(through, &message, 0));
}

int take_fd(int through, int flags) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    CALL(recvmsg(through, &message, flags));
    show_header(&message);
    int fd = -1;
    if (CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

SCRIPT(to_oneself) {
    a = bound(0);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    give_fd(pair[0], a);
    int copy = take_fd(pair[1], 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(copy, 10, MSG_DONTWAIT);
    CALL(close(a));
    SENDTO(copy, "x", V4(FAR, ECHO_PORT));
    RECV(copy, 10, 0);
}

SCRIPT(closed_while_it_travels) {
    a = bound(0);
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    give_fd(pair[0], a);
    CALL(close(a));
    FAR_SENDS(.to = PORT(0), .size = 3);
    int arrived = take_fd(pair[1], MSG_CMSG_CLOEXEC);
    CALL(fcntl(arrived, F_GETFD));
    RECV(arrived, 10, MSG_DONTWAIT);
    SENDTO(arrived, "x", V4(FAR, ECHO_PORT));
    RECV(arrived, 10, 0);
}

static int child_takes(void) {
    int arrived = take_fd(pair[1], 0);
    GETSOCKNAME(arrived);
    SENDTO(arrived, "child", V4(FAR, ECHO_PORT));
    RECV(arrived, 10, 0);
    return 0;
}

SCRIPT(to_a_child) {
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    int number = reserve_stream("child");
    pid_t pid = fork();
    if (pid == 0) {
        use_stream(number);
        _exit(child_takes());
    }
    a = bound(0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    give_fd(pair[0], a);
    CALL(close(a));
    reap(pid);
}

static int child_gives(void) {
    a = bound(0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    give_fd(pair[1], a);
    return 0;
}

SCRIPT(from_a_child_that_ends) {
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    reap(fork_child("child", child_gives));
    FAR_SENDS(.to = PORT(0), .size = 4);
    int arrived = take_fd(pair[0], 0);
    RECV(arrived, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(arrived, 10, MSG_DONTWAIT);
}

SCRIPT(rights_do_not_go_by_udp) {
    a = bound(0);
    give_fd(a, a);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    give_fd(a, a);
    settle();
    RECV(a, 10, MSG_DONTWAIT);
}
