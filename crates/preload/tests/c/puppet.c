/* A program that does what it is told: one command a line, one answer a line. An answer is what the call returned, or
 * -errno. Sockets are named by the order in which they were opened. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int sockets[20000];
static int opened;

static long outcome(long result) { return result < 0 ? -errno : result; }

static struct sockaddr_in address(const char *ip, int port) {
  struct sockaddr_in is = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  inet_pton(AF_INET, ip, &is.sin_addr);
  return is;
}

static long open_bound(const char *ip, int port) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0)
    return -errno;
  struct sockaddr_in local = address(ip, port);
  long bound = outcome(bind(fd, (struct sockaddr *)&local, sizeof local));
  if (bound < 0) {
    close(fd);
    return bound;
  }
  sockets[opened] = fd;
  return opened++;
}

/* How many were opened on ports in a row until one could not be. */
static long open_many(const char *ip, int port, int count) {
  int done = 0;
  while (done < count && open_bound(ip, port + done) >= 0)
    done++;
  return done;
}

/* The datagram that comes within the time, blocking or by poll as the time is even or odd. */
static void receive(int which, int timeout_ms) {
  char text[2048];
  struct pollfd waits = {.fd = sockets[which], .events = POLLIN};
  if (timeout_ms % 2) {
    int ready = poll(&waits, 1, timeout_ms);
    if (ready <= 0) {
      printf("%ld\n", ready ? outcome(ready) : -EAGAIN);
      return;
    }
  } else {
    struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    setsockopt(sockets[which], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  }
  ssize_t length = recv(sockets[which], text, sizeof text, 0);
  if (length < 0)
    printf("%d\n", -errno);
  else
    printf("%.*s\n", (int)length, text);
}

static long child_that_sleeps(void) {
  pid_t child = fork();
  if (child == 0) {
    close(0);
    close(1);
    sleep(60);
    _exit(0);
  }
  return outcome(child);
}

static struct sockaddr_in sprayed;

/* Whatever comes of it. */
static void *spray(void *fd) {
  for (;;)
    sendto((int)(long)fd, "spray", 5, 0, (struct sockaddr *)&sprayed, sizeof sprayed);
  return NULL;
}

/* Threads that send by a socket until the program ends. */
static long spray_by(int fd, int threads) {
  pthread_t thread;
  for (int number = 0; number < threads; number++)
    if (pthread_create(&thread, NULL, spray, (void *)(long)fd) != 0)
      return -1;
  return threads;
}

int main(void) {
  char line[256], ip[64], text[128];
  int which, port, number;
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "open %63s %d", ip, &port) == 2)
      printf("%ld\n", open_bound(ip, port));
    else if (sscanf(line, "many %63s %d %d", ip, &port, &number) == 3)
      printf("%ld\n", open_many(ip, port, number));
    else if (sscanf(line, "receive %d %d", &which, &number) == 2)
      receive(which, number);
    else if (sscanf(line, "send %d %63s %d %127s", &which, ip, &port, text) == 4) {
      struct sockaddr_in to = address(ip, port);
      printf("%ld\n", outcome(sendto(sockets[which], text, strlen(text), 0, (struct sockaddr *)&to, sizeof to)));
    } else if (sscanf(line, "spray %d %63s %d %d", &which, ip, &port, &number) == 4) {
      sprayed = address(ip, port);
      printf("%ld\n", spray_by(sockets[which], number));
    } else if (sscanf(line, "root %63s", ip) == 1) {
      printf("%ld\n", outcome(chroot(ip)));
    } else if (sscanf(line, "close %d", &which) == 1)
      printf("%ld\n", outcome(close(sockets[which])));
    else if (sscanf(line, "descriptors %d", &number) == 1) {
      struct rlimit limit = {(rlim_t)number, (rlim_t)number};
      printf("%ld\n", outcome(setrlimit(RLIMIT_NOFILE, &limit)));
    } else if (strncmp(line, "fork", 4) == 0)
      printf("%ld\n", child_that_sleeps());
    else
      printf("what? %s", line);
  }
  return 0;
}
