/* fcntl(2), ioctl(2) and names. */
#include "script.h"

#include <linux/sockios.h>
#include <sys/stat.h>

SCRIPT(nonblocking_by_fcntl) {
    int a = bound(0);
    CALL(fcntl(a, F_GETFL));
    CALL(fcntl(a, F_SETFL, O_RDWR | O_NONBLOCK));
    CALL(fcntl(a, F_GETFL));
    WAITS(0, RECV(a, 10, 0));
    WAITS(0, READ(a, 10));
    FAR_SENDS(.to = PORT(0), .size = 3);
    RECV(a, 10, 0);
    CALL(fcntl(a, F_SETFL, 0));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    WAITS(30, RECV(a, 10, 0));
    CALL(fcntl(a, F_SETFL, O_APPEND | O_DIRECT | O_NOATIME));
    CALL(fcntl(a, F_GETFL));
}

SCRIPT(nonblocking_by_ioctl) {
    int a = bound(0), on = 1, off = 0;
    CALL(ioctl(a, FIONBIO, &on));
    CALL(fcntl(a, F_GETFL));
    WAITS(0, RECV(a, 10, 0));
    CALL(ioctl(a, FIONBIO, &off));
    CALL(fcntl(a, F_GETFL));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    WAITS(30, RECV(a, 10, 0));
    CALL(ioctl(a, FIONBIO, no_memory()));
    CALL(ioctl(a, FIOCLEX));
    CALL(fcntl(a, F_GETFD));
    CALL(ioctl(a, FIONCLEX));
    CALL(fcntl(a, F_GETFD));
}

SCRIPT(nonblocking_from_birth) {
    int a = CALL(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    CALL(bind(a, V4(NEAR, PORT(0))));
    CALL(fcntl(a, F_GETFL));
    WAITS(0, RECV(a, 10, 0));
    WAITS(0, RECV(a, 10, MSG_WAITALL));
    FAR_SENDS(.to = PORT(0), .size = 3, .after_ms = 30);
    WAITS(30, POLL(1000, { a, POLLIN, 0 }));
    RECV(a, 10, 0);
}

SCRIPT(flags_of_the_descriptor) {
    int a = UDP();
    CALL(fcntl(a, F_GETFD));
    CALL(fcntl(a, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(a, F_GETFD));
    CALL(fcntl(a, F_SETFD, 2));
    CALL(fcntl(a, F_GETFD));
    CALL(fcntl(a, 9999, 0));
    CALL(fcntl(99, F_GETFD));
    CALL(fcntl(-1, F_SETFL, 0));
    CALL(fcntl(a, F_GETOWN));
    CALL(fcntl(a, F_SETPIPE_SZ, 4096));
}

SCRIPT(fionread_gives_the_first_datagram) {
    int a = bound(0), bytes = -1;
    CALL(ioctl(a, FIONREAD, &bytes));
    say("%d", bytes);
    FAR_SENDS(.to = PORT(0), .size = 30);
    FAR_SENDS(.to = PORT(0), .size = 40);
    CALL(ioctl(a, FIONREAD, &bytes));
    say("%d", bytes);
    RECV(a, 5, 0);
    CALL(ioctl(a, SIOCINQ, &bytes));
    say("%d", bytes);
    RECV(a, 100, 0);
    FAR_SENDS(.to = PORT(0), .size = 0);
    CALL(ioctl(a, FIONREAD, &bytes));
    say("%d", bytes);
    RECV(a, 100, 0);
}

SCRIPT(fionread_skips_a_damaged_datagram) {
    int a = bound(0), bytes = -1;
    FAR_SENDS(.to = PORT(0), .size = 30, .raw = RAW_BAD_CHECKSUM);
    CALL(ioctl(a, FIONREAD, &bytes));
    say("%d", bytes);
}

SCRIPT(outq_is_empty_after_a_while) {
    int a = bound(0), bytes = -1;
    SENDTO(a, "hello", V4(FAR, ECHO_PORT));
    RECV(a, 10, 0);
    settle();
    CALL(ioctl(a, SIOCOUTQ, &bytes));
    say("%d", bytes);
    CALL(ioctl(a, TIOCOUTQ, &bytes));
    CALL(ioctl(a, 0x12345678, &bytes));
    CALL(ioctl(99, FIONREAD, &bytes));
    CALL(ioctl(a, TCGETS, &bytes));
    CALL(isatty(a));
}

SCRIPT(interface_requests) {
    int a = UDP();
    struct ifreq request = { 0 };
    strcpy(request.ifr_name, INTERFACE);
    CALL(ioctl(a, SIOCGIFINDEX, &request));
    say("same as if_nametoindex: %d", request.ifr_ifindex == (int)if_nametoindex(INTERFACE));
    CALL(ioctl(a, SIOCGIFADDR, &request));
    say("%s", address_text(&request.ifr_addr, sizeof(struct sockaddr_in)));
    CALL(ioctl(a, SIOCGIFMTU, &request));
    say("mtu %d", request.ifr_mtu);
    strcpy(request.ifr_name, "nothere");
    CALL(ioctl(a, SIOCGIFFLAGS, &request));
}

SCRIPT(name_buffers_of_every_length) {
    int a = bound(0);
    CALL(connect(a, V4(FAR, ECHO_PORT)));
    static const socklen_t sizes[] = { 0, 1, 2, 8, 16, 100 };
    for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
        unsigned char name[128];
        memset(name, 0xee, sizeof name);
        socklen_t length = sizes[i];
        CALL(getsockname(a, (struct sockaddr *)name, &length));
        size_t written = sizeof name;
        while (written > 0 && name[written - 1] == 0xee) written--;
        say("  of %u: length %u, last byte written %zu", sizes[i], length, written);
        length = sizes[i];
        CALL(getpeername(a, (struct sockaddr *)name, &length));
        say("  of %u: length %u", sizes[i], length);
    }
    socklen_t negative = -1;
    CALL(getsockname(a, (struct sockaddr *)v4(FAR, 0), &negative));
}

SCRIPT(fstat_says_socket) {
    int a = bound(0);
    struct stat status;
    CALL(fstat(a, &status));
    say("socket %d, mode %o, size %ld", S_ISSOCK(status.st_mode), status.st_mode & 0777, (long)status.st_size);
    char link[64] = "", path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", a);
    (void)!readlink(path, link, sizeof link - 1);
    say("%.8s", link);
    CALL(open(path, O_RDWR));
}
