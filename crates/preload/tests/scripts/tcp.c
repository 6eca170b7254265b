/* Connections of TCP: what is sent and received, how they end, and whatever else is done with them. */
#include "script.h"

#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

EACH_WAY(bytes_are_echoed) {
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

EACH_WAY(much_is_received_and_sent) {
    exchange_stream(fd);
    order_far(fd, "!s1000000.");
    RECEIVE_STREAM(fd, 1000000);
    for (int i = 0; i < 20; i++) {
        send_stream(fd, 30000);
        RECEIVE_STREAM(fd, 30000);
    }
    CALL(close(fd));
    far_ended();
}

EACH_WAY(far_end_closes) {
    exchange_stream(fd);
    order_far(fd, "bye!c.");
    RECEIVE_STREAM(fd, 100);
    RECEIVE_STREAM(fd, 100);
    GET(fd, SOL_SOCKET, SO_ERROR);
    CALL(close(fd));
    far_ended();
}

EACH_WAY(far_end_resets) {
    exchange_stream(fd);
    order_far(fd, "!r.");
    far_ended();
    sleep_ms(50);
    RECEIVE_STREAM(fd, 100);
    RECEIVE_STREAM(fd, 100);
    SEND(fd, "x", MSG_NOSIGNAL);
    GET(fd, SOL_SOCKET, SO_ERROR);
}

EACH_WAY(far_end_shuts_its_half) {
    exchange_stream(fd);
    order_far(fd, "!h.");
    RECEIVE_STREAM(fd, 100);
    SEND(fd, "still", MSG_NOSIGNAL);
    CALL(shutdown(fd, SHUT_WR));
    far_ended();
    RECEIVE_STREAM(fd, 100);
}

EACH_WAY(this_end_shuts_its_half) {
    exchange_stream(fd);
    send_stream(fd, 100000);
    CALL(shutdown(fd, SHUT_WR));
    SEND(fd, "x", MSG_NOSIGNAL);
    RECEIVE_STREAM(fd, 200000);
    far_ended();
}

SCRIPT(close_sends_what_was_written) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    order_far(fd, "!d.!w100.");
    send_stream(fd, 300000);
    CALL(close(fd));
    far_ended();
}

SCRIPT(close_with_something_unread_resets) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    order_far(fd, "!s1000.");
    RECEIVE_STREAM(fd, 10);
    sleep_ms(50);
    CALL(close(fd));
    far_ended();
}

SCRIPT(close_without_linger_resets) {
    int fd = connected_stream(AF_INET);
    struct linger none = { 1, 0 };
    exchange_stream(fd);
    CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

SCRIPT(process_that_ends_closes) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    send_stream(fd, 1000);
    exit(0);
}

SCRIPT(timeout_of_a_receive) {
    int fd = connected_stream(AF_INET);
    struct timeval time = { 0, 50000 };
    CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    exchange_stream(fd);
    WAITS(50, CALL(recv(fd, &time, 1, 0)));
    exchange_stream(fd);
}

SCRIPT(nonblocking_by_option) {
    int fd = connected_stream(AF_INET);
    char byte;
    exchange_stream(fd);
    CALL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
    CALL(recv(fd, &byte, 1, 0));
    CALL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
    exchange_stream(fd);
    int one = 1;
    CALL(ioctl(fd, FIONBIO, &one));
    CALL(recv(fd, &byte, 1, 0));
}

SCRIPT(nonblocking_by_flag) {
    int fd = connected_stream(AF_INET);
    char byte;
    exchange_stream(fd);
    CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
    SEND(fd, "x", MSG_DONTWAIT);
    sleep_ms(50);
    CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
    CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
}

SCRIPT(send_that_finds_no_room) {
    int fd = connected_stream(AF_INET);
    static char data[1 << 20];
    exchange_stream(fd);
    order_far(fd, "!w300.");
    sleep_ms(20);
    CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
    long sent = 0, last;
    while (sent < 64 << 20 && (last = send(fd, data, sizeof data, MSG_NOSIGNAL)) > 0) sent += last;
    say("no room before 64 MiB: %d, %s", sent < 64 << 20, strerrorname_np(errno));
    CALL(fcntl(fd, F_SETFL, 0));
    long echoed = 0;
    while (echoed < sent && (last = recv(fd, data, sizeof data, 0)) > 0) echoed += last;
    say("all echoed: %d", echoed == sent);
    exchange_stream(fd);
}

