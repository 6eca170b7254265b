/* What the files of the interpreters of sequences share. */
#ifndef INTERPRET_H
#define INTERPRET_H

#include "script.h"

#define SLOTS 4
#define SETS 2
#define NUMBERS 10

/* Ports of this run, as numbers for PORT. Sockets in slots are bound to the first four. */
enum {
    OF_MEMBERS = 4, /* near: several sockets' */
    OF_CHILDREN,    /* near: a child's */
    CLOSED_FAR = 8, /* nobody listens there, at the far end */
    FIRST_FAR,
    SECOND_FAR,
    SINK,           /* what arrives there is held against what was sent */
    LOAD_SINK,      /* nobody looks */
    NEIGHBOUR,      /* near: another thread's, which asks all the time */
    OF_HANDLERS,    /* near: a handler's, which asks */
    FOR_A_MOMENT,   /* near: bound and closed by handlers */
};

/* Of each slot: the socket, its family, the port that it was bound to or -1, whether to all addresses, and its place. */
extern int sockets[SLOTS], families[SLOTS], ports[SLOTS], are_wild[SLOTS], places[SLOTS];
extern int sets[SETS];
/* The namespace that the program is in: 0 is the one with the cable. */
extern int place;
/* Whether sockets may go to the kernel in mid life. Not where a registration asks for edges of room to send: the kernel's set
 * tells of room once more when it is added there. Afterwards none is made. */
int may_be_given(void);
/* A number was given to another socket while others of it stay open: what was registered in a set by it can be known to the
 * kernel under another number alone, if a child reads from the socket. No child is made then. */
extern int has_replaced;
/* The program was told more of datagrams than their senders. */
extern int asks_beside;
/* Of the present word. */
extern int numbers[NUMBERS];
#define one numbers[0]
#define two numbers[1]
#define three numbers[2]
#define four numbers[3]

/* Address and length of a port of the far end, for a slot's family. */
#define FAR_FOR(slot, port) far_address(slot, port), far_length(slot)
struct sockaddr *far_address(int slot, int port);
socklen_t far_length(int slot);
/* Makes the slot's socket anew, as `ports` and `are_wild` say. The results of socket and bind. */
void make_again(int slot, long results[2]);

/* One who calls, again and again, one function that takes datagrams from a slot's socket, or one that sends. A call may be
 * left at any moment, by a jump or a cancellation: what it has taken by then lies in the buffers. */
#define BUFFERS 2
#define BUFFER_BYTES 40
#define SENDS 240
#define CALLS 14
/* The calls below this one receive. */
#define RECEIVERS 12
#define NOT_WAITING 11
struct taker {
    int slot, call;
    int epoll; /* with the slot's socket, if the call is one for events */
    unsigned char buffers[BUFFERS][BUFFER_BYTES];
    volatile int is_putting_down;
    volatile int begun; /* datagrams whose sending began */
    char ends[SENDS];   /* how each of these ended: `enum end` */
};
enum end { DOUBTFUL, SENT, FAILED };

void begin_taking(struct taker *taker, int slot, int call);
void end_taking(struct taker *taker);
int is_sender(const struct taker *taker);
/* One call. */
void take(struct taker *taker);
/* Takes what is there, by recv with MSG_DONTWAIT. */
void take_what_is_there(struct taker *taker, int slot);
/* Puts what lies in the buffers into the ledger. */
void put_down(struct taker *taker);
/* The same, and signals that come meanwhile do not jump. */
void put_down_whole(struct taker *taker);
/* When all is quiet: what still waits at any socket goes into the ledger. */
void take_the_rest(void);
/* The ledger, which children of this process write into too. */
void make_ledger(void);
/* Writes down the ledger, sorted, and empties it. */
void show_ledger(void);
/* Writes down whether what arrived is what was sent. */
void show_sends(struct taker *taker);

/* Another thread that asks and waits for answers all the time. Writes down whether each came. */
void start_neighbour(void);
void stop_neighbour(void);
int has_neighbour(void);
/* A thread that no signal comes to. */
pthread_t start_quiet_thread(void *(*function)(void *), void *argument);
/* Datagrams to a slot's port, all at once and awaited, or by a thread, with pauses. */
void feed(int slot, int count);
void start_feeding(int slot, int count, int gap_us);
void stop_feeding(void);
/* Microseconds number `index` of those that something happens after, about. */
int moment_us(int index);
void spin_us(int us);

/* Until nothing is there. */
void drain(void);
/* An eventfd that `poll` looks at too, or -1. */
int event_descriptor(void);
void end_living_child(void);

/* A word of sequences, and what it does. */
struct word {
    const char *word;
    void (*run)(void);
};
/* Runs the file `sequence` of the current directory, by these words. */
void run_sequence(const struct word *words, size_t count);

/* Words of `interpret.c` that sequences of connections have too. */
void select_some(void);
void nest(void);
void wait_for(void);
void make_set(void);
void close_set(void);

/* Words of other files. */
void signal_comes(void);
void cancel_thread(void);
void reopen(void);
void go_to_place(void);
void send_beyond(void);
void send_long(void);
void flap(void);
void vlan_bind(void);
void vlan_far(void);
void vlan_send(void);
void receive_many(void);
void send_many(void);
void receive_pieces(void);
void send_pieces(void);
void send_segments(void);
void ask_for(void);
void far_marked(void);
void map_address(void);
void join(void);
void leave(void);
void far_to_group(void);
void send_to_group(void);
void event(void);
void control_event(void);
void wake(void);
void two_take(void);
void duplicate_meanwhile(void);
void share_port(void);
void have_child(void);
void child_takes_too(void);
void open_places(void);
void open_beyond(void);
void forget_beyond(void);
const struct sockaddr *beyond_address(int slot, int n, int port);

#endif
