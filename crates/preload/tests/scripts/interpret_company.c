/* Words about sockets in company: two threads or two processes at one socket, several sockets at one port, other descriptors
 * beside sockets. What is written down does not say who got a datagram, but that each came to somebody, once. */
#include "interpret.h"

#include <stdatomic.h>

#define MEMBERS 4
#define FORKS_MAX 12
#define WAKE_MS 400

static int event_fd = -1;

int event_descriptor(void) { return event_fd; }

/* Whether it is read, else written. */
void event(void) {
    uint64_t value = 1;
    if (event_fd < 0) event_fd = CALL(eventfd(0, EFD_NONBLOCK));
    if (one) CALL(read(event_fd, &value, sizeof value));
    else CALL(write(event_fd, &value, sizeof value));
}

/* Set, operation, events. */
void control_event(void) {
    static const int operations[] = { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD };
    static const unsigned events[] = { EPOLLIN, EPOLLIN | EPOLLET, EPOLLOUT };
    EPOLL_CTL(sets[one % SETS], operations[two % 3], event_fd, events[three % 3]);
}

static atomic_int is_fed;

static void *feed_soon(void *slot) {
    sleep_ms(2);
    feed((int)(intptr_t)slot, 1);
    is_fed = 1;
    return NULL;
}

/* On a machine with much other work the time of a call may be over before the datagram is sent: then it says nothing. */
#define UNTIL_FED(call)                            \
    ({ int was_fed_, got_;                         \
       do was_fed_ = is_fed, got_ = (call);        \
       while (got_ == 0 && !was_fed_);             \
       got_; })

static int wait_in_a_set(int fd, unsigned events, int is_nested) {
    int inner = epoll_create1(0), set = is_nested ? epoll_create1(0) : inner;
    struct epoll_event event = { .events = events, .data.u64 = 5 };
    CALL(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event));
    if (is_nested) CALL(epoll_ctl(set, EPOLL_CTL_ADD, inner, &event));
    struct epoll_event told[4];
    int got = CALL(UNTIL_FED(epoll_wait(set, told, 4, WAKE_MS)));
    show_events(told, got);
    while (!is_fed) sleep_ms(1);
    EPOLL_WAIT(set, 4, 0);
    if (is_nested) close(inner);
    close(set);
    return got;
}

static int select_one(int fd) {
    struct timeval time = { 0, 1000L * WAKE_MS };
    fd_set reads, excepts;
    FD_ZERO(&reads);
    FD_ZERO(&excepts);
    FD_SET(fd, &reads);
    FD_SET(fd, &excepts);
    return select(fd + 1, &reads, NULL, &excepts, &time);
}

/* Slot, how: a call that waits is woken by what arrives. */
void wake(void) {
    int fd = sockets[one];
    struct pollfd both[] = { { fd, POLLIN, 0 }, { event_fd, POLLIN, 0 } };
    struct timespec time = { 0, 1000000L * WAKE_MS };
    struct pollfd ready = { fd, POLLIN, 0 };
    drain();
    /* One that was shut down: it would tell of that, or of that and the datagram. */
    if (poll(&ready, 1, 0) != 0) return;
    is_fed = 0;
    pthread_t thread = start_quiet_thread(feed_soon, (void *)(intptr_t)one);
    /* An event that is there ends the call at once, so that the datagram may come before it or after it. */
    if (two < 2 && poll(&both[1], 1, 0) > 0) {
        while (!is_fed) sleep_ms(1);
        settle();
    }
    switch (two) {
    case 0: CALL(UNTIL_FED(poll(both, 2, WAKE_MS))); break;
    case 1: CALL(UNTIL_FED(ppoll(both, 2, &time, NULL))); break;
    case 2:
        if (fd >= 0) CALL(UNTIL_FED(select_one(fd)));
        break;
    case 3: wait_in_a_set(fd, EPOLLIN, 0); break;
    case 4: wait_in_a_set(fd, EPOLLIN | EPOLLET, 0); break;
    case 5: wait_in_a_set(fd, EPOLLIN | EPOLLONESHOT, 0); break;
    default: wait_in_a_set(fd, EPOLLIN, 1);
    }
    if (two < 2) show_pollfds(both, 2);
    pthread_join(thread, NULL);
    settle();
}

static struct taker pair[2], of_duplicate;

static void left(void *taker) { put_down(taker); }

static void *take_beside(void *argument) {
    struct taker *taker = argument;
    pthread_cleanup_push(left, taker);
    while (1) take(taker);
    pthread_cleanup_pop(0);
    return NULL;
}

static void let_all_wait(int slot) {
    CALL(fcntl(sockets[slot], F_SETFL, 0));
}

static void none_waits(void) {
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) CALL(fcntl(sockets[i], F_SETFL, O_NONBLOCK));
    }
    take_the_rest();
    show_ledger();
}

