/* What calls gave, as text. */
#include "script.h"

#include <linux/errqueue.h>

int port_number(int port);

struct sockaddr_in *v4(const char *ip, int port) {
    static _Thread_local struct sockaddr_in turns[8];
    static _Thread_local unsigned turn;
    struct sockaddr_in *address = &turns[turn++ % LENGTH_OF(turns)];
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
    if (ip && inet_pton(AF_INET, ip, &address->sin_addr) != 1) abort();
    return address;
}

struct sockaddr_in6 *v6(const char *ip, int port) {
    static _Thread_local struct sockaddr_in6 turns[8];
    static _Thread_local unsigned turn;
    struct sockaddr_in6 *address = &turns[turn++ % LENGTH_OF(turns)];
    *address = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
    if (ip && inet_pton(AF_INET6, ip, &address->sin6_addr) != 1) abort();
    return address;
}

int bound(int n) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, V4(NEAR, PORT(n))) != 0) say("bind to +%d: %s", n, strerrorname_np(errno));
    return fd;
}

int bound6(int n) {
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (bind(fd, V6(NEAR6, PORT(n))) != 0) say("bind to +%d: %s", n, strerrorname_np(errno));
    return fd;
}

static void port_text(char *out, size_t size, int port) {
    if (port >= script_port() && port < PORT(PORTS)) snprintf(out, size, "+%d", port - script_port());
    else if (port >= 32768 && port < 65000) snprintf(out, size, "P%d", port_number(port));
    else snprintf(out, size, "%d", port);
}

const char *address_text(const void *address, socklen_t length) {
    static _Thread_local char text[4][160];
    static _Thread_local unsigned turn;
    char *out = text[turn++ % 4], ip[64] = "?", port[16];
    const struct sockaddr_storage *any = address;
    if (length < sizeof any->ss_family) {
        snprintf(out, 160, "no address, length %u", length);
    } else if (any->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = address;
        inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip);
        port_text(port, sizeof port, ntohs(v4->sin_port));
        const char *name = strcmp(ip, NEAR) == 0 ? "near" : strcmp(ip, FAR) == 0 ? "far" : ip;
        /* Each run has its own of these. */
        if (strncmp(ip, "10.78.", 6) == 0) name = "beyond";
        int is_padded = memcmp(v4->sin_zero, "\0\0\0\0\0\0\0", 8) != 0;
        snprintf(out, 160, "%s:%s/%u%s", name, port, length, is_padded ? " sin_zero not zero" : "");
    } else if (any->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = address;
        inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip);
        port_text(port, sizeof port, ntohs(v6->sin6_port));
        const char *name = strcmp(ip, NEAR6) == 0 ? "near" : strcmp(ip, FAR6) == 0 ? "far" : ip;
        if (strncmp(ip, "fd78:", 5) == 0) name = "beyond";
        snprintf(out, 160, "[%s]:%s/%u flow %x scope %u", name, port, length, ntohl(v6->sin6_flowinfo), v6->sin6_scope_id);
    } else {
        snprintf(out, 160, "family %d, length %u", any->ss_family, length);
    }
    return out;
}

void show_data(const char *what, const void *data, size_t length) {
    const unsigned char *bytes = data;
    size_t same = 0;
    while (same < length && bytes[same] == bytes[0]) same++;
    char text[128] = "";
    size_t at = 0, shown = length <= 24 ? length : 24;
    for (size_t i = 0; i < shown; i++) {
        if (bytes[i] >= 32 && bytes[i] < 127) text[at++] = bytes[i];
        else at += sprintf(text + at, "\\%02x", bytes[i]);
    }
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ bytes[i]) * 16777619u;
    if (length > 24 && same == length) say("%s: %zu times '%c'", what, length, bytes[0]);
    else if (length > 24) say("%s: \"%s\"... %zu bytes, hash %08x", what, text, length, hash);
    else say("%s: \"%s\"", what, text);
}

#define POISON 0xee
static _Thread_local unsigned char buffer[70000];

static void poison(size_t size) { memset(buffer, POISON, size + 64 < sizeof buffer ? size + 64 : sizeof buffer); }

static void show_received(ssize_t got, size_t size) {
    if (got < 0) got = 0;
    size_t filled = (size_t)got < size ? (size_t)got : size;
    if (got > 0) show_data("  data", buffer, filled);
    for (size_t i = filled; i < size + 64 && i < sizeof buffer; i++) {
        if (buffer[i] != POISON) {
            say("  byte %zu behind the data was written", i);
            break;
        }
    }
}

ssize_t receive(int fd, size_t size, int flags, const char *text) {
    poison(size);
    begin_call();
    ssize_t got = recv(fd, buffer, size, flags);
    end_call(text, got);
    show_received(got, size);
    return got;
}

ssize_t receive_read(int fd, size_t size, const char *text) {
    poison(size);
    begin_call();
    ssize_t got = read(fd, buffer, size);
    end_call(text, got);
    show_received(got, size);
    return got;
}

ssize_t receive_from(int fd, size_t size, int flags, const char *text) {
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    memset(&from, POISON, sizeof from);
    poison(size);
    begin_call();
    ssize_t got = recvfrom(fd, buffer, size, flags, (struct sockaddr *)&from, &length);
    end_call(text, got);
    show_received(got, size);
    if (got >= 0) say("  from %s", address_text(&from, length));
    else if (length != sizeof from) say("  length of the address became %u", length);
    return got;
}

