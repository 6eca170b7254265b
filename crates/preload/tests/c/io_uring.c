/* A program that adds its socket to an epoll set by io_uring, as event loops do, and counts the datagrams that it then hears
 * of. Arguments: own address, port, and "first" (the ring is there before the socket) or "later" (the socket had a datagram
 * before). With RAW the ring is set up by the processor's own instruction and not by a function of the C library. */
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

static int add(int set, int fd) {
  static struct epoll_event event;
  event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
  uint32_t *tail = (uint32_t *)(submissions + params.sq_off.tail);
  uint32_t mask = *(uint32_t *)(submissions + params.sq_off.ring_mask);
  uint32_t at = *tail & mask;
  memset(&entries[at], 0, sizeof entries[at]);
  entries[at].opcode = IORING_OP_EPOLL_CTL;
  entries[at].fd = set;
  entries[at].off = (uint64_t)fd;
  entries[at].len = EPOLL_CTL_ADD;
  entries[at].addr = (uint64_t)(uintptr_t)&event;
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

int main(int count, char **arguments) {
  if (count != 4)
    return 2;
  int is_first = strcmp(arguments[3], "first") == 0;
  char text[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (is_first)
    begin();
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[2]))};
  inet_pton(AF_INET, arguments[1], &local.sin_addr);
  if (bind(fd, (struct sockaddr *)&local, sizeof local) != 0)
    return 1;
  if (!is_first) {
    puts("bound");
    recv(fd, text, sizeof text, 0);
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
