/*
 * nearwire.h - Ethernet frames and TCP connections past the kernel's network stack, for C and C++ programs
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A port sends and receives Ethernet frames (without FCS) on one network interface: through AF_XDP, where frames lie in
 * memory that the program shares with the kernel, or through AF_PACKET where AF_XDP cannot be had. Link with -lnearwire;
 * `pkg-config --cflags --libs nearwire` knows the rest. Manual: nearwire(3).
 *
 *     nearwire_port *port;
 *     struct nearwire_flow flow = NEARWIRE_FLOW_INIT;
 *     char frame[2048];
 *     int length = nearwire_open(&port, "eth1", NULL);
 *     flow.protocol = 17;
 *     flow.family = NEARWIRE_IPV4;
 *     flow.port = 7000;
 *     if (length == 0)
 *         length = nearwire_filter_add_flow(port, &flow);
 *     if (length == 0)
 *         length = nearwire_receive(port, frame, sizeof frame, -1, NULL);
 *
 * RETURN VALUES
 *     Functions return 0 or a length, and on failure a negative errno value. nearwire_strerror() says what the value
 *     means here, nearwire_last_error() what was tried, on what, what was found and what to do. Every function that takes
 *     a port returns besides its own values
 *         -EINVAL   port is NULL, an argument that must not be NULL is, or a value is out of range
 *         -EBUSY    another thread is in a call on this port
 *         -EIO      a defect of this library; the port can only be closed
 *     and those that transmit or receive
 *         -ENODEV, -ENETDOWN   the interface was removed, or is down: close the port
 *
 * THREADS
 *     One call at a time on a port; a second one gets -EBUSY and changes nothing. nearwire_last_error() may be called at
 *     any time from any thread. Different ports are independent.
 *
 * NETWORK NAMESPACES
 *     A port belongs to the network namespace of the thread that opened it, and may be used from any thread.
 *
 * WHAT A PROCESS LEAVES
 *     Nothing. The XDP program that steers frames is attached by a link that closes with the process, also by kill -9; the
 *     interface then works through the kernel as before.
 *
 * WHAT AF_XDP CANNOT DO, compared with a card that has its own library
 *     - Cut-through: a frame is seen when it is whole and in memory, never in parts as it arrives.
 *     - Preload onto the card: a loaded slot is a frame kept ready in host memory, which the device reads when triggered.
 *     - Many readers of one queue: a queue has one AF_XDP socket, and an interface one XDP program, so one port. Frames that
 *       a port takes are seen by nobody else, tcpdump included. A slow reader is not overtaken but loses frames, counted
 *       in receive_dropped_frames.
 *     - Hardware time stamps of received frames: only where the driver tells an XDP program, as ice, igc, mlx5 and stmmac do
 *       (Linux 6.6), see NEARWIRE_OPEN_TIMES. Of sent frames: none.
 *     - VLAN tags that the device takes out of the frame are not seen: `ethtool -K IF rxvlan off`.
 *     - Zero copy on some drivers attaches and then delivers nothing: compare with NEARWIRE_MODE_XDP_NATIVE.
 *
 * GROWTH
 *     Structures that callers fill begin with their size; NEARWIRE_..._INIT sets it, and zero elsewhere is the default. A
 *     later library takes an earlier program's structures. An earlier library takes a later program's if what it does not
 *     know is zero, and gives -E2BIG otherwise.
 */
#ifndef NEARWIRE_H
#define NEARWIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of this header. */
#define NEARWIRE_VERSION_MAJOR 0
#define NEARWIRE_VERSION_MINOR 1
#define NEARWIRE_VERSION_PATCH 0

/** Version of the library in use, as in "0.1.0". Never NULL; the text is static. */
const char *nearwire_version(void);

/** An open port. */
typedef struct nearwire_port nearwire_port;

/* ---------------------------------------------------------------- errors */