/* Slot, what one thread calls, what the other calls, moment between datagrams. */
void two_take(void) {
    pthread_t threads[2];
    take_the_rest();
    show_ledger();
    begin_taking(&pair[0], one, two % RECEIVERS);
    begin_taking(&pair[1], one, three % CALLS);
    let_all_wait(one);
    for (int i = 0; i < 2; i++) threads[i] = start_quiet_thread(take_beside, &pair[i]);
    start_feeding(one, 12, moment_us(four));
    stop_feeding();
    settle();
    for (int i = 0; i < 2; i++) pthread_cancel(threads[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) end_taking(&pair[i]);
    none_waits();
    show_sends(&pair[1]);
}

/* Slot, what a thread calls, moment: meanwhile the socket gets other numbers, which read and are closed. */
void duplicate_meanwhile(void) {
    take_the_rest();
    show_ledger();
    begin_taking(&pair[0], one, two % RECEIVERS);
    memset(of_duplicate.buffers, 0xee, sizeof of_duplicate.buffers);
    let_all_wait(one);
    pthread_t thread = start_quiet_thread(take_beside, &pair[0]);
    start_feeding(one, 10, moment_us(three));
    for (int i = 0; i < 8; i++) {
        int other = dup(sockets[one]);
        spin_us(moment_us(three) / 2);
        if (i % 2) recv(other, of_duplicate.buffers[0], BUFFER_BYTES, MSG_DONTWAIT);
        put_down(&of_duplicate);
        if (other >= 0) close(other);
    }
    stop_feeding();
    settle();
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    end_taking(&pair[0]);
    none_waits();
}

static int member(int family) {
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    int result = family == AF_INET6 ? bind(fd, V6(NEAR6, PORT(OF_MEMBERS))) : bind(fd, V4(NEAR, PORT(OF_MEMBERS)));
    if (result != 0) say("member: %s", strerrorname_np(errno));
    return fd;
}

static void feed_members(int family, const int *members, char letter) {
    static struct taker taker;
    struct peer_request request = { .command = PEER_SEND, .family = family, .from = PORT(FIRST_FAR), .sources = 4, .size = 3,
                                    .to = PORT(OF_MEMBERS), .count = 8, .letter = letter };
    memset(taker.buffers, 0xee, sizeof taker.buffers);
    far_asks(&request);
    settle();
    for (int i = 0; i < MEMBERS; i++) {
        while (members[i] >= 0 && recv(members[i], taker.buffers[0], BUFFER_BYTES, 0) >= 0) put_down(&taker);
    }
    show_ledger();
}

/* How many sockets share a port, what becomes of them, family. */
void share_port(void) {
    int members[MEMBERS] = { -1, -1, -1, -1 }, count = 1 + one % 3, family = three ? AF_INET6 : AF_INET;
    if (place != 0) return;
    take_the_rest();
    show_ledger();
    for (int i = 0; i < count; i++) members[i] = member(family);
    feed_members(family, members, 'a');
    switch (two) {
    case 0:
        CALL(close(members[0]));
        members[0] = -1;
        break;
    case 1: members[count] = member(family); break;
    case 2:
        if (family == AF_INET6) CALL(connect(members[0], V6(FAR6, PORT(FIRST_FAR))));
        else CALL(connect(members[0], V4(FAR, PORT(FIRST_FAR))));
        break;
    default:
        CALL(close(members[0]));
        members[0] = member(family);
    }
    feed_members(family, members, 'm');
    for (int i = 0; i < MEMBERS; i++) {
        if (members[i] >= 0) close(members[i]);
    }
}

static int forks, slot_of_child, pipe_to_child[2] = { -1, -1 };
static pid_t living;
static atomic_int *child_stops;

static int take_all_there_is(void) {
    feed(slot_of_child, 1);
    for (int i = 0; i < SLOTS; i++) {
        for (int left = 10; sockets[i] >= 0 && left > 0 && RECV(sockets[i], 30, MSG_DONTWAIT) >= 0; left--) {}
    }
    return 0;
}

static int close_and_ask(void) {
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) CALL(close(sockets[i]));
    }
    int fd = bound(OF_CHILDREN);
    CALL(sendto(fd, "child", 5, 0, V4(FAR, ECHO_PORT)));
    settle();
    RECV(fd, 10, MSG_DONTWAIT);
    return 0;
}

static int live_on(void) {
    char byte;
    close(pipe_to_child[1]);
    return (int)read(pipe_to_child[0], &byte, 1);
}

static int exit_at_once(void) { return 7; }

void end_living_child(void) {
    if (living <= 0) return;
    close(pipe_to_child[1]);
    close(pipe_to_child[0]);
    reap(living);
    living = 0;
}

/* What the child does, slot that is fed before. Some of what waits the parent alone can read (`requeue.rs` of the library):
 * what came before a connect, from others, and all where the interface or the time is told. */
void have_child(void) {
    static int (*const functions[])(void) = { take_all_there_is, live_on, close_and_ask, exit_at_once };
    int child_reads = one % 4 == 0;
    if (has_replaced || place != 0 || forks++ >= FORKS_MAX || !may_be_given()) return;
    slot_of_child = two;
    if (child_reads) drain();
    if (!child_reads || !asks_beside) feed(two, 2);
    if (one % 4 != 1) {
        reap(fork_child("child", functions[one % 4]));
    } else if (living) {
        end_living_child();
    } else {
        if (pipe(pipe_to_child) != 0) abort();
        living = fork_child("living child", live_on);
    }
}

static int take_until_stopped(void) {
    while (!*child_stops) take(&pair[0]);
    return 0;
}

/* Slot, moment: parent and child take what comes. */
void child_takes_too(void) {
    if (has_replaced || place != 0 || forks++ >= FORKS_MAX || !may_be_given()) return;
    if (!child_stops) child_stops = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *child_stops = 0;
    take_the_rest();
    show_ledger();
    slot_of_child = one;
    begin_taking(&pair[0], one, NOT_WAITING);
    begin_taking(&pair[1], one, NOT_WAITING);
    pid_t child = fork_child("taker", take_until_stopped);
    start_feeding(one, 10, moment_us(two));
    for (int i = 0; i < 50; i++) {
        take(&pair[1]);
        spin_us(20);
    }
    stop_feeding();
    settle();
    *child_stops = 1;
    reap(child);
    take_the_rest();
    show_ledger();
}