ssize_t receive_message(int fd, size_t size, size_t control_size, int flags, const char *text) {
    struct sockaddr_storage from;
    unsigned char control[1024];
    memset(&from, POISON, sizeof from);
    memset(control, POISON, sizeof control);
    poison(size);
    struct iovec data = { buffer, size };
    struct msghdr header = { &from, sizeof from, &data, 1, control_size ? control : NULL, control_size, 0x5a5a };
    begin_call();
    ssize_t got = recvmsg(fd, &header, flags);
    end_call(text, got);
    show_received(got, size);
    if (got >= 0) show_header(&header);
    return got;
}

static void show_recent(const char *what, long seconds) {
    long age = time(NULL) - seconds;
    say("  %s %s", what, seconds == 0 ? "zero" : age >= -1 && age < 5 ? "now" : "another time");
}

static void show_error(const struct cmsghdr *c, const char *level) {
    struct sock_extended_err error;
    memcpy(&error, CMSG_DATA(c), sizeof error);
    size_t rest = c->cmsg_len - CMSG_LEN(sizeof error);
    struct sockaddr_storage offender = { 0 };
    memcpy(&offender, CMSG_DATA(c) + sizeof error, rest < sizeof offender ? rest : sizeof offender);
    say("  %s_RECVERR %s origin %d type %d code %d info %u data %u, offender %s", level, strerrorname_np(error.ee_errno),
        error.ee_origin, error.ee_type, error.ee_code, error.ee_info, error.ee_data, address_text(&offender, rest));
}

static void show_socket_control(const struct cmsghdr *c) {
    const void *data = CMSG_DATA(c);
    const struct timespec *times = data;
    switch (c->cmsg_type) {
    case SCM_TIMESTAMP: show_recent("SCM_TIMESTAMP", ((const struct timeval *)data)->tv_sec); break;
    case SCM_TIMESTAMPNS: show_recent("SCM_TIMESTAMPNS", times->tv_sec); break;
    case SCM_TIMESTAMPING:
        show_recent("SCM_TIMESTAMPING software", times[0].tv_sec);
        show_recent("SCM_TIMESTAMPING hardware", times[2].tv_sec);
        break;
    case SO_RXQ_OVFL: say("  SO_RXQ_OVFL %u", *(const unsigned *)data); break;
    case SCM_RIGHTS: say("  SCM_RIGHTS first %d", *(const int *)data); break;
    default: say("  control SOL_SOCKET %d, %zu bytes", c->cmsg_type, c->cmsg_len); break;
    }
}

static void show_ipv4_control(const struct cmsghdr *c) {
    char to[64], specific[64];
    const struct in_pktinfo *info = (const void *)CMSG_DATA(c);
    switch (c->cmsg_type) {
    case IP_PKTINFO:
        inet_ntop(AF_INET, &info->ipi_addr, to, sizeof to);
        inet_ntop(AF_INET, &info->ipi_spec_dst, specific, sizeof specific);
        say("  IP_PKTINFO interface %d to %s specific %s", info->ipi_ifindex, to, specific);
        break;
    case IP_TTL: say("  IP_TTL %d, %zu bytes", *(const int *)CMSG_DATA(c), c->cmsg_len); break;
    case IP_TOS: say("  IP_TOS %d, %zu bytes", *CMSG_DATA(c), c->cmsg_len); break;
    case IP_RECVERR: show_error(c, "IP"); break;
    case IP_ORIGDSTADDR: say("  IP_ORIGDSTADDR %s", address_text(CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0))); break;
    default: say("  control IPPROTO_IP %d, %zu bytes", c->cmsg_type, c->cmsg_len); break;
    }
}

static void show_ipv6_control(const struct cmsghdr *c) {
    char to[64];
    const struct in6_pktinfo *info = (const void *)CMSG_DATA(c);
    switch (c->cmsg_type) {
    case IPV6_PKTINFO:
        inet_ntop(AF_INET6, &info->ipi6_addr, to, sizeof to);
        say("  IPV6_PKTINFO interface %u to %s", info->ipi6_ifindex, to);
        break;
    case IPV6_HOPLIMIT: say("  IPV6_HOPLIMIT %d", *(const int *)CMSG_DATA(c)); break;
    case IPV6_TCLASS: say("  IPV6_TCLASS %d", *(const int *)CMSG_DATA(c)); break;
    case IPV6_RECVERR: show_error(c, "IPV6"); break;
    default: say("  control IPPROTO_IPV6 %d, %zu bytes", c->cmsg_type, c->cmsg_len); break;
    }
}

void show_header(const struct msghdr *header) {
    static const struct { int flag; const char *name; } names[] = {
        { MSG_TRUNC, "MSG_TRUNC" }, { MSG_CTRUNC, "MSG_CTRUNC" }, { MSG_ERRQUEUE, "MSG_ERRQUEUE" }, { MSG_EOR, "MSG_EOR" },
        { MSG_OOB, "MSG_OOB" }, { MSG_CMSG_CLOEXEC, "MSG_CMSG_CLOEXEC" },
    };
    if (header->msg_name) say("  from %s", address_text(header->msg_name, header->msg_namelen));
    char flags[128] = "";
    int left = header->msg_flags;
    for (size_t i = 0; i < LENGTH_OF(names); i++) {
        if (left & names[i].flag) strcat(strcat(flags, " "), names[i].name);
        left &= ~names[i].flag;
    }
    say("  flags%s%s, control %zu bytes", flags, left ? " and others" : "", (size_t)header->msg_controllen);
    struct msghdr whole = *header;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&whole); c; c = CMSG_NXTHDR(&whole, c)) {
        if (c->cmsg_level == SOL_SOCKET) show_socket_control(c);
        else if (c->cmsg_level == IPPROTO_IP) show_ipv4_control(c);
        else if (c->cmsg_level == IPPROTO_IPV6) show_ipv6_control(c);
        else say("  control level %d type %d, %zu bytes", c->cmsg_level, c->cmsg_type, c->cmsg_len);
    }
}