SCRIPT(timeout_of_a_send) {
    int fd = connected_stream(AF_INET);
    struct timeval time = { 0, 50000 };
    static char data[1 << 20];
    CALL(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    exchange_stream(fd);
    order_far(fd, "!w1000.");
    sleep_ms(20);
    long sent = 0, last = 1;
    for (int i = 0; i < 64 && last > 0; i++) {
        last = send(fd, data, sizeof data, MSG_NOSIGNAL);
        sent += last > 0 ? last : 0;
    }
    say("a send found no room in time: %d, %s", last < 0, strerrorname_np(errno));
}

SCRIPT(peek) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SEND(fd, "peeked", 0);
    sleep_ms(30);
    RECV(fd, 3, MSG_PEEK);
    RECV(fd, 10, MSG_PEEK);
    RECV(fd, 2, 0);
    RECV(fd, 10, MSG_PEEK | MSG_DONTWAIT);
    RECV(fd, 10, 0);
}

SCRIPT(wait_for_all) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    order_far(fd, "!s100.!w30.!s100.");
    receive_stream(fd, 200, MSG_WAITALL, "all");
    exchange_stream(fd);
}

SCRIPT(more_follows) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SEND(fd, "one", MSG_MORE);
    SEND(fd, "two", MSG_MORE);
    SEND(fd, "three", 0);
    RECEIVE_STREAM(fd, 11);
    exchange_stream(fd);
}

SCRIPT(cork) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    SET(fd, IPPROTO_TCP, TCP_CORK, 1);
    SEND(fd, "one", 0);
    SEND(fd, "two", 0);
    SET(fd, IPPROTO_TCP, TCP_CORK, 0);
    RECEIVE_STREAM(fd, 6);
    exchange_stream(fd);
}

SCRIPT(nothing) {
    int fd = connected_stream(AF_INET);
    char byte;
    exchange_stream(fd);
    CALL(send(fd, "", 0, 0));
    SEND(fd, "x", 0);
    CALL(recv(fd, &byte, 0, 0));
    CALL(recv(fd, &byte, 1, 0));
    CALL(read(fd, &byte, 0));
    CALL(write(fd, "", 0));
    exchange_stream(fd);
}

/* Connections are adopted after some calls: what came before them is the kernel's to tell. */
SCRIPT(poll_finds_what_waits_before_its_connection_is_adopted) {
    int fd = connected_stream(AF_INET), other = connected_stream(AF_INET);
    SEND(fd, "hello", 0);
    SEND(fd, "again", 0);
    SEND(other, "hello", 0);
    sleep_ms(50);
    WAITS(0, POLL(300, { fd, POLLIN, 0 }));
    WAITS(0, POLL(300, { other, POLLIN, 0 }));
    WAITS(0, SELECT(300, READS(fd), WRITES(), EXCEPTS()));
    RECEIVE_STREAM(fd, 10);
    exchange_stream(fd);
}

/* An edge that nobody was told of stays in the kernel's set when the connection cannot be adopted any more. */
SCRIPT(edge_of_a_connection_that_ended_before_it_was_adopted) {
    int fd = accepted_stream(AF_INET, 0), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLET);
    order_far(fd, "!w30.!c.");
    RECEIVE_STREAM(fd, 1);
    for (int i = 0; i < 3; i++) POLL(0, { fd, POLLIN, 0 }, { set, POLLIN, 0 });
    EPOLL_WAIT(set, 10, 0);
    EPOLL_WAIT(set, 10, 0);
}

SCRIPT(read_of_nothing) {
    int fd = connected_stream(AF_INET);
    char data[10];
    struct iovec none[] = { { data, 0 }, { data, 0 } };
    exchange_stream(fd);
    CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
    CALL(readv(fd, none, 2));
    CALL(read(fd, data, 0));
    order_far(fd, "!s5.");
    sleep_ms(50);
    CALL(readv(fd, none, 2));
    RECEIVE_STREAM(fd, 5);
}

