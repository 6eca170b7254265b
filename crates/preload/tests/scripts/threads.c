/* Several threads at one socket or set. */
#include "script.h"

#include <semaphore.h>
#include <stdatomic.h>

static int shared, epoll_set;

static void *receive_one(void *unused) {
    RECVFROM(shared, 100, 0);
    return unused;
}

SCRIPT(one_waits_one_sends) {
    shared = bound(0);
    struct thread *reader = start_thread("reader", receive_one, NULL);
    let_it_wait();
    SENDTO(shared, "hello", V4(FAR, ECHO_PORT));
    join_thread(reader);
    RECV(shared, 10, MSG_DONTWAIT);
}

SCRIPT(one_waits_in_receive_one_in_poll) {
    shared = bound(0);
    struct thread *reader = start_thread("reader", receive_one, NULL);
    let_it_wait();
    WAITS(30, POLL(30, { shared, POLLIN, 0 }));
    FAR_SENDS(.to = PORT(0), .size = 3);
    join_thread(reader);
    RECV(shared, 10, MSG_DONTWAIT);
}

static int counts[4];

static void *receive_until_empty_word(void *argument) {
    char data[10];
    while (recv(shared, data, sizeof data, 0) > 0) ++*(int *)argument;
    return NULL;
}

SCRIPT(two_readers_share_all) {
    shared = bound(0);
    struct thread *one = start_thread("one", receive_until_empty_word, &counts[0]);
    struct thread *two = start_thread("two", receive_until_empty_word, &counts[1]);
    let_it_wait();
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 50, .gap_us = 100);
    FAR_SENDS(.to = PORT(0), .size = 0, .count = 2);
    join_thread(one);
    join_thread(two);
    say("together %d", counts[0] + counts[1]);
    RECV(shared, 10, MSG_DONTWAIT);
}

static void *wait_for_data(void *ms) {
    WAITS((int)(intptr_t)ms, RECV(shared, 10, 0));
    return ms;
}

SCRIPT(close_does_not_wake_a_reader) {
    shared = bound(0);
    struct timeval time = { 0, 80000 };
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    struct thread *reader = start_thread("reader", wait_for_data, (void *)80);
    let_it_wait();
    CALL(close(shared));
    join_thread(reader);
    RECV(shared, 10, 0);
}

SCRIPT(a_reader_of_a_closed_number_still_receives) {
    shared = bound(0);
    struct timeval time = { 2, 0 };
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    struct thread *reader = start_thread("reader", wait_for_data, (void *)60);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 60);
    let_it_wait();
    CALL(close(shared));
    join_thread(reader);
}

static void *wait_in_epoll(void *unused) {
    EPOLL_WAIT(epoll_set, 10, 1000);
    return unused;
}

SCRIPT(socket_is_added_while_waiting) {
    shared = bound(0);
    epoll_set = EPOLL();
    struct thread *waiter = start_thread("waiter", wait_in_epoll, NULL);
    let_it_wait();
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_ADD(epoll_set, shared, EPOLLIN);
    join_thread(waiter);
}

SCRIPT(socket_is_added_and_becomes_ready_while_waiting) {
    shared = bound(0);
    epoll_set = EPOLL();
    struct thread *waiter = start_thread("waiter", wait_in_epoll, NULL);
    let_it_wait();
    EPOLL_ADD(epoll_set, shared, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    join_thread(waiter);
}

SCRIPT(socket_is_modified_while_waiting) {
    shared = bound(0);
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, shared, EPOLLPRI);
    struct thread *waiter = start_thread("waiter", wait_in_epoll, NULL);
    let_it_wait();
    EPOLL_CTL(epoll_set, EPOLL_CTL_MOD, shared, EPOLLOUT);
    join_thread(waiter);
}

static int wake_event;

static void *wait_for_event(void *unused) {
    eventfd_t value;
    EPOLL_WAIT(epoll_set, 1, 1000);
    CALL(eventfd_read(wake_event, &value));
    EPOLL_WAIT(epoll_set, 10, 1000);
    return unused;
}

SCRIPT(an_eventfd_wakes_a_loop) {
    shared = bound(0);
    epoll_set = EPOLL();
    wake_event = CALL(eventfd(0, 0));
    EPOLL_ADD(epoll_set, shared, EPOLLIN);
    EPOLL_ADD(epoll_set, wake_event, EPOLLIN);
    struct thread *waiter = start_thread("waiter", wait_for_event, NULL);
    let_it_wait();
    CALL(eventfd_write(wake_event, 1));
    let_it_wait();
    FAR_SENDS(.to = PORT(0), .size = 3);
    join_thread(waiter);
}