/**
 * What an error value means here, for a value that a function returned (or its positive errno). Never NULL; the text is
 * static.
 */
const char *nearwire_strerror(int error);

/**
 * The text of the last failed call on `port`, or, with `port` NULL, of the calling thread's last failed call without a
 * port (nearwire_open(), nearwire_facts()).
 *
 * Writes at most `size` bytes to `text`, the closing NUL among them; `text` may be NULL when `size` is 0. Returns the length
 * of the whole text without NUL, 0 when nothing failed. -EINVAL: `text` is NULL and `size` is not 0.
 */
int nearwire_last_error(const nearwire_port *port, char *text, size_t size);

/* ---------------------------------------------------------------- opening */

enum nearwire_mode {
    /** AF_XDP in the best mode that works, else AF_PACKET. */
    NEARWIRE_MODE_AUTO = 0,
    /** AF_XDP in the best mode that works. */
    NEARWIRE_MODE_XDP = 1,
    /**
     * AF_PACKET: the kernel handles every frame too, filters are applied by the library, and all queues are received from.
     */
    NEARWIRE_MODE_PACKET = 2,
    /** AF_XDP, the device reads and writes the program's memory. */
    NEARWIRE_MODE_XDP_ZERO_COPY = 3,
    /** AF_XDP, one copy in the driver. */
    NEARWIRE_MODE_XDP_NATIVE = 4,
    /** AF_XDP, one copy behind the driver: any driver, and the fastest on veth. */
    NEARWIRE_MODE_XDP_GENERIC = 5
};

enum nearwire_take {
    /** Frames that match a filter, none at first. */
    NEARWIRE_TAKE_FILTERS = 0,
    /** Every frame of the port's queues: the kernel gets none of them. Filters cannot be added. */
    NEARWIRE_TAKE_ALL = 1
};

enum nearwire_waiting {
    /** A waiting receive looks at the ring again and again: the fastest, and a whole CPU. Signals do not end it. */
    NEARWIRE_WAIT_SPIN = 0,
    /** A waiting receive sleeps in poll(2). Signals end it with -EINTR. */
    NEARWIRE_WAIT_SLEEP = 1
};

enum nearwire_open_flags {
    /**
     * Send through a socket of its own, on `tx_queue`, which must not be a receive queue of the port. AF_XDP only, and not in
     * zero-copy mode, which NEARWIRE_MODE_AUTO and NEARWIRE_MODE_XDP then do not try.
     */
    NEARWIRE_OPEN_SEPARATE_TX = 1,
    /** Do not try huge pages for packet memory. */
    NEARWIRE_OPEN_SMALL_PAGES = 2,
    /**
     * AF_XDP: have the XDP program take the time of each frame, when the driver has it and, in native and zero-copy mode, when
     * the device had it; about 20 to 50 ns a frame. Opening succeeds without what cannot be had: nearwire_timestamp_source()
     * says what there is, nearwire_describe() why not more. The device's clock has to be switched on (hwstamp_ctl(8)) and kept
     * by somebody else. AF_PACKET has the kernel's time without this flag.
     */
    NEARWIRE_OPEN_TIMES = 4,
    /**
     * TCP connections will be adopted (nearwire_tcp_adopt()): receive on all queues, unless `queue_count` says otherwise, and take segments
     * that the kernel or a sender on this host has joined. AF_XDP only, with NEARWIRE_TAKE_FILTERS.
     */
    NEARWIRE_OPEN_TCP = 8
};