SCRIPT(vectors) {
    int fd = connected_stream(AF_INET);
    char a[4], b[4];
    struct iovec out[] = { { "one", 3 }, { "", 0 }, { "three", 5 } }, in[] = { { a, 4 }, { b, 4 } };
    exchange_stream(fd);
    CALL(writev(fd, out, 3));
    sleep_ms(30);
    CALL(readv(fd, in, 2));
    say("%.4s %.4s", a, b);
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 3 };
    CALL(sendmsg(fd, &message, 0));
    sleep_ms(30);
    RECVMSG(fd, 20, 0, 0);
    READ(fd, 0);
    exchange_stream(fd);
}

SCRIPT(source_is_not_told) {
    int fd = connected_stream(AF_INET);
    char data[10];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    exchange_stream(fd);
    SEND(fd, "x", 0);
    CALL(recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &length));
    say("length %u", length);
    SENDTO(fd, "to itself", V4(NEAR, 9));
    RECEIVE_STREAM(fd, 9);
}

SCRIPT(poll_and_select) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    POLL(0, { fd, POLLIN | POLLOUT, 0 });
    SEND(fd, "x", 0);
    POLL(1000, { fd, POLLIN, 0 });
    exchange_stream(fd);
    RECEIVE_STREAM(fd, 1);
    SELECT(0, READS(fd), WRITES(fd), EXCEPTS());
    SEND(fd, "x", 0);
    SELECT(1000, READS(fd), WRITES(), EXCEPTS());
    order_far(fd, "!c.");
    sleep_ms(30);
    POLL(1000, { fd, POLLIN | POLLRDHUP, 0 });
}

SCRIPT(epoll) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    exchange_stream(fd);
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLRDHUP);
    EPOLL_WAIT(set, 4, 0);
    SEND(fd, "x", 0);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(fd, 1);
    exchange_stream(fd);
    order_far(fd, "!c.");
    EPOLL_WAIT(set, 4, 1000);
}

SCRIPT(epoll_before_use) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
    exchange_stream(fd);
    EPOLL_WAIT(set, 4, 0);
    SEND(fd, "x", 0);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(fd, 1);
    exchange_stream(fd);
}

SCRIPT(copies) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    int copy = CALL(dup(fd));
    exchange_stream(copy);
    CALL(close(fd));
    exchange_stream(copy);
    int other = CALL(fcntl(copy, F_DUPFD_CLOEXEC, 20));
    CALL(dup2(other, 25));
    exchange_stream(25);
    CALL(close(copy));
    CALL(close(other));
    exchange_stream(25);
    CALL(close(25));
    far_ended();
}

SCRIPT(number_is_taken_by_another) {
    int fd = connected_stream(AF_INET), pipes[2];
    exchange_stream(fd);
    CALL(pipe(pipes));
    CALL(dup2(pipes[0], fd));
    far_ended();
    CALL(write(pipes[1], "x", 1));
    READ(fd, 5);
}

static int a;

static int child_uses_it(void) {
    exchange_stream(a);
    return 0;
}

SCRIPT(child_uses_it_too) {
    a = connected_stream(AF_INET);
    exchange_stream(a);
    reap(fork_child("child", child_uses_it));
    exchange_stream(a);
    CALL(close(a));
    far_ended();
}

static int child_ends(void) { return 0; }

SCRIPT(child_that_ends_closes_nothing) {
    a = accepted_stream(AF_INET, 0);
    exchange_stream(a);
    reap(fork_child("child", child_ends));
    exchange_stream(a);
    CALL(close(a));
    far_ended();
}

static int child_serves(void) {
    exchange_stream(a);
    CALL(close(a));
    return 0;
}

SCRIPT(child_serves_what_its_parent_accepted) {
    a = accepted_stream(AF_INET, 0);
    pid_t child = fork_child("child", child_serves);
    CALL(close(a));
    reap(child);
    far_ended();
}

PROGRAM(executed) {
    exchange_stream(argument(0));
    CALL(close(argument(0)));
    far_ended();
}

SCRIPT(kept_over_exec) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    EXEC("tcp.executed", fd, 0);
}

