/* Datagrams that the far end's kernel was handed as one, for the device to cut (UDP_SEGMENT). A cable does not cut them. */
#include "script.h"

SCRIPT(arrive_one_by_one) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 6000, .segment = 1200);
    for (int i = 0; i < 5; i++) RECV(a, 3000, MSG_DONTWAIT);
    RECV(a, 3000, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3100, .segment = 1400);
    for (int i = 0; i < 3; i++) RECV(a, 3000, MSG_DONTWAIT);
    RECV(a, 3000, MSG_DONTWAIT);
}

SCRIPT(of_ipv6_arrive_one_by_one) {
    int a = bound6(0);
    FAR_SENDS(.family = AF_INET6, .to = PORT(0), .size = 5000, .segment = 1232);
    for (int i = 0; i < 5; i++) RECVMSG(a, 3000, 200, MSG_DONTWAIT);
    RECV(a, 3000, MSG_DONTWAIT);
}

SCRIPT(and_others_arrive_in_order) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    FAR_SENDS(.to = PORT(0), .size = 4200, .segment = 1400, .letter = 'b');
    FAR_SENDS(.to = PORT(0), .size = 3, .letter = 'e', .count = 2);
    FAR_SENDS(.to = PORT(0), .size = 2800, .segment = 1400, .letter = 'g');
    FAR_SENDS(.to = PORT(0), .size = 3, .letter = 'i');
    for (int i = 0; i < 9; i++) RECV(a, 3000, MSG_DONTWAIT);
    RECV(a, 3000, MSG_DONTWAIT);
    FAR_SENDS(.to = PORT(0), .size = 3, .letter = 'j');
    RECV(a, 3000, MSG_DONTWAIT);
}

SCRIPT(many_in_a_row_are_whole) {
    int a = bound(0);
    for (int round = 0; round < 10; round++) {
        FAR_SENDS(.to = PORT(0), .size = 8400, .segment = 1400, .count = 5);
        FAR_SENDS(.to = PORT(0), .size = 3, .letter = 'z');
        for (int i = 0; i < 31; i++) RECV(a, 3000, MSG_DONTWAIT);
        RECV(a, 3000, MSG_DONTWAIT);
    }
}

SCRIPT(wake_a_reader) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 4200, .segment = 1400, .after_ms = 40);
    WAITS(40, RECV(a, 3000, 0));
    RECV(a, 3000, 0);
    RECV(a, 3000, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, RECV(a, 3000, 0));
}

SCRIPT(wake_epoll) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 4200, .segment = 1400, .after_ms = 40);
    WAITS(40, EPOLL_WAIT(epoll, 10, 1000));
    for (int i = 0; i < 3; i++) RECV(a, 3000, 0);
    RECV(a, 3000, MSG_DONTWAIT);
}
