/* Handlers that make calls of their own on the sockets that they interrupted: whatever the thread was doing, they work as if
 * they had come between two calls. Each is raised while its thread waits, and again and again while it sends and receives. */
#include "script.h"

#include <ucontext.h>

static int shared, other, round_number;
static volatile int ran;

/* Sends and takes the answer, until the handler has run so often. How many were answered rightly. */
static int echo_until(int fd, int runs) {
    int good = 0, all = 0;
    char data[10];
    while (ran < runs) {
        all++;
        if (sendto(fd, "x", 1, 0, V4(FAR, ECHO_PORT)) == 1 && recv(fd, data, sizeof data, 0) == 1 && data[0] == 'x') good++;
    }
    alarms_us_apart(0);
    return good == all;
}

/* With a time, as an answer may be lost: what is asked for is that none is. */
static int answered(int fd) {
    char data[10];
    struct timeval time = { 2, 0 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    return sendto(fd, "ask", 3, 0, V4(FAR, ECHO_PORT)) == 3 && recv(fd, data, sizeof data, 0) == 3;
}

static volatile int answers;
static void on_signal_ask(int number) {
    int errno_before = errno;
    (void)number;
    answers += answered(other);
    ran++;
    alarm_again();
    errno = errno_before;
}

SCRIPT(asks_and_waits_for_the_answer) {
    shared = bound(0);
    other = bound(1);
    handle(SIGALRM, on_signal_ask, SA_RESTART);
    for (int i = 0; i < 10; i++) {
        alarm_in_ms(5);
        FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
        RECV(shared, 10, 0);
    }
    say("%d runs, %d answers", ran, answers);
}

SCRIPT(asks_on_the_socket_that_the_call_waits_at) {
    shared = other = bound(0);
    handle(SIGALRM, on_signal_ask, 0);
    for (int i = 0; i < 10; i++) {
        alarm_in_ms(5);
        RECV(shared, 10, 0);
    }
    say("%d runs, %d answers", ran, answers);
}

SCRIPT(asks_in_the_middle_of_calls) {
    shared = bound(0);
    other = bound(1);
    handle(SIGALRM, on_signal_ask, SA_RESTART);
    alarms_us_apart(2000);
    say("all good %d", echo_until(shared, 50));
    say("all answered %d", answers == ran);
}

/* Closes and opens the other socket, each time with the next port. */
static void on_signal_close(int number) {
    int errno_before = errno;
    (void)number;
    close(other);
    other = socket(AF_INET, SOCK_DGRAM, 0);
    bind(other, V4(NEAR, PORT(1 + ++ran % 10)));
    alarm_again();
    errno = errno_before;
}

SCRIPT(closes_and_opens_in_the_middle_of_calls) {
    shared = bound(0);
    other = bound(1);
    handle(SIGALRM, on_signal_close, SA_RESTART);
    alarms_us_apart(3000);
    say("all good %d", echo_until(shared, 20));
    close(other);
    /* Nobody's ports are nobody's: each is free, and what comes there is refused or found by who binds it next. */
    for (int i = 1; i <= 10; i++) {
        int fd = bound(i);
        FAR_SENDS(.to = PORT(i), .size = 3, .count = 2);
        RECV(fd, 10, MSG_DONTWAIT);
        RECV(fd, 10, MSG_DONTWAIT);
        CALL(close(fd));
    }
}

static void on_signal_close_shared(int number) {
    int errno_before = errno;
    (void)number;
    close(shared);
    ran++;
    errno = errno_before;
}

SCRIPT(closes_the_socket_that_the_call_waits_at) {
    handle(SIGALRM, on_signal_close_shared, 0);
    for (round_number = 0; round_number < 8; round_number++) {
        shared = bound(round_number);
        alarm_in_ms(5);
        RECV(shared, 10, 0);
        /* The kernel has the port again. */
        int fd = bound(round_number);
        FAR_SENDS(.to = PORT(round_number), .size = 3, .count = 2);
        RECV(fd, 10, MSG_DONTWAIT);
        RECV(fd, 10, MSG_DONTWAIT);
        CALL(close(fd));
    }
}

static void on_signal_connect(int number) {
    int errno_before = errno;
    (void)number;
    ran++;
    connect(other, V4(FAR, PORT(8 + ran % 2)));
    alarm_again();
    errno = errno_before;
}

SCRIPT(connects_elsewhere_in_the_middle_of_calls) {
    far_opens(PORT(8));
    far_opens(PORT(9));
    shared = bound(0);
    other = bound(1);
    handle(SIGALRM, on_signal_connect, SA_RESTART);
    for (int i = 0; i < 4; i++) {
        alarms_us_apart(1000);
        int good = echo_until(shared, ran + 5 + i % 2);
        connect(other, V4(FAR, PORT(8 + i % 2)));
        say("all good %d", good);
        SEND(other, "here", 0);
        far_receives(PORT(8 + i % 2));
    }
    handle(SIGALRM, on_signal_connect, 0);
    ran = 0;
    alarm_in_ms(5);
    RECV(shared, 10, 0);
    SEND(other, "there", 0);
    far_receives(PORT(9));
}

static void on_signal_set(int number) {
    int errno_before = errno, on = 1;
    (void)number;
    ran++;
    setsockopt(other, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    fcntl(other, F_SETFL, O_NONBLOCK);
    errno = errno_before;
}

SCRIPT(sets_options_while_a_call_waits) {
    shared = bound(0);
    other = bound(1);
    handle(SIGALRM, on_signal_set, 0);
    alarm_in_ms(5);
    RECV(shared, 10, 0);
    RECV(other, 10, 0);
    FAR_SENDS(.to = PORT(1), .size = 3);
    RECVMSG(other, 10, 200, 0);
    /* Of the socket that the call waits at: seen by the next one. */
    other = shared;
    alarm_in_ms(5);
    RECV(shared, 10, 0);
    RECV(shared, 10, 0);
}

static void on_signal_shut_down(int number) {
    int errno_before = errno;
    (void)number;
    ran++;
    shutdown(other, SHUT_RD);
    errno = errno_before;
}

SCRIPT(shuts_down_while_a_call_waits) {
    shared = bound(0);
    other = bound(1);
    CALL(connect(other, V4(FAR, ECHO_PORT)));
    handle(SIGALRM, on_signal_shut_down, 0);
    alarm_in_ms(5);
    RECV(shared, 10, 0);
    RECV(other, 10, 0);
    CALL(connect(shared, V4(FAR, ECHO_PORT)));
    other = shared;
    handle(SIGALRM, on_signal_shut_down, SA_RESTART);
    alarm_in_ms(5);
    RECV(shared, 10, 0);
}

/* What a handler is told is what the kernel tells without us. */
static char stack_memory[65536] __attribute__((aligned(16)));

static void informed(int number, siginfo_t *info, void *context) {
    int errno_before = errno;
    char here;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    ucontext_t *user = context;
    say("signal %d, code %d, value %d, own stack %d", number == SIGRTMIN ? 0 : number, info->si_code,
        info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, &here >= stack_memory && &here < stack_memory + sizeof stack_memory);
    say("blocked USR1 %d USR2 %d self %d; to be blocked USR1 %d USR2 %d self %d", sigismember(&mask, SIGUSR1),
        sigismember(&mask, SIGUSR2), sigismember(&mask, number), sigismember(&user->uc_sigmask, SIGUSR1),
        sigismember(&user->uc_sigmask, SIGUSR2), sigismember(&user->uc_sigmask, number));
    errno = errno_before;
}

static void inform(int number, int flags) {
    struct sigaction action = { .sa_sigaction = informed, .sa_flags = flags | SA_SIGINFO };
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(number, &action, NULL);
}

static void show_mask(void) {
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    say("blocked after: RTMIN %d USR1 %d USR2 %d ALRM %d", sigismember(&mask, SIGRTMIN), sigismember(&mask, SIGUSR1),
        sigismember(&mask, SIGUSR2), sigismember(&mask, SIGALRM));
}

static pthread_t waiter;
static void *queue_soon(void *value) {
    sleep_ms(20);
    pthread_sigqueue(waiter, SIGRTMIN, (union sigval){ .sival_int = (int)(long)value });
    return NULL;
}

SCRIPT(is_told_as_by_the_kernel) {
    static const int flags[] = { 0, SA_ONSTACK, SA_NODEFER, SA_RESETHAND };
    stack_t stack = { .ss_sp = stack_memory, .ss_size = sizeof stack_memory };
    CALL(sigaltstack(&stack, NULL));
    shared = bound(0);
    waiter = pthread_self();
    for (int i = 0; i < 4; i++) {
        inform(SIGRTMIN, flags[i]);
        struct thread *thread = start_thread("sender", queue_soon, (void *)(long)(40 + i));
        RECV(shared, 10, 0);
        join_thread(thread);
        show_mask();
    }
    struct sigaction now;
    CALL(sigaction(SIGRTMIN, NULL, &now));
    say("reset to the default %d, flags %x", now.sa_handler == SIG_DFL, now.sa_flags & ~0x4000000);
}

SCRIPT(mask_of_a_waiting_call_is_that_of_its_handlers) {
    shared = bound(0);
    inform(SIGALRM, 0);
    sigset_t blocked, during;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigemptyset(&during);
    sigaddset(&during, SIGUSR1);
    struct pollfd one = { shared, POLLIN, 0 };
    alarm_in_ms(20);
    CALL(ppoll(&one, 1, NULL, &during));
    show_mask();
    alarm_in_ms(20);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(shared, &set);
    CALL(pselect(shared + 1, &set, NULL, NULL, NULL, &during));
    show_mask();
    int epoll = EPOLL();
    EPOLL_ADD(epoll, shared, EPOLLIN);
    struct epoll_event event;
    alarm_in_ms(20);
    CALL(epoll_pwait(epoll, &event, 1, -1, &during));
    show_mask();
    /* Pending before the call. */
    alarm_in_ms(5);
    sleep_ms(20);
    CALL(ppoll(&one, 1, NULL, &during));
    show_mask();
}

static void on_count(int number) { (void)number; ran++; }

/* A call that tells of something lets no handler run that only its mask lets through, and leaves the mask as it was. */
SCRIPT(mask_of_a_call_that_finds_something_lets_no_handler_run) {
    sigset_t blocked, during;
    sigemptyset(&blocked);
    sigemptyset(&during);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    handle(SIGALRM, on_count, 0);
    shared = bound(0);
    int epoll = EPOLL(), found = 0, told_wrongly = 0, unblocked = 0;
    EPOLL_ADD(epoll, shared, EPOLLIN);
    alarm_every_us(200);
    while (found < rounds(3000)) {
        char data[10];
        struct epoll_event event;
        struct pollfd one = { shared, POLLIN, 0 };
        fd_set set;
        sigset_t now;
        int ready, before;
        sendto(shared, "x", 1, 0, V4(FAR, ECHO_PORT));
        do {
            before = ran;
            FD_ZERO(&set);
            FD_SET(shared, &set);
            if (found % 3 == 0) ready = ppoll(&one, 1, NULL, &during);
            else if (found % 3 == 1) ready = pselect(shared + 1, &set, NULL, NULL, NULL, &during);
            else ready = epoll_pwait(epoll, &event, 1, -1, &during);
            if (ready == 1 && ran != before) told_wrongly++;
            sigprocmask(SIG_SETMASK, NULL, &now);
            if (!sigismember(&now, SIGALRM)) unblocked++;
        } while (ready != 1);
        found += recv(shared, data, sizeof data, 0) == 1;
    }
    alarm_every_us(0);
    say("handlers in calls that found something %d, unblocked %d, ran some %d", told_wrongly, unblocked, ran > 0);
}

static volatile int ones, twos;
static void on_two(int number) {
    if (number == SIGUSR1) ones++;
    else twos++;
}

static void *send_two(void *unused) {
    sleep_ms(20);
    pthread_kill(waiter, SIGUSR1);
    pthread_kill(waiter, SIGUSR2);
    return unused;
}

SCRIPT(two_signals_run_both_handlers) {
    shared = bound(0);
    handle(SIGUSR1, on_two, SA_RESTART);
    handle(SIGUSR2, on_two, SA_RESTART);
    waiter = pthread_self();
    struct thread *thread = start_thread("sender", send_two, NULL);
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 60);
    RECV(shared, 10, 0);
    join_thread(thread);
    say("one %d, two %d", ones, twos);
    show_mask();
}

static int values[64];
static volatile int value_count;
static void on_value(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    if (value_count < 64) values[value_count++] = info->si_value.sival_int;
}

static void *queue_many(void *unused) {
    for (int i = 0; i < 64; i++) pthread_sigqueue(waiter, SIGRTMIN, (union sigval){ .sival_int = i });
    return unused;
}

SCRIPT(queued_signals_run_in_their_order) {
    struct sigaction action = { .sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGRTMIN, &action, NULL);
    shared = bound(0);
    waiter = pthread_self();
    int misplaced = 0;
    for (int round = 0; round < 5; round++) {
        value_count = 0;
        struct thread *thread = start_thread("sender", queue_many, NULL);
        while (value_count < 64) {
            struct pollfd one = { shared, POLLIN, 0 };
            poll(&one, 1, 1);
        }
        join_thread(thread);
        for (int i = 0; i < 64; i++) misplaced += values[i] != i;
    }
    say("misplaced %d", misplaced);
}

SCRIPT(recvmmsg_interrupted_tells_what_came) {
    char data[4][10];
    struct iovec parts[4];
    struct mmsghdr messages[4];
    for (int restarts = 0; restarts < 2; restarts++) {
        /* The kernel leaves a number of its own at the socket, which its next call tells (`do_recvmmsg`). */
        shared = bound(restarts);
        handle(SIGALRM, on_count, restarts ? SA_RESTART : 0);
        memset(messages, 0, sizeof messages);
        for (int i = 0; i < 4; i++) {
            parts[i] = (struct iovec){ data[i], 10 };
            messages[i].msg_hdr = (struct msghdr){ .msg_iov = parts + i, .msg_iovlen = 1 };
        }
        FAR_SENDS(.to = PORT(restarts), .size = 3, .count = 2);
        alarm_in_ms(30);
        CALL(recvmmsg(shared, messages, 4, 0, NULL));
    }
    shared = bound(2);
    alarm_in_ms(30);
    FAR_SENDS(.to = PORT(2), .size = 3, .after_ms = 60);
    CALL(recvmmsg(shared, messages, 1, 0, NULL));
    say("%d runs", ran);
}

/* Servers that end by a signal: a handler sets a flag, the loop looks at it. Requests come all the time. */
static volatile sig_atomic_t stop;
static void on_stop(int number) { (void)number; stop = 1; }

static void *ask_until_stopped(void *unused) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    (void)unused;
    while (!stop) {
        sendto(fd, "x", 1, MSG_DONTWAIT, V4(FAR, ECHO_PORT));
        usleep(200);
    }
    close(fd);
    return NULL;
}