static void *echo_some(void *argument) {
    int n = (int)(intptr_t)argument, fd = bound(n), good = 0;
    char data[20], back[20];
    for (int i = 0; i < 100; i++) {
        int length = snprintf(data, sizeof data, "%d of %d", i, n);
        if (sendto(fd, data, length, 0, V4(FAR, ECHO_PORT)) != length) break;
        ssize_t got = recv(fd, back, sizeof back, 0);
        if (got == length && memcmp(data, back, length) == 0) good++;
        else say("'%.*s' after '%s'", (int)(got < 0 ? 0 : got), back, data);
    }
    close(fd);
    say("%d good", good);
    return NULL;
}

SCRIPT(four_threads_echo_at_once) {
    struct thread *threads[4];
    for (intptr_t i = 0; i < 4; i++) threads[i] = start_thread("echo", echo_some, (void *)i);
    for (int i = 0; i < 4; i++) join_thread(threads[i]);
}

static void *open_and_close(void *unused) {
    int failures = 0;
    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        failures += fd < 0 || bind(fd, V4(NEAR, 0)) != 0 || close(fd) != 0;
    }
    say("%d failures", failures);
    return unused;
}

SCRIPT(sockets_come_and_go_while_one_works) {
    struct thread *one = start_thread("one", open_and_close, NULL), *two = start_thread("two", open_and_close, NULL);
    echo_some((void *)5);
    join_thread(one);
    join_thread(two);
}

static void *send_many(void *argument) {
    int failures = 0;
    for (int i = 0; i < 200; i++) failures += sendto(shared, argument, 1, 0, V4(FAR, ECHO_PORT)) != 1;
    say("%d failures", failures);
    return NULL;
}

SCRIPT(two_threads_send_by_one_socket) {
    shared = bound(0);
    SET(shared, SOL_SOCKET, SO_RCVBUF, 2000000);
    struct thread *one = start_thread("one", send_many, "1"), *two = start_thread("two", send_many, "2");
    join_thread(one);
    join_thread(two);
    settle();
    char byte;
    int ones = 0, twos = 0;
    while (recv(shared, &byte, 1, MSG_DONTWAIT) == 1) byte == '1' ? ones++ : twos++;
    say("%d and %d came back", ones, twos);
}

static void *cancelled(void *unused) {
    char data[10];
    (void)!recv(shared, data, sizeof data, 0);
    say("not cancelled");
    return unused;
}

SCRIPT(a_waiting_thread_is_cancelled) {
    shared = bound(0);
    struct thread *reader = start_thread("reader", cancelled, NULL);
    let_it_wait();
    say("pthread_cancel %d", pthread_cancel(thread_id(reader)));
    join_thread(reader);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
}

SCRIPT(dup2_over_a_socket_somebody_reads) {
    shared = bound(0);
    struct timeval time = { 0, 60000 };
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    struct thread *reader = start_thread("reader", receive_one, NULL);
    let_it_wait();
    int b = bound(1);
    CALL(dup2(b, shared));
    FAR_SENDS(.to = PORT(1), .size = 4);
    join_thread(reader);
    RECV(shared, 10, MSG_DONTWAIT);
}

static atomic_int asks_on;

/* Takes its own frames and those of other threads. */
static void *ask_and_wait(void *fd) {
    char data[10];
    while (asks_on) {
        struct pollfd readable = { (int)(intptr_t)fd, POLLIN, 0 };
        sendto(readable.fd, "n", 1, 0, V4(FAR, ECHO_PORT));
        if (poll(&readable, 1, 2000) == 1) (void)!recv(readable.fd, data, sizeof data, MSG_DONTWAIT);
    }
    return NULL;
}

static sem_t ordered;
static void *order_datagrams(void *unused) {
    struct peer_request request = { .command = PEER_SEND, .to = PORT(0), .size = 3 };
    for (;;) {
        sem_wait(&ordered);
        if (!asks_on) return unused;
        /* Earlier and later than the call begins to sleep. */
        for (long end_us = now_us() + now_us() % 101; now_us() < end_us;) {}
        far_asks(&request);
    }
}

/* Whether it told of the datagram. */
static int wait_by(int kind) {
    struct pollfd readable = { shared, POLLIN, 0 };
    struct timeval time = { 5, 0 };
    struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
    fd_set set;
    FD_ZERO(&set);
    FD_SET(shared, &set);
    switch (kind) {
    case 0: return poll(&readable, 1, 5000);
    case 1: return select(shared + 1, &set, NULL, NULL, &time);
    case 2: epoll_ctl(epoll_set, EPOLL_CTL_MOD, shared, &event); return epoll_wait(epoll_set, &event, 1, 5000);
    default: return recv(shared, (char[10]){ 0 }, 10, MSG_PEEK) == 3;
    }
}

