/* tcp INTERFACE ADDRESS PORT MODE WAITING: a connection to a server that echoes is adopted, used in every way, and released. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* The server sends a datagram to this port when it reads "udp!". */
#define UDP_PORT 7000
#define TURNS 300

static nearwire_port *port;
static unsigned char out[256 * 1024], in[sizeof out];

static void open_port(const char *interface, unsigned mode, unsigned waiting, unsigned queues)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    options.mode = mode;
    options.waiting = waiting;
    options.queue_count = queues;
    options.flags = NEARWIRE_OPEN_TCP;
    CHECK(NULL, nearwire_open(&port, interface, &options), 0);
}

static int connected(const char *address, int number)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)number) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)number) };
    int is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1, one = 1;
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
    if (!is_v4)
        CHECK(NULL, inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    CHECK(NULL, is_v4 ? connect(fd, (struct sockaddr *)&v4, sizeof v4) : connect(fd, (struct sockaddr *)&v6, sizeof v6), 0);
    CHECK(NULL, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    return fd;
}

/* So many bytes come, those of `out`. */
static void comes(int fd, size_t length)
{
    size_t got = 0;
    while (got < length) {
        int bytes = nearwire_tcp_receive(port, fd, in + got, length - got, 5 * SECOND_NS);
        CHECK(port, bytes > 0 ? 1 : bytes, 1);
        got += (size_t)bytes;
    }
    CHECK(port, memcmp(in, out, length), 0);
}

static void echoes(int fd, const char *text)
{
    size_t length = strlen(text);
    memcpy(out, text, length);
    CHECK(port, nearwire_tcp_send(port, fd, out, length, 0), length);
    comes(fd, length);
}

static void echoes_by_kernel(int fd, const char *text)
{
    char back[64] = "";
    size_t length = strlen(text);
    CHECK(NULL, send(fd, text, length, 0), length);
    CHECK(NULL, recv(fd, back, length, MSG_WAITALL), length);
    CHECK(NULL, strcmp(back, text), 0);
}

static void refused(const char *interface, unsigned mode)
{
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
    struct nearwire_tcp_options options = NEARWIRE_TCP_OPTIONS_INIT;
    open_port(interface, mode, 0, 1);
    CHECK(port, nearwire_tcp_adopt(port, stream, NULL), -ENOTSUP);
    CHECK(NULL, nearwire_close(port), 0);
    open_port(interface, mode, 0, 0);
    CHECK(port, nearwire_tcp_send(port, stream, "x", 1, 0), -ENOENT);
    CHECK(port, nearwire_tcp_poll(port, NULL), -ENOENT);
    CHECK(port, nearwire_tcp_adopt(port, -1, NULL), -EBADF);
    CHECK(port, nearwire_tcp_adopt(port, datagrams, NULL), -EPROTONOSUPPORT);
    CHECK(port, nearwire_tcp_adopt(port, stream, NULL), -ENOTCONN);
    options.reserved = 1;
    CHECK(port, nearwire_tcp_adopt(port, stream, &options), -EINVAL);
    CHECK(port, nearwire_tcp_release(port, stream), -ENOENT);
    CHECK(NULL, nearwire_close(port), 0);
    close(datagrams);
    close(stream);
}

static void bulk(int fd)
{
    size_t sent = 0, got = 0;
    for (size_t n = 0; n < sizeof out; n++)
        out[n] = (unsigned char)(n * 7 + n / 251);
    while (got < sizeof out) {
        int bytes = nearwire_tcp_send(port, fd, out + sent, sizeof out - sent, 0);
        if (sent < sizeof out && bytes != -EAGAIN) {
            CHECK(port, bytes > 0 ? 1 : bytes, 1);
            sent += (size_t)bytes;
        }
        bytes = nearwire_tcp_receive(port, fd, in + got, sizeof in - got, SECOND_NS / 100);
        if (bytes != -EAGAIN) {
            CHECK(port, bytes > 0 ? 1 : bytes, 1);
            got += (size_t)bytes;
        }
    }
    CHECK(port, memcmp(in, out, sizeof out), 0);
}

static void prepared(int fd)
{
    struct nearwire_tcp_info info = NEARWIRE_TCP_INFO_INIT;
    CHECK(port, nearwire_tcp_trigger(port, fd, 0), -ENOENT);
    CHECK(port, nearwire_tcp_load(port, fd, 0, out, 0), -EMSGSIZE);
    CHECK(port, nearwire_tcp_load(port, fd, 0, out, 5000), -EMSGSIZE);
    CHECK(port, nearwire_tcp_load(port, fd, 4, out, 100), -ERANGE);
    CHECK(port, nearwire_tcp_load(port, fd, 3, "last", 4), 0);
    CHECK(port, nearwire_tcp_trigger(port, fd, 3), 0);
    memcpy(out, "last", 4);
    comes(fd, 4);
    memset(out, 'o', 101);
    CHECK(port, nearwire_tcp_load(port, fd, 0, out, 101), 0);
    CHECK(port, nearwire_tcp_trigger_patched(port, fd, 0, 100, out, 2), -EMSGSIZE);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        /* Odd places too. */
        size_t offset = turn % 98;
        memcpy(out + offset, &turn, 3);
        CHECK(port, nearwire_tcp_trigger_patched(port, fd, 0, offset, &turn, 3), 0);
        comes(fd, 101);
    }
    CHECK(port, nearwire_tcp_info(port, fd, &info), 0);
    CHECK(port, info.prepared_messages + info.written_messages, TURNS + 1);
    /* The frame is not free while the device has it. */
    CHECK(port, info.prepared_messages > TURNS * 9 / 10, 1);
    /* One behind the other: the frame, or what is behind it. */
    for (int n = 0; n < 8; n++) {
        memset(out + n * 101, 'a' + n, 101);
        CHECK(port, nearwire_tcp_trigger_patched(port, fd, 0, 0, out + n * 101, 101), 0);
    }
    comes(fd, 8 * 101);
    CHECK(port, info.segment_bytes >= 500 && info.smoothed_round_trip_ns > 0, 1);
}

