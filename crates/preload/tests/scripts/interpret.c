/* Runs the generated sequence of calls in the file `sequence`, a call a line: a word and numbers. Sockets stand in four
 * slots, epoll sets in two. No call waits, but in the words of `interpret_interrupts.c`. */
#include "interpret.h"

#define LISTENING 2

int sockets[SLOTS] = { -1, -1, -1, -1 }, families[SLOTS], ports[SLOTS] = { -1, -1, -1, -1 }, are_wild[SLOTS], places[SLOTS];
int sets[SETS] = { -1, -1 }, numbers[NUMBERS], place, has_replaced, asks_beside;

static void open_socket(void) {
    if (sockets[one] >= 0) return;
    families[one] = two % 3 == 2 ? AF_INET6 : AF_INET;
    ports[one] = -1, places[one] = place;
    sockets[one] = CALL(socket(families[one], SOCK_DGRAM | SOCK_NONBLOCK, 0));
}

static void bind_socket(void) {
    long result;
    if (families[one] == AF_INET6) result = CALL(bind(sockets[one], V6(three ? "::" : NEAR6, PORT(two))));
    else result = CALL(bind(sockets[one], V4(three ? "0.0.0.0" : NEAR, PORT(two))));
    if (result == 0) ports[one] = two, are_wild[one] = three;
}

static void connect_socket(void) {
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int port = two == 3 ? ECHO_PORT : PORT(CLOSED_FAR + two);
    if (two == 4) CALL(connect(sockets[one], &none, sizeof none));
    else if (two == 5) CALL(connect(sockets[one], beyond_address(one, 0, PORT(FIRST_FAR)), far_length(one)));
    else if (families[one] == AF_INET6) CALL(connect(sockets[one], V6(FAR6, port)));
    else CALL(connect(sockets[one], V4(FAR, port)));
}

static void send_to(int port) {
    if (families[one] == AF_INET6) CALL(sendto(sockets[one], "datagram", 8, 0, V6(FAR6, port)));
    else CALL(sendto(sockets[one], "datagram", 8, 0, V4(FAR, port)));
    settle();
}

static void send_far(void) {
    send_to(PORT(CLOSED_FAR + two));
    if (two > 0 && sockets[one] >= 0 && places[one] == 0 && errno == 0) {
        if (families[one] == AF_INET6) far_receives6(PORT(CLOSED_FAR + two));
        else far_receives(PORT(CLOSED_FAR + two));
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
    int from = CLOSED_FAR + 1 + two % LISTENING;
    say("to +%d from +%d, %d times %d bytes", one, from, 1 + three % 3, sizes[four % 4]);
    FAR_SENDS(.family = three > 2 ? AF_INET6 : AF_INET, .from = PORT(from), .to = PORT(one),
              .size = sizes[four % 4], .count = 1 + three % 3);
}

static void receive_one(void) {
    static const int flags[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_WAITALL, MSG_DONTWAIT | MSG_PEEK, MSG_DONTWAIT,
                                 MSG_WAITALL | MSG_TRUNC | MSG_DONTWAIT };
    static const int sizes[] = { 100, 0, 2, 3000 };
    RECVFROM(sockets[one], sizes[three % 4], flags[two % 8]);
}

static void receive_all(void) {
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0) RECV(sockets[i], 30, 0);
    }
}

/* An error comes before what waits. A socket that was shut down says "0 bytes" for ever. */
void drain(void) {
    for (int i = 0; i < SLOTS; i++) {
        for (int left = 40; sockets[i] >= 0 && left > 0; left--) {
            if (RECV(sockets[i], 30, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EBADF)) break;
        }
    }
}

static void poll_all(void) {
    POLL(0, { sockets[0], POLLIN | POLLOUT, 0 }, { sockets[1], POLLIN, 0 }, { sockets[2], POLLIN | POLLRDHUP, 0 },
         { sockets[3], POLLIN, 0 }, { sets[0], POLLIN, 0 }, { sets[1], POLLIN, 0 },
         { event_descriptor(), POLLIN, 0 });
}

void select_some(void) {
    if (sockets[one] >= 0) SELECT(0, READS(sockets[one]), WRITES(sockets[one]), EXCEPTS(sockets[one]));
}

static int has_edge_of_room, was_given;

int may_be_given(void) {
    was_given |= !has_edge_of_room;
    return !has_edge_of_room;
}

static void control(void) {
    static const int operations[] = { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CTL_ADD };
    static const unsigned events[] = {
        EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN, EPOLLIN | EPOLLOUT | EPOLLET, EPOLLIN | EPOLLOUT, EPOLLRDHUP, 0,
    };
    unsigned asked = events[four % 7];
    int is_edge_of_room = (asked & (EPOLLOUT | EPOLLET)) == (EPOLLOUT | EPOLLET);
    if (is_edge_of_room && was_given) asked &= ~EPOLLET;
    else has_edge_of_room |= is_edge_of_room;
    say("operation %d, events %x", operations[two % 4], asked);
    EPOLL_CTL(sets[one % SETS], operations[two % 4], sockets[three], asked);
}

