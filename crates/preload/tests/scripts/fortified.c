/* The checked variants of calls, which the compiler chooses with _FORTIFY_SOURCE. */
#include "script.h"

/* Sizes that the compiler does not know: only then are the checked variants called. */
static volatile size_t ten = 10, one = 1;

SCRIPT(checked_calls) {
    int a = bound(0);
    char data[16] = "";
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 4);
    CALL(recv(a, data, ten, 0));
    CALL(recvfrom(a, data, ten, 0, (struct sockaddr *)&from, &length));
    say("%s", address_text(&from, length));
    CALL(read(a, data, ten));
    say("%.3s", data);
    struct pollfd set[1] = { { a, POLLIN, 0 } };
    CALL(poll(set, one, 0));
    show_pollfds(set, 1);
    struct timespec zero = { 0, 0 };
    CALL(ppoll(set, one, &zero, NULL));
    RECV(a, 10, 0);
    WAITS(20, CALL(poll(set, one, 20)));
    CALL(recv(a, data, ten, MSG_DONTWAIT));
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(a, &readable);
    CALL(select(a + one, &readable, NULL, NULL, &(struct timeval){ 0, 0 }));
}

SCRIPT(checked_calls_on_an_error) {
    int a = bound(0);
    char data[16];
    CALL(connect(a, V4(FAR, PORT(5))));
    CALL(send(a, "x", one, 0));
    settle();
    CALL(recv(a, data, ten, 0));
    CALL(send(a, "x", one, 0));
    settle();
    CALL(read(a, data, ten));
}
