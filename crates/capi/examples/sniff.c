/*
 * Prints what comes to a UDP port, or every frame without one. The kernel does not get what this program takes.
 *
 *     sniff IFACE [UDP-PORT [COUNT]]
 */
#include <nearwire.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const char *const clocks[] = { "?", "program", "kernel", "hardware" };
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    struct nearwire_flow flow = NEARWIRE_FLOW_INIT;
    struct nearwire_frame_filter every = NEARWIRE_FRAME_FILTER_INIT;
    struct nearwire_frame_info info = NEARWIRE_FRAME_INFO_INIT;
    unsigned char frame[2048];
    char text[512] = "";
    nearwire_port *port = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: sniff IFACE [UDP-PORT [COUNT]]\n");
        return 2;
    }
    options.waiting = NEARWIRE_WAIT_SLEEP;
    options.flags = NEARWIRE_OPEN_TIMES;
    int value = nearwire_open(&port, argv[1], &options);
    flow.protocol = 17;
    flow.port = (uint16_t)(argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
    if (value == 0)
        value = flow.port ? nearwire_filter_add_flow(port, &flow) : nearwire_filter_add_frame(port, &every);
    if (value == 0) {
        printf("listening\n");
        fflush(stdout);
    }
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : ~0UL;
    for (; value >= 0 && count > 0; count--) {
        value = nearwire_receive(port, frame, sizeof frame, -1, &info);
        if (value < 0)
            break;
        printf("%" PRIu64 " ns (%s), queue %u, %d bytes:", info.time_ns, clocks[info.time_source & 3], info.queue, value);
        for (int at = 0; at < value && at < 64; at++)
            printf("%s%02x", at % 2 ? "" : " ", frame[at]);
        printf("\n");
        fflush(stdout);
    }
    if (value < 0) {
        nearwire_last_error(port, text, sizeof text);
        fprintf(stderr, "%s (%s)\n", nearwire_strerror(value), text);
    }
    nearwire_close(port);
    return value < 0;
}
