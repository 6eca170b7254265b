/* exchange NEAR FAR MODE [times]: every way to send and receive between two ports of one namespace. */
#include "check.h"

static nearwire_port *near_port, *far_port;
static int with_times;
static unsigned char out[1514], in[2048];

static void arrives(size_t length, unsigned char number)
{
    fill(out, length, number);
    memset(in, 0, sizeof in);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, 5 * SECOND_NS, NULL), length);
    CHECK(far_port, memcmp(in, out, length), 0);
}

static void filters(void)
{
    struct nearwire_frame_filter filter = of_type();
    fill(out, 60, 1);
    CHECK(near_port, nearwire_transmit(near_port, out, 60, 0), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, SECOND_NS / 50, NULL), 0);
    CHECK(far_port, nearwire_filter_add_frame(far_port, &filter), 0);
    CHECK(far_port, nearwire_filter_add_frame(far_port, &filter), -EEXIST);
    CHECK(near_port, nearwire_transmit(near_port, out, 60, 0), 0);
    arrives(60, 1);
    CHECK(far_port, nearwire_filter_remove_frame(far_port, &filter), 0);
    CHECK(far_port, nearwire_filter_remove_frame(far_port, &filter), -ENOENT);
    CHECK(near_port, nearwire_transmit(near_port, out, 60, 0), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, SECOND_NS / 50, NULL), 0);
    CHECK(far_port, nearwire_filter_add_frame(far_port, &filter), 0);
}

/* A UDP packet to 10.0.0.2 port 7000, the checksums left out: filters do not look at them. */
static void flows(void)
{
    static const unsigned char packet[] = {
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        0x27, 0x0f, 0x1b, 0x58, 0, 12, 0, 0, 'd', 'a', 't', 'a',
    };
    static const unsigned char address[] = { 10, 0, 0, 2 };
    struct nearwire_flow flow = NEARWIRE_FLOW_INIT;
    flow.protocol = 17;
    flow.family = NEARWIRE_IPV4;
    flow.port = 7000;
    memcpy(flow.address, address, sizeof address);
    CHECK(far_port, nearwire_filter_add_flow(far_port, &flow), 0);
    CHECK(near_port, nearwire_transmit(near_port, packet, sizeof packet, 0), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, 5 * SECOND_NS, NULL), sizeof packet);
    CHECK(far_port, memcmp(in, packet, sizeof packet), 0);
    CHECK(far_port, nearwire_filter_remove_flow(far_port, &flow), 0);
    memset(flow.address, 0, sizeof flow.address);
    flow.family = NEARWIRE_IP_ANY;
    CHECK(far_port, nearwire_filter_add_flow(far_port, &flow), 0);
    CHECK(near_port, nearwire_transmit(near_port, packet, sizeof packet, 0), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, 5 * SECOND_NS, NULL), sizeof packet);
    CHECK(far_port, nearwire_filter_remove_flow(far_port, &flow), 0);
    CHECK(near_port, nearwire_transmit(near_port, packet, sizeof packet, 0), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, SECOND_NS / 50, NULL), 0);
}

static void copies(void)
{
    static const size_t lengths[] = { 18, 60, 64, 1514 };
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        fill(out, lengths[n], 2);
        CHECK(near_port, nearwire_transmit(near_port, out, lengths[n], 0), 0);
        arrives(lengths[n], 2);
    }
    /* A cut frame tells its whole length. */
    fill(out, 100, 3);
    CHECK(near_port, nearwire_transmit(near_port, out, 100, 0), 0);
    memset(in, 0, sizeof in);
    CHECK(far_port, nearwire_receive(far_port, in, 20, 5 * SECOND_NS, NULL), 100);
    CHECK(far_port, memcmp(in, out, 20) == 0 && in[20] == 0, 1);
    /* More and flush. */
    for (unsigned char n = 0; n < 10; n++) {
        fill(out, 60, n);
        CHECK(near_port, nearwire_transmit(near_port, out, 60, NEARWIRE_TRANSMIT_MORE), 0);
    }
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, 0, NULL), 0);
    CHECK(near_port, nearwire_flush(near_port), 0);
    for (unsigned char n = 0; n < 10; n++)
        arrives(60, n);
    /* Warm sends send nothing. */
    for (int n = 0; n < 100; n++)
        CHECK(near_port, nearwire_transmit(near_port, out, 60, NEARWIRE_TRANSMIT_WARM), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, SECOND_NS / 50, NULL), 0);
}