/** How a port is to be opened. Zero is the default everywhere. */
struct nearwire_options {
    uint32_t size;        /**< sizeof(struct nearwire_options) */
    uint32_t mode;        /**< enum nearwire_mode */
    uint32_t take;        /**< enum nearwire_take */
    uint32_t waiting;     /**< enum nearwire_waiting */
    uint32_t flags;       /**< enum nearwire_open_flags */
    uint32_t queue;       /**< first receive queue; AF_XDP sends on it too */
    uint32_t queue_count; /**< receive queues from `queue` on; 0 is 1. The device's flow hash decides which flow is where */
    uint32_t tx_queue;    /**< with NEARWIRE_OPEN_SEPARATE_TX: the queue to send on */
    uint32_t rx_frames;   /**< buffers of each receive queue, up to 32768. 0: as many as the driver's receive ring takes, twice as
                               many in zero-copy mode, 128 to 8192; 128 if no more may be locked, and on veth; AF_PACKET: 256 */
    uint32_t tx_frames;   /**< buffers for sending, up to 32768; 0 is 64 */
    uint32_t slots;       /**< slots of loaded frames, up to 32768; 0 is 16 */
    uint32_t frame_bytes; /**< size of an AF_XDP buffer, 2048 or 4096, of which the kernel uses 256; 0 follows the MTU. A longer
                               frame lies in several (Linux 6.6), and takes as many of rx_frames */
    uint32_t busy_poll_us; /**< AF_XDP: each look polls the device queue for so long (SO_BUSY_POLL); 0 is off */
    uint32_t reserved;     /**< 0 */
};

#define NEARWIRE_OPTIONS_INIT { (uint32_t)sizeof(struct nearwire_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Opens a port on `interface`, in the network namespace of the calling thread. `options` may be NULL.
 *
 * 0, and the port in `*port`. Otherwise `*port` is NULL:
 *   -ENODEV      no such interface
 *   -ENETDOWN    the interface is down
 *   -ERANGE      it has no such queue
 *   -EBUSY       another AF_XDP socket has the queue, or another XDP program the interface
 *   -ENOTSUP     the driver cannot do what the mode needs
 *   -EPERM       CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF or CAP_PERFMON is missing
 *   -ENOMEM      packet memory could not be had or locked
 *   -E2BIG       `options` has parts that this library does not know
 *   -EINVAL      an option is out of range
 *   others       what the kernel said
 */
int nearwire_open(nearwire_port **port, const char *interface, const struct nearwire_options *options);

/** Closes a port: frames are the kernel's again, lent frames and begun sends are gone. NULL is allowed. */
int nearwire_close(nearwire_port *port);

/** The mode the port works in: one of NEARWIRE_MODE_PACKET and NEARWIRE_MODE_XDP_*. */
int nearwire_mode(nearwire_port *port);

/** One line about the port, for people. Size, NUL and value as nearwire_last_error(). */
int nearwire_describe(nearwire_port *port, char *text, size_t size);

/** Longest frame without FCS that the port sends, bytes. */
int nearwire_frame_most(nearwire_port *port);

/* ---------------------------------------------------------------- transmitting */

enum nearwire_transmit_flags {
    /**
     * Walk the way of a send and send nothing: code, translations and caches are then as the next send wants them. AF_PACKET
     * stops before the system call.
     */
    NEARWIRE_TRANSMIT_WARM = 1,
    /** More frames follow at once: do not kick the kernel. The next send without it, or nearwire_flush(), does. */
    NEARWIRE_TRANSMIT_MORE = 2
};

/**
 * Sends a copy of `length` bytes at `frame`. `flags`: enum nearwire_transmit_flags.
 *   -EAGAIN     no buffer is free now
 *   -EMSGSIZE   the port carries no frame of this length
 */
int nearwire_transmit(nearwire_port *port, const void *frame, size_t length, unsigned flags);

/** Kicks the kernel for what was sent with NEARWIRE_TRANSMIT_MORE. */
int nearwire_flush(nearwire_port *port);

/**
 * Lends a buffer for a frame of up to `length` bytes, in `*frame`. The caller may read and write these bytes until
 * nearwire_transmit_end() succeeds, nearwire_transmit_abort() or nearwire_close(); what they hold at first is not defined.
 * Other calls on the port are allowed meanwhile.
 *   -EAGAIN     no buffer is free now
 *   -EMSGSIZE   the port carries no frame of this length
 *   -EBADFD     a send has begun
 */
