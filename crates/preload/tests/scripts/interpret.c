/* Runs the generated sequence of calls in the file `sequence`, a call a line: a word and up to four numbers. Sockets stand
 * in four slots, epoll sets in two; no call waits. */
#include "script.h"

#define SLOTS 4
#define SETS 2
/* Nobody listens at the first of the peer's ports; the next two are open. */
#define FIRST_FAR_PORT 8
#define LISTENING 2

static int sockets[SLOTS] = { -1, -1, -1, -1 }, families[SLOTS], sets[SETS] = { -1, -1 };
static int one, two, three, four;

static void open_socket(void) {
    if (sockets[one] >= 0) return;
    families[one] = two % 3 == 2 ? AF_INET6 : AF_INET;
    sockets[one] = CALL(socket(families[one], SOCK_DGRAM | SOCK_NONBLOCK, 0));
}

static void bind_socket(void) {
    if (families[one] == AF_INET6) CALL(bind(sockets[one], V6(three ? "::" : NEAR6, PORT(two))));
    else CALL(bind(sockets[one], V4(three ? "0.0.0.0" : NEAR, PORT(two))));
}

static void connect_socket(void) {
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int port = two == 3 ? ECHO_PORT : PORT(FIRST_FAR_PORT + two);
    if (two == 4) CALL(connect(sockets[one], &none, sizeof none));
    else if (families[one] == AF_INET6) CALL(connect(sockets[one], V6(FAR6, port)));
    else CALL(connect(sockets[one], V4(FAR, port)));
}

static void send_to(int port) {
    if (families[one] == AF_INET6) CALL(sendto(sockets[one], "datagram", 8, 0, V6(FAR6, port)));
    else CALL(sendto(sockets[one], "datagram", 8, 0, V4(FAR, port)));
    settle();
}

static void send_far(void) {
    send_to(PORT(FIRST_FAR_PORT + two));
    if (two > 0 && sockets[one] >= 0 && errno == 0) {
        if (families[one] == AF_INET6) far_receives6(PORT(FIRST_FAR_PORT + two));
        else far_receives(PORT(FIRST_FAR_PORT + two));
    }
}

static void send_connected(void) {
    CALL(send(sockets[one], "connected", 9, MSG_NOSIGNAL));
    settle();
}

static void send_local(void) {
    if (families[one] == AF_INET6) CALL(sendto(sockets[one], "local", 5, 0, V6(NEAR6, PORT(two))));
    else CALL(sendto(sockets[one], "local", 5, 0, V4(NEAR, PORT(two))));
    settle();
}

static void far_send(void) {
    static const int sizes[] = { 3, 0, 20, 1473 };
    int from = FIRST_FAR_PORT + 1 + two % LISTENING;
    say("to +%d from +%d, %d times %d bytes", one, from, 1 + three % 3, sizes[four % 4]);
    FAR_SENDS(.family = three > 2 ? AF_INET6 : AF_INET, .from = PORT(from), .to = PORT(one),
              .size = sizes[four % 4], .count = 1 + three % 3);
}

static void receive_one(void) {
    static const int flags[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC };
    static const int sizes[] = { 100, 0, 2, 3000 };
    RECVFROM(sockets[one], sizes[three % 4], flags[two % 4]);
}

static void receive_all(void) {
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) RECV(sockets[i], 30, 0);
    }
}

/* Until nothing is there; a socket that was shut down says "0 bytes" for ever. */
static void drain(void) {
    for (int i = 0; i < SLOTS; i++) {
        for (int left = 40; sockets[i] >= 0 && left > 0 && RECV(sockets[i], 30, MSG_DONTWAIT) >= 0; left--) {}
    }
}

static void poll_all(void) {
    POLL(0, { sockets[0], POLLIN | POLLOUT, 0 }, { sockets[1], POLLIN, 0 }, { sockets[2], POLLIN | POLLRDHUP, 0 },
         { sockets[3], POLLIN, 0 }, { sets[0], POLLIN, 0 }, { sets[1], POLLIN, 0 });
}

static void select_some(void) {
    if (sockets[one] >= 0) SELECT(0, READS(sockets[one]), WRITES(sockets[one]), EXCEPTS(sockets[one]));
}

