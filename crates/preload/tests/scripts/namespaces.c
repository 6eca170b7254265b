/* A process, or one of its threads, that goes to another network namespace, where the same addresses exist. */
#include "script.h"

#include <sched.h>

/* Both ends of the cable are addresses of this host here. */
static void make_namespace(void) {
    CALL(unshare(CLONE_NEWNET));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = { .ifr_name = "lo" };
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    *address = *v4(NEAR, 0);
    CALL(ioctl(fd, SIOCSIFADDR, &request));
    *address = *v4("255.255.255.0", 0);
    CALL(ioctl(fd, SIOCSIFNETMASK, &request));
    memset(&request.ifr_addr, 0, sizeof request.ifr_addr);
    request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
    CALL(ioctl(fd, SIOCSIFFLAGS, &request));
    close(fd);
}

/* A socket of this namespace reaches another of it, by the address that is the far end's in the first. */
static void within(int n) {
    int one = bound(n), two = UDP(), three = UDP();
    CALL(bind(two, V4(FAR, PORT(n + 1))));
    SENDTO(one, "one", V4(FAR, PORT(n + 1)));
    RECVFROM(two, 10, 0);
    CALL(connect(three, V4(FAR, PORT(n + 1))));
    SEND(three, "three", 0);
    RECV(two, 10, 0);
    CALL(close(one));
    CALL(close(two));
    CALL(close(three));
}

static int shared;

/* A socket of the first namespace goes on there. */
static void first_goes_on(void) {
    SENDTO(shared, "x", V4(FAR, ECHO_PORT));
    RECV(shared, 10, 0);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(shared, 10, 0);
}

SCRIPT(new_sockets_belong_to_the_new_one) {
    shared = bound(0);
    first_goes_on();
    int first = open("/proc/self/ns/net", O_RDONLY);
    make_namespace();
    within(1);
    first_goes_on();
    CALL(setns(first, CLONE_NEWNET));
    close(first);
    int fd = bound(3);
    SENDTO(fd, "back", V4(FAR, ECHO_PORT));
    RECV(fd, 10, 0);
    first_goes_on();
}

SCRIPT(wildcard_in_the_new_one_takes_nothing_of_the_first) {
    shared = bound(0);
    first_goes_on();
    make_namespace();
    int any = UDP();
    SET(any, SOL_SOCKET, SO_REUSEADDR, 1);
    CALL(bind(any, V4("0.0.0.0", PORT(0))));
    first_goes_on();
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(any, 10, MSG_DONTWAIT);
    RECV(shared, 10, 0);
    SENDTO(any, "self", V4(NEAR, PORT(0)));
    RECV(any, 10, 0);
}

SCRIPT(socket_of_the_first_bound_in_the_new_one) {
    shared = bound(0);
    first_goes_on();
    int early = UDP();
    make_namespace();
    CALL(bind(early, V4(NEAR, PORT(1))));
    SENDTO(early, "early", V4(FAR, ECHO_PORT));
    RECV(early, 10, 0);
    first_goes_on();
}

static void *in_thread(void *unused) {
    make_namespace();
    within(1);
    return unused;
}

SCRIPT(thread_in_another) {
    shared = bound(0);
    first_goes_on();
    join_thread(start_thread("thread", in_thread, NULL));
    first_goes_on();
    int fd = bound(1);
    SENDTO(fd, "x", V4(FAR, ECHO_PORT));
    RECV(fd, 10, 0);
}

SCRIPT(first_socket_in_another) {
    int first = open("/proc/self/ns/net", O_RDONLY);
    make_namespace();
    within(1);
    CALL(setns(first, CLONE_NEWNET));
    close(first);
    shared = bound(0);
    first_goes_on();
}

static int child_takes(void) {
    RECV(shared, 10, MSG_DONTWAIT);
    RECV(shared, 10, MSG_DONTWAIT);
    return 0;
}

SCRIPT(what_waits_goes_to_a_child_from_a_thread_in_another) {
    shared = bound(0);
    first_goes_on();
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    RECV(shared, 10, 0);
    make_namespace();
    reap(fork_child("child", child_takes));
    RECV(shared, 10, MSG_DONTWAIT);
}

SCRIPT(socket_first_used_in_another) {
    shared = bound(0);
    make_namespace();
    first_goes_on();
}

SCRIPT(socket_bound_and_first_used_in_another) {
    shared = UDP();
    make_namespace();
    CALL(bind(shared, V4(NEAR, PORT(0))));
    first_goes_on();
}

SCRIPT(shared_port_first_used_in_another) {
    shared = UDP();
    SET(shared, SOL_SOCKET, SO_REUSEADDR, 1);
    make_namespace();
    CALL(bind(shared, V4(NEAR, PORT(0))));
    first_goes_on();
}
