/* Scripts: small programs that make socket calls and write down what came back. The same script runs on the kernel and
 * with the library preloaded; what is written must be equal. So everything that is allowed to vary is normalized: ports
 * that the kernel chose are P1, P2 ... by first appearance, times are only compared with what the script expects.
 * Descriptor numbers are written as they are. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

/* The library has the frames of a socket from its first use on, and what comes before waits in the kernel. So that what scripts receive
 * comes by both ways, a socket is asked for what it has as soon as it has an address where SCRIPT_USES_FIRST is set. */
int bind_and_use(int fd, const struct sockaddr *address, socklen_t length);
int connect_and_use(int fd, const struct sockaddr *address, socklen_t length);
#define bind(...) bind_and_use(__VA_ARGS__)
#define connect(...) connect_and_use(__VA_ARGS__)

/* `SCRIPT(name) { ... }`: run as `scripts FILE.NAME`. PROGRAM is the same, but only for EXEC. */
#define SCRIPT(name) DEFINE_SCRIPT(name, 0)
#define PROGRAM(name) DEFINE_SCRIPT(name, 1)
#define DEFINE_SCRIPT(name, is_executed)                                                                     \
    static void name(void);                                                                                  \
    __attribute__((constructor)) static void register_##name(void) {                                         \
        static struct script script = { __BASE_FILE__, #name, name, is_executed, NULL };                     \
        register_script(&script);                                                                            \
    }                                                                                                        \
    static void name(void)

struct script {
    const char *file, *name;
    void (*run)(void);
    int is_executed;
    struct script *next;
};
void register_script(struct script *script);

