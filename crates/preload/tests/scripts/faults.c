/* Pointers that are not valid, and descriptors that are not sockets. */
#include "script.h"

#include <sys/resource.h>

SCRIPT(bad_receive_buffers) {
    int a = bound(0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 6);
    CALL(recv(a, null(), 10, MSG_DONTWAIT));
    CALL(recv(a, no_memory(), 10, MSG_DONTWAIT));
    CALL(read(a, no_memory(), 10));
    char data[10];
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, no_memory(), &(socklen_t){ 16 }));
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, (struct sockaddr *)v4(FAR, 0), no_memory()));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(bad_receive_buffers_without_data) {
    int a = bound(0);
    CALL(recv(a, null(), 10, MSG_DONTWAIT));
    CALL(recv(a, no_memory(), 10, MSG_DONTWAIT));
}

SCRIPT(buffer_valid_in_part) {
    int a = bound(0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(munmap(page + 4096, 4096));
    FAR_SENDS(.to = PORT(0), .size = 100, .count = 3);
    CALL(recv(a, page + 4096 - 100, 4000, MSG_DONTWAIT));
    CALL(recv(a, page + 4096 - 99, 4000, MSG_DONTWAIT));
    CALL(sendto(a, page + 4096 - 50, 100, 0, V4(FAR, ECHO_PORT)));
    CALL(sendto(a, page + 4096 - 50, 50, 0, V4(FAR, ECHO_PORT)));
    for (int i = 0; i < 2; i++) {
        settle();
        RECV(a, 200, MSG_DONTWAIT);
    }
}

SCRIPT(bad_send_buffers) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(send(a, null(), 10, 0));
    CALL(send(a, no_memory(), 10, 0));
    CALL(write(a, no_memory(), 10));
    CALL(send(a, null(), 0, 0));
    RECV(a, 10, 0);
    CALL(sendto(a, "x", 1, 0, no_memory(), 16));
    CALL(sendto(a, "x", 1, 0, null(), 16));
    RECV(a, 10, 0);
    CALL(sendto(a, "x", (size_t)-1, 0, null(), 0));
    CALL(getsockname(a, no_memory(), &(socklen_t){ 16 }));
    CALL(getsockname(a, (struct sockaddr *)v4(FAR, 0), no_memory()));
    CALL(getpeername(a, null(), &(socklen_t){ 16 }));
    CALL(getpeername(a, (struct sockaddr *)v4(FAR, 0), null()));
    CALL(ioctl(a, FIONREAD, no_memory()));
}

SCRIPT(read_only_receive_buffer) {
    int a = bound(0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 2);
    CALL(recv(a, page, 10, MSG_DONTWAIT));
    RECV(a, 10, MSG_DONTWAIT);
    RECV(a, 10, MSG_DONTWAIT);
}

static void every_socket_call(int fd) {
    RECV(fd, 10, MSG_DONTWAIT);
    RECVFROM(fd, 10, MSG_DONTWAIT);
    RECVMSG(fd, 10, 0, MSG_DONTWAIT);
    SEND(fd, "x", MSG_DONTWAIT);
    SENDTO(fd, "x", V4(FAR, ECHO_PORT));
    CALL(bind(fd, V4(NEAR, PORT(0))));
    CALL(connect(fd, V4(FAR, ECHO_PORT)));
    CALL(listen(fd, 1));
    CALL(accept(fd, NULL, NULL));
    CALL(accept4(fd, NULL, NULL, SOCK_NONBLOCK));
    CALL(shutdown(fd, SHUT_RDWR));
    GETSOCKNAME(fd);
    GETPEERNAME(fd);
    GET(fd, SOL_SOCKET, SO_TYPE);
    SET(fd, SOL_SOCKET, SO_BROADCAST, 1);
}

SCRIPT(calls_on_a_pipe) {
    int pipes[2];
    CALL(pipe(pipes));
    every_socket_call(pipes[0]);
}

SCRIPT(calls_on_a_number_that_is_not_open) { every_socket_call(99); }
SCRIPT(calls_on_minus_one) { every_socket_call(-1); }
SCRIPT(calls_on_a_file) { every_socket_call(CALL(open("/proc/self/exe", O_RDONLY))); }
SCRIPT(calls_on_an_epoll_set) { every_socket_call(EPOLL()); }
SCRIPT(calls_on_a_path) { every_socket_call(CALL(open("/", O_PATH))); }

