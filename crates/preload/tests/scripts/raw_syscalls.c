/* Calls through syscall(2): what the library does not see, or sees there too, must agree with what it does. */
#include "script.h"

#include <sys/syscall.h>

SCRIPT(all_of_it) {
    int a = CALL(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0));
    CALL(syscall(SYS_bind, a, V4(NEAR, PORT(0))));
    CALL(syscall(SYS_sendto, a, "hello", 5, 0, V4(FAR, ECHO_PORT)));
    char data[20];
    CALL(syscall(SYS_recvfrom, a, data, 20, 0, NULL, NULL));
    CALL(syscall(SYS_close, a));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(mixed_with_calls) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    char data[20];
    RECV(a, 10, 0);
    CALL(syscall(SYS_read, a, data, 20));
    RECV(a, 10, 0);
    CALL(syscall(SYS_connect, a, V4(FAR, ECHO_PORT)));
    SEND(a, "hello", 0);
    RECV(a, 10, 0);
    GETPEERNAME(a);
}

SCRIPT(closed_behind_its_back) {
    int a = bound(0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(syscall(SYS_close, a));
    RECV(a, 10, MSG_DONTWAIT);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    int pipes[2];
    CALL(pipe(pipes));
    CALL(write(pipes[1], "pipe", 4));
    READ(a, 10);
}

SCRIPT(socket_by_syscall_then_calls) {
    int a = CALL(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0));
    CALL(bind(a, V4(NEAR, PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { a, POLLIN, 0 });
    RECV(a, 10, MSG_DONTWAIT);
    int copy = CALL(syscall(SYS_dup, a));
    SENDTO(copy, "x", V4(FAR, ECHO_PORT));
    RECV(copy, 10, 0);
}

SCRIPT(poll_and_epoll_by_syscall) {
    int a = bound(0), epoll = CALL(syscall(SYS_epoll_create1, 0));
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 9 };
    CALL(syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, a, &event));
    FAR_SENDS(.to = PORT(0), .size = 3);
    struct pollfd one = { a, POLLIN, 0 };
    struct timespec zero = { 0, 0 };
    CALL(syscall(SYS_ppoll, &one, 1, &zero, NULL, 8));
    show_pollfds(&one, 1);
    CALL(syscall(SYS_epoll_pwait, epoll, &event, 1, 0, NULL, 8));
    say("data %d", (int)event.data.u64);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(unknown_number) {
    CALL(syscall(9999));
    CALL(syscall(-1));
    CALL(syscall(SYS_getpid) == getpid());
}
