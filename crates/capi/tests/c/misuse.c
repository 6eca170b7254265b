/* misuse IFACE: what is wrong is refused with the documented value, changes nothing and never crashes. */
#include "check.h"

#include <pthread.h>
#include <time.h>

static nearwire_port *port;

static void without_a_port(void)
{
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    struct nearwire_facts facts = NEARWIRE_FACTS_INIT;
    nearwire_port *none = (nearwire_port *)&options;
    char text[512];
    CHECK(NULL, nearwire_open(NULL, "nw0", NULL), -EINVAL);
    CHECK(NULL, nearwire_open(&none, NULL, NULL), -EINVAL);
    CHECK(NULL, none == NULL, 1);
    CHECK(NULL, nearwire_open(&none, "nw-none", NULL), -ENODEV);
    CHECK(NULL, nearwire_last_error(NULL, text, sizeof text) > 0 && strstr(text, "nw-none") != NULL, 1);
    CHECK(NULL, nearwire_open(&none, "\xff\xfe", NULL), -ENODEV);
    CHECK(NULL, nearwire_open(&none, "", NULL), -ENODEV);
    options.size = 3;
    CHECK(NULL, nearwire_open(&none, "nw0", &options), -EINVAL);
    options.size = sizeof options;
    options.mode = 6;
    CHECK(NULL, nearwire_open(&none, "nw0", &options), -EINVAL);
    options.mode = 0;
    options.reserved = 1;
    CHECK(NULL, nearwire_open(&none, "nw0", &options), -EINVAL);
    options.reserved = 0;
    options.mode = NEARWIRE_MODE_XDP;
    options.queue = 2;
    CHECK(NULL, nearwire_open(&none, "nw0", &options), -ERANGE);
    options.queue = 0;
    options.mode = NEARWIRE_MODE_XDP_ZERO_COPY;
    CHECK(NULL, nearwire_open(&none, "nw0", &options), -ENOTSUP);
    CHECK(NULL, nearwire_facts(NULL, &facts), -EINVAL);
    CHECK(NULL, nearwire_facts("nw0", NULL), -EINVAL);
    facts.size = 0;
    CHECK(NULL, nearwire_facts("nw0", &facts), -EINVAL);
    CHECK(NULL, nearwire_close(NULL), 0);
    CHECK(NULL, nearwire_last_error(NULL, NULL, 1), -EINVAL);
    CHECK(NULL, nearwire_last_error(NULL, NULL, 0) > 0, 1);
    CHECK(NULL, strlen(nearwire_strerror(-EBADFD)) > 10 && strlen(nearwire_strerror(123456)) > 10, 1);
    CHECK(NULL, strcmp(nearwire_version(), "0.1.0"), 0);
}

static void with_a_null_port(void)
{
    struct nearwire_statistics statistics = NEARWIRE_STATISTICS_INIT;
    char bytes[64];
    const void *lent;
    void *buffer;
    CHECK(NULL, nearwire_transmit(NULL, bytes, 60, 0), -EINVAL);
    CHECK(NULL, nearwire_transmit_begin(NULL, 60, &buffer), -EINVAL);
    CHECK(NULL, nearwire_receive(NULL, bytes, 60, 0, NULL), -EINVAL);
    CHECK(NULL, nearwire_receive_begin(NULL, &lent, 0, NULL), -EINVAL);
    CHECK(NULL, nearwire_trigger(NULL, 0), -EINVAL);
    CHECK(NULL, nearwire_statistics(NULL, &statistics), -EINVAL);
    CHECK(NULL, nearwire_mode(NULL), -EINVAL);
    CHECK(NULL, nearwire_flow_hash(NULL), -EINVAL);
}

static void arguments(void)
{
    struct nearwire_frame_info info = NEARWIRE_FRAME_INFO_INIT;
    struct nearwire_statistics statistics = NEARWIRE_STATISTICS_INIT;
    unsigned char frame[2048];
    void *buffer;
    fill(frame, sizeof frame, 0);
    CHECK(port, nearwire_transmit(port, NULL, 60, 0), -EINVAL);
    CHECK(port, nearwire_transmit(port, frame, (size_t)-1, 0), -EINVAL);
    CHECK(port, nearwire_transmit(port, frame, 60, 4), -EINVAL);
    CHECK(port, nearwire_transmit(port, frame, 13, 0), -EMSGSIZE);
    CHECK(port, nearwire_transmit(port, frame, 1515, 0), -EMSGSIZE);
    CHECK(port, nearwire_transmit(port, frame, 1515, NEARWIRE_TRANSMIT_WARM), -EMSGSIZE);
    CHECK(port, nearwire_transmit_begin(port, 60, NULL), -EINVAL);
    CHECK(port, nearwire_transmit_begin(port, 1519, &buffer), -EMSGSIZE);
    CHECK(port, nearwire_receive(port, NULL, 10, 0, NULL), -EINVAL);
    CHECK(port, nearwire_receive(port, frame, sizeof frame, -2, NULL), -EINVAL);
    CHECK(port, nearwire_receive_begin(port, NULL, 0, NULL), -EINVAL);
    info.size = 1;
    CHECK(port, nearwire_receive(port, frame, sizeof frame, 0, &info), -EINVAL);
    statistics.size = 0xffffffff;
    CHECK(port, nearwire_statistics(port, &statistics), -EINVAL);
    CHECK(port, nearwire_statistics(port, NULL), -EINVAL);
    CHECK(port, nearwire_load(port, 4, frame, 60), -ERANGE);
    CHECK(port, nearwire_load(port, 0, frame, 13), -EMSGSIZE);
    CHECK(port, nearwire_load(port, 0, NULL, 60), -EINVAL);
    CHECK(port, nearwire_trigger(port, 0), -ENOENT);
    CHECK(port, nearwire_trigger(port, 4), -ERANGE);
    CHECK(port, nearwire_load(port, 0, frame, 60), 0);
    CHECK(port, nearwire_trigger_patched(port, 0, 60, frame, 1), -EMSGSIZE);
    CHECK(port, nearwire_trigger_patched(port, 0, (size_t)-1, frame, 2), -EMSGSIZE);
    CHECK(port, nearwire_trigger_patched(port, 0, 0, NULL, 2), -EINVAL);
    CHECK(port, nearwire_set_flow_hash(port, NEARWIRE_HASH_TOEPLITZ), -ENOTSUP);
}

