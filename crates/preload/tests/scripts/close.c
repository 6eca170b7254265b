/* close(2), and whatever else ends numbers. */
#include "script.h"

SCRIPT(every_call_afterwards) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(close(a));
    CALL(close(a));
    RECV(a, 10, 0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    READ(a, 10);
    CALL(write(a, "x", 1));
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(shutdown(a, SHUT_RD));
    GETSOCKNAME(a);
    GETPEERNAME(a);
    GET(a, SOL_SOCKET, SO_TYPE);
    SET(a, SOL_SOCKET, SO_BROADCAST, 1);
    CALL(fcntl(a, F_GETFL));
    int bytes;
    CALL(ioctl(a, FIONREAD, &bytes));
    CALL(dup(a));
    CALL(close(-1));
    CALL(close(1 << 30));
}

SCRIPT(lowest_number_is_given_again) {
    int a = UDP(), b = UDP(), c = UDP();
    CALL(close(b));
    UDP();
    CALL(close(a));
    CALL(eventfd(0, 0));
    CALL(close(c));
    EPOLL();
    UDP6();
}

SCRIPT(a_new_socket_at_the_number_is_new) {
    int a = bound(0);
    SET(a, SOL_SOCKET, SO_BROADCAST, 1);
    CALL(fcntl(a, F_SETFL, O_NONBLOCK));
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(close(a));
    a = UDP();
    GETSOCKNAME(a);
    GETPEERNAME(a);
    GET(a, SOL_SOCKET, SO_BROADCAST);
    CALL(fcntl(a, F_GETFL));
    CALL(bind(a, V4(NEAR, PORT(0))));
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(close_range_of_sockets) {
    int a = bound(0), b = bound(1), c = bound(2);
    FAR_SENDS(.to = PORT(1), .size = 3);
    CALL(close_range(a, b, 0));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(b, 10, MSG_DONTWAIT);
    SENDTO(c, "alive", V4(FAR, ECHO_PORT));
    RECV(c, 10, 0);
    CALL(close_range(5, 4, 0));
    CALL(close_range(3, 9, 1 << 20));
    int d = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(d, 10, MSG_DONTWAIT);
    CALL(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC));
    CALL(fcntl(c, F_GETFD));
    SENDTO(c, "alive", V4(FAR, ECHO_PORT));
    RECV(c, 10, 0);
}

SCRIPT(everything_is_closed_and_begins_anew) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    CALL(close_range(3, ~0U, 0));
    a = bound(0);
    epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN);
    SENDTO(a, "y", V4(FAR, ECHO_PORT));
    WAITS(0, EPOLL_WAIT(epoll, 10, 1000));
    RECV(a, 10, 0);
    closefrom(3);
    a = bound(0);
    SENDTO(a, "z", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(every_number_is_closed_one_by_one) {
    int a = bound(0);
    SENDTO(a, "x", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    int closed = 0;
    for (int fd = 3; fd < 20000; fd++) closed += close(fd) == 0;
    say("%d closed", closed);
    a = bound(0);
    SENDTO(a, "y", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
}

SCRIPT(unread_data_goes_with_it) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 5);
    CALL(close(a));
    a = bound(0);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 4);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(port_of_a_closed_socket_answers_with_an_error) {
    int a = bound(0);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    CALL(close(a));
    int other = bound(1);
    CALL(connect(other, V4(NEAR, PORT(0))));
    SEND(other, "nobody", 0);
    settle();
    RECV(other, 10, MSG_DONTWAIT);
}

SCRIPT(thousand_times) {
    int failures = 0;
    for (int i = 0; i < 1000; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        failures += fd != 3 || bind(fd, V4(NEAR, PORT(i % 16))) != 0;
        if (i % 100 == 0) {
            CALL(sendto(fd, "x", 1, 0, V4(FAR, ECHO_PORT)));
            RECV(fd, 10, 0);
        }
        failures += close(fd) != 0;
    }
    say("%d failures", failures);
}