int nearwire_transmit_begin(nearwire_port *port, size_t length, void **frame);

/**
 * Sends the first `length` bytes of the begun buffer. After a failure the send is still begun.
 *   -EAGAIN     no room now
 *   -EMSGSIZE   the port carries no such frame
 *   -EBADFD     no send has begun, or for less than `length`
 */
int nearwire_transmit_end(nearwire_port *port, size_t length);

/** Gives the begun buffer back, with nothing sent. -EBADFD: no send has begun. */
int nearwire_transmit_abort(nearwire_port *port);

/**
 * Loads a copy of a frame into slot `slot` (0 to options.slots - 1), over what was there. It stays there for any number of
 * triggers.
 *   -EAGAIN     the slot's last frame is still being sent
 *   -EMSGSIZE   the port carries no frame of this length
 *   -ERANGE     there is no such slot
 */
int nearwire_load(nearwire_port *port, uint32_t slot, const void *frame, size_t length);

/**
 * Sends the frame in a slot: one descriptor and one kick, no copy.
 *   -EAGAIN     its last send has not completed, or there is no room now
 *   -ENOENT     nothing is loaded
 *   -ERANGE     there is no such slot
 */
int nearwire_trigger(nearwire_port *port, uint32_t slot);

/**
 * Overwrites `length` bytes of a slot's frame from `offset` on (a sequence number, a checksum; they stay), and sends it.
 * Besides the values of nearwire_trigger():
 *   -EMSGSIZE   offset and length are not within the frame
 */
int nearwire_trigger_patched(nearwire_port *port, uint32_t slot, size_t offset, const void *bytes, size_t length);

/* ---------------------------------------------------------------- receiving */

enum nearwire_time_source {
    /** The library took the time when it found the frame in the ring. */
    NEARWIRE_TIME_PROGRAM = 1,
    /** The kernel took it when the frame entered its stack, of AF_XDP when the driver had it. */
    NEARWIRE_TIME_KERNEL = 2,
    /** The device took it, by its own clock: since 1970 only where somebody keeps that clock so (ptp4l(8), phc2sys(8)). */
    NEARWIRE_TIME_HARDWARE = 3
};

/** About a received frame. */
struct nearwire_frame_info {
    uint32_t size;        /**< sizeof(struct nearwire_frame_info), set by the caller */
    uint32_t queue;       /**< the receive queue it came on; 0 with AF_PACKET */
    uint64_t time_ns;     /**< nanoseconds since 1970 */
    uint32_t time_source; /**< enum nearwire_time_source */
    uint32_t reserved;    /**< 0 */
};

#define NEARWIRE_FRAME_INFO_INIT { (uint32_t)sizeof(struct nearwire_frame_info), 0, 0, 0, 0 }

/**
 * Copies the next frame to `buffer`, at most `capacity` bytes of it. Returns the length of the whole frame, which is more
 * than `capacity` when it was cut, and 0 when none came in time. `timeout_ns`: 0 looks once, -1 waits for ever. `info` may
 * be NULL, which saves reading a clock.
 *   -EINTR      a signal came (NEARWIRE_WAIT_SLEEP)
 *   -EBADFD     a frame is lent
 */
int nearwire_receive(nearwire_port *port, void *buffer, size_t capacity, int64_t timeout_ns,
                     struct nearwire_frame_info *info);

/**
 * Lends the next frame in place, in `*frame`, and returns its length; 0 and NULL when none came in time. The caller may read
 * these bytes until nearwire_receive_end() or nearwire_close(). Frames may be sent meanwhile. Values as nearwire_receive().
 */
int nearwire_receive_begin(nearwire_port *port, const void **frame, int64_t timeout_ns,
                           struct nearwire_frame_info *info);

