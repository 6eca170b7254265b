/* Connections of TCP that several threads use at once. */
#include "script.h"

#include <netinet/tcp.h>
#include <pthread.h>

static int shared, other, set;

static void *receives_much(void *argument) {
    (void)argument;
    RECEIVE_STREAM(shared, 1000000);
    return NULL;
}

EACH_WAY(one_sends_while_another_receives_much) {
    exchange_stream(shared = fd);
    struct thread *thread = start_thread("receives", receives_much, NULL);
    send_stream(fd, 1000000);
    join_thread(thread);
    exchange_stream(fd);
    CALL(close(fd));
    far_ended();
}

static void *receives_one(void *argument) {
    (void)argument;
    RECEIVE_STREAM(shared, 1);
    return NULL;
}

SCRIPT(two_receive_and_one_byte_each_comes) {
    exchange_stream(shared = connected_stream(AF_INET));
    struct thread *threads[2];
    for (int i = 0; i < 2; i++) threads[i] = start_thread("receives", receives_one, NULL);
    let_it_wait();
    SEND(shared, "x", 0);
    sleep_ms(20);
    SEND(shared, "x", 0);
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    exchange_stream(shared);
}

static void *sends_letters(void *argument) {
    char letters[100];
    memset(letters, *(char *)argument, sizeof letters);
    for (int i = 0; i < 200; i++) {
        long sent = send(shared, letters, sizeof letters, MSG_NOSIGNAL);
        if (sent != (long)sizeof letters) say("send %d: %ld", i, sent);
    }
    return NULL;
}

/* Each call's bytes stay together, in whatever order the calls come. */
SCRIPT(three_send_at_once) {
    exchange_stream(shared = connected_stream(AF_INET));
    struct thread *threads[3];
    static char names[] = "abc";
    static char data[60000];
    for (int i = 0; i < 3; i++) threads[i] = start_thread("sends", sends_letters, &names[i]);
    long received = 0;
    while (received < (long)sizeof data) {
        long last = recv(shared, data + received, sizeof data - received, 0);
        if (last <= 0) break;
        received += last;
    }
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
    int torn = 0, of[256] = { 0 };
    for (long i = 0; i < received; i++) {
        of[(unsigned char)data[i]]++;
        if (i % 100 && data[i] != data[i - 1]) torn++;
    }
    say("%ld bytes, %d of a, %d of b, %d of c, %d torn", received, of['a'], of['b'], of['c'], torn);
    exchange_stream(shared);
}

static void *polls(void *argument) {
    (void)argument;
    POLL(3000, { shared, POLLIN, 0 }, { other, POLLIN, 0 });
    return NULL;
}

SCRIPT(one_polls_two_connections_of_another) {
    exchange_stream(shared = connected_stream(AF_INET));
    exchange_stream(other = connected_stream(AF_INET));
    for (int i = 0; i < 3; i++) {
        struct thread *thread = start_thread("polls", polls, NULL);
        let_it_wait();
        SEND(i % 2 ? shared : other, "x", 0);
        join_thread(thread);
        RECEIVE_STREAM(i % 2 ? shared : other, 1);
    }
}

static void *waits_in_the_set(void *argument) {
    (void)argument;
    EPOLL_WAIT(set, 4, 3000);
    return NULL;
}

SCRIPT(connection_comes_into_a_set_that_another_waits_for) {
    set = EPOLL();
    exchange_stream(shared = connected_stream(AF_INET));
    struct thread *thread = start_thread("waits", waits_in_the_set, NULL);
    let_it_wait();
    EPOLL_ADD(set, shared, EPOLLIN);
    sleep_ms(30);
    SEND(shared, "x", 0);
    join_thread(thread);
    RECEIVE_STREAM(shared, 1);
}

SCRIPT(connection_with_bytes_comes_into_a_set_that_another_waits_for) {
    set = EPOLL();
    exchange_stream(shared = connected_stream(AF_INET));
    SEND(shared, "x", 0);
    sleep_ms(30);
    struct thread *thread = start_thread("waits", waits_in_the_set, NULL);
    let_it_wait();
    EPOLL_ADD(set, shared, EPOLLIN | EPOLLET);
    join_thread(thread);
    EPOLL_WAIT(set, 4, 0);
    RECEIVE_STREAM(shared, 1);
}

