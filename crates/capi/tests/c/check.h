/* What the test programs share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <nearwire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000LL
#define ETHER_TYPE 0x88b5

/* `expression` must give `wanted`. */
#define CHECK(port, expression, wanted) check(port, #expression, __LINE__, (long)(expression), (long)(wanted))

static void check(const nearwire_port *port, const char *expression, int line, long found, long wanted)
{
    char text[512] = "";
    if (found == wanted)
        return;
    nearwire_last_error(port, text, sizeof text);
    fprintf(stderr, "line %d: %s gave %ld, wanted %ld: %s\n", line, expression, found, wanted, text);
    exit(1);
}

/* A frame of `length` bytes with a number in it. */
static inline void fill(unsigned char *frame, size_t length, unsigned char number)
{
    static const unsigned char head[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, ETHER_TYPE >> 8, ETHER_TYPE & 0xff };
    memset(frame, number, length);
    memcpy(frame, head, sizeof head);
}

static inline nearwire_port *opened(const char *interface, unsigned mode, unsigned flags)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    nearwire_port *port;
    options.mode = mode;
    options.flags = flags;
    options.slots = 4;
    CHECK(NULL, nearwire_open(&port, interface, &options), 0);
    return port;
}

static inline struct nearwire_frame_filter of_type(void)
{
    struct nearwire_frame_filter filter = NEARWIRE_FRAME_FILTER_INIT;
    filter.match = NEARWIRE_MATCH_ETHER_TYPE;
    filter.ether_type = ETHER_TYPE;
    return filter;
}

#endif
