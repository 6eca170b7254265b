/* Scripts by name, and the trace: streams of text in a shared mapping of a file, which the runner reads. */
#include "script.h"
#include "direct.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>

/* The layout of the file; the runner knows it too. */
#define STREAMS 64
#define STREAM_BYTES 32768
struct stream {
    atomic_uint length;
    char name[28];
    char text[STREAM_BYTES - 32];
};
struct trace {
    struct stream streams[STREAMS];
    atomic_uint stream_count, port_count;
    atomic_uint ports[1000];
};

static struct trace *trace;
static _Thread_local int stream;
static struct script *scripts;
static int base_port;
static char **own_arguments;
static int own_argument_count;

/* A processor that is emulated by software: some thirty times slower, with a clock that jumps. */
static int is_emulated;

int rounds(int count) { return is_emulated ? count / 10 : count; }

int later_ms(int ms) { return is_emulated && ms ? 4 * ms + 50 : ms; }

void register_script(struct script *script) {
    script->next = scripts;
    scripts = script;
}

static void full_name(const struct script *script, char *out, size_t size) {
    const char *file = strrchr(script->file, '/');
    file = file ? file + 1 : script->file;
    snprintf(out, size, "%.*s.%s", (int)strcspn(file, "."), file, script->name);
}

void say(const char *format, ...) {
    int errno_before = errno;
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    struct stream *to = &trace->streams[stream];
    unsigned at = atomic_fetch_add(&to->length, length);
    if (at + length <= sizeof to->text) memcpy(to->text + at, line, length);
    errno = errno_before;
}

int reserve_stream(const char *name) {
    int number = atomic_fetch_add(&trace->stream_count, 1);
    if (number >= STREAMS) abort();
    snprintf(trace->streams[number].name, sizeof trace->streams[number].name, "%s", name);
    return number;
}

void use_stream(int number) { stream = number; }

void begin_stream(const char *name) { stream = reserve_stream(name); }

/* Which "P" a port is. The runner sees equal numbers where ports appear in the same order. */
int port_number(int port) {
    unsigned count = atomic_load(&trace->port_count);
    for (unsigned i = 0; i < count; i++) {
        if ((int)trace->ports[i] == port) return i + 1;
    }
    unsigned at = atomic_fetch_add(&trace->port_count, 1);
    if (at >= LENGTH_OF(trace->ports)) abort();
    trace->ports[at] = port;
    return at + 1;
}

int script_port(void) { return base_port; }

int argument(int number) { return number + 2 < own_argument_count ? atoi(own_arguments[number + 2]) : -1; }

void begin_call(void) { errno = 0; }

void end_call(const char *text, long result) {
    int error = errno;
    if (result >= 0 && error == 0) say("%s = %ld", text, result);
    else say("%s = %ld %s", text, result, error ? strerrorname_np(error) : "without errno");
}

long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

/* When the last event was ordered that is to come later, or 0. */
static atomic_long ordered_us;

void order_for_later(void) { atomic_store(&ordered_us, now_us()); }

void waited(int expected_ms, long begin_us, long result) {
    int errno_before = errno;
    long ordered = atomic_exchange(&ordered_us, 0), end_us = now_us(), expected_us = expected_ms * 1000L;
    int has_timed_out = result == 0 || (result < 0 && errno == EAGAIN);
    long least_us = has_timed_out ? expected_us : expected_us / 3;
    /* A thread that was kept off its CPU between the order and the call finds that it has come already. */
    int is_ordered = !has_timed_out && ordered && ordered < begin_us;
    long us = end_us - begin_us, since_us = is_ordered ? end_us - ordered : us;
    /* Later than a machine that others share may be: nothing here waits for so long. */
    long late_us = 500000;
    /* Where QEMU has no CPU for a second, ticks that were missed come at once: timeouts that count ticks (SO_RCVTIMEO) end at
     * once on the kernel, others late. */
    if (is_emulated) least_us = 0, late_us = 5000000;
    if (since_us >= least_us && us <= expected_us + late_us) say("  waited ~%d ms", expected_ms);
    else say("  waited %ld us and not ~%d ms", us, expected_ms);
    errno = errno_before;
}

void sleep_ms(int ms) {
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {}
}

int receives_all(int fd) {
    static char data[2000];
    int count = 0;
    for (int waited_ms = 0; waited_ms < 30; waited_ms += 5) {
        if (waited_ms) sleep_ms(5);
        while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0) count++, waited_ms = 0;
    }
    return count;
}

void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigaction(number, &action, NULL);
}

void no_signal(int number) { (void)number; }

void alarm_in_ms(int ms) {
    order_for_later();
    ms = later_ms(ms);
    struct itimerval time = { .it_value = { ms / 1000, ms % 1000 * 1000 } };
    setitimer(ITIMER_REAL, &time, NULL);
}

void alarm_every_us(int us) {
    if (is_emulated) us *= 10;
    struct itimerval time = { { 0, us }, { 0, us } };
    setitimer(ITIMER_REAL, &time, NULL);
}

static atomic_int again_us;

void alarms_us_apart(int us) {
    atomic_store(&again_us, us);
    alarm_again();
}

void alarm_again(void) {
    struct itimerval time = { .it_value = { 0, atomic_load(&again_us) } };
    setitimer(ITIMER_REAL, &time, NULL);
}