/* Writes a line of the trace, in the stream of this thread. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Any call: "text = value ERRNO". A value that is not negative and an errno that changed are both written. */
#define CALL(expression) \
    ({ begin_call(); long result_ = (long)(expression); end_call(#expression, result_); result_; })
void begin_call(void);
void end_call(const char *text, long result);

/* The expression is expected to take `ms`: the trace says so, or how long it took. One that timed out must not be early;
 * one that was woken may be, as what wakes it was ordered (`.after_ms`, `alarm_in_ms`) or began to wait before. */
#define WAITS(ms, expression) \
    ({ long begin_us_ = now_us(); __auto_type value_ = (expression); waited(ms, begin_us_, value_); value_; })
long now_us(void);
void waited(int expected_ms, long begin_us, long result);
void order_for_later(void);
/* In emulation, where a call takes longer to begin to wait: later, and fewer. Else the same. */
int later_ms(int ms);
int rounds(int count);
void sleep_ms(int ms);
/* How many datagrams a socket receives until none comes for 30 ms: one that an emulated host is late with is not lost. */
int receives_all(int fd);

/* Signals: a handler of one, and SIGALRM once or again and again; every 0 us ends it. */
void handle(int number, void (*handler)(int), int flags);
/* A handler that does nothing: calls are interrupted. */
void no_signal(int number);
void alarm_in_ms(int ms);
void alarm_every_us(int us);
/* The same for handlers that make calls: the next one comes so long after a handler's end, where the handler says
 * `alarm_again`. Of signals in fixed intervals that are shorter than the handler, what they interrupt gets no time. */
void alarms_us_apart(int us);
void alarm_again(void);

/* Addresses. PORT(0) to PORT(15) belong to this script alone, at either end. */
#define NEAR "10.77.0.1"
#define FAR "10.77.0.2"
#define NEAR6 "fd77::1"
#define FAR6 "fd77::2"
/* On the cable, but nobody has it. */
#define NOBODY "10.77.0.99"
/* No route leads there. */
#define UNROUTED "192.0.2.1"
#define GROUP "239.77.1.2"
#define OTHER_GROUP "239.77.1.3"
#define GROUP6 "ff15::77:1"
#define INTERFACE "nw0"
#define PORT(n) (script_port() + (n))
int script_port(void);
/* Address and length as two arguments of bind, connect, sendto. */
#define V4(ip, port) (struct sockaddr *)v4(ip, port), (socklen_t)sizeof(struct sockaddr_in)
#define V6(ip, port) (struct sockaddr *)v6(ip, port), (socklen_t)sizeof(struct sockaddr_in6)
struct sockaddr_in *v4(const char *ip, int port);
struct sockaddr_in6 *v6(const char *ip, int port);
/* Takes the place of an address that the kernel wrote, for a message of one's own. */
const char *address_text(const void *address, socklen_t length);

/* Sockets, to begin with. */
#define UDP() CALL(socket(AF_INET, SOCK_DGRAM, 0))
#define UDP6() CALL(socket(AF_INET6, SOCK_DGRAM, 0))
/* A socket bound to PORT(n) of the near address. */
int bound(int n);
int bound6(int n);

/* Receiving. The buffer is poisoned before and looked at behind what was received. */
#define RECV(fd, size, flags) receive(fd, size, flags, "recv(" #fd ", " #size ", " #flags ")")
#define RECVFROM(fd, size, flags) receive_from(fd, size, flags, "recvfrom(" #fd ", " #size ", " #flags ")")
#define RECVMSG(fd, size, control_size, flags) \
    receive_message(fd, size, control_size, flags, "recvmsg(" #fd ", " #size ", control " #control_size ", " #flags ")")
#define READ(fd, size) receive_read(fd, size, "read(" #fd ", " #size ")")
ssize_t receive(int fd, size_t size, int flags, const char *text);
ssize_t receive_from(int fd, size_t size, int flags, const char *text);
ssize_t receive_message(int fd, size_t size, size_t control_size, int flags, const char *text);
ssize_t receive_read(int fd, size_t size, const char *text);
/* Writes down data, and the address, flags and control messages of a header that recvmsg filled. */
void show_data(const char *what, const void *data, size_t length);
void show_header(const struct msghdr *header);
#define SEND(fd, text, flags)                                                          \
    ({ begin_call(); long result_ = send(fd, text, strlen(text), flags);                \
       end_call("send(" #fd ", " #text ", " #flags ")", result_); result_; })
#define SENDTO(fd, text, ...)                                                          \
    ({ begin_call(); long result_ = sendto(fd, text, strlen(text), 0, __VA_ARGS__);     \
       end_call("sendto(" #fd ", " #text ", " #__VA_ARGS__ ")", result_); result_; })

/* Waiting. */
#define POLL(timeout_ms, ...)                                                                                        \
    ({ struct pollfd set_[] = { __VA_ARGS__ };                                                                       \
       poll_and_show(set_, sizeof set_ / sizeof *set_, timeout_ms, "poll(" #__VA_ARGS__ "; " #timeout_ms ")"); })
int poll_and_show(struct pollfd *set, size_t count, int timeout_ms, const char *text);
void show_pollfds(const struct pollfd *set, size_t count);
#define EPOLL() CALL(epoll_create1(0))
#define EPOLL_CTL(epoll, operation, fd, events_)                                                                      \
    ({ begin_call(); struct epoll_event event_ = { .events = (events_), .data.u64 = (fd) };                          \
       long result_ = epoll_ctl(epoll, operation, fd, &event_);                                                      \
       end_call("epoll_ctl(" #epoll ", " #operation ", " #fd ", " #events_ ")", result_); result_; })
#define EPOLL_ADD(epoll, fd, events_) EPOLL_CTL(epoll, EPOLL_CTL_ADD, fd, events_)
#define EPOLL_WAIT(epoll, maximum, timeout_ms) \
    epoll_and_show(epoll, maximum, timeout_ms, "epoll_wait(" #epoll ", " #maximum ", " #timeout_ms ")")
int epoll_and_show(int epoll, int maximum, int timeout_ms, const char *text);
/* All events without waiting, by their data: the halves of a set that are the kernel's and the library's have no order. */
int epoll_and_show_sorted(int epoll, const char *text);
void show_events(const struct epoll_event *events, int count);
/* select over the descriptors in three lists that end with -1, e.g. SELECT(0, READS(a, b), WRITES(a), EXCEPTS()). */
#define READS(...) ((int[]){ __VA_ARGS__ __VA_OPT__(,) -1 })
#define WRITES READS
#define EXCEPTS READS
#define SELECT(timeout_ms, reads, writes, excepts) \
    select_and_show(reads, writes, excepts, timeout_ms, "select(" #reads ", " #writes ", " #excepts "; " #timeout_ms ")")
int select_and_show(const int *reads, const int *writes, const int *excepts, int timeout_ms, const char *text);
void show_set(const char *what, const fd_set *set);

/* Options that are an int, and names. */
#define SET(fd, level, option, value)                                                                     \
    ({ begin_call(); int number_ = (value); long result_ = setsockopt(fd, level, option, &number_, 4);   \
       end_call("setsockopt(" #fd ", " #level ", " #option ", " #value ")", result_); result_; })
#define GET(fd, level, option) get_and_show(fd, level, option, "getsockopt(" #fd ", " #level ", " #option ")")
int get_and_show(int fd, int level, int option, const char *text);
#define GETSOCKNAME(fd) name_and_show(getsockname, fd, sizeof(struct sockaddr_storage), "getsockname(" #fd ")")
#define GETPEERNAME(fd) name_and_show(getpeername, fd, sizeof(struct sockaddr_storage), "getpeername(" #fd ")")
int name_and_show(int (*call)(int, struct sockaddr *, socklen_t *), int fd, socklen_t size, const char *text);

/* Threads and processes. Each writes in a stream of its own; the streams stand one after the other in the trace. */
struct thread;
struct thread *start_thread(const char *name, void *(*function)(void *), void *argument);
void join_thread(struct thread *thread);
pthread_t thread_id(struct thread *thread);
/* Sleeps until each thread sleeps in the kernel or has used 10 ms, as it may spin, and 20 ms more. */
void let_it_wait(void);
/* A child that runs `function` and exits with what it returns. The parent's number of it is not written. */
pid_t fork_child(const char *name, int (*function)(void));
void begin_stream(const char *name);
/* In a process made otherwise, by a number from `reserve_stream`. */
int reserve_stream(const char *name);
void use_stream(int number);
void reap(pid_t pid);
/* Executes the PROGRAM `file.name` of this binary in place of this process. Numbers are its arguments. */
void prepare_exec(char **arguments, const char *program, int first, int second);
#define EXEC(program, first, second)                                                    \
    ({ char *arguments_[5]; prepare_exec(arguments_, program, first, second);           \
       CALL(execv("/proc/self/exe", arguments_)); })
int argument(int number);

/* A descriptor through a Unix socket; -1: none came. */
void give_fd(int through, int fd);
int take_fd(int through, int flags);

/* The far end. Everything named here happens there. Unless it is told to be later (.after_ms) it has happened, and has had
 * time to arrive, when the call returns. */
#define FAR_SENDS(...) far_sends((struct peer_request){ __VA_ARGS__ }, #__VA_ARGS__)
#define FAR_ICMP(...) far_icmp((struct peer_request){ __VA_ARGS__ }, #__VA_ARGS__)
void far_sends(struct peer_request request, const char *text);
/* Anything, without a word in the trace; what is not said becomes the default. */
struct peer_reply far_asks(struct peer_request *request);
void far_icmp(struct peer_request request, const char *text);
void far_opens(int port);
void far_opens6(int port);
void far_joins(int port, const char *group);
void far_joins6(int port, const char *group);
/* Writes down the next datagram that came to a port that was opened before. */
void far_receives(int port);
void far_receives6(int port);
void far_receives_nothing(int port);
/* The far end's interface goes down or up. */
void far_link(int is_up);
/* TCP. A connection to the far end's echo, or one that it makes to a listener at PORT(n), which is accepted; `orders` of peer.h. */
int connected_stream(int family);
int accepted_stream(int family, int n);
/* A script of a connection: as a client and as a server, over IPv4 and over IPv6. */
#define EACH_WAY(name)                                                                  \
    static void name(int fd);                                                           \
    SCRIPT(name##_by_a_client) { name(connected_stream(AF_INET)); }                     \
    SCRIPT(name##_by_a_server) { name(accepted_stream(AF_INET, 0)); }                   \
    SCRIPT(name##_by_a_client_over_ipv6) { name(connected_stream(AF_INET6)); }          \
    SCRIPT(name##_by_a_server_over_ipv6) { name(accepted_stream(AF_INET6, 0)); }        \
    static void name(int fd)
/* So many calls by which a connection has been adopted, whenever that is. */
void exchange_stream(int fd);
void order_far(int fd, const char *orders);
/* Receives so many bytes, or until the end or an error: how many there were, what they add up to, and what ended it. */
void receive_stream(int fd, long bytes, int flags, const char *text);
#define RECEIVE_STREAM(fd, bytes) receive_stream(fd, bytes, 0, "receive " #bytes " of " #fd)
/* Sends so many bytes of letters. */
void send_stream(int fd, long bytes);
/* Writes down how the far end saw a connection end. */
void far_ended(void);
/* Until the echo answers a socket that no library sees. */
void far_answers(int family);
/* How many datagrams came to a port that was opened before and were not written down, those of `size` bytes. */
int far_counts(int family, int port, int size);
/* From now on the far end is a host behind a router, whose leg to it carries packets of 1400 bytes. It has many addresses;
 * BEYOND(0) to BEYOND(15) and BEYOND6 belong to this run alone. */
void far_is_beyond(void);
const char *BEYOND(int n);
const char *BEYOND6(int n);
void far_closes(int port);
/* Writes down the next IPv4 header to a port that was watched before. */
void far_watches(int port);
void far_watched(int port);
/* Afterwards has arrived what was sent to this end before, echoes included. */
void settle(void);
/* From now on datagrams that pass behind all others tell when that is. Before, it is a matter of time. */
void settle_by_marks(void);
/* The same for what came to, or from, the host behind the router. */
void settle_beyond(void);

/* Pointers that calls must refuse, which the compiler does not see through: a page without access, and null. */
void *no_memory(void);
void *null(void);
/* An address of the kernel's. */
void *nowhere(void);

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))

#endif
