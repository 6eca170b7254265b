/* What a program asks of the peer at the far end: one request and one reply a connection, over a Unix socket,
 * which reaches across network namespaces and never passes the sockets that are tested. */
#ifndef PEER_H
#define PEER_H

#include <stdint.h>

/* The variable that names the peer's Unix socket. */
#define PEER_VARIABLE "SCRIPT_PEER"
/* The peer echoes what arrives here, over IPv4 and IPv6. */
#define ECHO_PORT 7
/* What it does with a TCP connection there, beside echoing: after '!' come a letter, a number or none, and '.', which are not echoed.
 *   s  sends so many bytes of letters     w  waits so many ms       h  shuts the connection down for sending
 *   c  closes                             r  resets                 o  sends a byte of urgent data
 *   d  echoes nothing from now on */
/* The peer sends from here unless told otherwise. */
#define FAR_PORT 4009
/* Ports that one program may use, from its base on. */
#define PORTS 16

enum peer_command {
    PEER_SEND,    /* datagrams to the near end */
    PEER_ICMP,    /* an ICMP error about a datagram from `to` (near) to `from` (far) */
    PEER_OPEN,    /* a socket at port `from`, in `group` if there is one */
    PEER_RECEIVE, /* the next datagram of that socket, or nothing within `after_ms` */
    PEER_WATCH,   /* from now on, IPv4 headers of datagrams to port `from` */
    PEER_WATCHED, /* the next of these, or nothing within `after_ms` */
    PEER_CLOSE,   /* the socket at port `from` */
    PEER_SETTLE,  /* nothing: the reply comes when all that arrived to be echoed has been, on connections too */
    PEER_RESET,   /* all sockets at the PORTS ports from `from` on */
    PEER_LINK,    /* the far end's interface: up if `size` is 1, else down */
    PEER_CUT,     /* from now on segments leave the far end's interface cut, and not as bundles */
    PEER_DIAL,    /* a TCP connection to `to` (near), served as those to ECHO_PORT; reply.length is 0, or -1 without one */
    PEER_ENDED,   /* how the next TCP connection ended that has, within `after_ms`: reply.text, and the bytes that came in `length` */
};

/* A datagram that a socket would not send, made by hand. IPv4 only. */
enum peer_raw {
    RAW_NONE,
    RAW_BAD_CHECKSUM,
    RAW_NO_CHECKSUM,
    RAW_TRAILING_BYTES, /* the UDP length is less than what IP carries */
    RAW_LENGTH_BEYOND,  /* the UDP length is more than what IP carries */
    RAW_IP_OPTIONS,
};

struct peer_request {
    enum peer_command command;
    int family;           /* AF_INET, AF_INET6; 0 is AF_INET */
    int from, to;         /* far port, near port; from 0 is FAR_PORT */
    int sources;          /* as many far ports from `from` on take turns; 0 is one */
    int size, count;      /* bytes of each datagram, number of datagrams; count 0 is one */
    int segment;          /* the device is to cut each into datagrams of so many bytes (UDP_SEGMENT); 0 is not */
    int after_ms, gap_us; /* the peer waits before, and between datagrams */
    int ttl, tos;         /* 0 is the system's */
    enum peer_raw raw;
    int icmp_type, icmp_code;
    char letter;          /* of the first datagram, the next letter in the next; 0 is 'a' */
    int is_numbered;      /* instead, an int: 0 in the first datagram, 1 in the next */
    char address[48];     /* destination; empty is the near end */
    char group[48];       /* for PEER_OPEN: joined */
};

struct peer_reply {
    int from_port;        /* of a datagram that was received */
    char from[48], to[48];
    int ttl, tos, length; /* length -1: nothing came */
    char text[512];       /* as many bytes of it as fit */
    int df, checksum;     /* of PEER_WATCHED */
};

#endif