SCRIPT(options_are_the_kernels) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_NODELAY);
    SET(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    exchange_stream(fd);
    GET(fd, IPPROTO_TCP, TCP_NODELAY);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    exchange_stream(fd);
    GET(fd, SOL_SOCKET, SO_KEEPALIVE);
    GET(fd, SOL_SOCKET, SO_TYPE);
    GET(fd, SOL_SOCKET, SO_ERROR);
    GET(fd, SOL_SOCKET, SO_ACCEPTCONN);
    SET(fd, IPPROTO_TCP, 12345, 1);
    exchange_stream(fd);
    GETPEERNAME(fd);
    struct tcp_info info;
    socklen_t length = sizeof info;
    CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    say("state %d", info.tcpi_state);
    exchange_stream(fd);
}

SCRIPT(bytes_that_wait_are_counted) {
    int fd = connected_stream(AF_INET), count = -1;
    exchange_stream(fd);
    order_far(fd, "!s5000.");
    RECEIVE_STREAM(fd, 10);
    sleep_ms(50);
    CALL(ioctl(fd, FIONREAD, &count));
    say("%d", count);
    RECEIVE_STREAM(fd, 4990);
    CALL(ioctl(fd, TIOCOUTQ, &count));
    say("%d", count);
}

SCRIPT(file_is_sent) {
    int fd = connected_stream(AF_INET), file = CALL(memfd_create("file", 0));
    CALL(write(file, "contents of a file", 18));
    off_t offset = 0;
    exchange_stream(fd);
    CALL(sendfile(fd, file, &offset, 18));
    RECEIVE_STREAM(fd, 18);
    exchange_stream(fd);
}

SCRIPT(spliced) {
    int fd = connected_stream(AF_INET), pipes[2];
    CALL(pipe(pipes));
    exchange_stream(fd);
    SEND(fd, "spliced", 0);
    sleep_ms(30);
    CALL(splice(fd, NULL, pipes[1], NULL, 100, 0));
    CALL(splice(pipes[0], NULL, fd, NULL, 100, 0));
    RECEIVE_STREAM(fd, 7);
    exchange_stream(fd);
}

SCRIPT(stdio) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    FILE *stream = fdopen(fd, "r+");
    CALL(fprintf(stream, "number %d\n", 7));
    CALL(fflush(stream));
    char line[100] = "";
    CALL(fgets(line, sizeof line, stream) != NULL);
    say("%s", line);
    CALL(fclose(stream));
    far_ended();
}

SCRIPT(raw_system_calls) {
    int fd = connected_stream(AF_INET);
    char data[10];
    exchange_stream(fd);
    CALL(syscall(SYS_sendto, fd, "raw", 3, 0, NULL, 0));
    CALL(syscall(SYS_read, fd, data, 3));
    CALL(syscall(SYS_write, fd, "raw", 3));
    CALL(syscall(SYS_recvfrom, fd, data, 3, MSG_WAITALL, NULL, NULL));
    exchange_stream(fd);
}

SCRIPT(urgent_data) {
    int fd = connected_stream(AF_INET);
    char byte = 0;
    exchange_stream(fd);
    order_far(fd, "!o.");
    sleep_ms(50);
    CALL(recv(fd, &byte, 1, MSG_OOB));
    say("%c", byte);
    exchange_stream(fd);
    CALL(send(fd, "v", 1, MSG_OOB));
    exchange_stream(fd);
}

SCRIPT(disconnected) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    exchange_stream(fd);
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    CALL(connect(fd, &nowhere, sizeof nowhere));
    far_ended();
    SEND(fd, "x", MSG_NOSIGNAL);
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    exchange_stream(fd);
}

SCRIPT(bad_pointers) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    CALL(send(fd, null(), 5, 0));
    CALL(send(fd, nowhere(), 5, 0));
    SEND(fd, "hello", 0);
    sleep_ms(30);
    CALL(recv(fd, nowhere(), 5, 0));
    RECEIVE_STREAM(fd, 5);
    CALL(recvmsg(fd, null(), 0));
    CALL(sendmsg(fd, null(), 0));
    exchange_stream(fd);
}