/* Frames of a filter come between segments, and both are given by their own function. */
static void beside_frames(int fd)
{
    struct nearwire_flow flow = NEARWIRE_FLOW_INIT;
    int has_datagram = 0, has_echo = 0;
    flow.protocol = 17;
    flow.port = UDP_PORT;
    CHECK(port, nearwire_filter_add_flow(port, &flow), 0);
    CHECK(port, nearwire_tcp_send(port, fd, "udp!", 4, 0), 4);
    while (!has_datagram || !has_echo) {
        int bytes = nearwire_tcp_receive(port, fd, in, sizeof in, SECOND_NS);
        if (bytes == -ENOMSG) {
            bytes = nearwire_receive(port, in, sizeof in, 0, NULL);
            CHECK(port, bytes > 42 && memcmp(in + bytes - 8, "datagram", 8) == 0, 1);
            has_datagram = 1;
        } else {
            CHECK(port, bytes, 4);
            has_echo = 1;
        }
    }
    /* The other way round: a receive of frames takes the segment in. */
    CHECK(port, nearwire_tcp_send(port, fd, "once", 4, 0), 4);
    CHECK(port, nearwire_receive(port, in, sizeof in, SECOND_NS / 20, NULL), 0);
    CHECK(port, nearwire_tcp_receive(port, fd, in, sizeof in, 0), 4);
    CHECK(port, nearwire_filter_remove_flow(port, &flow), 0);
}

/* The connection changes its owner while bytes are on their way in both directions, and none is lost or comes twice. */
static void changes_owner(int fd)
{
    size_t sent = 0, got = 0, progress = 0;
    int idle = 0;
    for (size_t n = 0; n < sizeof out; n++)
        out[n] = (unsigned char)(n * 13 + n / 241);
    while (got < sizeof out) {
        /* Timers begin anew with each owner: what was lost is sent again by one that has the connection for long enough. */
        idle = sent + got == progress ? idle + 1 : 0;
        progress = sent + got;
        if (idle > 50) {
            usleep(300000);
            idle = 0;
        }
        int by_kernel, turns = rand() % 4;
        for (by_kernel = 0; by_kernel < 2; by_kernel++) {
            if (!by_kernel)
                CHECK(port, nearwire_tcp_adopt(port, fd, NULL), 0);
            for (int turn = 0; turn < turns; turn++) {
                size_t piece = (size_t)(rand() % 3000), left = sizeof out - sent;
                long bytes;
                piece = piece < left ? piece : left;
                bytes = by_kernel ? send(fd, out + sent, piece, MSG_DONTWAIT) : nearwire_tcp_send(port, fd, out + sent, piece, 0);
                CHECK(port, piece == 0 || bytes > 0 || bytes == (by_kernel ? -1 : -EAGAIN), 1);
                sent += piece > 0 && bytes > 0 ? (size_t)bytes : 0;
                if (got == sizeof out)
                    break;
                bytes = by_kernel ? recv(fd, in + got, sizeof in - got, MSG_DONTWAIT)
                                  : nearwire_tcp_receive(port, fd, in + got, sizeof in - got, SECOND_NS / 10000);
                CHECK(port, bytes > 0 || bytes == (by_kernel ? -1 : -EAGAIN), 1);
                got += bytes > 0 ? (size_t)bytes : 0;
            }
            if (!by_kernel)
                CHECK(port, nearwire_tcp_release(port, fd), 0);
            else
                usleep((useconds_t)(rand() % 1000));
        }
    }
    CHECK(port, memcmp(in, out, sizeof out), 0);
}