static void control(void) {
    static const int operations[] = { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CTL_ADD };
    static const unsigned events[] = {
        EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN, EPOLLIN | EPOLLOUT | EPOLLET, EPOLLIN | EPOLLOUT, EPOLLRDHUP, 0,
    };
    say("operation %d, events %x", operations[two % 4], events[four % 7]);
    EPOLL_CTL(sets[one % SETS], operations[two % 4], sockets[three], events[four % 7]);
}

static void nest(void) { EPOLL_CTL(sets[one % SETS], EPOLL_CTL_ADD, sets[(one + 1) % SETS], EPOLLIN); }

static void wait_for(void) { epoll_and_show_sorted(sets[one % SETS], "epoll_wait(sets[one % SETS], 64, 0)"); }

static void make_set(void) {
    if (sets[one % SETS] < 0) sets[one % SETS] = EPOLL();
}

static void duplicate(void) {
    if (sockets[two] >= 0) CALL(dup2(sockets[one], sockets[two]));
    else sockets[two] = CALL(dup(sockets[one]));
    families[two] = families[one];
}

static void close_socket(void) {
    CALL(close(sockets[one]));
    sockets[one] = -1;
}

static void close_set(void) {
    CALL(close(sets[one % SETS]));
    sets[one % SETS] = -1;
}

static void set_option(void) {
    switch (two) {
    case 0: SET(sockets[one], SOL_SOCKET, SO_REUSEADDR, 1); break;
    case 1:
        /* The kernel keeps what it will tell when a datagram arrives, the library tells it of any. */
        drain();
        SET(sockets[one], IPPROTO_IP, IP_PKTINFO, 1);
        break;
    case 2: SET(sockets[one], IPPROTO_IP, IP_RECVERR, three % 2); break;
    case 3: SET(sockets[one], SOL_SOCKET, SO_REUSEPORT, 1); break;
    default: SET(sockets[one], IPPROTO_IP, IP_TTL, 3 + three); break;
    }
}

static void receive_message_of(void) { RECVMSG(sockets[one], 30, 200, two ? MSG_ERRQUEUE : 0); }

static void tell_state(void) {
    int bytes = -1;
    GET(sockets[one], SOL_SOCKET, SO_ERROR);
    GETSOCKNAME(sockets[one]);
    GETPEERNAME(sockets[one]);
    CALL(ioctl(sockets[one], FIONREAD, &bytes));
    say("first datagram %d", bytes);
}

static void shut_down(void) { CALL(shutdown(sockets[one], two % 3)); }
static void echo(void) { send_to(ECHO_PORT); }

static const struct { const char *word; void (*run)(void); } words[] = {
    { "open", open_socket }, { "bind", bind_socket }, { "connect", connect_socket }, { "send_far", send_far },
    { "send", send_connected }, { "send_local", send_local }, { "echo", echo }, { "far", far_send }, { "recv", receive_one },
    { "recv_all", receive_all }, { "recvmsg", receive_message_of }, { "drain", drain }, { "poll", poll_all }, { "select", select_some },
    { "set", make_set }, { "ctl", control }, { "nest", nest }, { "wait", wait_for }, { "dup", duplicate },
    { "close", close_socket }, { "close_set", close_set }, { "shutdown", shut_down }, { "option", set_option },
    { "state", tell_state },
};

PROGRAM(sequence) {
    for (int i = 1; i <= LISTENING; i++) {
        far_opens(PORT(FIRST_FAR_PORT + i));
        far_opens6(PORT(FIRST_FAR_PORT + i));
    }
    FILE *file = fopen("sequence", "r");
    static char text[65536];
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (file) fclose(file);
    char *rest = text, *line, word[20];
    while ((line = strsep(&rest, "\n"))) {
        one = two = three = four = 0;
        if (sscanf(line, "%19s %d %d %d %d", word, &one, &two, &three, &four) < 1) continue;
        say("> %s", line);
        size_t i = 0;
        while (i < LENGTH_OF(words) && strcmp(words[i].word, word) != 0) i++;
        if (i == LENGTH_OF(words)) say("unknown word");
        else words[i].run();
    }
}
