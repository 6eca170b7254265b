/* Epoll sets inside epoll sets, and in poll and select. */
#include "script.h"

SCRIPT(inner_set_is_readable) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN);
    EPOLL_WAIT(outer, 10, 0);
    POLL(0, { inner, POLLIN | POLLOUT, 0 }, { outer, POLLIN, 0 });
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
    POLL(0, { inner, POLLIN | POLLOUT, 0 }, { outer, POLLIN, 0 });
    SELECT(0, READS(inner, outer), WRITES(inner), EXCEPTS());
    EPOLL_WAIT(inner, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
    POLL(0, { inner, POLLIN, 0 }, { outer, POLLIN, 0 });
}

SCRIPT(wakes_through_both) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, EPOLL_WAIT(outer, 10, 1000));
    RECV(a, 10, 0);
    WAITS(30, EPOLL_WAIT(outer, 10, 30));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, POLL(1000, { outer, POLLIN, 0 }));
    RECV(a, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    WAITS(40, SELECT(1000, READS(inner), WRITES(), EXCEPTS()));
}

SCRIPT(inner_edge) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN | EPOLLET);
    EPOLL_ADD(outer, inner, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_WAIT(inner, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
}

SCRIPT(outer_edge) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN | EPOLLET);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_WAIT(inner, 10, 0);
    RECV(a, 10, 0);
    RECV(a, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
}

SCRIPT(socket_in_both_sets) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_ADD(outer, a, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    say("ready in outer: %d", ({ struct epoll_event events[4]; epoll_wait(outer, events, 4, 0); }));
    RECV(a, 10, 0);
    EPOLL_WAIT(outer, 10, 0);
}

SCRIPT(loops_are_refused) {
    int one = EPOLL(), two = EPOLL(), a = bound(0);
    EPOLL_ADD(one, two, EPOLLIN);
    EPOLL_ADD(two, one, EPOLLIN);
    EPOLL_ADD(two, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(one, 10, 0);
    int chain[7];
    for (int i = 0; i < 7; i++) chain[i] = epoll_create1(0);
    for (int i = 0; i < 6; i++) EPOLL_ADD(chain[i + 1], chain[i], EPOLLIN);
    EPOLL_ADD(chain[0], a, EPOLLIN);
    EPOLL_WAIT(chain[3], 10, 0);
}

SCRIPT(closing_the_inner_set) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_ADD(outer, inner, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(close(inner));
    EPOLL_WAIT(outer, 10, 0);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(socket_added_later_to_the_inner_set) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL();
    EPOLL_ADD(outer, inner, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_ADD(inner, a, EPOLLIN);
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_CTL(inner, EPOLL_CTL_DEL, a, 0);
    EPOLL_WAIT(outer, 10, 0);
}

static void *waits_at(void *set) {
    EPOLL_WAIT((int)(intptr_t)set, 10, 2000);
    return NULL;
}

/* The outer one was asked before, when nothing of anybody's was in it. */
SCRIPT(set_with_a_ready_socket_comes_into_a_set_that_was_asked) {
    int a = bound(0), inner = EPOLL(), outer = EPOLL(), empty = EPOLL();
    EPOLL_ADD(inner, a, EPOLLIN);
    FAR_SENDS(.to = PORT(0), .size = 3);
    POLL(0, { outer, POLLIN, 0 });
    EPOLL_WAIT(outer, 10, 0);
    EPOLL_ADD(outer, inner, EPOLLIN);
    EPOLL_WAIT(outer, 10, 0);
    struct thread *thread = start_thread("waiter", waits_at, (void *)(intptr_t)empty);
    let_it_wait();
    EPOLL_ADD(empty, inner, EPOLLIN);
    join_thread(thread);
}