SCRIPT(signal_interrupts_a_receive) {
    int fd = connected_stream(AF_INET);
    char byte;
    exchange_stream(fd);
    handle(SIGALRM, no_signal, 0);
    alarm_in_ms(50);
    CALL(recv(fd, &byte, 1, 0));
    exchange_stream(fd);
    handle(SIGALRM, no_signal, SA_RESTART);
    order_far(fd, "!w100.x");
    alarm_in_ms(20);
    CALL(recv(fd, &byte, 1, 0));
}

static void on_pipe(int number) { say("signal %d", number); }

SCRIPT(broken_pipe) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    handle(SIGPIPE, on_pipe, 0);
    order_far(fd, "!r.");
    far_ended();
    sleep_ms(50);
    CALL(send(fd, "x", 1, 0));
    CALL(send(fd, "x", 1, 0));
    CALL(write(fd, "x", 1));
}

static void *reads(void *argument) {
    (void)argument;
    RECEIVE_STREAM(a, 100000);
    return NULL;
}

SCRIPT(one_thread_sends_and_another_receives) {
    a = connected_stream(AF_INET);
    exchange_stream(a);
    struct thread *thread = start_thread("reader", reads, NULL);
    send_stream(a, 100000);
    join_thread(thread);
    exchange_stream(a);
}

static void *waits(void *argument) {
    char byte;
    (void)argument;
    CALL(recv(a, &byte, 1, 0));
    return NULL;
}

SCRIPT(shutdown_ends_a_receive) {
    a = connected_stream(AF_INET);
    exchange_stream(a);
    struct thread *thread = start_thread("reader", waits, NULL);
    let_it_wait();
    CALL(shutdown(a, SHUT_RDWR));
    join_thread(thread);
    far_ended();
}

static void *asks(void *argument) {
    int fd = connected_stream(AF_INET);
    (void)argument;
    exchange_stream(fd);
    CALL(close(fd));
    return NULL;
}

SCRIPT(threads_with_connections_of_their_own) {
    struct thread *threads[3];
    for (int i = 0; i < 3; i++) {
        threads[i] = start_thread("asks", asks, NULL);
        join_thread(threads[i]);
    }
}

SCRIPT(many_connections) {
    int fds[40];
    for (size_t i = 0; i < LENGTH_OF(fds); i++) fds[i] = connected_stream(AF_INET);
    for (size_t i = 0; i < LENGTH_OF(fds); i++) exchange_stream(fds[i]);
    for (size_t i = 0; i < LENGTH_OF(fds); i += 2) CALL(close(fds[i]));
    for (size_t i = 1; i < LENGTH_OF(fds); i += 2) exchange_stream(fds[i]);
}

SCRIPT(program_that_computes_while_much_comes) {
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    order_far(fd, "!s2000000.");
    sleep_ms(400);
    RECEIVE_STREAM(fd, 2000000);
    exchange_stream(fd);
}

SCRIPT(listener_goes_on_while_connections_are_used) {
    int listener = CALL(socket(AF_INET, SOCK_STREAM, 0));
    CALL(bind(listener, V4(NEAR, PORT(0))));
    CALL(listen(listener, 5));
    for (int i = 0; i < 3; i++) {
        struct peer_request request = { .command = PEER_DIAL, .to = PORT(0) };
        say("far end dials: %d", far_asks(&request).length);
        int fd = CALL(accept4(listener, NULL, NULL, i % 2 ? SOCK_NONBLOCK : 0));
        if (i % 2) CALL(fcntl(fd, F_SETFL, 0));
        exchange_stream(fd);
    }
}

SCRIPT(connection_that_is_refused) {
    int fd = CALL(socket(AF_INET, SOCK_STREAM, 0));
    CALL(connect(fd, V4(FAR, PORT(3))));
    CALL(send(fd, "x", 1, MSG_NOSIGNAL));
    char byte;
    CALL(recv(fd, &byte, 1, 0));
    CALL(recv(fd, &byte, 1, 0));
    CALL(recv(fd, &byte, 1, 0));
}

