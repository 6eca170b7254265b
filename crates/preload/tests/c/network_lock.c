// `hold INTERFACE`: at a byte of the standard input takes the lock that the kernel takes to change any interface (rtnl), says "held" and
// keeps it until the next byte. `echo PORT`: answers datagrams.
//
// The kernel copies names of counters to memory of this process while it has the lock, and waits there for a page that this process
// gives it late.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };
static const char *interface;
/* The question lies at the end of the first page, so that the answer lies in the second. */
static struct ethtool_gstrings *question;

static void *ask(void *unused) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_data = (void *)question};
    strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
    question->cmd = ETHTOOL_GSTRINGS;
    question->string_set = ETH_SS_STATS;
    if (ioctl(fd, SIOCETHTOOL, &request) || question->len == 0) perror("ETHTOOL_GSTRINGS"), exit(5);
    return unused;
}

static void wait_for_a_byte(void) {
    char byte;
    if (read(0, &byte, 1) != 1) exit(0);
}

static int hold(void) {
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return printf("missing userfaultfd: %s\n", strerror(errno)), 0;
    char *pages = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 3;
    question = (void *)(pages + PAGE_BYTES - sizeof *question);
    memset(pages, 0, PAGE_BYTES);
    struct uffdio_register missing = {
        .range = {(unsigned long)pages + PAGE_BYTES, 2 * PAGE_BYTES},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    if (ioctl(faults, UFFDIO_REGISTER, &missing)) return 4;
    printf("ready\n"), fflush(stdout);
    wait_for_a_byte();
    pthread_t thread;
    pthread_create(&thread, NULL, ask, NULL);
    struct uffd_msg told;
    if (read(faults, &told, sizeof told) != sizeof told) return 6;
    printf("held\n"), fflush(stdout);
    wait_for_a_byte();
    struct uffdio_zeropage zeros = {.range = missing.range};
    if (ioctl(faults, UFFDIO_ZEROPAGE, &zeros)) return 7;
    pthread_join(thread, NULL);
    printf("free\n");
    return 0;
}

static int echo(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)}, from;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) return 5;
    printf("ready\n"), fflush(stdout);
    for (;;) {
        char message[64];
        socklen_t length = sizeof from;
        ssize_t bytes = recvfrom(fd, message, sizeof message, 0, (struct sockaddr *)&from, &length);
        if (bytes < 0) return 6;
        sendto(fd, message, bytes, 0, (struct sockaddr *)&from, length);
    }
}

int main(int count, char **words) {
    if (count != 3) return 2;
    interface = words[2];
    return strcmp(words[1], "hold") ? echo(atoi(words[2])) : hold();
}
