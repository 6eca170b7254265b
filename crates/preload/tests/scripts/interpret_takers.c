/* Calls that are left in the middle, and what they took: in the end each datagram was taken once, by whomever. */
#include "interpret.h"

#include <stdatomic.h>

#define POISON 0xee
#define ENTRIES 400
#define ENTRY_BYTES 12

static struct ledger {
    char texts[ENTRIES][ENTRY_BYTES];
    atomic_int entries;
} *ledger;

void make_ledger(void) {
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ledger == MAP_FAILED) abort();
}

struct sockaddr *far_address(int slot, int port) {
    return families[slot] == AF_INET6 ? (struct sockaddr *)v6(FAR6, port) : (struct sockaddr *)v4(FAR, port);
}

socklen_t far_length(int slot) {
    return families[slot] == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void poison(struct taker *taker) { memset(taker->buffers, POISON, sizeof taker->buffers); }

void begin_taking(struct taker *taker, int slot, int call) {
    memset(taker, 0, sizeof *taker);
    poison(taker);
    taker->slot = slot, taker->call = call, taker->epoll = -1;
    if (call == 9 || call == 10) {
        struct epoll_event event = { .events = EPOLLIN };
        taker->epoll = epoll_create1(0);
        CALL(epoll_ctl(taker->epoll, EPOLL_CTL_ADD, sockets[slot], &event));
    }
}

void end_taking(struct taker *taker) {
    if (taker->epoll >= 0) close(taker->epoll);
}

int is_sender(const struct taker *taker) { return taker->call >= RECEIVERS; }

void put_down(struct taker *taker) {
    for (int i = 0; i < BUFFERS; i++) {
        if (taker->buffers[i][0] == POISON) continue;
        int at = atomic_fetch_add(&ledger->entries, 1);
        size_t length = 0;
        while (length < ENTRY_BYTES - 1 && taker->buffers[i][length] != POISON) length++;
        if (at < ENTRIES) memcpy(ledger->texts[at], taker->buffers[i], length);
    }
    poison(taker);
}

void put_down_whole(struct taker *taker) {
    taker->is_putting_down = 1;
    atomic_signal_fence(memory_order_seq_cst);
    put_down(taker);
    atomic_signal_fence(memory_order_seq_cst);
    taker->is_putting_down = 0;
}

/* Until a datagram may be there, by the taker's call. */
static void wait_for_one(struct taker *taker, int fd) {
    struct pollfd readable = { fd, POLLIN, 0 };
    struct epoll_event event;
    sigset_t mask;
    fd_set set;
    sigemptyset(&mask);
    FD_ZERO(&set);
    if (fd >= 0) FD_SET(fd, &set);
    switch (taker->call) {
    case 5: poll(&readable, 1, -1); break;
    case 6: ppoll(&readable, 1, NULL, &mask); break;
    /* Without a descriptor these would wait for a signal alone. */
    case 7: if (fd >= 0) select(fd + 1, &set, NULL, NULL, NULL); break;
    case 8: if (fd >= 0) pselect(fd + 1, &set, NULL, NULL, NULL, &mask); break;
    case 9: epoll_wait(taker->epoll, &event, 1, -1); break;
    case 10: epoll_pwait(taker->epoll, &event, 1, -1, &mask); break;
    }
}

static void send_next(struct taker *taker, int fd) {
    char texts[3][8];
    struct iovec parts[3];
    struct mmsghdr messages[3] = { 0 };
    int first = taker->begun, count = taker->call == 13 ? 3 : 1;
    if (first + count > SENDS) {
        sleep_ms(1);
        return;
    }
    struct sockaddr_storage to;
    memcpy(&to, far_address(taker->slot, PORT(SINK)), far_length(taker->slot));
    for (int i = 0; i < count; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", first + i);
        parts[i] = (struct iovec){ texts[i], strlen(texts[i]) };
        messages[i].msg_hdr = (struct msghdr){ &to, far_length(taker->slot), parts + i, 1, NULL, 0, 0 };
    }
    taker->begun = first + count;
    int sent = taker->call == 13 ? sendmmsg(fd, messages, count, MSG_NOSIGNAL)
                                 : sendto(fd, texts[0], strlen(texts[0]), MSG_NOSIGNAL, (struct sockaddr *)&to, far_length(taker->slot)) > 0;
    for (int i = 0; i < count; i++) taker->ends[first + i] = i < sent ? SENT : FAILED;
}

void take(struct taker *taker) {
    int fd = sockets[taker->slot];
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    struct iovec parts[BUFFERS];
    struct mmsghdr messages[BUFFERS] = { 0 };
    for (int i = 0; i < BUFFERS; i++) {
        parts[i] = (struct iovec){ taker->buffers[i], BUFFER_BYTES };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = parts + i, .msg_iovlen = 1 };
    }
    unsigned char *first = taker->buffers[0];
    switch (taker->call) {
    case 0: recv(fd, first, BUFFER_BYTES, 0); break;
    case 1: recvfrom(fd, first, BUFFER_BYTES, 0, (struct sockaddr *)&from, &length); break;
    case 2: read(fd, first, BUFFER_BYTES); break;
    case 3: recvmsg(fd, &messages[0].msg_hdr, 0); break;
    /* Without the flag the kernel keeps an error of its own where a signal comes behind the first (`do_recvmmsg`). */
    case 4: recvmmsg(fd, messages, BUFFERS, MSG_WAITFORONE, NULL); break;
    case 11: recv(fd, first, BUFFER_BYTES, MSG_DONTWAIT); break;
    case 12:
    case 13: send_next(taker, fd); break;
    default:
        wait_for_one(taker, fd);
        recv(fd, first, BUFFER_BYTES, MSG_DONTWAIT);
    }
    put_down_whole(taker);
}

