/* The harness of the parity tests: one binary that is run natively and under Ringway, and must not
 * be able to tell the difference.
 *
 *   subject process                     sync channel (AF_UNIX)             peer process (or thread)
 *   runs the test's body  ---- commands: "send 100 bytes", "close" ---->   obeys, one after the other
 *                         <--- replies ----------------------------------
 *        \______________________ the TCP connection under test ____________________/
 *
 * A test is written once, from the subject's point of view; the runner chooses which side connects,
 * the address family, how much traffic precedes the body, and which side runs under Ringway.
 * Every byte sent is a function of its direction and stream offset, so that a lost, doubled or
 * reordered byte is found wherever it happens.
 */
#ifndef PARITY_H
#define PARITY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One end of a connection under test. */
struct conn {
    int fd;
    int index;        /* the peer's name for its end */
    int direction;    /* 0: this end connected, 1: this end accepted; picks the byte pattern */
    uint64_t tx, rx;  /* stream offsets of the next byte to send and to receive */
};

/* What a test needs; the runner derives the variants from these. */
enum flags {
    BARE = 1,      /* the body opens its own connections (`c` is null); no warm-up beforehand */
    SOLO = 2,      /* both ends in one process, no peer; implies BARE */
    PROCESS = 4,   /* the peer must be a process, not a thread (it dies, executes, forks) */
    ANY_PATH = 8,  /* being upgraded is not asserted */
    ONCE = 16,     /* slow or insensitive to the variants: run in the first one only */
    COLD = 32,     /* only before any traffic */
    REMOTE = 64,   /* the subject runs in another network namespace */
};

#define TEST(id, clause, flags)                                                              \
    static void test_##id(struct conn *c);                                                   \
    __attribute__((constructor)) static void register_##id(void) {                           \
        test_register(__FILE__, #id, clause, flags, test_##id);                              \
    }                                                                                        \
    static void test_##id(struct conn *c __attribute__((unused)))

/* What a process goes on with after `execute` (see below). */
#define CONTINUATION(id)                                                                     \
    static void id(struct conn *c);                                                          \
    __attribute__((constructor)) static void register_##id(void) { continuation_register(#id, id); } \
    static void id(struct conn *c __attribute__((unused)))

void test_register(const char *file, const char *id, const char *clause, int flags, void (*body)(struct conn *));
void continuation_register(const char *id, void (*body)(struct conn *));

/* --- verdicts: the first failure in any thread or child ends that process with status 1 --- */
void fail_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
void skip(const char *why) __attribute__((noreturn));
/* Ends a forked child that did its part. */
void child_done(void) __attribute__((noreturn));

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) FAIL("%s (errno %d %s)", #condition, errno, strerror(errno));      \
    } while (0)
