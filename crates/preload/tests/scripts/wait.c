/* The waiting calls, and names and options of sockets. */
#include "script.h"

static const struct { unsigned bit; const char *name; } event_names[] = {
    { POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" }, { POLLHUP, "HUP" }, { POLLNVAL, "NVAL" },
    { POLLRDNORM, "RDNORM" }, { POLLRDBAND, "RDBAND" }, { POLLWRNORM, "WRNORM" }, { POLLWRBAND, "WRBAND" },
    { POLLRDHUP, "RDHUP" },
};

static const char *event_text(unsigned events) {
    static _Thread_local char text[160];
    text[0] = 0;
    for (size_t i = 0; i < LENGTH_OF(event_names); i++) {
        if (events & event_names[i].bit) strcat(strcat(text, text[0] ? "|" : ""), event_names[i].name);
        events &= ~event_names[i].bit;
    }
    if (events) sprintf(text + strlen(text), "|%x", events);
    return text[0] ? text : "0";
}

void show_pollfds(const struct pollfd *set, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (set[i].revents) say("  %d: %s", set[i].fd, event_text((unsigned short)set[i].revents));
    }
}

int poll_and_show(struct pollfd *set, size_t count, int timeout_ms, const char *text) {
    /* What poll does not write stays visible. */
    for (size_t i = 0; i < count; i++) set[i].revents = 0x2000;
    begin_call();
    int ready = poll(set, count, timeout_ms);
    end_call(text, ready);
    if (ready >= 0) show_pollfds(set, count);
    return ready;
}

void show_events(const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) say("  %ld: %s", (long)events[i].data.u64, event_text(events[i].events));
}

/* By the events too: a registration that a copy keeps, and one of the socket that got its number, have the same data. */
static int by_data_and_events(const void *left, const void *right) {
    const struct epoll_event *one = left, *two = right;
    if (one->data.u64 != two->data.u64) return one->data.u64 > two->data.u64 ? 1 : -1;
    return (one->events > two->events) - (one->events < two->events);
}

int epoll_and_show_sorted(int epoll, const char *text) {
    struct epoll_event events[64];
    begin_call();
    int ready = epoll_wait(epoll, events, 64, 0);
    end_call(text, ready);
    if (ready > 0) qsort(events, ready, sizeof *events, by_data_and_events);
    show_events(events, ready);
    return ready;
}

int epoll_and_show(int epoll, int maximum, int timeout_ms, const char *text) {
    struct epoll_event events[64];
    begin_call();
    int ready = epoll_wait(epoll, events, maximum, timeout_ms);
    end_call(text, ready);
    show_events(events, ready);
    return ready;
}

void show_set(const char *what, const fd_set *set) {
    char text[256] = "";
    for (int fd = 0; fd < FD_SETSIZE; fd++) {
        if (FD_ISSET(fd, set) && strlen(text) < 240) sprintf(text + strlen(text), " %d", fd);
    }
    if (text[0]) say("  %s:%s", what, text);
}

static int fill_set(fd_set *set, const int *list, int highest) {
    FD_ZERO(set);
    for (; *list >= 0; list++) {
        FD_SET(*list, set);
        if (*list > highest) highest = *list;
    }
    return highest;
}

int select_and_show(const int *reads, const int *writes, const int *excepts, int timeout_ms, const char *text) {
    fd_set read_set, write_set, except_set;
    int highest = fill_set(&read_set, reads, -1);
    highest = fill_set(&write_set, writes, highest);
    highest = fill_set(&except_set, excepts, highest);
    struct timeval timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
    begin_call();
    int ready = select(highest + 1, &read_set, &write_set, &except_set, timeout_ms < 0 ? NULL : &timeout);
    end_call(text, ready);
    if (ready >= 0) {
        show_set("readable", &read_set);
        show_set("writable", &write_set);
        show_set("exceptional", &except_set);
    }
    /* Linux writes back the time that is left. */
    if (ready == 0 && (timeout.tv_sec || timeout.tv_usec)) say("  time is left");
    if (ready > 0 && timeout_ms >= 1000 && timeout.tv_sec == timeout_ms / 1000) say("  no time was used");
    return ready;
}

int get_and_show(int fd, int level, int option, const char *text) {
    int value = -77;
    socklen_t length = sizeof value;
    begin_call();
    int result = getsockopt(fd, level, option, &value, &length);
    if (result == 0 && option == SO_ERROR && level == SOL_SOCKET) {
        say("%s = 0: %s", text, value ? strerrorname_np(value) : "no error");
        return value;
    }
    end_call(text, result);
    if (result == 0) say("  value %d, length %u", value, length);
    return value;
}

int name_and_show(int (*call)(int, struct sockaddr *, socklen_t *), int fd, socklen_t size, const char *text) {
    struct sockaddr_storage address;
    memset(&address, 0xee, sizeof address);
    begin_call();
    int result = call(fd, (struct sockaddr *)&address, &size);
    end_call(text, result);
    if (result == 0) say("  %s", address_text(&address, size));
    return result;
}
