/*
 * Sends on OUT whatever comes on IN, made up in place in a buffer of OUT.
 *
 *     forward IN OUT [COUNT]
 */
#include <nearwire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(nearwire_port *port, const char *what, int value)
{
    char text[512] = "";
    if (value >= 0)
        return;
    nearwire_last_error(port, text, sizeof text);
    fprintf(stderr, "%s: %s (%s)\n", what, nearwire_strerror(value), text);
    exit(1);
}

static nearwire_port *opened(const char *interface)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    nearwire_port *port;
    options.take = NEARWIRE_TAKE_ALL;
    check(NULL, interface, nearwire_open(&port, interface, &options));
    return port;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: forward IN OUT [COUNT]\n");
        return 2;
    }
    nearwire_port *in = opened(argv[1]), *out = opened(argv[2]);
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : ~0UL;
    printf("forwarding\n");
    fflush(stdout);
    for (unsigned long n = 0; n < count; n++) {
        const void *from;
        void *to;
        int length = nearwire_receive_begin(in, &from, -1, NULL);
        check(in, "receive", length);
        int error = nearwire_transmit_begin(out, (size_t)length, &to);
        if (error != -EAGAIN) { /* else: no room, the frame is lost, as on a wire */
            check(out, "begin", error);
            memcpy(to, from, (size_t)length);
            error = nearwire_transmit_end(out, (size_t)length);
            if (error == -EAGAIN)
                nearwire_transmit_abort(out);
            else
                check(out, "end", error);
        }
        nearwire_receive_end(in);
    }
    nearwire_close(in);
    nearwire_close(out);
    return 0;
}