/* Nobody waits for so long, unless what was to wake it was lost. */
#define LOST_MS 2500

SCRIPT(calls_that_wait_are_woken_at_any_moment) {
    int other = bound(1), missed = 0, late = 0;
    char data[10];
    struct timeval time = { 5, 0 };
    shared = bound(0);
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    epoll_set = EPOLL();
    EPOLL_ADD(epoll_set, shared, EPOLLIN | EPOLLONESHOT);
    sem_init(&ordered, 0, 0);
    asks_on = 1;
    struct thread *neighbour = start_thread("neighbour", ask_and_wait, (void *)(intptr_t)other);
    struct thread *sender = start_thread("sender", order_datagrams, NULL);
    for (int i = 0; i < rounds(400); i++) {
        long begin_us = now_us();
        sem_post(&ordered);
        missed += wait_by(i % 4) != 1;
        late += now_us() - begin_us > 1000L * LOST_MS;
        /* What was missed comes still. */
        missed += recv(shared, data, sizeof data, 0) != 3;
    }
    asks_on = 0;
    sem_post(&ordered);
    join_thread(sender);
    join_thread(neighbour);
    say("%d missed, %d late", missed, late);
}

#define SENT_TO_BOTH 160
#define SHARE_LEAST 40
/* Times in a row that nothing comes for 400 ms. */
#define PAUSES_MOST 5

/* Of what a call has while it waits for more, nothing is older than so many datagrams that come later. The kernel has the two take turns: 16,
 * and what a thread is kept off its CPU for. */
#define KEPT_MOST 80

static atomic_int both_got, newest;
static int kept[2];

static int number_of(const struct mmsghdr *message) {
    int number;
    memcpy(&number, message->msg_hdr.msg_iov->iov_base, sizeof number);
    return number;
}

/* Vectors that are longer than what comes at once. The time over, a call gives what it has. A reader that a pause of the sender's
 * leaves with nothing goes on: on a busy machine there are such. */
static void *receive_vectors(void *argument) {
    char data[8][10];
    struct iovec parts[8];
    struct mmsghdr messages[8];
    int got, pauses = 0, which = (int *)argument - counts;
    for (int i = 0; i < 8; i++) {
        parts[i] = (struct iovec){ data[i], sizeof data[i] };
        messages[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &parts[i], .msg_iovlen = 1 } };
    }
    while (both_got < SENT_TO_BOTH && pauses < PAUSES_MOST) {
        got = recvmmsg(shared, messages, 8, 0, NULL);
        pauses = got > 0 ? 0 : pauses + 1;
        if (got <= 0) continue;
        counts[which] += got, both_got += got;
        int last = number_of(&messages[got - 1]), before = newest;
        while (before < last && !atomic_compare_exchange_weak(&newest, &before, last)) {}
        if (newest - number_of(messages) > kept[which]) kept[which] = newest - number_of(messages);
    }
    return NULL;
}

/* Whether each had its share, and kept nothing for long. Of attempts that differ in number the trace is the same. */
static int shares_vectors(int gap_us) {
    struct peer_request request = { .command = PEER_SEND, .to = PORT(0), .size = 4, .is_numbered = 1,
                                    .count = SENT_TO_BOTH, .gap_us = gap_us };
    counts[0] = counts[1] = kept[0] = kept[1] = both_got = newest = 0;
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) if (pthread_create(&readers[i], NULL, receive_vectors, &counts[i]) != 0) abort();
    let_it_wait();
    far_asks(&request);
    for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
    if (both_got != SENT_TO_BOTH) say("together %d", both_got);
    return counts[0] >= SHARE_LEAST && counts[1] >= SHARE_LEAST && kept[0] <= KEPT_MOST && kept[1] <= KEPT_MOST;
}

SCRIPT(two_readers_of_vectors_share_what_comes_slowly) {
    struct timeval time = { 0, 400000 };
    /* Readers share as they have CPUs: what comes while one is kept off its own, as by the far end or by other programs here, is the other's. */
    int attempts = 5, is_shared = 0;
    shared = bound(0);
    CALL(setsockopt(shared, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    while (!is_shared && attempts-- > 0) is_shared = shares_vectors(2000);
    say("each has its share, and is given it soon: %d", is_shared);
}