void take_what_is_there(struct taker *taker, int slot) {
    recv(sockets[slot], taker->buffers[0], BUFFER_BYTES, MSG_DONTWAIT);
    put_down(taker);
}

void take_the_rest(void) {
    static struct taker taker;
    settle();
    poison(&taker);
    for (int i = 0; i < SLOTS; i++) {
        /* An error that an earlier send caused comes before what is there; a socket that was shut down says 0 for ever. */
        for (int left = 300; sockets[i] >= 0 && left > 0; left--) {
            errno = 0;
            ssize_t got = recv(sockets[i], taker.buffers[0], BUFFER_BYTES, MSG_DONTWAIT);
            put_down(&taker);
            if (got < 0 && (errno == EAGAIN || errno == EBADF)) break;
        }
    }
}

static int compare_entries(const void *left, const void *right) { return strcmp(left, right); }

void show_ledger(void) {
    static char text[ENTRIES * (ENTRY_BYTES + 1) + 1];
    int count = ledger->entries < ENTRIES ? ledger->entries : ENTRIES;
    size_t at = 0;
    qsort(ledger->texts, count, ENTRY_BYTES, compare_entries);
    text[0] = 0;
    for (int i = 0; i < count; i++) at += sprintf(text + at, " %.*s", ENTRY_BYTES - 1, ledger->texts[i]);
    say("taken:%s", text);
    memset(ledger, 0, sizeof *ledger);
}

void show_sends(struct taker *taker) {
    int counts[SENDS] = { 0 }, wrong = 0;
    if (!is_sender(taker)) return;
    settle();
    for (;;) {
        struct peer_request request = { .command = PEER_RECEIVE, .family = families[taker->slot], .from = PORT(SINK) };
        struct peer_reply reply = far_asks(&request);
        if (reply.length < 0) break;
        reply.text[reply.length] = 0;
        int number = atoi(reply.text);
        if (number >= 0 && number < SENDS) counts[number]++;
    }
    /* In the other place nothing leads to the far end. */
    for (int i = 0; i < taker->begun && places[taker->slot] == 0; i++) {
        int least = taker->ends[i] == SENT, most = taker->ends[i] != FAILED;
        if (counts[i] >= least && counts[i] <= most) continue;
        if (wrong++ < 5) say("datagram %d of %d, end %d: arrived %d times", i, taker->begun, taker->ends[i], counts[i]);
    }
    say("sends: %d wrong", wrong);
}

pthread_t start_quiet_thread(void *(*function)(void *), void *argument) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, function, argument) != 0) abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return thread;
}

static pthread_t neighbour, feeder;
static atomic_int neighbour_stops;
static int neighbour_fd = -1, asked, answered;

static void *ask_all_the_time(void *unused) {
    char data[10];
    while (!neighbour_stops) {
        struct pollfd readable = { neighbour_fd, POLLIN, 0 };
        asked++;
        if (sendto(neighbour_fd, "n", 1, 0, V4(FAR, ECHO_PORT)) != 1) continue;
        if (poll(&readable, 1, 2000) == 1 && recv(neighbour_fd, data, sizeof data, 0) == 1) answered++;
    }
    return unused;
}

void start_neighbour(void) {
    asked = answered = 0, neighbour_stops = 0;
    neighbour_fd = bound(NEIGHBOUR);
    neighbour = start_quiet_thread(ask_all_the_time, NULL);
}

int has_neighbour(void) { return neighbour_fd >= 0; }

void stop_neighbour(void) {
    if (neighbour_fd < 0) return;
    neighbour_stops = 1;
    pthread_join(neighbour, NULL);
    say("another thread: %s", asked == answered ? "all answered" : "not all answered");
    close(neighbour_fd);
    neighbour_fd = -1;
}

static struct peer_request food(int slot, int count, char letter) {
    return (struct peer_request){ .command = PEER_SEND, .family = families[slot], .from = PORT(FIRST_FAR),
                                  .to = PORT(ports[slot] >= 0 ? ports[slot] : slot), .size = 3, .count = count, .letter = letter };
}

void feed(int slot, int count) {
    struct peer_request request = food(slot, count, 'a');
    far_asks(&request);
    settle();
}

static struct peer_request fed;
static void *feed_slowly(void *unused) {
    far_asks(&fed);
    return unused;
}

static int is_feeding;
void start_feeding(int slot, int count, int gap_us) {
    fed = food(slot, count, 'p');
    fed.gap_us = gap_us;
    feeder = start_quiet_thread(feed_slowly, NULL);
    is_feeding = 1;
}

void stop_feeding(void) {
    if (is_feeding) pthread_join(feeder, NULL);
    is_feeding = 0;
}

int moment_us(int index) {
    static const int moments[] = { 1, 4, 10, 20, 40, 80, 150, 300, 600, 1500, 5000, 15000 };
    int us = moments[index % LENGTH_OF(moments)];
    return us + (int)(now_us() % 7) * us / 7;
}

void spin_us(int us) {
    long end = now_us() + us;
    while (now_us() < end) {}
}