static void filters(void)
{
    struct nearwire_flow flow = NEARWIRE_FLOW_INIT;
    struct nearwire_frame_filter filter = of_type();
    CHECK(port, nearwire_filter_add_flow(port, NULL), -EINVAL);
    CHECK(port, nearwire_filter_add_flow(port, &flow), -EINVAL); /* no protocol */
    flow.protocol = 17;
    flow.family = 5;
    CHECK(port, nearwire_filter_add_flow(port, &flow), -EINVAL);
    flow.family = NEARWIRE_IP_ANY;
    flow.address[0] = 10;
    CHECK(port, nearwire_filter_add_flow(port, &flow), -EINVAL);
    flow.family = NEARWIRE_IPV4;
    flow.address[4] = 1;
    CHECK(port, nearwire_filter_add_flow(port, &flow), -EINVAL);
    flow.address[4] = 0;
    CHECK(port, nearwire_filter_remove_flow(port, &flow), -ENOENT);
    /* Of both families or none: the IPv6 half is there, so the IPv4 half is taken back. */
    memset(flow.address, 0, sizeof flow.address);
    flow.family = NEARWIRE_IPV6;
    CHECK(port, nearwire_filter_add_flow(port, &flow), 0);
    flow.family = NEARWIRE_IP_ANY;
    CHECK(port, nearwire_filter_add_flow(port, &flow), -EEXIST);
    flow.family = NEARWIRE_IPV4;
    CHECK(port, nearwire_filter_add_flow(port, &flow), 0);
    flow.family = NEARWIRE_IP_ANY;
    CHECK(port, nearwire_filter_remove_flow(port, &flow), 0);
    filter.ether_type = 0x8100;
    CHECK(port, nearwire_filter_add_frame(port, &filter), -EINVAL);
    filter.match = 8;
    CHECK(port, nearwire_filter_add_frame(port, &filter), -EINVAL);
    filter.match = NEARWIRE_MATCH_VLAN;
    filter.vlan = 4095;
    CHECK(port, nearwire_filter_add_frame(port, &filter), -EINVAL);
}

static void out_of_turn(void)
{
    void *buffer;
    char text[512];
    CHECK(port, nearwire_transmit_end(port, 60), -EBADFD);
    CHECK(port, nearwire_transmit_abort(port), -EBADFD);
    CHECK(port, nearwire_receive_end(port), -EBADFD);
    CHECK(port, nearwire_last_error(port, text, sizeof text) > 0 && strstr(text, "none is lent") != NULL, 1);
    CHECK(port, nearwire_transmit_begin(port, 60, &buffer), 0);
    CHECK(port, nearwire_transmit_begin(port, 60, &buffer), -EBADFD);
    CHECK(port, nearwire_transmit_end(port, 61), -EBADFD);
    CHECK(port, nearwire_transmit_end(port, 5), -EMSGSIZE);
    CHECK(port, nearwire_transmit_abort(port), 0);
}

static void *receives(void *stop)
{
    char frame[64];
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        nearwire_receive(port, frame, sizeof frame, SECOND_NS / 100, NULL);
    return NULL;
}

/* A second thread is told so, and asks for the text meanwhile. */
static void two_threads(void)
{
    int stop = 0;
    struct nearwire_statistics statistics = NEARWIRE_STATISTICS_INIT;
    pthread_t thread;
    int busy = 0;
    char text[512];
    CHECK(port, pthread_create(&thread, NULL, receives, &stop), 0);
    time_t end = time(NULL) + 10;
    while (!busy && time(NULL) < end)
        busy = nearwire_statistics(port, &statistics) == -EBUSY;
    CHECK(port, busy, 1);
    CHECK(port, nearwire_last_error(port, text, sizeof text) > 0 && strstr(text, "another thread") != NULL, 1);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK(port, nearwire_statistics(port, &statistics), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    without_a_port();
    with_a_null_port();
    static const unsigned modes[] = { NEARWIRE_MODE_XDP_GENERIC, NEARWIRE_MODE_PACKET };
    for (size_t n = 0; n < 2; n++) {
        port = opened(argv[1], modes[n], 0);
        arguments();
        filters();
        out_of_turn();
        two_threads();
        if (modes[n] != NEARWIRE_MODE_PACKET) {
            nearwire_port *second;
            CHECK(NULL, nearwire_open(&second, argv[1], NULL), -EBUSY);
        }
        CHECK(port, nearwire_close(port), 0);
    }
    struct nearwire_options options = NEARWIRE_OPTIONS_INIT;
    struct nearwire_frame_filter filter = of_type();
    options.take = NEARWIRE_TAKE_ALL;
    CHECK(NULL, nearwire_open(&port, argv[1], &options), 0);
    CHECK(port, nearwire_filter_add_frame(port, &filter), -ENOTSUP);
    CHECK(port, nearwire_close(port), 0);
    printf("OK\n");
    return 0;
}
