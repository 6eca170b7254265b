/*
 * Round trips of an order on one TCP connection: by the kernel, by nearwire_tcp_send(), and as a loaded message whose price is
 * patched when it is triggered. Rounds of the three take turns; each figure is a median.
 *
 *     order serve ADDRESS PORT               on the far side: sends back what comes
 *     order IFACE ADDRESS PORT [ROUNDS]      on the near side
 */
#include <nearwire.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define ORDERS 1000 /* in a round */
#define WARM_UP 50  /* of them */

enum way { KERNEL, SEND, PREPARED, WAYS };
static const char *const names[WAYS] = { "kernel", "nearwire_tcp_send", "nearwire_tcp_trigger_patched" };

static nearwire_port *port;
static struct { char symbol[12]; uint32_t price; char rest[48]; } order = { "NEARWIRE", 0, "" }, answer;

static void fail(const char *what, int error)
{
    char text[512] = "";
    nearwire_last_error(port, text, sizeof text);
    fprintf(stderr, "%s: %s (%s)\n", what, nearwire_strerror(error), text);
    exit(1);
}

static struct sockaddr_in endpoint(const char *address, const char *number)
{
    struct sockaddr_in end = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(number)) };
    if (inet_pton(AF_INET, address, &end.sin_addr) != 1)
        fail(address, -EINVAL);
    return end;
}

static void no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Spins, so that the figures are those of the near side. */
static int serve(struct sockaddr_in end)
{
    int one = 1, fd, listener = socket(AF_INET, SOCK_STREAM, 0);
    char bytes[4096];
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&end, sizeof end) || listen(listener, 1))
        fail("listen", -errno);
    puts("ready");
    fflush(stdout);
    fd = accept(listener, NULL, NULL);
    no_delay(fd);
    for (;;) {
        ssize_t length = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (length == 0 || (length < 0 && errno != EAGAIN))
            return 0;
        if (length > 0 && send(fd, bytes, (size_t)length, 0) != length)
            return 1;
    }
}

static void sent(int value)
{
    if (value < 0)
        fail("send an order", value);
}

static void exchange(int fd, enum way way)
{
    size_t got = 0;
    if (way == PREPARED) {
        sent(nearwire_tcp_trigger_patched(port, fd, 0, offsetof(__typeof__(order), price), &order.price,
                                          sizeof order.price));
    } else if (way == SEND) {
        sent(nearwire_tcp_send(port, fd, &order, sizeof order, 0));
    } else {
        sent(send(fd, &order, sizeof order, 0) < 0 ? -errno : 0);
    }
    while (got < sizeof answer) {
        char *to = (char *)&answer + got;
        int bytes = way == KERNEL ? (int)recv(fd, to, sizeof answer - got, MSG_DONTWAIT)
                                  : nearwire_tcp_receive(port, fd, to, sizeof answer - got, SECOND_NS);
        if (way == KERNEL && bytes < 0)
            bytes = errno == EAGAIN ? 0 : -errno;
        else if (bytes == 0)
            fail("the far side is gone", -EPIPE);
        if (bytes < 0)
            fail("receive an answer", bytes);
        got += (size_t)bytes;
    }
    if (memcmp(&order, &answer, sizeof order)) {
        fputs("the answer is not the order\n", stderr);
        exit(1);
    }
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND_NS + time.tv_nsec;
}

static int by_value(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static int64_t median(int64_t *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* The median round trip of a round. */
static int64_t round_ns(int fd, enum way way)
{
    static int64_t took_ns[ORDERS];
    int error = way == KERNEL ? 0 : nearwire_tcp_adopt(port, fd, NULL);
    if (!error && way == PREPARED)
        error = nearwire_tcp_load(port, fd, 0, &order, sizeof order);
    if (error)
        fail("adopt the connection", error);
    for (int n = -WARM_UP; n < ORDERS; n++) {
        int64_t begun_ns = now_ns();
        order.price++;
        exchange(fd, way);
        if (n >= 0)
            took_ns[n] = now_ns() - begun_ns;
    }
    if (way != KERNEL) {
        error = nearwire_tcp_release(port, fd);
        if (error)
            fail("release the connection", error);
    }
    return median(took_ns, ORDERS);
}

int main(int argc, char **argv)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    struct sockaddr_in end;
    int error, fd, rounds = argc > 4 ? atoi(argv[4]) : 9;
    int64_t *medians = malloc(sizeof *medians * WAYS * (size_t)(rounds > 0 ? rounds : 1));
    if (argc < 4 || rounds < 1 || !medians) {
        fputs("order serve ADDRESS PORT, or order IFACE ADDRESS PORT [ROUNDS]\n", stderr);
        return 2;
    }
    end = endpoint(argv[2], argv[3]);
    if (strcmp(argv[1], "serve") == 0)
        return serve(end);
    options.flags = NEARWIRE_OPEN_TCP;
    error = nearwire_open(&port, argv[1], &options);
    if (error)
        fail(argv[1], error);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&end, sizeof end))
        fail("connect", -errno);
    no_delay(fd);
    for (int n = 0; n < rounds; n++)
        for (int way = 0; way < WAYS; way++)
            medians[way * rounds + n] = round_ns(fd, (enum way)way);
    for (int way = 0; way < WAYS; way++)
        printf("%-30s %8.2f us\n", names[way], (double)median(medians + way * rounds, rounds) / 1000);
    free(medians);
    close(fd);
    return nearwire_close(port);
}
