/* select(2) and pselect(2). */
#include "script.h"

SCRIPT(fresh_socket) {
    int a = UDP();
    SELECT(0, READS(a), WRITES(a), EXCEPTS(a));
    SELECT(0, READS(), WRITES(), EXCEPTS());
}

SCRIPT(readable_until_read) {
    int a = bound(0), b = bound(1);
    WAITS(0, SELECT(0, READS(a, b), WRITES(), EXCEPTS()));
    FAR_SENDS(.to = PORT(1), .size = 3);
    SELECT(0, READS(a, b), WRITES(), EXCEPTS(a, b));
    SELECT(-1, READS(a, b), WRITES(a), EXCEPTS());
    RECV(b, 10, 0);
    SELECT(0, READS(a, b), WRITES(), EXCEPTS());
}

SCRIPT(timeout) {
    int a = bound(0);
    WAITS(50, SELECT(50, READS(a), WRITES(), EXCEPTS()));
    WAITS(50, SELECT(50, READS(), WRITES(), EXCEPTS()));
}

SCRIPT(wakes_with_time_left) {
    int a = bound(0), b = bound(1);
    FAR_SENDS(.to = PORT(1), .size = 3, .after_ms = 40);
    WAITS(40, SELECT(2000, READS(a, b), WRITES(), EXCEPTS()));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 40);
    RECV(b, 10, 0);
    WAITS(40, SELECT(-1, READS(a, b), WRITES(), EXCEPTS()));
}

SCRIPT(bad_descriptors) {
    int a = bound(0), closed = bound(1);
    CALL(close(closed));
    SELECT(0, READS(a, closed), WRITES(), EXCEPTS());
    FAR_SENDS(.to = PORT(0), .size = 3);
    SELECT(1000, READS(a, 999), WRITES(), EXCEPTS());
    SELECT(1000, READS(a), WRITES(), EXCEPTS(999));
}

SCRIPT(a_failure_leaves_the_sets) {
    int a = bound(0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(a, &set);
    FD_SET(99, &set);
    struct timeval timeout = { 0, 0 };
    CALL(select(100, &set, NULL, NULL, &timeout));
    show_set("readable", &set);
    CALL(select(-1, &set, NULL, NULL, &timeout));
    timeout.tv_sec = -1;
    CALL(select(a + 1, &set, NULL, NULL, &timeout));
    timeout = (struct timeval){ 0, -1 };
    CALL(select(a + 1, &set, NULL, NULL, &timeout));
    timeout = (struct timeval){ 0, 0 };
    CALL(select(a + 1, no_memory(), NULL, NULL, &timeout));
    show_set("readable", &set);
}

/* select(2) looks at nothing beyond the end of the table of descriptors. That is 64 long at first, longer where the process
 * that forked this one had more open, and grows in powers of two. */
SCRIPT(numbers_beyond_the_table_are_ignored) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    SELECT(1000, READS(a, 60), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 99), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 1023), WRITES(), EXCEPTS());
}

SCRIPT(table_grown_has_room_for_closed_numbers) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(dup2(a, 300));
    SELECT(1000, READS(a, 500), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 520), WRITES(), EXCEPTS());
}

/* The library has descriptors of its own with high numbers once a socket is accelerated. */
SCRIPT(numbers_beyond_the_table_are_ignored_where_no_socket_is_asked_for) {
    int a = bound(0), pipes[2];
    CALL(pipe(pipes));
    CALL(write(pipes[1], "x", 1));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    SELECT(1000, READS(pipes[0], 60), WRITES(), EXCEPTS());
    SELECT(1000, READS(pipes[0], 99), WRITES(pipes[1]), EXCEPTS());
    SELECT(1000, READS(pipes[0]), WRITES(99, 1023), EXCEPTS(500));
    SELECT(1000, READS(pipes[0], 60, 99), WRITES(), EXCEPTS());
    WAITS(30, SELECT(30, READS(1023), WRITES(), EXCEPTS()));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    FD_SET(700, &set);
    struct timespec second = { 1, 0 };
    CALL(pselect(FD_SETSIZE, &set, NULL, NULL, &second, NULL));
    show_set("what pselect left", &set);
    CALL(dup2(pipes[0], 300));
    SELECT(1000, READS(pipes[0], 500), WRITES(), EXCEPTS());
    SELECT(1000, READS(300, 520), WRITES(), EXCEPTS());
}