void nest(void) { EPOLL_CTL(sets[one % SETS], EPOLL_CTL_ADD, sets[(one + 1) % SETS], EPOLLIN); }

void wait_for(void) { epoll_and_show_sorted(sets[one % SETS], "epoll_wait(sets[one % SETS], 64, 0)"); }

void make_set(void) {
    if (sets[one % SETS] < 0) sets[one % SETS] = EPOLL();
}

static void duplicate(void) {
    has_replaced |= sockets[two] >= 0 && sockets[two] != sockets[one];
    if (sockets[two] >= 0) CALL(dup2(sockets[one], sockets[two]));
    else sockets[two] = CALL(dup(sockets[one]));
    families[two] = families[one], ports[two] = ports[one], are_wild[two] = are_wild[one], places[two] = places[one];
}

static void close_socket(void) {
    CALL(close(sockets[one]));
    sockets[one] = -1;
}

void close_set(void) {
    CALL(close(sets[one % SETS]));
    sets[one % SETS] = -1;
}

static void set_option(void) {
    static const int discover[] = { IP_PMTUDISC_DONT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE };
    switch (two) {
    case 0: SET(sockets[one], SOL_SOCKET, SO_REUSEADDR, 1); break;
    case 1:
        /* The kernel keeps what it will tell when a datagram arrives, the library tells it of any. */
        drain();
        asks_beside = 1;
        SET(sockets[one], IPPROTO_IP, IP_PKTINFO, 1);
        break;
    case 2: SET(sockets[one], IPPROTO_IP, IP_RECVERR, three % 2); break;
    case 3: SET(sockets[one], SOL_SOCKET, SO_REUSEPORT, 1); break;
    case 4: SET(sockets[one], IPPROTO_IP, IP_TTL, 3 + three); break;
    default:
        if (families[one] == AF_INET6) SET(sockets[one], IPPROTO_IPV6, IPV6_MTU_DISCOVER, discover[three]);
        else SET(sockets[one], IPPROTO_IP, IP_MTU_DISCOVER, discover[three]);
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

static void shut_down(void) {
    if (may_be_given()) CALL(shutdown(sockets[one], two % 3));
}

static void echo(void) { send_to(ECHO_PORT); }

static const struct word words[] = {
    { "open", open_socket }, { "bind", bind_socket }, { "connect", connect_socket }, { "send_far", send_far },
    { "send", send_connected }, { "send_local", send_local }, { "echo", echo }, { "far", far_send }, { "recv", receive_one },
    { "recv_all", receive_all }, { "recvmsg", receive_message_of }, { "drain", drain }, { "poll", poll_all }, { "select", select_some },
    { "set", make_set }, { "ctl", control }, { "nest", nest }, { "wait", wait_for }, { "dup", duplicate },
    { "close", close_socket }, { "close_set", close_set }, { "shutdown", shut_down }, { "option", set_option },
    { "state", tell_state }, { "signal", signal_comes }, { "cancel", cancel_thread }, { "reopen", reopen },
    { "place", go_to_place }, { "beyond", send_beyond }, { "send_long", send_long }, { "flap", flap },
    { "vlan_bind", vlan_bind }, { "vlan_far", vlan_far }, { "vlan_send", vlan_send },
    { "recv_many", receive_many }, { "send_many", send_many }, { "recv_pieces", receive_pieces }, { "send_pieces", send_pieces },
    { "segments", send_segments }, { "ask", ask_for }, { "far_marked", far_marked }, { "mapped", map_address }, { "join", join },
    { "leave", leave }, { "far_group", far_to_group }, { "send_group", send_to_group }, { "event", event },
    { "ctl_event", control_event }, { "wake", wake }, { "two_take", two_take }, { "dup_meanwhile", duplicate_meanwhile },
    { "share_port", share_port }, { "fork", have_child }, { "fork_takes", child_takes_too },
};

static void run_line(const struct word *words, size_t count, const char *line) {
    char word[20];
    int at = 0;
    size_t i = 0;
    memset(numbers, 0, sizeof numbers);
    if (sscanf(line, "%19s%n", word, &at) < 1) return;
    say("> %s", line);
    for (int n = 0, length; n < NUMBERS && sscanf(line + at, "%d%n", &numbers[n], &length) == 1; n++) at += length;
    while (i < count && strcmp(words[i].word, word) != 0) i++;
    if (i == count) say("unknown word");
    else words[i].run();
}

void run_sequence(const struct word *words, size_t count) {
    static char text[65536];
    FILE *file = fopen("sequence", "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (file) fclose(file);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) run_line(words, count, line);
}

PROGRAM(sequence) {
    static const int open_ports[] = { FIRST_FAR, SECOND_FAR, SINK, LOAD_SINK };
    for (size_t i = 0; i < LENGTH_OF(open_ports); i++) {
        far_opens(PORT(open_ports[i]));
        far_opens6(PORT(open_ports[i]));
    }
    far_joins(PORT(FIRST_FAR), GROUP);
    far_joins6(PORT(FIRST_FAR), GROUP6);
    make_ledger();
    open_beyond();
    open_places();
    settle_by_marks();
    run_sequence(words, LENGTH_OF(words));
    end_living_child();
    forget_beyond();
}