SCRIPT(registration_changes_while_another_waits) {
    set = EPOLL();
    exchange_stream(shared = connected_stream(AF_INET));
    EPOLL_ADD(set, shared, 0);
    SEND(shared, "x", 0);
    sleep_ms(30);
    struct thread *thread = start_thread("waits", waits_in_the_set, NULL);
    let_it_wait();
    EPOLL_CTL(set, EPOLL_CTL_MOD, shared, EPOLLIN);
    join_thread(thread);
    RECEIVE_STREAM(shared, 1);
}

static void *waits_for_edges(void *argument) {
    (void)argument;
    int edges = 0;
    struct epoll_event event;
    char data[64];
    long received = 0;
    while (received < 300 && epoll_wait(set, &event, 1, 3000) == 1) {
        edges++;
        long last;
        while ((last = recv(event.data.fd, data, sizeof data, MSG_DONTWAIT)) > 0) received += last;
    }
    say("%ld bytes, by edges: %d", received, edges > 0);
    return NULL;
}

SCRIPT(edges_are_served_by_one_while_another_sends) {
    set = EPOLL();
    exchange_stream(shared = connected_stream(AF_INET));
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = shared };
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, shared, &event));
    struct thread *thread = start_thread("serves", waits_for_edges, NULL);
    for (int i = 0; i < 100; i++) {
        if (send(shared, "abc", 3, 0) != 3) say("send %d", i);
        if (i % 10 == 0) sleep_ms(2);
    }
    join_thread(thread);
    exchange_stream(shared);
}

static void *receives_until_the_end(void *argument) {
    (void)argument;
    RECEIVE_STREAM(shared, 100);
    return NULL;
}

SCRIPT(shutdown_of_reading_ends_the_receive_of_another) {
    exchange_stream(shared = connected_stream(AF_INET));
    struct thread *thread = start_thread("receives", receives_until_the_end, NULL);
    let_it_wait();
    CALL(shutdown(shared, SHUT_RD));
    join_thread(thread);
    SEND(shared, "x", MSG_NOSIGNAL);
}

SCRIPT(receive_goes_on_when_the_number_is_closed_by_another) {
    exchange_stream(shared = connected_stream(AF_INET));
    other = CALL(dup(shared));
    struct thread *thread = start_thread("receives", receives_one, NULL);
    let_it_wait();
    CALL(close(shared));
    SEND(other, "x", 0);
    join_thread(thread);
    exchange_stream(other);
}

static void *is_cancelled(void *argument) {
    (void)argument;
    RECEIVE_STREAM(shared, 1);
    say("not reached");
    return NULL;
}

SCRIPT(thread_that_receives_is_cancelled) {
    exchange_stream(shared = connected_stream(AF_INET));
    struct thread *thread = start_thread("receives", is_cancelled, NULL);
    let_it_wait();
    CALL(pthread_cancel(thread_id(thread)));
    join_thread(thread);
    exchange_stream(shared);
}

static void *waits_in_the_set_until_cancelled(void *argument) {
    (void)argument;
    struct epoll_event event;
    epoll_wait(set, &event, 1, -1);
    say("not reached");
    return NULL;
}

SCRIPT(thread_that_waits_in_a_set_is_cancelled) {
    set = EPOLL();
    exchange_stream(shared = connected_stream(AF_INET));
    EPOLL_ADD(set, shared, EPOLLIN);
    struct thread *thread = start_thread("waits", waits_in_the_set_until_cancelled, NULL);
    let_it_wait();
    CALL(pthread_cancel(thread_id(thread)));
    join_thread(thread);
    SEND(shared, "x", 0);
    EPOLL_WAIT(set, 4, 1000);
    RECEIVE_STREAM(shared, 1);
}

static void *has_a_connection(void *argument) {
    (void)argument;
    int fd = connected_stream(AF_INET);
    exchange_stream(fd);
    order_far(fd, "!s20000.");
    RECEIVE_STREAM(fd, 20000);
    CALL(close(fd));
    return NULL;
}

SCRIPT(threads_that_come_and_go) {
    for (int i = 0; i < 10; i++) join_thread(start_thread("has one", has_a_connection, NULL));
}

static void *goes_on_with_it(void *argument) {
    (void)argument;
    exchange_stream(shared);
    return NULL;
}

SCRIPT(connection_goes_from_thread_to_thread) {
    exchange_stream(shared = connected_stream(AF_INET));
    for (int i = 0; i < 5; i++) {
        join_thread(start_thread("goes on", goes_on_with_it, NULL));
        exchange_stream(shared);
    }
}