/** Gives the lent frame back. -EBADFD: none is lent. */
int nearwire_receive_end(nearwire_port *port);

/**
 * The best source of time that received frames can have on this port: enum nearwire_time_source. Each frame says itself which
 * it has. AF_XDP: NEARWIRE_TIME_PROGRAM, and with NEARWIRE_OPEN_TIMES NEARWIRE_TIME_KERNEL, or NEARWIRE_TIME_HARDWARE where
 * the driver can tell; a frame of which the device has no time, as all of veth, then says NEARWIRE_TIME_KERNEL. AF_PACKET:
 * NEARWIRE_TIME_KERNEL, and frames say NEARWIRE_TIME_HARDWARE where somebody has switched the device's stamps on
 * (hwstamp_ctl(8)).
 */
int nearwire_timestamp_source(nearwire_port *port);

/* ---------------------------------------------------------------- steering */

enum nearwire_family {
    /** IPv4 and IPv6; only with an address of zeroes. */
    NEARWIRE_IP_ANY = 0,
    NEARWIRE_IPV4 = 4,
    NEARWIRE_IPV6 = 6
};

/**
 * UDP or TCP packets to an address and a port. Taken are whole packets under up to two VLAN tags; fragments, packets behind
 * IPv6 extension headers and damaged ones stay with the kernel.
 */
struct nearwire_flow {
    uint32_t size;       /**< sizeof(struct nearwire_flow) */
    uint32_t protocol;   /**< 17 (UDP) or 6 (TCP) */
    uint32_t family;     /**< enum nearwire_family */
    uint16_t port;       /**< destination port, in the byte order of the CPU; 0 is every port */
    uint16_t reserved;   /**< 0 */
    uint8_t address[16]; /**< destination as in the packet, IPv4 in the first four bytes; zeroes are every address */
};

#define NEARWIRE_FLOW_INIT { (uint32_t)sizeof(struct nearwire_flow), 0, 0, 0, 0, { 0 } }

enum nearwire_match {
    NEARWIRE_MATCH_MAC = 1,
    NEARWIRE_MATCH_ETHER_TYPE = 2,
    NEARWIRE_MATCH_VLAN = 4
};

/** In `vlan`: frames without a tag. */
#define NEARWIRE_VLAN_UNTAGGED 0xffff

/** Frames by their Ethernet header; with `match` 0 every frame. */
struct nearwire_frame_filter {
    uint32_t size;       /**< sizeof(struct nearwire_frame_filter) */
    uint32_t match;      /**< which members count: enum nearwire_match */
    uint8_t mac[6];      /**< destination address */
    uint16_t ether_type; /**< behind up to two tags, in the byte order of the CPU */
    uint16_t vlan;       /**< number in the outermost tag, 0 to 4094, or NEARWIRE_VLAN_UNTAGGED */
    uint16_t reserved;   /**< 0 */
};

#define NEARWIRE_FRAME_FILTER_INIT { (uint32_t)sizeof(struct nearwire_frame_filter), 0, { 0, 0, 0, 0, 0, 0 }, 0, 0, 0 }

/**
 * Takes packets of a flow from the kernel, from now on.
 *   -EEXIST     the filter is there already
 *   -ENOSPC     there are as many filters as fit: 4096 flows, 1024 frame filters
 *   -ENOTSUP    the port was opened with NEARWIRE_TAKE_ALL
 *   -E2BIG      the filter has parts that this library does not know
 *   -EINVAL     it matches nothing, or a value is out of range
 */
int nearwire_filter_add_flow(nearwire_port *port, const struct nearwire_flow *flow);

/** Leaves them to the kernel again. -ENOENT: the filter is not there; others as nearwire_filter_add_flow(). */
int nearwire_filter_remove_flow(nearwire_port *port, const struct nearwire_flow *flow);

/** As nearwire_filter_add_flow(), for frames. */
int nearwire_filter_add_frame(nearwire_port *port, const struct nearwire_frame_filter *filter);