SCRIPT(table_grown_stays_grown_when_its_numbers_are_closed) {
    int a = bound(0), pipes[2];
    CALL(pipe(pipes));
    CALL(write(pipes[1], "x", 1));
    CALL(dup2(a, 300));
    CALL(dup2(pipes[0], 200));
    CALL(close(300));
    CALL(close(200));
    FAR_SENDS(.to = PORT(0), .size = 3);
    SELECT(1000, READS(a, 300), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 500), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 520), WRITES(), EXCEPTS());
    SELECT(1000, READS(pipes[0], 500), WRITES(), EXCEPTS());
    SELECT(1000, READS(pipes[0], 520), WRITES(), EXCEPTS());
}

/* By calls that the library does not see. */
SCRIPT(table_grown_by_open_stays_grown_when_that_is_closed) {
    int a = bound(0), fds[270], count = 0;
    while (count < 270) fds[count++] = open("/dev/null", O_RDONLY);
    while (count > 0) close(fds[--count]);
    FAR_SENDS(.to = PORT(0), .size = 3);
    SELECT(1000, READS(a, 270), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 500), WRITES(), EXCEPTS());
    SELECT(1000, READS(a, 520), WRITES(), EXCEPTS());
}

static const int high[] = { 64, 65, 500, 1023 };

SCRIPT(sockets_with_high_numbers) {
    for (unsigned i = 0; i < LENGTH_OF(high); i++) {
        int a = bound(i);
        CALL(dup2(a, high[i]));
        CALL(close(a));
    }
    WAITS(0, SELECT(0, READS(64, 65, 500, 1023), WRITES(), EXCEPTS()));
    for (unsigned i = 0; i < LENGTH_OF(high); i++) {
        FAR_SENDS(.to = PORT(i), .size = 3);
        SELECT(1000, READS(64, 65, 500, 1023), WRITES(high[i]), EXCEPTS(64, 1023));
    }
    FAR_SENDS(.to = PORT(0), .size = 4, .after_ms = 40);
    for (unsigned i = 0; i < LENGTH_OF(high); i++) RECV(high[i], 10, 0);
    WAITS(40, SELECT(2000, READS(64, 65, 500, 1023), WRITES(), EXCEPTS(64, 65, 500, 1023)));
    CALL(close(500));
    SELECT(1000, READS(64, 65, 500, 1023), WRITES(), EXCEPTS());
    CALL(close(1023));
    SELECT(1000, READS(64, 700), WRITES(), EXCEPTS());
    SELECT(1000, READS(64), WRITES(65), EXCEPTS());
}

SCRIPT(the_highest_number_limits) {
    int a = bound(0), b = bound(1);
    FAR_SENDS(.to = PORT(0), .size = 3);
    FAR_SENDS(.to = PORT(1), .size = 3);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(a, &set);
    FD_SET(b, &set);
    struct timeval zero = { 0, 0 };
    CALL(select(b, &set, NULL, NULL, &zero));
    FD_CLR(b, &set);
    show_set("readable below b", &set);
    FD_SET(b, &set);
    CALL(select(FD_SETSIZE, &set, NULL, NULL, &zero));
    show_set("readable", &set);
}

SCRIPT(one_socket_in_all_sets) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_SET(a, &reads);
    writes = reads;
    struct timeval zero = { 0, 0 };
    fd_set *volatile same = &reads;
    CALL(select(a + 1, &reads, &writes, same, &zero));
    show_set("the same memory twice", &reads);
    show_set("writable", &writes);
}

