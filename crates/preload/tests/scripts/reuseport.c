/* SO_REUSEPORT: datagrams are spread over sockets, each to one. */
#include "script.h"

#include <linux/bpf.h>
#include <linux/filter.h>
#include <sys/syscall.h>

static int shared_port(int n) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    CALL(bind(fd, V4(NEAR, PORT(n))));
    return fd;
}

SCRIPT(each_datagram_goes_to_one) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 48);
    int one = receives_all(a), two = receives_all(b);
    say("together %d", one + two);
}

SCRIPT(a_source_stays_with_its_socket) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(5), .to = PORT(0), .size = 3, .count = 10);
    int one = receives_all(a), two = receives_all(b);
    say("all at one: %d", (one == 10 && two == 0) || (one == 0 && two == 10));
}

SCRIPT(closing_one_moves_its_share) {
    int a = shared_port(0), b = shared_port(0);
    CALL(close(a));
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("%d", receives_all(b));
}

static int does_nothing(void) { return 0; }

SCRIPT(what_waits_at_a_fork_stays_at_its_socket) {
    int a = shared_port(0);
    RECV(a, 10, MSG_DONTWAIT);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    int b = shared_port(0);
    RECV(b, 10, MSG_DONTWAIT);
    reap(fork_child("child", does_nothing));
    int one = receives_all(a), two = receives_all(b);
    say("%d and %d", one, two);
}

SCRIPT(all_must_want_it) {
    int a = bound(0), b = UDP();
    SET(b, SOL_SOCKET, SO_REUSEPORT, 1);
    CALL(bind(b, V4(NEAR, PORT(0))));
    CALL(close(a));
    CALL(bind(b, V4(NEAR, PORT(0))));
    int c = UDP();
    CALL(bind(c, V4(NEAR, PORT(0))));
}

/* The program that chooses among the sockets of a port always takes this one. */
static void choose(int fd, unsigned which) {
    struct sock_filter steps[] = { { BPF_RET | BPF_K, 0, 0, which } };
    struct sock_fprog program = { 1, steps };
    CALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program));
}

/* No more than a socket of the kernel's holds where each datagram is charged a page and more: 49 with a native XDP program on veth
 * in Linux 6.1. */
#define HELD 40

SCRIPT(program_chooses_among_the_sockets_of_a_port) {
    int a = shared_port(0), b = shared_port(0), c = shared_port(0);
    choose(b, 2);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = HELD);
    say("%d %d %d", receives_all(a), receives_all(b), receives_all(c));
    choose(a, 0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("%d %d %d", receives_all(a), receives_all(b), receives_all(c));
}

/* The same by a program of bpf(2): `r0 = which; exit`. */
static int loaded(unsigned kind, unsigned which) {
    struct bpf_insn steps[] = {
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = (int)which },
        { .code = BPF_JMP | BPF_EXIT },
    };
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = kind;
    attributes.insns = (uintptr_t)steps;
    attributes.insn_cnt = sizeof steps / sizeof *steps;
    attributes.license = (uintptr_t)"GPL";
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
}

static void choose_by_bpf(int fd, unsigned which) {
    int program = loaded(BPF_PROG_TYPE_SOCKET_FILTER, which);
    say("loaded: %d", program >= 0);
    CALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &program, sizeof program));
    close(program);
}

SCRIPT(program_of_bpf_chooses_among_the_sockets_of_a_port) {
    int a = shared_port(0), b = shared_port(0), c = shared_port(0);
    choose_by_bpf(b, 2);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = HELD);
    say("%d %d %d", receives_all(a), receives_all(b), receives_all(c));
    choose_by_bpf(a, 0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("%d %d %d", receives_all(a), receives_all(b), receives_all(c));
}

SCRIPT(program_of_bpf_comes_while_datagrams_wait) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    choose_by_bpf(a, 1);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    int one = receives_all(a), two = receives_all(b);
    say("together %d, at least half at the chosen one: %d", one + two, two >= 24);
}

/* The kernel takes no such program, whose sockets stay as they were. */
SCRIPT(program_of_bpf_of_another_kind_is_refused) {
    int a = shared_port(0), b = shared_port(0), program = loaded(BPF_PROG_TYPE_XDP, 1);
    say("loaded: %d", program >= 0);
    CALL(setsockopt(a, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &program, sizeof program));
    int closed = -1;
    CALL(setsockopt(a, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &closed, sizeof closed));
    close(program);
    FAR_SENDS(.from = PORT(1), .sources = 15, .to = PORT(0), .size = 3, .count = 30);
    int one = receives_all(a), two = receives_all(b);
    say("together %d, each some: %d", one + two, one > 0 && two > 0);
}

SCRIPT(program_attached_before_others_come) {
    int a = shared_port(0);
    choose(a, 1);
    int b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = HELD);
    say("%d %d", receives_all(a), receives_all(b));
}

SCRIPT(program_attached_before_bind) {
    int b = shared_port(0), a = UDP();
    SET(a, SOL_SOCKET, SO_REUSEPORT, 1);
    choose(a, 1);
    CALL(bind(a, V4(NEAR, PORT(0))));
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    /* The kernel takes the program of the socket that was first at the port. */
    say("together %d", receives_all(a) + receives_all(b));
}

SCRIPT(program_comes_while_datagrams_wait) {
    int a = shared_port(0), b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    choose(a, 1);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    int one = receives_all(a), two = receives_all(b);
    say("together %d, at least half at the chosen one: %d", one + two, two >= 24);
}

/* Only the kernel runs a filter, so it serves that socket, and must get what is for it. */
SCRIPT(one_with_a_filter_has_its_share) {
    int a = shared_port(0), b = shared_port(0);
    struct sock_filter steps[] = { { BPF_RET | BPF_K, 0, 0, 0xffff } };
    struct sock_fprog program = { 1, steps };
    CALL(setsockopt(a, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    FAR_SENDS(.from = PORT(1), .sources = 15, .to = PORT(0), .size = 3, .count = 60);
    int one = receives_all(a), two = receives_all(b);
    say("together %d, each some: %d", one + two, one > 0 && two > 0);
}

/* SO_REUSEADDR: each socket of a group has a copy, whoever serves it. */
SCRIPT(one_of_a_group_with_a_filter_has_its_copies) {
    int fds[2];
    struct ip_mreqn membership = { { inet_addr(GROUP) }, { 0 }, (int)if_nametoindex(INTERFACE) };
    for (int i = 0; i < 2; i++) {
        fds[i] = UDP();
        SET(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
        CALL(bind(fds[i], V4("0.0.0.0", PORT(0))));
        CALL(setsockopt(fds[i], IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership));
    }
    struct sock_filter steps[] = { { BPF_RET | BPF_K, 0, 0, 0xffff } };
    struct sock_fprog program = { 1, steps };
    CALL(setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 10, .address = GROUP);
    say("%d %d", receives_all(fds[0]), receives_all(fds[1]));
}

static int other_process(void) {
    int b = shared_port(0);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    return receives_all(b);
}

SCRIPT(two_processes) {
    int a = shared_port(0), number = reserve_stream("child"), status;
    pid_t pid = fork();
    if (pid == 0) {
        close(a);
        use_stream(number);
        _exit(other_process());
    }
    waitpid(pid, &status, 0);
    int own = receives_all(a), other = WEXITSTATUS(status);
    say("together %d", own + other);
    FAR_SENDS(.from = PORT(1), .sources = 12, .to = PORT(0), .size = 3, .count = 24);
    say("alone %d", receives_all(a));
}
