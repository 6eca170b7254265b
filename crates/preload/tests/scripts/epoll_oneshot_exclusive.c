/* EPOLLONESHOT and EPOLLEXCLUSIVE. */
#include "script.h"

#include <stdatomic.h>

SCRIPT(oneshot_tells_once) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

/* A set whose one-shot registration of a connected socket has told of a datagram. */
static int told_once(int *socket) {
    int a = *socket = bound(0), epoll = EPOLL();
    CALL(connect(a, V4(FAR, PORT(5))));
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLONESHOT);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    return epoll;
}

SCRIPT(oneshot_tells_no_error_afterwards) {
    int a, epoll = told_once(&a);
    far_closes(PORT(5));
    SEND(a, "nobody listens", 0);
    settle();
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(oneshot_tells_no_hangup_afterwards) {
    int a, epoll = told_once(&a);
    RECV(a, 10, 0);
    CALL(shutdown(a, SHUT_RDWR));
    EPOLL_WAIT(epoll, 10, 0);
    POLL(0, { a, POLLIN, 0 }, { epoll, POLLIN, 0 });
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLEXCLUSIVE);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(oneshot_that_told_is_deleted_after_a_hangup) {
    int a, epoll = told_once(&a);
    RECV(a, 10, 0);
    CALL(shutdown(a, SHUT_RDWR));
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_ADD(epoll, a, EPOLLIN);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(oneshot_with_unread_data_tells_no_hangup) {
    int a, epoll = told_once(&a);
    CALL(shutdown(a, SHUT_RDWR));
    EPOLL_WAIT(epoll, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(oneshot_of_a_socket_not_bound_tells_once) {
    int a = UDP(), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLOUT | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
    CALL(bind(a, V4(NEAR, PORT(0))));
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(oneshot_edge) {
    int a = bound(0), epoll = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLOUT | EPOLLONESHOT | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

SCRIPT(exclusive_rules) {
    int a = bound(0), epoll = EPOLL(), inner = EPOLL();
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT);
    EPOLL_ADD(epoll, a, EPOLLPRI | EPOLLEXCLUSIVE);
    EPOLL_ADD(epoll, inner, EPOLLIN | EPOLLEXCLUSIVE);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLEXCLUSIVE);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN);
    EPOLL_CTL(epoll, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLEXCLUSIVE);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_CTL(epoll, EPOLL_CTL_DEL, a, 0);
    EPOLL_ADD(epoll, a, EPOLLIN | EPOLLEXCLUSIVE | EPOLLET);
    EPOLL_WAIT(epoll, 10, 0);
    EPOLL_WAIT(epoll, 10, 0);
}

static int shared, sets[2];
static int woken;

static atomic_int is_sent;

/* On a machine with much other work the time may be over before the datagram is sent: then it says nothing. */
static void *wait_on(void *argument) {
    struct epoll_event event;
    int ready, was_sent;
    do was_sent = is_sent, ready = epoll_wait(*(int *)argument, &event, 1, 200);
    while (ready == 0 && !was_sent);
    if (ready > 0) __atomic_fetch_add(&woken, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void wait_in_two_threads(int one, int two) {
    sets[0] = one, sets[1] = two, is_sent = 0;
    struct thread *first = start_thread("first", wait_on, &sets[0]), *second = start_thread("second", wait_on, &sets[1]);
    let_it_wait();
    FAR_SENDS(.to = PORT(0), .size = 3);
    is_sent = 1;
    join_thread(first);
    join_thread(second);
}

SCRIPT(not_exclusive_wakes_both_sets) {
    shared = bound(0);
    int one = EPOLL(), two = EPOLL();
    EPOLL_ADD(one, shared, EPOLLIN);
    EPOLL_ADD(two, shared, EPOLLIN);
    wait_in_two_threads(one, two);
    say("woken: %d", woken);
}

SCRIPT(exclusive_wakes_at_least_one) {
    shared = bound(0);
    int one = EPOLL(), two = EPOLL();
    EPOLL_ADD(one, shared, EPOLLIN | EPOLLEXCLUSIVE);
    EPOLL_ADD(two, shared, EPOLLIN | EPOLLEXCLUSIVE);
    wait_in_two_threads(one, two);
    say("woken: %s", woken >= 1 ? "at least one" : "none");
}

SCRIPT(edge_wakes_one_of_two_threads) {
    shared = bound(0);
    int one = EPOLL();
    EPOLL_ADD(one, shared, EPOLLIN | EPOLLET);
    wait_in_two_threads(one, one);
    say("woken: %d", woken);
}

SCRIPT(oneshot_wakes_one_of_two_threads) {
    shared = bound(0);
    int one = EPOLL();
    EPOLL_ADD(one, shared, EPOLLIN | EPOLLONESHOT);
    wait_in_two_threads(one, one);
    say("woken: %d", woken);
}
