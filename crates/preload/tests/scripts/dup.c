/* Several numbers of one socket. */
#include "script.h"

SCRIPT(both_numbers_send_and_receive) {
    int a = bound(0), copy = CALL(dup(a));
    SENDTO(copy, "one", V4(FAR, ECHO_PORT));
    RECVFROM(a, 10, 0);
    SENDTO(a, "two", V4(FAR, ECHO_PORT));
    RECVFROM(copy, 10, 0);
    CALL(close(a));
    SENDTO(copy, "three", V4(FAR, ECHO_PORT));
    RECVFROM(copy, 10, 0);
    RECV(a, 10, 0);
    CALL(close(copy));
    RECV(copy, 10, 0);
}

SCRIPT(state_is_shared) {
    int a = UDP(), copy = CALL(dup(a));
    CALL(bind(copy, V4(NEAR, PORT(0))));
    GETSOCKNAME(a);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    GETPEERNAME(copy);
    SET(copy, SOL_SOCKET, SO_BROADCAST, 1);
    GET(a, SOL_SOCKET, SO_BROADCAST);
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    WAITS(0, RECV(copy, 10, 0));
    CALL(fcntl(copy, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(a, F_GETFD));
    FAR_SENDS(.from = ECHO_PORT + 1, .to = PORT(0), .size = 3);
    RECV(copy, 10, 0);
}

SCRIPT(dup2_to_a_free_number) {
    int a = bound(0);
    CALL(dup2(a, 20));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(20, 10, MSG_DONTWAIT);
    CALL(dup2(a, a));
    CALL(dup2(a, -1));
    CALL(dup2(99, 21));
    CALL(dup2(99, 99));
    CALL(dup2(a, 1 << 30));
    CALL(close(a));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(20, 10, MSG_DONTWAIT);
}

SCRIPT(dup2_over_another_socket) {
    int a = bound(0), b = bound(1);
    FAR_SENDS(.to = PORT(1), .size = 3);
    CALL(dup2(a, b));
    RECV(b, 10, MSG_DONTWAIT);
    GETSOCKNAME(b);
    int c = bound(1);
    FAR_SENDS(.to = PORT(1), .size = 4);
    FAR_SENDS(.to = PORT(0), .size = 5);
    RECV(b, 10, MSG_DONTWAIT);
    RECV(c, 10, MSG_DONTWAIT);
}

SCRIPT(dup2_of_a_pipe_over_a_socket) {
    int a = bound(0), pipes[2];
    CALL(pipe(pipes));
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(dup2(pipes[0], a));
    CALL(write(pipes[1], "pipe", 4));
    READ(a, 10);
    RECV(a, 10, 0);
    CALL(bind(UDP(), V4(NEAR, PORT(0))));
    CALL(dup2(pipes[1], a));
    CALL(write(a, "back", 4));
    READ(pipes[0], 10);
}

SCRIPT(dup3_flags) {
    int a = bound(0);
    CALL(dup3(a, 20, O_CLOEXEC));
    CALL(fcntl(20, F_GETFD));
    CALL(dup3(a, 21, 0));
    CALL(fcntl(21, F_GETFD));
    CALL(dup3(a, a, O_CLOEXEC));
    CALL(dup3(a, 22, O_NONBLOCK));
    CALL(dup3(99, 22, 0));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(20, 10, MSG_DONTWAIT);
    SENDTO(21, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(fcntl_dupfd) {
    int a = bound(0);
    CALL(fcntl(a, F_DUPFD, 30));
    CALL(fcntl(a, F_DUPFD, 30));
    CALL(fcntl(a, F_DUPFD_CLOEXEC, 0));
    CALL(fcntl(30, F_GETFD));
    CALL(fcntl(4, F_GETFD));
    CALL(fcntl(a, F_DUPFD, -1));
    CALL(fcntl(a, F_DUPFD, 1 << 30));
    CALL(fcntl(99, F_DUPFD, 0));
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    RECV(30, 10, MSG_DONTWAIT);
    RECV(31, 10, MSG_DONTWAIT);
    RECV(4, 10, MSG_DONTWAIT);
}

SCRIPT(queued_data_stays_with_the_copy) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 3);
    RECV(a, 10, 0);
    int copy = CALL(dup(a));
    CALL(close(a));
    RECV(copy, 10, MSG_DONTWAIT);
    int again = CALL(dup2(copy, 50));
    CALL(close(copy));
    RECV(again, 10, MSG_DONTWAIT);
}

SCRIPT(socket_as_standard_streams) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(dup2(a, 0));
    CALL(dup2(a, 1));
    CALL(close(a));
    CALL(write(1, "to the wire", 11));
    READ(0, 20);
    CALL(close(1));
    CALL(close(0));
    int b = UDP();
    SENDTO(b, "from 0", V4(FAR, ECHO_PORT));
    RECV(b, 10, 0);
}
