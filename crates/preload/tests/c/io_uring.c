/* A program that adds its socket to an epoll set by io_uring, as event loops do, and counts the datagrams that it then hears
 * of. Arguments: own address, port, and "first" (the ring is there before the socket) or "later" (the socket had a datagram
 * before) or "child" (it had, and a child has the ring); "stream" accepts a TCP connection, answers ten messages by calls, and receives the next ten by io_uring;
 * "stream child" has a child receive them. With RAW the
 * ring is set up by the processor's own instruction and not by a function of the C library. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef RAW
static long setup(unsigned entries, struct io_uring_params *params) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_io_uring_setup), "D"(entries), "S"(params) : "rcx", "r11", "memory");
  return result;
}
static long enter(int ring, unsigned count) {
  long result;
  register long r10 __asm__("r10") = IORING_ENTER_GETEVENTS;
  register long r8 __asm__("r8") = 0;
  register long r9 __asm__("r9") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_io_uring_enter), "D"(ring), "S"(count), "d"(count), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#else
static long setup(unsigned entries, struct io_uring_params *params) { return syscall(SYS_io_uring_setup, entries, params); }
static long enter(int ring, unsigned count) {
  return syscall(SYS_io_uring_enter, ring, count, count, IORING_ENTER_GETEVENTS, NULL, 0);
}
#endif

static int ring;
static struct io_uring_params params;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static void begin(void) {
  ring = (int)setup(8, &params);
  if (ring < 0) {
    puts("no io_uring");
    exit(77);
  }
  size_t room = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
  submissions = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  room = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
  completions = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
  room = params.sq_entries * sizeof(struct io_uring_sqe);
  entries = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
}

/* Submits an entry and waits for its result. */
static int submitted(const struct io_uring_sqe *entry) {
  uint32_t *tail = (uint32_t *)(submissions + params.sq_off.tail);
  uint32_t mask = *(uint32_t *)(submissions + params.sq_off.ring_mask);
  uint32_t at = *tail & mask;
  entries[at] = *entry;
  ((uint32_t *)(submissions + params.sq_off.array))[at] = at;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  if (enter(ring, 1) != 1)
    return -1;
  uint32_t *head = (uint32_t *)(completions + params.cq_off.head);
  mask = *(uint32_t *)(completions + params.cq_off.ring_mask);
  struct io_uring_cqe *all = (struct io_uring_cqe *)(completions + params.cq_off.cqes);
  int result = all[*head & mask].res;
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
  return result;
}

static int add(int set, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  struct io_uring_sqe entry = {.opcode = IORING_OP_EPOLL_CTL, .fd = set, .off = (uint64_t)fd, .len = EPOLL_CTL_ADD};
  entry.addr = (uint64_t)(uintptr_t)&event;
  return submitted(&entry);
}

static int received(int fd, char *text, unsigned room) {
  struct io_uring_sqe entry = {.opcode = IORING_OP_RECV, .fd = fd, .len = room};
  entry.addr = (uint64_t)(uintptr_t)text;
  return submitted(&entry);
}

/* Goes on in a child, where that is asked for, and ends as that does. */
static void go_on(int by_child) {
  int status = 0;
  pid_t child = by_child ? fork() : 0;
  if (child > 0)
    exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int stream(const struct sockaddr_in *local, int by_child) {
  char text[64];
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (const struct sockaddr *)local, sizeof *local) != 0 || listen(listener, 1) != 0)
    return 1;
  puts("bound");
  int fd = accept(listener, NULL, NULL);
  for (int at = 0; at < 10; at++) {
    ssize_t length = recv(fd, text, sizeof text, 0);
    if (length <= 0 || send(fd, text, (size_t)length, 0) != length)
      return 1;
  }
  go_on(by_child);
  begin();
  /* What is received in vain ends with the program. */
  alarm(5);
  int heard = 0;
  for (; heard < 10; heard++) {
    int length = received(fd, text, sizeof text);
    if (length <= 0 || send(fd, text, (size_t)length, 0) != length)
      break;
  }
  printf("%d of 10\n", heard);
  return 0;
}

int main(int count, char **arguments) {
  if (count != 4)
    return 2;
  int is_first = strcmp(arguments[3], "first") == 0;
  char text[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (is_first)
    begin();
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[2]))};
  inet_pton(AF_INET, arguments[1], &local.sin_addr);
  int by_child = strstr(arguments[3], "child") != NULL;
  if (strncmp(arguments[3], "stream", 6) == 0)
    return stream(&local, by_child);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(fd, (struct sockaddr *)&local, sizeof local) != 0)
    return 1;
  if (!is_first) {
    puts("bound");
    recv(fd, text, sizeof text, 0);
    go_on(by_child);
    begin();
  }
  int set = epoll_create1(0);
  if (add(set, fd) != 0)
    return 1;
  puts("ready");
  int heard = 0;
  struct epoll_event event;
  while (heard < 10 && epoll_wait(set, &event, 1, 2000) == 1)
    if (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0)
      heard++;
  printf("%d of 10\n", heard);
  return 0;
}