/** As nearwire_filter_remove_flow(), for frames. */
int nearwire_filter_remove_frame(nearwire_port *port, const struct nearwire_frame_filter *filter);

enum nearwire_hash_function {
    NEARWIRE_HASH_TOEPLITZ = 1,
    NEARWIRE_HASH_XOR = 2,
    NEARWIRE_HASH_CRC32 = 4
};

/**
 * How the device spreads flows over its receive queues: enum nearwire_hash_function. A port receives from `queue_count`
 * queues, fairly; which flow comes on which queue is the device's choice. -ENOTSUP: the driver has no hash, or does not tell.
 */
int nearwire_flow_hash(nearwire_port *port);

/**
 * Would choose what is hashed. Always -ENOTSUP: an AF_XDP socket gets frames of its own queue only, so an XDP program cannot
 * spread flows, and a change of the device would outlive the process. `ethtool -N IF rx-flow-hash udp4 sdfn` and
 * `ethtool -X IF` do it.
 */
int nearwire_set_flow_hash(nearwire_port *port, uint32_t function);

/* ---------------------------------------------------------------- TCP connections */

/*
 * The kernel makes and ends connections; in between a port can carry them: what is sent and received goes past the kernel.
 *
 *     options.flags = NEARWIRE_OPEN_TCP;             for nearwire_open()
 *     fd = socket(...); connect(fd, ...);           or accept()
 *     nearwire_tcp_adopt(port, fd, NULL);           from here on calls name the port and the fd
 *     nearwire_tcp_load(port, fd, 0, order, sizeof order);
 *     nearwire_tcp_trigger_patched(port, fd, 0, offset, price, sizeof price);
 *     nearwire_tcp_release(port, fd);               the kernel goes on: send(), recv(), close()
 *
 * A loaded message lies in a frame, its checksum is known; a trigger writes headers and sends it with one kick. That saves the copy
 * and the sum: 3 ns of 64 bytes, 46 of 1400, on a machine where the kick takes 1 us. It is TCP as any other: it counts against the windows of both ends, waits for an earlier message, and is sent again when it is lost.
 *
 * Between adoption and release the fd is used with these functions alone, and stays open. Timers and acknowledgements run within
 * calls on the port: a program that makes none for some milliseconds calls nearwire_tcp_poll(). A process that is killed
 * leaves a connection of which the far end learns when it next sends. Adoption needs CAP_NET_ADMIN. Not heard are routers that
 * say a path takes shorter packets than the connection has sent until then.
 *
 * Frames of connections are not given by nearwire_receive(), which takes them in as it finds them. Every function below returns
 *   -ENOENT       the port carries no such connection
 *   -EHOSTUNREACH it has no way by this port any more; release it
 *   -ECONNRESET, -ETIMEDOUT, -EPIPE  it has ended, as by send(2) and recv(2); release it
 */

/** How a connection is to be carried. Zero is the default everywhere. */
struct nearwire_tcp_options {
    uint32_t size;     /**< sizeof(struct nearwire_tcp_options) */
    uint32_t slots;    /**< messages that can be loaded; each takes one of the port's slots. 0 is 4 */
    uint64_t reserved; /**< 0 */
};

#define NEARWIRE_TCP_OPTIONS_INIT { (uint32_t)sizeof(struct nearwire_tcp_options), 0, 0 }

/**
 * Takes an established connection from the kernel, with the bytes that wait in it, and the options that are set (TCP_NODELAY,
 * TCP_CORK, SO_KEEPALIVE, TCP_USER_TIMEOUT, buffers, IP_TOS, IP_TTL). `options` may be NULL.
 *   -EEXIST       the port carries it already
 *   -ENOTCONN     it is not connected, or one end has closed it
 *   -EPROTONOSUPPORT  it is not TCP
 *   -ENOTSUP      the port cannot carry connections (AF_PACKET, not opened with NEARWIRE_OPEN_TCP, fewer queues than the device
 *                 receives on, generic mode before Linux 6.6), or
 *                 the connection has something that only the kernel does (ECN, urgent data, SO_TIMESTAMP, TLS, NAT, IPsec);
 *                 nearwire_last_error() says what
 *   -EHOSTUNREACH it is sent by another interface, or its next hop is not known: let the kernel send something first
 */