void *no_memory(void) {
    static void *page;
    if (!page) page = mmap(NULL, 1 << 17, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page;
}

void *null(void) {
    static void *volatile nothing;
    return nothing;
}

void *nowhere(void) {
    static volatile uintptr_t address = (uintptr_t)-4096 * 4096;
    return (void *)address;
}

struct thread {
    pthread_t id;
    /* 0 before it runs. */
    atomic_int number;
    int stream;
    void *(*function)(void *);
    void *argument;
    struct thread *next;
};

/* Those that were not joined yet; one thread starts and joins them. */
static struct thread *threads;

/* It sleeps, or has used so much of a CPU that it spins where it waits. */
static int seems_to_wait(const struct thread *thread) {
    /* In emulation it takes so long to get there. */
    long spins_for_ns = is_emulated ? 100000000 : 10000000;
    clockid_t clock;
    struct timespec used;
    int number = atomic_load(&thread->number);
    if (number == 0) return 0;
    if (pthread_getcpuclockid(thread->id, &clock) == 0 && clock_gettime(clock, &used) == 0
        && used.tv_sec * 1000000000L + used.tv_nsec > spins_for_ns) return 1;
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", number);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    /* One that has ended waits for nothing more. */
    if (length < 0) return 1;
    text[length] = 0;
    const char *state = strrchr(text, ')');
    return !state || strchr("SZX", state[2]) != NULL;
}

void let_it_wait(void) {
    int errno_before = errno;
    for (struct thread *thread = threads; thread; thread = thread->next) {
        for (int looks = 0; looks < 5000 && !seems_to_wait(thread); looks++) sleep_ms(1);
    }
    sleep_ms(20);
    errno = errno_before;
}

static void *run_thread(void *argument) {
    struct thread *thread = argument;
    stream = thread->stream;
    atomic_store(&thread->number, gettid());
    return thread->function(thread->argument);
}

struct thread *start_thread(const char *name, void *(*function)(void *), void *argument) {
    struct thread *thread = malloc(sizeof *thread);
    *thread = (struct thread){ .stream = reserve_stream(name), .function = function, .argument = argument, .next = threads };
    threads = thread;
    if (pthread_create(&thread->id, NULL, run_thread, thread) != 0) abort();
    return thread;
}

pthread_t thread_id(struct thread *thread) { return thread->id; }

void join_thread(struct thread *thread) {
    pthread_join(thread->id, NULL);
    struct thread **link = &threads;
    while (*link && *link != thread) link = &(*link)->next;
    if (*link) *link = thread->next;
    free(thread);
}

pid_t fork_child(const char *name, int (*function)(void)) {
    int number = reserve_stream(name);
    pid_t pid = fork();
    if (pid < 0) say("fork failed: %s", strerrorname_np(errno));
    if (pid != 0) return pid;
    stream = number;
    _exit(function());
}

void reap(pid_t pid) {
    int status = 0;
    pid_t reaped = waitpid(pid, &status, 0);
    if (reaped != pid) say("waitpid: %s", strerrorname_np(errno));
    else if (WIFSIGNALED(status)) say("child ended by signal %d", WTERMSIG(status));
    else say("child ended with %d", WEXITSTATUS(status));
}

void prepare_exec(char **arguments, const char *program, int first, int second) {
    static char numbers[2][12], number[12];
    snprintf(numbers[0], sizeof numbers[0], "%d", first);
    snprintf(numbers[1], sizeof numbers[1], "%d", second);
    snprintf(number, sizeof number, "%d", stream);
    setenv("SCRIPT_STREAM", number, 1);
    arguments[0] = "scripts";
    arguments[1] = (char *)program;
    arguments[2] = numbers[0];
    arguments[3] = numbers[1];
    arguments[4] = NULL;
}

static void map_trace(void) {
    const char *name = getenv("SCRIPT_TRACE"), *port = getenv("SCRIPT_PORT");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !port) exit(3);
    trace = mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (trace == MAP_FAILED) exit(3);
    close(fd);
    base_port = atoi(port);
}

void far_forgets(void);

static int uses_first;

/* No cancellation point, and without a trace in errno: what the script sees is the call before. */
static int use(int fd, int result) {
    int error = errno, state, kind = 0;
    socklen_t length = sizeof kind;
    direct(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&kind, (long)&length, 0);
    if (!uses_first || result != 0 || kind == SOCK_STREAM) return result;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 0);
    pthread_setcancelstate(state, NULL);
    errno = error;
    return result;
}

int bind_and_use(int fd, const struct sockaddr *address, socklen_t length) {
    return use(fd, (bind)(fd, address, length));
}

int connect_and_use(int fd, const struct sockaddr *address, socklen_t length) {
    return use(fd, (connect)(fd, address, length));
}

/* The port of a TCP connection is opened while the kernel has the connection, which most scripts have ended by then. A socket that is used waits for it. */
static void open_port(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    (bind)(fd, V4(NEAR, 0));
    poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 0);
    close(fd);
}

int main(int count, char **arguments) {
    char name[128];
    if (count < 2) return 2;
    own_arguments = arguments, own_argument_count = count;
    if (strcmp(arguments[1], "--list") == 0) {
        for (struct script *script = scripts; script; script = script->next) {
            full_name(script, name, sizeof name);
            if (!script->is_executed) puts(name);
        }
        return 0;
    }
    const char *inherited = getenv("SCRIPT_STREAM");
    if (!inherited) {
        /* Whatever the runner was started with: descriptors of a script begin at 3. */
        close_range(3, ~0U, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    is_emulated = getenv("SCRIPT_EMULATED") != NULL;
    uses_first = getenv("SCRIPT_USES_FIRST") != NULL;
    if (!inherited && getenv("SCRIPT_OPENS_PORT")) open_port();
    map_trace();
    if (inherited) use_stream(atoi(inherited));
    else begin_stream("main");
    for (struct script *script = scripts; script; script = script->next) {
        full_name(script, name, sizeof name);
        if (strcmp(name, arguments[1]) == 0) {
            script->run();
            if (!inherited) far_forgets();
            return 0;
        }
    }
    return 4;
}
