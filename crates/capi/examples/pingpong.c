/*
 * Half round trips between two ports: the near side triggers a loaded frame and receives in place, the far side sends back
 * what comes.
 *
 *     pingpong pong IFACE          on the far side
 *     pingpong ping IFACE [COUNT]  on the near side
 */
#include <nearwire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ETHER_TYPE 0x88b5
#define SECOND_NS 1000000000LL

static nearwire_port *port;

static void fail(const char *what, int error)
{
    char text[512] = "";
    nearwire_last_error(port, text, sizeof text);
    fprintf(stderr, "%s: %s (%s)\n", what, nearwire_strerror(error), text);
    exit(1);
}

static void open_port(const char *interface)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    struct nearwire_frame_filter filter = NEARWIRE_FRAME_FILTER_INIT;
    char text[256];
    int error = nearwire_open(&port, interface, &options);
    if (error)
        fail(interface, error);
    filter.match = NEARWIRE_MATCH_ETHER_TYPE;
    filter.ether_type = ETHER_TYPE;
    error = nearwire_filter_add_frame(port, &filter);
    if (error)
        fail("add a filter", error);
    nearwire_describe(port, text, sizeof text);
    printf("%s\n", text);
    fflush(stdout);
}

static void pong(void)
{
    const void *frame;
    for (;;) {
        int length = nearwire_receive_begin(port, &frame, 5 * SECOND_NS, NULL);
        if (length < 0)
            fail("receive", length);
        if (length == 0)
            return; /* the near side is done */
        int error = nearwire_transmit(port, frame, (size_t)length, 0);
        nearwire_receive_end(port);
        if (error && error != -EAGAIN)
            fail("send back", error);
    }
}

static void ping(unsigned count)
{
    static const unsigned char head[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, ETHER_TYPE >> 8, ETHER_TYPE & 0xff };
    unsigned char frame[60] = { 0 };
    struct nearwire_frame_info info = NEARWIRE_FRAME_INFO_INIT;
    uint64_t first_ns = 0, last_ns = 0;
    unsigned answered = 0;
    memcpy(frame, head, sizeof head);
    int error = nearwire_load(port, 0, frame, sizeof frame);
    if (error)
        fail("load", error);
    for (int warm = 0; warm < 100; warm++)
        nearwire_transmit(port, frame, sizeof frame, NEARWIRE_TRANSMIT_WARM);
    for (uint32_t n = 0; n < count; n++) {
        const void *answer;
        do
            error = nearwire_trigger_patched(port, 0, sizeof head, &n, sizeof n);
        while (error == -EAGAIN);
        if (error)
            fail("trigger", error);
        int length, is_answer;
        do { /* pass over answers that came too late */
            length = nearwire_receive_begin(port, &answer, SECOND_NS, &info);
            if (length < 0)
                fail("receive", length);
            is_answer = length >= (int)(sizeof head + sizeof n)
                && memcmp((const char *)answer + sizeof head, &n, sizeof n) == 0;
            if (length > 0)
                nearwire_receive_end(port);
        } while (length > 0 && !is_answer);
        if (!is_answer)
            continue; /* lost */
        answered++;
        last_ns = info.time_ns;
        if (first_ns == 0)
            first_ns = last_ns;
    }
    printf("%u of %u answered\n", answered, count);
    if (answered > 1)
        printf("half round trip %.2f us on average\n", (double)(last_ns - first_ns) / (answered - 1) / 2000.0);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "ping") && strcmp(argv[1], "pong"))) {
        fprintf(stderr, "usage: pingpong ping|pong IFACE [COUNT]\n");
        return 2;
    }
    open_port(argv[2]);
    if (strcmp(argv[1], "pong") == 0)
        pong();
    else
        ping(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000);
    return nearwire_close(port) ? 1 : 0;
}