SCRIPT(connection_without_waiting) {
    int fd = CALL(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    char byte;
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    sleep_ms(50);
    GET(fd, SOL_SOCKET, SO_ERROR);
    for (int i = 0; i < 5; i++) CALL(recv(fd, &byte, 1, 0));
    SEND(fd, "x", 0);
    sleep_ms(50);
    CALL(recv(fd, &byte, 1, 0));
    CALL(recv(fd, &byte, 1, 0));
}

/* Both halves of a set: one that the stack carries, and one that the kernel has. */
SCRIPT(epoll_of_several) {
    int fds[3], set = EPOLL(), pipes[2];
    CALL(pipe(pipes));
    EPOLL_ADD(set, pipes[0], EPOLLIN);
    for (int i = 0; i < 3; i++) {
        fds[i] = connected_stream(AF_INET);
        EPOLL_ADD(set, fds[i], EPOLLIN);
        exchange_stream(fds[i]);
    }
    EPOLL_WAIT(set, 8, 0);
    for (int i = 0; i < 3; i++) {
        SEND(fds[i], "x", 0);
        EPOLL_WAIT(set, 8, 1000);
        RECEIVE_STREAM(fds[i], 1);
    }
    CALL(write(pipes[1], "x", 1));
    EPOLL_WAIT(set, 8, 1000);
    SEND(fds[1], "x", 0);
    sleep_ms(50);
    epoll_and_show_sorted(set, "both");
    CALL(close(fds[1]));
    EPOLL_WAIT(set, 8, 0);
    exchange_stream(fds[2]);
}

SCRIPT(epoll_for_room) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    static char data[1 << 20];
    exchange_stream(fd);
    EPOLL_ADD(set, fd, EPOLLOUT | EPOLLET);
    EPOLL_WAIT(set, 8, 1000);
    EPOLL_WAIT(set, 8, 0);
    order_far(fd, "!d.!w200.");
    sleep_ms(20);
    CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
    while (send(fd, data, sizeof data, MSG_NOSIGNAL) > 0) {}
    EPOLL_WAIT(set, 8, 3000);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLOUT);
    EPOLL_WAIT(set, 8, 3000);
}