int nearwire_tcp_adopt(nearwire_port *port, int fd, const struct nearwire_tcp_options *options);

/**
 * Gives the connection back to the kernel, with what waits to be read and sent. A connection that the far end has closed is ended
 * instead: the fd is good for close(2) alone. nearwire_close() releases all; those that the kernel does not take are lost.
 *   -ENETUNREACH   the kernel takes none to which it has no route, as while the interface is down: it is carried still
 *   -ECONNABORTED  the kernel did not take it back: it is lost
 */
int nearwire_tcp_release(nearwire_port *port, int fd);

/**
 * Takes up to `length` bytes to send, and sends what may be sent now. Returns how many were taken. `flags`: 0 or
 * NEARWIRE_TRANSMIT_MORE, with which a piece of a segment waits for the next send.
 *   -EAGAIN       there is no room now
 */
int nearwire_tcp_send(nearwire_port *port, int fd, const void *data, size_t length, unsigned flags);

/**
 * Copies up to `capacity` bytes that came, and returns how many; 0: the far end has sent all. `timeout_ns`: 0 looks once, -1
 * waits for ever.
 *   -EAGAIN       none came in time
 *   -ENOMSG       a frame of a filter came first: take it with nearwire_receive()
 *   -EBADFD       a frame is lent
 *   -EINTR        a signal came (NEARWIRE_WAIT_SLEEP)
 */
int nearwire_tcp_receive(nearwire_port *port, int fd, void *buffer, size_t capacity, int64_t timeout_ns);

/**
 * Lays a message of `length` bytes out in slot `slot` of the connection, over what was there.
 *   -EAGAIN       the frame of the slot is still being sent
 *   -EMSGSIZE     the message is empty, or longer than a segment
 *   -ERANGE       there is no such slot
 *   -ENOSPC       the port has no slot left (nearwire_options.slots)
 */
int nearwire_tcp_load(nearwire_port *port, int fd, uint32_t slot, const void *message, size_t length);

/**
 * Sends the message in a slot, whole or not at all.
 *   -EAGAIN       there is no room for it now
 *   -ENOENT       nothing is loaded
 */
int nearwire_tcp_trigger(nearwire_port *port, int fd, uint32_t slot);

/**
 * Overwrites `length` bytes of the message from `offset` on, which stay, and sends it.
 *   -EMSGSIZE     offset and length are not within the message
 */
int nearwire_tcp_trigger_patched(nearwire_port *port, int fd, uint32_t slot, size_t offset, const void *bytes,
                                 size_t length);

/**
 * Does what is due for all connections of the port: acknowledgements, retransmissions, what the kernel says of the network.
 * `*due_ns`, where it is not NULL: in how many nanoseconds it is to be called next, -1 for no time.
 */
int nearwire_tcp_poll(nearwire_port *port, int64_t *due_ns);

/** Figures of a connection since its adoption. */
struct nearwire_tcp_info {
    uint32_t size;                   /**< sizeof(struct nearwire_tcp_info), set by the caller */
    uint32_t segment_bytes;          /**< largest payload of a segment */
    uint64_t smoothed_round_trip_ns; /**< 0: nothing was measured */
    uint64_t retransmitted_segments; /**< sent again */
    uint64_t prepared_messages;      /**< triggered, and sent in the frame that they were laid out in */
    uint64_t written_messages;       /**< triggered, and sent as by nearwire_tcp_send(): behind others, or the frame was not free */
    uint32_t unacknowledged_bytes;   /**< sent, and not acknowledged yet */
    uint32_t unsent_bytes;           /**< taken, and not sent yet */
    uint32_t unread_bytes;           /**< came, and not received yet */
    uint32_t send_window_bytes;      /**< what the far end takes */
};