static void in_place(void)
{
    for (unsigned char n = 1; n < 200; n++) {
        struct nearwire_frame_info info = NEARWIRE_FRAME_INFO_INIT;
        const void *lent;
        void *buffer;
        CHECK(near_port, nearwire_transmit_begin(near_port, 1514, &buffer), 0);
        fill(buffer, 60, n);
        CHECK(near_port, nearwire_transmit_end(near_port, 60), 0);
        CHECK(far_port, nearwire_receive_begin(far_port, &lent, 5 * SECOND_NS, &info), 60);
        fill(out, 60, n);
        CHECK(far_port, memcmp(lent, out, 60), 0);
        /* No frame has a device's time over veth, also where its driver tells. */
        unsigned best = (unsigned)nearwire_timestamp_source(far_port);
        CHECK(far_port, info.time_source, best == NEARWIRE_TIME_HARDWARE ? NEARWIRE_TIME_KERNEL : best);
        CHECK(far_port, best > NEARWIRE_TIME_PROGRAM, nearwire_mode(far_port) == NEARWIRE_MODE_PACKET || with_times);
        CHECK(far_port, info.time_ns > 1600000000ULL * SECOND_NS, 1);
        CHECK(far_port, nearwire_receive_end(far_port), 0);
    }
    void *buffer;
    CHECK(near_port, nearwire_transmit_begin(near_port, 60, &buffer), 0);
    CHECK(near_port, nearwire_transmit_abort(near_port), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, SECOND_NS / 50, NULL), 0);
}

static void slots(void)
{
    for (uint32_t slot = 0; slot < 4; slot++) {
        fill(out, 60, (unsigned char)slot);
        CHECK(near_port, nearwire_load(near_port, slot, out, 60), 0);
    }
    for (uint32_t n = 0; n < 100; n++) {
        CHECK(near_port, nearwire_trigger(near_port, n % 4), 0);
        arrives(60, (unsigned char)(n % 4));
    }
    fill(out, 200, 9);
    CHECK(near_port, nearwire_load(near_port, 2, out, 200), 0);
    CHECK(near_port, nearwire_trigger(near_port, 2), 0);
    arrives(200, 9);
    CHECK(near_port, nearwire_trigger_patched(near_port, 2, 50, "patch", 5), 0);
    CHECK(far_port, nearwire_receive(far_port, in, sizeof in, 5 * SECOND_NS, NULL), 200);
    CHECK(far_port, memcmp(in + 50, "patch", 5) == 0 && in[49] == 9 && in[55] == 9, 1);
}

int main(int argc, char **argv)
{
    struct nearwire_statistics statistics = NEARWIRE_STATISTICS_INIT;
    struct nearwire_facts facts = NEARWIRE_FACTS_INIT;
    char text[256];
    if (argc < 4)
        return 2;
    with_times = argc > 4;
    unsigned flags = with_times ? NEARWIRE_OPEN_TIMES : 0;
    unsigned mode = (unsigned)strtoul(argv[3], NULL, 10);
    near_port = opened(argv[1], mode, flags);
    far_port = opened(argv[2], mode, flags);
    filters();
    flows();
    copies();
    in_place();
    slots();
    CHECK(far_port, nearwire_statistics(far_port, &statistics), 0);
    CHECK(far_port, statistics.received_frames > 300 && statistics.receive_dropped_frames == 0, 1);
    CHECK(NULL, nearwire_facts(argv[2], &facts), 0);
    CHECK(NULL, strcmp(facts.driver, "veth"), 0);
    CHECK(NULL, facts.mtu_bytes == 1500 && facts.rx_queues == 2 && (facts.flags & 3) == 3, 1);
    CHECK(NULL, (facts.xdp_program_id != 0), (nearwire_mode(far_port) != NEARWIRE_MODE_PACKET));
    CHECK(far_port, nearwire_frame_most(far_port), 1518);
    int whole = nearwire_describe(far_port, text, sizeof text);
    CHECK(far_port, whole, strlen(text));
    printf("%s: %lu received\n", text, (unsigned long)statistics.received_frames);
    CHECK(near_port, nearwire_close(near_port), 0);
    CHECK(far_port, nearwire_close(far_port), 0);
    CHECK(NULL, nearwire_facts(argv[2], &facts), 0);
    CHECK(NULL, facts.xdp_program_id, 0);
    printf("OK\n");
    return 0;
}
