/* SO_REUSEPORT: datagrams are spread over sockets, each to one. */
#include "script.h"

static int shared_port(int n) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    CALL(bind(fd, V4(NEAR, PORT(n))));
    return fd;
}

static int drain(int fd) {
    char data[10];
    int count = 0;
    while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0) count++;
    return count;
}

SCRIPT(each_datagram_goes_to_one) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 48);
    int one = drain(a), two = drain(b);
    say("together %d", one + two);
}

SCRIPT(a_source_stays_with_its_socket) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3, .count = 10);
    int one = drain(a), two = drain(b);
    say("all at one: %d", (one == 10 && two == 0) || (one == 0 && two == 10));
}

SCRIPT(closing_one_moves_its_share) {
    int a = shared_port(0), b = shared_port(0);
    CALL(close(a));
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("%d", drain(b));
}

SCRIPT(all_must_want_it) {
    int a = bound(0), b = UDP();
    SET(b, SOL_SOCKET, SO_REUSEPORT, 1);
    CALL(bind(b, V4(NEAR, PORT(0))));
    CALL(close(a));
    CALL(bind(b, V4(NEAR, PORT(0))));
    int c = UDP();
    CALL(bind(c, V4(NEAR, PORT(0))));
}

static int other_process(void) {
    int b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    return drain(b);
}

SCRIPT(two_processes) {
    int a = shared_port(0), number = reserve_stream("child"), status;
    pid_t pid = fork();
    if (pid == 0) {
        close(a);
        use_stream(number);
        _exit(other_process());
    }
    waitpid(pid, &status, 0);
    int own = drain(a), other = WEXITSTATUS(status);
    say("together %d", own + other);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("alone %d", drain(a));
}
