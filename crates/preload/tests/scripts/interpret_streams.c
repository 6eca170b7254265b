/* Runs the generated sequence of calls on TCP connections in the file `sequence`, as `interpret.c` does it for datagrams. Connections stand in
 * four slots. What a call finds has arrived: after each call that sends or has something sent there is a pause. */
#include "interpret.h"

#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#define LETTERS 26
#define ROOM_BYTES 70000

static int opened;
/* What was there when a call came is read, and no call waits. */
static int reads_ended[SLOTS];
static volatile int broken_pipes;

static void count_broken_pipe(int number) {
    (void)number;
    broken_pipes++;
}

/* Longer than the library takes to look at connections which no call asks for, 10 ms, and that again for the answer. */
static void arrive(void) {
    int before = errno;
    sleep_ms(later_ms(15));
    /* The far end has answered all that it got; under load that takes longer. */
    far_asks(&(struct peer_request){ .command = PEER_SETTLE });
    sleep_ms(later_ms(15));
    errno = before;
}

/* No call hangs, whatever becomes of the connection. */
static void bound_waits(int fd) {
    int ms = later_ms(200);
    struct timeval time = { ms / 1000, ms % 1000 * 1000 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static void open_stream(void) {
    if (sockets[one] >= 0) return;
    int family = two % 2 ? AF_INET6 : AF_INET;
    sockets[one] = two < 2 ? connected_stream(family) : accepted_stream(family, one);
    families[one] = family;
    reads_ended[one] = 0;
    opened++;
    bound_waits(sockets[one]);
    CALL(fcntl(sockets[one], F_SETFL, O_NONBLOCK));
}

static const char *letters(void) {
    static char all[ROOM_BYTES];
    for (size_t i = 0; !all[ROOM_BYTES - 1] && i < sizeof all; i++) all[i] = 'a' + i % LETTERS;
    return all;
}

static long send_by(int fd, int how, size_t size) {
    const char *data = letters();
    struct iovec parts[] = { { (void *)data, size / 3 }, { NULL, 0 }, { (void *)(data + size / 3), size - size / 3 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
    switch (how) {
    case 0: return send(fd, data, size, 0);
    case 1: return write(fd, data, size);
    case 2: return writev(fd, parts, 3);
    case 3: return sendmsg(fd, &message, MSG_NOSIGNAL);
    case 4: return sendto(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
    case 5: return syscall(SYS_sendto, fd, data, size, MSG_NOSIGNAL, NULL, 0);
    default: return send(fd, data, size, MSG_EOR | MSG_NOSIGNAL);
    }
}

static void send_some(void) {
    static const int sizes[] = { 5, 100, 1, 1448, 5000, 20000, 0 };
    begin_call();
    long result = send_by(sockets[one], three, sizes[two]);
    end_call("send", result);
    arrive();
}

/* The first is held back until the second comes. */
static void send_more(void) {
    CALL(send(sockets[one], "more", 4, MSG_MORE | MSG_NOSIGNAL));
    CALL(send(sockets[one], "follows", 7, MSG_NOSIGNAL));
    arrive();
}

static void cork(void) {
    SET(sockets[one], IPPROTO_TCP, TCP_CORK, 1);
    CALL(send(sockets[one], "corked", 6, MSG_NOSIGNAL));
    CALL(send(sockets[one], "again", 5, MSG_NOSIGNAL));
    SET(sockets[one], IPPROTO_TCP, TCP_CORK, 0);
    arrive();
}

static void send_file(void) {
    int file = memfd_create("file", MFD_CLOEXEC);
    if (write(file, letters(), 3000) != 3000) say("no file");
    off_t from = 10;
    CALL(sendfile(sockets[one], file, &from, 1000));
    say("offset %ld", (long)from);
    close(file);
    arrive();
}

static void show_received(const char *call, long result, const unsigned char *data, size_t room) {
    long sum = 0;
    end_call(call, result);
    for (long i = 0; i < result && i < (long)room; i++) sum = (sum * 31 + data[i]) % 1000003;
    if (result > 0) say("sum %ld", sum);
}

static long receive_by(int fd, int how, int flags, unsigned char *data, size_t size) {
    struct iovec parts[] = { { data, size / 3 }, { data + size / 3, size - size / 3 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    switch (how) {
    case 0: return recv(fd, data, size, flags);
    case 1: return read(fd, data, size);
    case 2: return readv(fd, parts, 2);
    case 3: return recvmsg(fd, &message, flags);
    case 4: return recvfrom(fd, data, size, flags, (struct sockaddr *)&address, &length);
    default: return syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
    }
}

static void receive_some(void) {
    static const int sizes[] = { 100, 5, 1, 4096, ROOM_BYTES, 0 };
    static const int flags[] = { 0, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_OOB, MSG_WAITALL | MSG_PEEK };
    static unsigned char data[ROOM_BYTES];
    memset(data, 0, sizes[two]);
    begin_call();
    long result = receive_by(sockets[one], four, flags[three], data, sizes[two]);
    show_received("receive", result, data, sizes[two]);
    /* What was read may let the far end send more. */
    if (result > 1000) arrive();
}

/* Calls by which a connection is adopted, whenever that is. */
static void exchange(void) {
    char data[10];
    for (int i = 0; i < 3; i++) {
        CALL(send(sockets[one], "hello", 5, MSG_NOSIGNAL));
        arrive();
        CALL(recv(sockets[one], data, 5, 0));
    }
}

static void order(void) {
    static const char *orders[] = { "!s3.", "!s1000.", "!s30000.", "!h.", "!c.", "!r.", "!o.", "!d.", "!s5.!c.", "bye!h.", "!s10.!r." };
    order_far(sockets[one], orders[two]);
    arrive();
}

/* A call that waits, for what is there or comes. */
static void wait_for_bytes(void) {
    static const char *orders[] = { "!w30.!s20.", "!s20.", "!w30.!c.", "!w30.!r.", "!s5.!w30.!s15." };
    static unsigned char data[100];
    int flags = fcntl(sockets[one], F_GETFL);
    if (flags < 0) return;
    CALL(fcntl(sockets[one], F_SETFL, flags & ~O_NONBLOCK));
    order_far(sockets[one], orders[two]);
    // Then no call waits for what was ordered, which comes before it or after.
    if (reads_ended[one]) sleep_ms(later_ms(50));
    begin_call();
    long result = recv(sockets[one], data, 20, MSG_WAITALL);
    show_received("waits", result, data, sizeof data);
    CALL(fcntl(sockets[one], F_SETFL, flags));
    sleep_ms(later_ms(55));
}

static void poll_streams(void) {
    POLL(0, { sockets[0], POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0 }, { sockets[1], POLLIN | POLLRDHUP, 0 }, { sockets[2], POLLIN | POLLOUT, 0 },
         { sockets[3], POLLOUT, 0 }, { sets[0], POLLIN, 0 }, { sets[1], POLLIN, 0 });
}

static void control_stream(void) {
    static const int operations[] = { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CTL_ADD };
    static const unsigned events[] = {
        EPOLLIN, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLOUT, EPOLLRDHUP, EPOLLIN | EPOLLRDHUP | EPOLLOUT | EPOLLPRI, EPOLLOUT | EPOLLONESHOT, 0,
        EPOLLIN | EPOLLET,
    };
    say("operation %d, events %x", operations[two], events[four]);
    EPOLL_CTL(sets[one], operations[two], sockets[three], events[four]);
}

static void set_stream_option(void) {
    struct linger linger = { 1, three ? 0 : 1 };
    int fd = sockets[one];
    switch (two) {
    case 0: SET(fd, IPPROTO_TCP, TCP_NODELAY, three); break;
    case 1: SET(fd, SOL_SOCKET, SO_RCVLOWAT, three ? 10 : 1); break;
    case 2: SET(fd, SOL_SOCKET, SO_KEEPALIVE, three); break;
    case 3: SET(fd, IPPROTO_TCP, TCP_QUICKACK, three); break;
    case 4: CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)); break;
    case 5: SET(fd, SOL_SOCKET, SO_OOBINLINE, three); break;
    case 6: SET(fd, IPPROTO_IP, IP_TOS, three ? 8 : 16); break;
    case 7: SET(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, three ? 9000 : 0); break;
    default: SET(fd, SOL_SOCKET, SO_REUSEADDR, three);
    }
}

static void tell_stream(void) {
    int fd = sockets[one], bytes = -1;
    switch (two) {
    case 0: GET(fd, SOL_SOCKET, SO_ERROR); break;
    case 1: GETSOCKNAME(fd); break;
    case 2: GETPEERNAME(fd); break;
    case 3:
        CALL(ioctl(fd, FIONREAD, &bytes));
        say("%d bytes", bytes);
        break;
    case 4:
        CALL(ioctl(fd, SIOCATMARK, &bytes));
        say("at mark: %d", bytes);
        break;
    case 5: GET(fd, SOL_SOCKET, SO_REUSEADDR); break;
    case 6: GET(fd, IPPROTO_TCP, TCP_NODELAY); break;
    case 7: GET(fd, SOL_SOCKET, SO_TYPE); break;
    default: CALL(fcntl(fd, F_GETFL));
    }
    say("broken pipes: %d", broken_pipes);
}

static void shut_stream(void) {
    CALL(shutdown(sockets[one], two));
    reads_ended[one] |= two != SHUT_WR;
    arrive();
}

static void close_stream(void) {
    CALL(close(sockets[one]));
    sockets[one] = -1;
    arrive();
}

static int child_does(void) {
    static unsigned char data[100];
    long result;
    switch (two) {
    case 0: break;
    case 1: CALL(send(sockets[one], "child", 5, MSG_NOSIGNAL)); break;
    case 2:
        begin_call();
        result = recv(sockets[one], data, sizeof data, MSG_DONTWAIT);
        show_received("child receives", result, data, sizeof data);
        break;
    case 3: CALL(close(sockets[one])); break;
    default: CALL(shutdown(sockets[one], SHUT_WR));
    }
    return 0;
}

static void fork_once(void) {
    reap(fork_child("child", child_does));
    arrive();
}

static void *thread_does(void *argument) {
    char data[100];
    (void)argument;
    if (two == 0) CALL(send(sockets[one], "thread", 6, MSG_NOSIGNAL));
    else CALL(recv(sockets[one], data, sizeof data, MSG_DONTWAIT));
    return NULL;
}

static void thread_once(void) {
    join_thread(start_thread("thread", thread_does, NULL));
    arrive();
}

/* The flags of a socket whose calls wait from now on; -1: there is none. */
static int begin_to_wait(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return flags;
}

static volatile int alarms;

static void count_alarm(int number) {
    (void)number;
    alarms++;
}

/* A handler runs in a call that waits, which goes on or does not. */
static void interrupt(void) {
    static const char *orders[] = { "!w80.!s10.", "!w80.!c.", "" };
    static unsigned char data[100];
    int fd = sockets[one], flags = begin_to_wait(fd);
    if (flags < 0) return;
    handle(SIGALRM, count_alarm, two ? SA_RESTART : 0);
    if (orders[three][0]) order_far(fd, orders[three]);
    alarm_in_ms(30);
    begin_call();
    long result = four ? POLL(later_ms(150), { fd, POLLIN, 0 }) : recv(fd, data, 10, 0);
    show_received("interrupted", four ? 0 : result, data, sizeof data);
    sleep_ms(later_ms(100));
    say("alarms: %d", alarms);
    fcntl(fd, F_SETFL, flags);
}

static void *waiting_thread(void *argument) {
    static unsigned char data[100];
    int fd = sockets[one];
    (void)argument;
    if (two == 3) {
        POLL(later_ms(400), { fd, POLLIN | POLLRDHUP, 0 });
        return NULL;
    }
    begin_call();
    long result = recv(fd, data, 10, two == 2 ? MSG_WAITALL : 0);
    show_received("thread", result, data, sizeof data);
    return NULL;
}

/* A thread waits, and this one does something with what it waits for. */
static void do_meanwhile(void) {
    int fd = sockets[one], flags = begin_to_wait(fd);
    if (flags < 0) return;
    struct thread *thread = start_thread("waiting", waiting_thread, NULL);
    let_it_wait();
    switch (three) {
    case 0: order_far(fd, "!s10."); break;
    case 1: CALL(shutdown(fd, SHUT_RD)), reads_ended[one] = 1; break;
    case 2: CALL(shutdown(fd, SHUT_WR)); break;
    case 3: order_far(fd, "!c."); break;
    case 4: order_far(fd, "!r."); break;
    case 5: SET(fd, IPPROTO_TCP, TCP_NODELAY, 1), order_far(fd, "!s10."); break;
    default: CALL(send(fd, "0123456789", 10, MSG_NOSIGNAL));
    }
    join_thread(thread);
    fcntl(fd, F_SETFL, flags);
    arrive();
}

static void send_messages(void) {
    struct iovec part = { "message", 7 };
    struct mmsghdr messages[] = { { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } } };
    CALL(sendmmsg(sockets[one], messages, 2, MSG_NOSIGNAL));
    arrive();
}

static void receive_messages(void) {
    static char data[2][20];
    struct iovec parts[] = { { data[0], 20 }, { data[1], 20 } };
    struct mmsghdr messages[] = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = parts + 1, .msg_iovlen = 1 } } };
    int count = CALL(recvmmsg(sockets[one], messages, 2, MSG_DONTWAIT, NULL));
    for (int i = 0; i < count; i++) say("%u: %.20s", messages[i].msg_len, data[i]);
}

/* Through a pipe. */
static void splice_stream(void) {
    static unsigned char data[100];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    if (two) {
        if (write(ends[1], "spliced", 7) != 7) say("no pipe");
        CALL(splice(ends[0], NULL, sockets[one], NULL, 7, 0));
        arrive();
    } else {
        CALL(splice(sockets[one], NULL, ends[1], NULL, 50, SPLICE_F_NONBLOCK));
        begin_call();
        long result = read(ends[0], data, sizeof data);
        show_received("of the pipe", result, data, sizeof data);
    }
    close(ends[0]), close(ends[1]);
}

/* A descriptor comes as a message, and a child uses it. */
static int passed_on(void) {
    CALL(send(sockets[one], "passed", 6, MSG_NOSIGNAL));
    return 0;
}

static void pass_on(void) {
    int ends[2];
    if (sockets[one] < 0 || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    give_fd(ends[0], sockets[one]);
    int before = sockets[one], copy = take_fd(ends[1], MSG_CMSG_CLOEXEC);
    sockets[one] = copy;
    reap(fork_child("passed on", passed_on));
    sockets[one] = before;
    arrive();
    CALL(close(copy));
    close(ends[0]), close(ends[1]);
}

static void duplicate_stream(void) {
    if (sockets[two] >= 0) return;
    sockets[two] = CALL(dup(sockets[one]));
    families[two] = families[one], reads_ended[two] = reads_ended[one];
}

static const struct word words[] = {
    { "open", open_stream }, { "send", send_some }, { "more", send_more }, { "cork", cork }, { "file", send_file }, { "recv", receive_some },
    { "exchange", exchange }, { "far", order }, { "waits", wait_for_bytes }, { "poll", poll_streams }, { "select", select_some },
    { "set", make_set }, { "ctl", control_stream }, { "nest", nest }, { "wait", wait_for }, { "close_set", close_set },
    { "option", set_stream_option }, { "state", tell_stream }, { "shutdown", shut_stream }, { "close", close_stream },
    { "fork", fork_once }, { "thread", thread_once }, { "dup", duplicate_stream }, { "interrupt", interrupt },
    { "meanwhile", do_meanwhile }, { "send_many", send_messages }, { "recv_many", receive_messages }, { "splice", splice_stream },
    { "pass", pass_on },
};

static int compare_texts(const void *left, const void *right) { return strcmp(left, right); }

/* How the far end saw all connections end, in no order. */
static void show_ends(void) {
    static char ends[64][100];
    for (int i = 0; i < opened && i < 64; i++) {
        struct peer_request request = { .command = PEER_ENDED, .after_ms = 3000 };
        struct peer_reply reply = far_asks(&request);
        snprintf(ends[i], sizeof ends[i], "%.60s after %d bytes", reply.text, reply.length);
    }
    qsort(ends, opened < 64 ? opened : 64, sizeof ends[0], compare_texts);
    for (int i = 0; i < opened && i < 64; i++) say("far end saw: %s", ends[i]);
}

PROGRAM(sequence) {
    /* A bundle is dropped and comes again, later (docs/run.md). */
    far_asks(&(struct peer_request){ .command = PEER_CUT });
    handle(SIGPIPE, count_broken_pipe, 0);
    run_sequence(words, LENGTH_OF(words));
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) CALL(close(sockets[i]));
    }
    show_ends();
}
