/* Says what its signal handlers see: the same with and without the library, but for the line "kernel has". */
#define _GNU_SOURCE
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Old ways are what is tested. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern sighandler_t sigset(int, sighandler_t);
extern sighandler_t sysv_signal(int, sighandler_t);
extern sighandler_t ssignal(int, sighandler_t);

static volatile int plain_runs, depth, deepest, raised, code, value, on_stack, blocked_inside, instruction;
static char stack_memory[65536] __attribute__((aligned(16)));
static sigjmp_buf back;
static __thread volatile int thread_runs;

static void plain(int signal) { (void)signal; plain_runs++; thread_runs++; }
static void other(int signal) { (void)signal; plain_runs += 100; }
static void jumps(int signal) { siglongjmp(back, signal); }

static void informed(int signal, siginfo_t *info, void *context) {
    char here;
    sigset_t mask;
    (void)signal;
    code = info->si_code;
    value = info->si_value.sival_int;
    on_stack = &here >= stack_memory && &here < stack_memory + sizeof stack_memory;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    blocked_inside = sigismember(&mask, SIGUSR2) * 2 + sigismember(&mask, signal);
    instruction = ((ucontext_t *)context)->uc_stack.ss_size == sizeof stack_memory;
}

static void nests(int signal) {
    depth++;
    if (depth > deepest) deepest = depth;
    if (raised++ < 2) raise(signal);
    depth--;
}

static const char *name_of(void *handler) {
    return handler == (void *)SIG_DFL ? "default" : handler == (void *)SIG_IGN ? "ignore"
         : handler == (void *)plain ? "plain" : handler == (void *)other ? "other"
         : handler == (void *)informed ? "informed" : handler == (void *)nests ? "nests"
         : handler == (void *)jumps ? "jumps" : handler == (void *)SIG_ERR ? "error"
         : handler == (void *)2 ? "hold" : "unknown";
}

static void show(int signal) {
    struct sigaction now;
    memset(&now, 0, sizeof now);
    int result = sigaction(signal, NULL, &now);
    printf("  %d: %d %s flags %x mask %d%d\n", signal, result, name_of((void *)now.sa_handler), (unsigned)now.sa_flags,
           sigismember(&now.sa_mask, SIGUSR2), sigismember(&now.sa_mask, signal));
}

static void install(int signal, void *handler, int flags) {
    struct sigaction new, old;
    memset(&new, 0, sizeof new);
    memset(&old, 0, sizeof old);
    new.sa_handler = (sighandler_t)handler;
    new.sa_flags = flags;
    sigaddset(&new.sa_mask, SIGUSR2);
    int result = sigaction(signal, &new, &old);
    printf("install %d %s %x: %d, was %s %x\n", signal, name_of(handler), (unsigned)flags, result,
           name_of((void *)old.sa_handler), (unsigned)old.sa_flags);
    show(signal);
}

/* What a read of an empty pipe does when a signal comes after 30 ms. */
static void interrupted(const char *what, int signal) {
    int ends[2];
    char byte;
    if (pipe(ends)) abort();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(30000);
        kill(parent, signal);
        usleep(30000);
        if (write(ends[1], "x", 1) != 1) abort();
        _exit(0);
    }
    errno = 0;
    ssize_t got = read(ends[0], &byte, 1);
    printf("%s: read %zd, errno %d\n", what, got, got < 0 ? errno : 0);
    while (waitpid(child, NULL, 0) < 0) {}
    close(ends[0]);
    close(ends[1]);
}

static void *in_thread(void *argument) {
    (void)argument;
    raise(SIGRTMIN + 1);
    return (void *)(long)thread_runs;
}

struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };

static void flags_and_masks(void) {
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    sigaltstack(&stack, NULL);
    int with[] = {SA_SIGINFO, SA_SIGINFO | SA_ONSTACK, SA_SIGINFO | SA_NODEFER, SA_SIGINFO | SA_RESTART | SA_RESETHAND};
    for (int i = 0; i < 4; i++) {
        install(SIGRTMIN, informed, with[i]);
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 40 + i});
        printf("informed: code %d value %d stack %d mask %d context %d\n", code, value, on_stack, blocked_inside, instruction);
        show(SIGRTMIN);
    }
    install(SIGRTMIN, nests, SA_NODEFER);
    raise(SIGRTMIN);
    printf("nested %d\n", deepest);
    deepest = raised = 0;
    install(SIGRTMIN, nests, 0);
    raise(SIGRTMIN);
    printf("not nested %d\n", deepest);
    install(SIGRTMIN, (void *)SIG_IGN, 0);
    raise(SIGRTMIN);
    install(SIGRTMIN, (void *)SIG_DFL, 0);
    install(SIGKILL, plain, 0);
    install(0, plain, 0);
    install(99, plain, 0);
    struct kernel_action now;
    install(SIGRTMIN, plain, 0);
    syscall(SYS_rt_sigaction, SIGRTMIN, NULL, &now, 8);
    printf("kernel has %s\n", now.handler == (void *)plain ? "the program's" : "ours");
}

static void older_functions(void) {
    int s = SIGRTMIN + 2;
    printf("signal %s\n", name_of((void *)signal(s, plain))); show(s); interrupted("signal", s);
    printf("siginterrupt %d\n", siginterrupt(s, 1)); show(s); interrupted("siginterrupt", s);
    printf("signal %s\n", name_of((void *)ssignal(s, other))); show(s);
    printf("siginterrupt %d\n", siginterrupt(s, 0)); show(s); interrupted("not", s);
    printf("sysv %s\n", name_of((void *)sysv_signal(s, plain))); show(s); interrupted("sysv", s); show(s);
    printf("sigset %s\n", name_of((void *)sigset(s, plain))); show(s);
    printf("hold %s\n", name_of((void *)sigset(s, (sighandler_t)2))); show(s);
    printf("hold %s\n", name_of((void *)sigset(s, (sighandler_t)2)));
    raise(s);
    printf("runs %d\n", plain_runs);
    printf("release %s\n", name_of((void *)sigset(s, other))); show(s);
    printf("runs %d\n", plain_runs);
    printf("default %s\n", name_of((void *)sigset(s, SIG_DFL))); show(s);
    errno = 0;
    printf("error %s", name_of((void *)signal(s, SIG_ERR))); printf(" %d", errno);
    errno = 0;
    printf(" %s", name_of((void *)signal(SIGKILL, plain))); printf(" %d", errno);
    errno = 0;
    printf(" %s", name_of((void *)sigset(0, plain))); printf(" %d", errno);
    errno = 0;
    printf(" %d", siginterrupt(99, 1)); printf(" %d\n", errno);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    flags_and_masks();
    older_functions();

    install(SIGRTMIN + 1, plain, SA_RESTART); interrupted("restart", SIGRTMIN + 1);
    install(SIGRTMIN + 1, plain, 0); interrupted("no restart", SIGRTMIN + 1);
    pthread_t thread;
    void *runs;
    int before = thread_runs;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, &runs);
    printf("thread %ld, main %d\n", (long)runs, thread_runs - before);

    install(SIGRTMIN + 3, jumps, 0);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0) raise(SIGRTMIN + 3);
        else printf("jumped\n");

    pid_t child = fork();
    if (child == 0) {
        show(SIGRTMIN + 1);
        install(SIGRTMIN + 1, other, 0);
        plain_runs = 0;
        raise(SIGRTMIN + 1);
        _exit(plain_runs);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    show(SIGRTMIN + 1);
    child = vfork();
    if (child == 0) {
        struct sigaction new = {.sa_handler = other};
        sigaction(SIGRTMIN + 1, &new, NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    plain_runs = 0;
    raise(SIGRTMIN + 1);
    printf("after vfork %d\n", plain_runs);
    show(SIGRTMIN + 1);
    printf("system %d\n", system("exit 3"));
    show(SIGINT);
    printf("end\n");
    return 0;
}