static void *stop_later(void *pid) {
    sleep_ms(100);
    kill((pid_t)(long)pid, SIGTERM);
    return NULL;
}

static void serve(int shape) {
    char data[100];
    struct sockaddr_storage from;
    struct pollfd one = { shared, POLLIN, 0 };
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = shared };
    epoll_ctl(epoll, EPOLL_CTL_ADD, shared, &event);
    while (!stop) {
        socklen_t length = sizeof from;
        int ready = 1;
        fd_set set;
        FD_ZERO(&set);
        FD_SET(shared, &set);
        struct timeval time = { 10, 0 };
        if (shape == 1) ready = poll(&one, 1, 10000);
        if (shape == 2) ready = select(shared + 1, &set, NULL, NULL, &time);
        if (shape == 3) ready = epoll_wait(epoll, &event, 1, -1);
        if (ready <= 0) continue;
        if (recvfrom(shared, data, sizeof data, shape ? MSG_DONTWAIT : 0, (struct sockaddr *)&from, &length) < 0) continue;
        sendto(shared, data, 1, 0, (struct sockaddr *)&from, length);
    }
    close(epoll);
}

static void *keep_asking(void *unused) {
    /* The socket gets its own answers back: an echo of each is a request to it. */
    for (int i = 0; i < 4; i++) sendto(shared, "x", 1, 0, V4(FAR, ECHO_PORT));
    return unused;
}

SCRIPT(servers_end_by_a_flag_of_a_handler) {
    static const int flags[] = { 0, SA_RESTART };
    shared = bound(0);
    for (int shape = 0; shape < 4; shape++) {
        for (int i = 0; i < 2; i++) {
            handle(SIGTERM, on_stop, flags[i]);
            stop = 0;
            keep_asking(NULL);
            struct thread *stopper, *asker;
            say("shape %d", shape);
            // The time to start the threads is part of what is waited.
            WAITS(100, (stopper = start_thread("stopper", stop_later, (void *)(long)getpid()),
                        asker = start_thread("asker", ask_until_stopped, NULL), serve(shape), 0));
            join_thread(stopper);
            join_thread(asker);
        }
    }
}