#define NEARWIRE_TCP_INFO_INIT { (uint32_t)sizeof(struct nearwire_tcp_info), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

int nearwire_tcp_info(nearwire_port *port, int fd, struct nearwire_tcp_info *info);

/* ---------------------------------------------------------------- facts and counters */

/** Counters of a port since it was opened. */
struct nearwire_statistics {
    uint32_t size;                   /**< sizeof(struct nearwire_statistics), set by the caller */
    uint32_t reserved;               /**< 0 */
    uint64_t received_frames;        /**< given to the caller */
    uint64_t sent_frames;            /**< given to the kernel */
    uint64_t receive_dropped_frames; /**< came for this port and were dropped: no buffer, ring full */
    uint64_t send_refused_frames;    /**< sends refused for want of room */
    uint64_t kicks;                  /**< system calls to send */
};

#define NEARWIRE_STATISTICS_INIT { (uint32_t)sizeof(struct nearwire_statistics), 0, 0, 0, 0, 0, 0 }

int nearwire_statistics(nearwire_port *port, struct nearwire_statistics *statistics);

enum nearwire_fact_flags {
    NEARWIRE_FACT_UP = 1,           /**< administratively up */
    NEARWIRE_FACT_LINK = 2,         /**< the link is there */
    NEARWIRE_FACT_XDP_KNOWN = 4,    /**< the kernel tells what the driver can do (Linux 6.3); else the two below are 0 */
    NEARWIRE_FACT_XDP_NATIVE = 8,   /**< the driver runs XDP programs; generic mode works with any driver */
    NEARWIRE_FACT_ZERO_COPY = 16,   /**< the driver has zero copy for AF_XDP */
    NEARWIRE_FACT_RX_HARDWARE_TIME = 32,
    NEARWIRE_FACT_TX_HARDWARE_TIME = 64,
    NEARWIRE_FACT_RX_SOFTWARE_TIME = 128,
    NEARWIRE_FACT_TX_SOFTWARE_TIME = 256,
    NEARWIRE_FACT_XDP_RX_TIME = 512 /**< the driver tells XDP programs the device's time of a frame: NEARWIRE_OPEN_TIMES */
};

/** What an interface is and can do. */
struct nearwire_facts {
    uint32_t size;                   /**< sizeof(struct nearwire_facts), set by the caller */
    uint32_t flags;                  /**< enum nearwire_fact_flags */
    uint32_t ifindex;                /**< its number in this network namespace */
    uint32_t mtu_bytes;              /**< largest payload of a frame */
    uint32_t speed_mbps;             /**< megabits a second; 0 when the link is down or has no speed */
    uint32_t rx_queues;              /**< receive queues in use */
    uint32_t tx_queues;              /**< transmit queues in use */
    uint32_t xdp_program_id;         /**< the XDP program on it; 0 is none */
    uint64_t receive_dropped_frames; /**< frames that device and kernel could not keep, since the device was set up */
    uint8_t mac[6];                  /**< its address */
    uint8_t reserved[2];             /**< 0 */
    char driver[32];                 /**< its driver, or the kind of a virtual interface; ends in NUL */
};

#define NEARWIRE_FACTS_INIT { (uint32_t)sizeof(struct nearwire_facts), 0, 0, 0, 0, 0, 0, 0, 0, { 0 }, { 0 }, { 0 } }

/**
 * Reads the facts of an interface in the calling thread's network namespace. Needs no privilege. -ENODEV: no such
 * interface.
 */
int nearwire_facts(const char *interface, struct nearwire_facts *facts);

#ifdef __cplusplus
}
#endif

#endif /* NEARWIRE_H */