static void set_link(const char *interface, const char *state)
{
    char command[128];
    snprintf(command, sizeof command, "ip link set %s %s", interface, state);
    CHECK(NULL, system(command), 0);
}

/* While the interface is down nothing moves, and the kernel would not take the connection; after that it does, with what was sent. */
static void survives_its_interface(const char *interface, int fd)
{
    char back[32] = "";
    CHECK(port, nearwire_tcp_adopt(port, fd, NULL), 0);
    echoes(fd, "down");
    set_link(interface, "down");
    CHECK(port, nearwire_tcp_release(port, fd), -ENETUNREACH);
    CHECK(port, nearwire_tcp_send(port, fd, "lost and sent again", 19, 0), 19);
    set_link(interface, "up");
    for (int n = 0; n < 100 && nearwire_tcp_release(port, fd) == -ENETUNREACH; n++)
        usleep(20000);
    CHECK(port, nearwire_tcp_release(port, fd), -ENOENT);
    CHECK(NULL, recv(fd, back, 19, MSG_WAITALL), 19);
    CHECK(NULL, strcmp(back, "lost and sent again"), 0);
    echoes_by_kernel(fd, "up");
}

int main(int argc, char **argv)
{
    int64_t due_ns = 0;
    int fd, second, number, mode, waiting;
    if (argc != 6)
        return 2;
    number = atoi(argv[3]);
    mode = atoi(argv[4]);
    waiting = atoi(argv[5]);
    refused(argv[1], (unsigned)mode);

    open_port(argv[1], (unsigned)mode, (unsigned)waiting, 0);
    fd = connected(argv[2], number);
    echoes_by_kernel(fd, "before");
    CHECK(port, nearwire_tcp_adopt(port, fd, NULL), 0);
    CHECK(port, nearwire_tcp_adopt(port, fd, NULL), -EEXIST);
    echoes(fd, "hello");
    CHECK(port, nearwire_tcp_receive(port, fd, in, sizeof in, SECOND_NS / 100), -EAGAIN);
    CHECK(port, nearwire_tcp_receive(port, fd, in, 0, 0), -EINVAL);
    CHECK(port, nearwire_tcp_send(port, fd, out, 1, 1), -EINVAL);
    bulk(fd);
    prepared(fd);
    beside_frames(fd);
    CHECK(port, nearwire_tcp_poll(port, &due_ns), 0);
    CHECK(port, due_ns >= -1, 1);

    /* Two at once; the far end closes one. */
    second = connected(argv[2], number);
    CHECK(port, nearwire_tcp_adopt(port, second, NULL), 0);
    echoes(second, "second");
    echoes(fd, "first");
    echoes(second, "quit");
    CHECK(port, nearwire_tcp_receive(port, second, in, sizeof in, 5 * SECOND_NS), 0);
    CHECK(port, nearwire_tcp_release(port, second), 0);
    CHECK(port, nearwire_tcp_send(port, second, "x", 1, 0), -ENOENT);
    close(second);

    CHECK(port, nearwire_tcp_release(port, fd), 0);
    echoes_by_kernel(fd, "after");
    changes_owner(fd);
    CHECK(port, nearwire_tcp_adopt(port, fd, NULL), 0);
    echoes(fd, "again");
    CHECK(NULL, nearwire_close(port), 0);
    echoes_by_kernel(fd, "closed");

    /* An address of IPv6 goes with the link. */
    if (!strchr(argv[2], ':')) {
        open_port(argv[1], (unsigned)mode, (unsigned)waiting, 0);
        survives_its_interface(argv[1], fd);
        CHECK(NULL, nearwire_close(port), 0);
        echoes_by_kernel(fd, "at last");
    }
    puts("OK");
    return 0;
}