#define CHECK_EQ(actual, expected)                                                           \
    do {                                                                                     \
        long long a_ = (long long)(actual), e_ = (long long)(expected);                      \
        if (a_ != e_) FAIL("%s is %lld, expected %s = %lld (errno %d)", #actual, a_, #expected, e_, errno); \
    } while (0)
/* The call fails with exactly this error. */
#define CHECK_ERRNO(call, error)                                                             \
    do {                                                                                     \
        errno = 0;                                                                           \
        long long r_ = (long long)(call);                                                    \
        if (r_ != -1 || errno != (error))                                                    \
            FAIL("%s gave %lld, errno %d, expected %s", #call, r_, errno, #error);           \
    } while (0)

/* --- the byte pattern --- */
/* The next `n` bytes to send; `sent` moves on by what a call took of them. */
void fill(const struct conn *c, void *buffer, size_t n);
void sent(struct conn *c, ssize_t n);
/* The buffer holds the next `n` bytes of the stream; `check_bytes` moves on, `check_ahead` does not. */
void check_bytes_at(const char *file, int line, struct conn *c, const void *buffer, size_t n);
void check_ahead_at(const char *file, int line, const struct conn *c, const void *buffer, size_t n, size_t skip);
#define check_bytes(c, buffer, n) check_bytes_at(__FILE__, __LINE__, c, buffer, n)
#define check_ahead(c, buffer, n) check_ahead_at(__FILE__, __LINE__, c, buffer, n, 0)
/* Send or receive exactly `n` bytes, whatever O_NONBLOCK says. */
void put_at(const char *file, int line, struct conn *c, size_t n);
void take_at(const char *file, int line, struct conn *c, size_t n);
#define put(c, n) put_at(__FILE__, __LINE__, c, n)
#define take(c, n) take_at(__FILE__, __LINE__, c, n)
/* The stream ends here with an orderly FIN. */
void check_eof_at(const char *file, int line, struct conn *c);
#define check_eof(c) check_eof_at(__FILE__, __LINE__, c)

/* --- the peer --- */
enum op {
    OP_LISTEN,    /* reply: address */
    OP_ACCEPT,    /* value: index of the new connection */
    OP_CONNECT,   /* to `address`; value: index */
    OP_SEND,      /* a bytes */
    OP_PIECES,    /* a bytes in pieces of b bytes, with a pause after each */
    OP_RECV,      /* exactly a bytes, verified */
    OP_ECHO,      /* a messages of b bytes: receive, then send as many */
    OP_DRAIN,     /* receive to the end of the stream; value: bytes */
    OP_READ,      /* one recv; value: bytes or -errno */
    OP_WRITE,     /* one send of a bytes with MSG_NOSIGNAL; value: bytes or -errno */
    OP_FLOOD,     /* send until nothing more fits; value: bytes */
    OP_SHUTDOWN,  /* how = a */
    OP_CLOSE,
    OP_RESET,     /* close with SO_LINGER 0 */
    OP_OOB,       /* one urgent byte a, outside the pattern */
    OP_SETOPT,    /* a = level << 16 | option, b = value */
    OP_SLEEP,     /* a milliseconds */
    OP_GIVE,      /* pass the peer's descriptor to the subject and close it there */
    OP_EXEC,      /* execute the binary anew and go on; a = 1: without LD_PRELOAD */
    OP_QUIT,
};
/* Queue a command; it is obeyed while the subject goes on. */
void peer_post(const struct conn *c, enum op op, int64_t a, int64_t b);
/* Wait for all replies; the last one's value. */
int64_t peer_settle(void);
/* Both. */
int64_t peer(const struct conn *c, enum op op, int64_t a, int64_t b);
/* The same, after so many milliseconds and without waiting for it. */
void peer_later(const struct conn *c, int ms, enum op op, int64_t a, int64_t b);
#define peer_send(c, n) ((void)peer(c, OP_SEND, n, 0))
#define peer_recv(c, n) ((void)peer(c, OP_RECV, n, 0))
#define peer_close(c) ((void)peer(c, OP_CLOSE, 0, 0))
/* The descriptor that OP_GIVE passed, as an end of its own. */
struct conn peer_give(const struct conn *c);
/* Kill the peer process. */
void peer_kill(void);
pid_t peer_pid(void);

/* --- connections --- */
/* A new connection to the peer, warmed up as the variant says (`open_warm`) or not at all. */
struct conn open_cold(void);
struct conn open_warm(void);
/* Exchange traffic until the connection has been upgraded (asserted where the runner expects it). */
void warm_up(struct conn *c);
/* Both ends in this process. */
void open_inside(struct conn *a, struct conn *b);
void open_inside_warm(struct conn *a, struct conn *b);
void warm_up_inside(struct conn *a, struct conn *b);
/* A listening socket in the variant's address family, and its address. */
int listen_any(int backlog, struct sockaddr_storage *address, socklen_t *length);
/* An unconnected TCP socket in the variant's address family. */
int tcp_socket(int type_flags);
/* Bytes that the kernel's TCP has carried for this socket, asked past any hook. */
void tcp_bytes(int fd, uint64_t *sent_bytes, uint64_t *received_bytes);

/* --- small helpers --- */
/* Wait until `n` bytes can be read without blocking. */
void await_input_at(const char *file, int line, int fd, int n);
#define await_input(c, n) await_input_at(__FILE__, __LINE__, (c)->fd, n)
/* poll() for these events on one descriptor; the revents, 0 after the timeout. */
int poll_one(int fd, int events, int timeout_ms);
/* Wait for POLLIN or POLLOUT and the like: must come. */
#define await_events(c, events) \
    do { if (!(poll_one((c)->fd, events, 5000) & (events))) FAIL("no " #events " within 5 s"); } while (0)
void set_nonblocking(int fd, bool on);
/* Send until nothing more fits; the bytes. The connection must be non-blocking. */
uint64_t flood(struct conn *c);
int64_t now_ms(void);
void sleep_ms(int ms);
/* fork; the child must end with `child_done`, the parent checks that with `reap`. */
pid_t fork_child(void);
void reap_at(const char *file, int line, pid_t child);
#define reap(child) reap_at(__FILE__, __LINE__, child)
void *run_thread(void *(*body)(void *), void *argument);  /* a handle for `join` */
void join(void *handle);
/* Replace this process by a new run of the binary that goes on with the named continuation. */
void execute(const char *continuation, const struct conn *c, bool preload);
/* The same by the binary that is linked statically, which no library gets into; or back from it. */
void execute_static(const char *continuation, const struct conn *c);
void execute_dynamic(const char *continuation, const struct conn *c);
/* Its argument vector, for posix_spawn and vfork; valid until the next call. */
char **continuation_argv(const char *continuation, const struct conn *c);
/* The same, for a child: fork, then execute in the child; the continuation ends like `child_done`. */
pid_t spawn(const char *continuation, const struct conn *c, bool preload);
/* Memory that stays common after a fork, zeroed. */
void *shared_memory(size_t size);
/* A mutex in common memory. */
pthread_mutex_t *shared_lock(void);
/* SCM_RIGHTS over an AF_UNIX socket. */
void send_fd(int channel, int fd);
int receive_fd(int channel);
/* Two adjacent mappings: `size` bytes that can be used, then a page that cannot. */
char *before_unmapped(size_t size);
void catch_signal(int number, void (*handler)(int), int sa_flags);
/* SIGALRM every so many milliseconds, so that one of them meets the call under test; 0 stops it. */
void alarm_every(int ms);

#endif