SCRIPT(mixed_with_a_pipe) {
    int a = bound(0), pipes[2];
    CALL(pipe(pipes));
    WAITS(0, SELECT(1000, READS(a, pipes[0]), WRITES(pipes[1]), EXCEPTS()));
    CALL(write(pipes[1], "x", 1));
    SELECT(1000, READS(a, pipes[0]), WRITES(), EXCEPTS());
    FAR_SENDS(.to = PORT(0), .size = 3);
    SELECT(1000, READS(a, pipes[0]), WRITES(), EXCEPTS());
    CALL(close(pipes[1]));
    RECV(a, 10, 0);
    SELECT(1000, READS(a, pipes[0]), WRITES(), EXCEPTS());
}

SCRIPT(an_error_is_readable_and_writable) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, PORT(5))));
    SEND(a, "nobody listens", 0);
    settle();
    SELECT(0, READS(a), WRITES(a), EXCEPTS(a));
    RECV(a, 10, MSG_DONTWAIT);
    SELECT(0, READS(a), WRITES(a), EXCEPTS(a));
}

static void on_signal(int number) { say("signal %d", number); }

SCRIPT(pselect_unblocks_a_signal) {
    int a = bound(0);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(a, &set);
    struct timespec second = { 1, 0 };
    WAITS(0, CALL(pselect(a + 1, &set, NULL, NULL, &second, &none)));
    show_set("sets after EINTR", &set);
    struct timespec tenth = { 0, 30000000 };
    WAITS(30, CALL(pselect(a + 1, &set, NULL, NULL, &tenth, &blocked)));
    say("timeout after: %ld %ld", (long)tenth.tv_sec, tenth.tv_nsec);
    show_set("sets after the timeout", &set);
    FD_SET(a, &set);
    FAR_SENDS(.to = PORT(0), .size = 3);
    CALL(pselect(a + 1, &set, NULL, NULL, NULL, NULL));
    show_set("readable", &set);
}

SCRIPT(beyond_fd_setsize) {
    int a = bound(0);
    CALL(dup2(a, 1500));
    static unsigned char bits[256];
    bits[1500 / 8] |= 1 << 1500 % 8;
    FAR_SENDS(.to = PORT(0), .size = 3);
    struct timeval zero = { 0, 0 };
    CALL(select(1501, (fd_set *)bits, NULL, NULL, &zero));
    say("its bit: %d", bits[1500 / 8] >> 1500 % 8 & 1);
    RECV(1500, 10, MSG_DONTWAIT);
    CALL(select(1501, (fd_set *)bits, NULL, NULL, &zero));
    say("its bit: %d", bits[1500 / 8] >> 1500 % 8 & 1);
}

/* Sets of 4096 bits. */
static unsigned long far_bits[2][64];

static void ask_for_far_bits(int count, const char *when) {
    say("%s", when);
    struct timeval time = { 1, 0 };
    CALL(select(count, (fd_set *)far_bits[0], (fd_set *)far_bits[1], NULL, &time));
    for (int i = 0; i < 4096; i++) {
        if (far_bits[0][i / 64] >> i % 64 & 1) say("  readable %d", i);
        if (far_bits[1][i / 64] >> i % 64 & 1) say("  writable %d", i);
    }
}

static void want_far_bit(int set, int number) { far_bits[set][number / 64] |= 1ul << number % 64; }

SCRIPT(several_beyond_fd_setsize) {
    int a = bound(0), b = bound(1), pipes[2];
    CALL(pipe(pipes));
    CALL(dup2(a, 1024));
    CALL(dup2(b, 3000));
    CALL(dup2(pipes[0], 2000));
    want_far_bit(0, 1024), want_far_bit(0, 2000), want_far_bit(0, 3000);
    FAR_SENDS(.to = PORT(1), .size = 3);
    ask_for_far_bits(3001, "a datagram at the highest");
    CALL(write(pipes[1], "x", 1));
    want_far_bit(0, 1024), want_far_bit(0, 2000), want_far_bit(1, 1024), want_far_bit(1, 3000);
    ask_for_far_bits(3001, "a byte in the pipe, and room to send");
    want_far_bit(0, 3000), want_far_bit(0, 4000);
    ask_for_far_bits(4001, "a closed number within the table");
    memset(far_bits, 0, sizeof far_bits);
    want_far_bit(0, 2000);
    ask_for_far_bits(3000, "the pipe alone");
}