SCRIPT(stream_calls) {
    int a = bound(0);
    CALL(listen(a, 5));
    CALL(accept(a, NULL, NULL));
    CALL(accept4(a, NULL, NULL, 0));
    CALL(accept4(a, NULL, NULL, 0x1234));
    CALL(lseek(a, 0, SEEK_SET));
    CALL(pread(a, (char[4]){ 0 }, 4, 0));
    CALL(pwrite(a, "x", 1, 0));
    CALL(ftruncate(a, 0));
    CALL(fsync(a));
    CALL(mmap(NULL, 4096, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED);
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(sockets_that_cannot_be) {
    CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
    CALL(socket(AF_INET, SOCK_DGRAM, 9999));
    CALL(socket(AF_INET, 99, 0));
    CALL(socket(9999, SOCK_DGRAM, 0));
    CALL(socket(-1, SOCK_DGRAM, 0));
    CALL(socket(AF_INET, SOCK_DGRAM | 0x100000, 0));
    CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP));
    CALL(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
    CALL(fcntl(4, F_GETFD));
    CALL(fcntl(4, F_GETFL));
    int pair[2];
    CALL(socketpair(AF_INET, SOCK_DGRAM, 0, pair));
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    CALL(write(pair[0], "unix", 4));
    READ(pair[1], 10);
    CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE) >= 0);
    CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP) >= 0);
}

SCRIPT(no_number_is_left) {
    struct rlimit limit = { 8, 8 };
    int a = bound(0);
    CALL(setrlimit(RLIMIT_NOFILE, &limit));
    for (int i = 0; i < 6; i++) UDP();
    CALL(dup(a));
    EPOLL();
    CALL(close(5));
    int b = UDP();
    CALL(bind(b, V4(NEAR, PORT(1))));
    SENDTO(b, "x", V4(FAR, ECHO_PORT));
    RECV(b, 10, 0);
    SENDTO(a, "y", V4(FAR, ECHO_PORT));
    WAITS(0, POLL(1000, { a, POLLIN, 0 }));
    RECV(a, 10, 0);
}

SCRIPT(receive_buffers_that_point_nowhere) {
    int a = bound(0);
    char data[10];
    socklen_t length = 16;
    struct sockaddr *name = (struct sockaddr *)v4(FAR, 0);
    FAR_SENDS(.to = PORT(0), .size = 3, .count = 12);
    CALL(recv(a, null(), 10, MSG_DONTWAIT));
    CALL(recv(a, nowhere(), 10, MSG_DONTWAIT));
    CALL(read(a, null(), 10));
    CALL(read(a, nowhere(), 10));
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, nowhere(), &length));
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, (struct sockaddr *)64, &length));
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, name, nowhere()));
    CALL(recvfrom(a, data, 10, MSG_DONTWAIT, name, null()));
    struct iovec parts[] = { { data, 2 }, { null(), 10 } };
    CALL(readv(a, parts, 2));
    parts[0].iov_len = 3;
    CALL(readv(a, parts, 2));
    parts[1].iov_base = nowhere();
    CALL(readv(a, parts, 2));
    CALL(readv(a, nowhere(), 2));
    CALL(recv(a, null(), 10, MSG_PEEK));
    CALL(ioctl(a, FIONREAD, nowhere()));
    CALL(ioctl(a, FIONREAD, null()));
    for (int i = 0; i < 4; i++) RECV(a, 10, MSG_DONTWAIT);
}

SCRIPT(send_buffers_that_point_nowhere) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    CALL(send(a, null(), 10, 0));
    CALL(send(a, nowhere(), 10, 0));
    CALL(write(a, nowhere(), 10));
    CALL(sendto(a, "x", 1, 0, nowhere(), 16));
    CALL(sendto(a, "x", 1, 0, (struct sockaddr *)64, 16));
    struct iovec parts[] = { { "good", 4 }, { null(), 10 } };
    CALL(writev(a, parts, 2));
    parts[1].iov_base = nowhere();
    CALL(writev(a, parts, 2));
    CALL(sendmsg(a, nowhere(), 0));
    CALL(sendmmsg(a, nowhere(), 1, 0));
    CALL(sendmmsg(a, null(), 1, 0));
    CALL(recvmmsg(a, nowhere(), 1, MSG_DONTWAIT, NULL));
    settle();
    RECV(a, 10, MSG_DONTWAIT);
}