SCRIPT(epoll_one_shot) {
    int fd = connected_stream(AF_INET), set = EPOLL();
    EPOLL_ADD(set, fd, EPOLLIN | EPOLLONESHOT);
    exchange_stream(fd);
    SEND(fd, "x", 0);
    sleep_ms(50);
    EPOLL_WAIT(set, 8, 1000);
    RECEIVE_STREAM(fd, 1);
    SEND(fd, "x", 0);
    EPOLL_WAIT(set, 8, 60);
    EPOLL_CTL(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(set, 8, 1000);
    EPOLL_CTL(set, EPOLL_CTL_DEL, fd, 0);
    EPOLL_WAIT(set, 8, 0);
    RECEIVE_STREAM(fd, 1);
}

SCRIPT(poll_wakes) {
    int fd = connected_stream(AF_INET);
    for (int i = 0; i < 5; i++) {
        order_far(fd, "!w60.x");
        WAITS(60, POLL(3000, { fd, POLLIN, 0 }));
        RECEIVE_STREAM(fd, 1);
    }
    WAITS(50, POLL(50, { fd, POLLIN, 0 }));
    order_far(fd, "!w60.!c.");
    POLL(3000, { fd, POLLIN | POLLRDHUP, 0 });
    RECEIVE_STREAM(fd, 1);
}

/* One thread waits in the kernel while another has the connection adopted: this one uses it until it is, and then something comes. */
static void adopt_while_it_waits(struct thread *thread) {
    let_it_wait();
    for (int i = 0; i < 6; i++) SEND(a, "!d.", 0);
    sleep_ms(50);
    order_far(a, "!s1.");
    join_thread(thread);
    RECEIVE_STREAM(a, 1);
}

static void *polls(void *argument) {
    (void)argument;
    POLL(5000, { a, POLLIN, 0 });
    return NULL;
}

SCRIPT(connection_adopted_while_another_thread_polls) {
    a = connected_stream(AF_INET);
    struct thread *thread = start_thread("polls", polls, NULL);
    adopt_while_it_waits(thread);
}

static int set;

static void *waits_in_a_set(void *argument) {
    (void)argument;
    EPOLL_WAIT(set, 4, 5000);
    return NULL;
}

SCRIPT(connection_adopted_while_another_thread_waits_in_a_set) {
    a = connected_stream(AF_INET);
    set = EPOLL();
    EPOLL_ADD(set, a, EPOLLIN);
    struct thread *thread = start_thread("waits", waits_in_a_set, NULL);
    adopt_while_it_waits(thread);
}

static void *serves_in_a_set(void *argument) {
    int own = epoll_create1(0), fd = (int)(intptr_t)argument;
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
    say("wait %d", epoll_wait(own, &event, 1, 0));
    event = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 1 };
    say("add %d", epoll_ctl(own, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 20; i++) {
        char data[8];
        int sent = send(fd, "hello", 5, 0), found = epoll_wait(own, &event, 1, 3000);
        say("%d %d %zd", sent, found, recv(fd, data, sizeof data, MSG_DONTWAIT));
    }
    close(own);
    return NULL;
}

/* Sets that threads had waited for before a connection came into them. */
SCRIPT(threads_with_sets_of_their_own) {
    struct thread *threads[3];
    int datagrams = bound(0);
    RECV(datagrams, 10, MSG_DONTWAIT);
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = connected_stream(AF_INET);
    for (int i = 0; i < 3; i++) {
        threads[i] = start_thread("serves", serves_in_a_set, (void *)(intptr_t)fds[i]);
    }
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
}

/* Each option that is set has the connection released, and the next call adopts it. */
static void change_owners(int fd, int count, unsigned seed) {
    static _Thread_local char data[40000];
    for (int i = 0; i < count; i++) {
        seed = seed * 1103515245 + 12345;
        long size = 1 + (seed >> 8) % (seed & 0x40 ? 100 : 20000);
        for (long j = 0; j < size; j++) data[j] = 'a' + (i + j) % 26;
        int delay = i % 3 != 0, received = 0;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &delay, sizeof delay);
        if (send(fd, data, size, MSG_NOSIGNAL) != size) say("send %d", i);
        if (seed & 0x80) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &delay, sizeof delay);
        while (received < size) {
            ssize_t last = recv(fd, data, size - received, 0);
            if (last <= 0) {
                say("receive %d after %d: %zd %s", i, received, last, strerrorname_np(errno));
                return;
            }
            for (ssize_t j = 0; j < last; j++) {
                if (data[j] != 'a' + (i + received + j) % 26) {
                    say("byte %zd of %d is wrong", received + j, i);
                    return;
                }
            }
            received += last;
            if (seed & 0x100) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &delay, sizeof delay);
        }
    }
    say("changed");
}

EACH_WAY(owner_changes_all_the_time) { change_owners(fd, rounds(300), 1); }

static void *changes(void *argument) {
    int fd = (int)(intptr_t)argument;
    change_owners(fd, rounds(100), fd);
    return NULL;
}

SCRIPT(owners_of_several_threads_connections_change) {
    struct thread *threads[3];
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = connected_stream(AF_INET);
    for (int i = 0; i < 3; i++) threads[i] = start_thread("changes", changes, (void *)(intptr_t)fds[i]);
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
}

static void *sets_options(void *argument) {
    int one = 1;
    (void)argument;
    for (int i = 0; i < rounds(300); i++) {
        setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        sleep_ms(1);
    }
    return NULL;
}

/* One thread has the connection released while another sends and receives. */
SCRIPT(owner_changes_under_a_thread_that_waits) {
    a = connected_stream(AF_INET);
    struct thread *thread = start_thread("options", sets_options, NULL);
    for (int i = 0; i < 40; i++) {
        order_far(a, "!w5.!s1000.");
        RECEIVE_STREAM(a, 1000);
    }
    join_thread(thread);
}

static void *sends_much(void *argument) {
    static char data[3000000];
    (void)argument;
    for (size_t i = 0; i < sizeof data; i++) data[i] = 'a' + i % 26;
    CALL(send(a, data, sizeof data, 0));
    return NULL;
}

/* A call that waits sends all, whoever has the connection when it ends. */
SCRIPT(owner_changes_within_a_send) {
    a = connected_stream(AF_INET);
    int one = 1;
    exchange_stream(a);
    order_far(a, "!d.!w200.");
    struct thread *thread = start_thread("sends", sends_much, NULL);
    let_it_wait();
    CALL(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    join_thread(thread);
    CALL(close(a));
    far_ended();
}
