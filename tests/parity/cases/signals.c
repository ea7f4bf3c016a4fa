/* Signals that meet calls: EINTR, restart, masks, handlers that do I/O. */
#include "epolls.h"

#include <setjmp.h>
#include <sys/select.h>

static volatile sig_atomic_t caught;
static void count(int number) { (void)number; caught = caught + 1; }

/* Each call blocks, is met by SIGALRM and ends with EINTR; nothing is lost. */
#define EINTR_TEST(id, clause, sa_flags, prepare, call)                      \
    TEST(id, clause, 0) {                                                    \
        char buffer[10] __attribute__((unused)) = {0};                       \
        uint64_t before = c->tx;                                             \
        struct iovec iov __attribute__((unused)) = {buffer, 10};             \
        struct msghdr message __attribute__((unused)) = {.msg_iov = &iov, .msg_iovlen = 1}; \
        struct pollfd entry __attribute__((unused)) = {c->fd, POLLIN, 0};    \
        struct epoll_event got __attribute__((unused));                      \
        int set __attribute__((unused)) = epoll_with(c->fd, EPOLLIN, 1);     \
        fd_set input;                                                        \
        FD_ZERO(&input);                                                     \
        FD_SET(c->fd, &input);                                               \
        struct timeval limit __attribute__((unused)) = {10, 0};              \
        struct timespec fine_limit __attribute__((unused)) = {10, 0};        \
        prepare;                                                             \
        catch_signal(SIGALRM, count, sa_flags);                              \
        alarm_every(20);                                                     \
        CHECK_ERRNO(call, EINTR);                                            \
        alarm_every(0);                                                      \
        CHECK(caught > 0);                                                   \
        if (c->tx > before) peer_recv(c, c->tx - before);                    \
        peer_send(c, 10);                                                    \
        take(c, 10);                                                         \
    }

#define NO_RESTART "EINTR without SA_RESTART"
EINTR_TEST(eintr_recv, NO_RESTART, 0, (void)0, recv(c->fd, buffer, 10, 0))
EINTR_TEST(eintr_recv_waitall, NO_RESTART, 0, (void)0, recv(c->fd, buffer, 10, MSG_WAITALL))
EINTR_TEST(eintr_peek, NO_RESTART, 0, (void)0, recv(c->fd, buffer, 10, MSG_PEEK))
EINTR_TEST(eintr_read, NO_RESTART, 0, (void)0, read(c->fd, buffer, 10))
EINTR_TEST(eintr_readv, NO_RESTART, 0, (void)0, readv(c->fd, &iov, 1))
EINTR_TEST(eintr_recvmsg, NO_RESTART, 0, (void)0, recvmsg(c->fd, &message, 0))
EINTR_TEST(eintr_recvfrom, NO_RESTART, 0, (void)0, recvfrom(c->fd, buffer, 10, 0, NULL, NULL))
EINTR_TEST(eintr_send, NO_RESTART, 0, flood(c), send(c->fd, buffer, 10, 0))
EINTR_TEST(eintr_write, NO_RESTART, 0, flood(c), write(c->fd, buffer, 10))
EINTR_TEST(eintr_sendmsg, NO_RESTART, 0, flood(c), sendmsg(c->fd, &message, 0))

/* These are never restarted. */
#define NEVER "EINTR of waiting calls, SA_RESTART or not"
EINTR_TEST(eintr_poll, NEVER, SA_RESTART, (void)0, poll(&entry, 1, 10000))
EINTR_TEST(eintr_ppoll, NEVER, SA_RESTART, (void)0, ppoll(&entry, 1, &fine_limit, NULL))
EINTR_TEST(eintr_select, NEVER, SA_RESTART, (void)0, select(c->fd + 1, &input, NULL, NULL, &limit))
EINTR_TEST(eintr_pselect, NEVER, SA_RESTART, (void)0, pselect(c->fd + 1, &input, NULL, NULL, &fine_limit, NULL))
EINTR_TEST(eintr_epoll_wait, NEVER, SA_RESTART, (void)0, epoll_wait(set, &got, 1, 10000))
EINTR_TEST(eintr_epoll_pwait, NEVER, SA_RESTART, (void)0, epoll_pwait(set, &got, 1, -1, NULL))
EINTR_TEST(eintr_recv_with_timeout, "EINTR with SO_RCVTIMEO despite SA_RESTART", SA_RESTART,
           CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0), recv(c->fd, buffer, 10, 0))

/* With SA_RESTART the call goes on as if nothing had happened. */
#define RESTART_TEST(id, call)                                               \
    TEST(restart_##id, "restart with SA_RESTART", 0) {                       \
        char buffer[10];                                                     \
        struct iovec iov __attribute__((unused)) = {buffer, 10};             \
        struct msghdr message __attribute__((unused)) = {.msg_iov = &iov, .msg_iovlen = 1}; \
        catch_signal(SIGALRM, count, SA_RESTART);                            \
        peer_later(c, 120, OP_SEND, 10, 0);                                  \
        alarm_every(20);                                                     \
        CHECK_EQ(call, 10);                                                  \
        alarm_every(0);                                                      \
        CHECK(caught > 0);                                                   \
        check_bytes(c, buffer, 10);                                          \
        peer_settle();                                                       \
    }

RESTART_TEST(recv, recv(c->fd, buffer, 10, 0))
RESTART_TEST(read, read(c->fd, buffer, 10))
RESTART_TEST(readv, readv(c->fd, &iov, 1))
RESTART_TEST(recvmsg, recvmsg(c->fd, &message, 0))
RESTART_TEST(recv_waitall, recv(c->fd, buffer, 10, MSG_WAITALL))

TEST(restart_send, "restart with SA_RESTART", 0) {
    char buffer[10];
    catch_signal(SIGALRM, count, SA_RESTART);
    uint64_t before = c->tx;
    flood(c);
    fill(c, buffer, 10);
    peer_later(c, 120, OP_RECV, c->tx + 10 - before, 0);
    alarm_every(20);
    CHECK_EQ(send(c->fd, buffer, 10, 0), 10);
    alarm_every(0);
    peer_settle();
}

TEST(ignored_signals, "ignored signals interrupt nothing", 0) {
    char buffer[10];
    catch_signal(SIGALRM, SIG_IGN, 0);
    peer_later(c, 100, OP_SEND, 10, 0);
    alarm_every(10);
    CHECK_EQ(recv(c->fd, buffer, 10, 0), 10);
    alarm_every(0);
    check_bytes(c, buffer, 10);
    peer_settle();
}

static void block(int number, bool on) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    CHECK_EQ(pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL), 0);
}

TEST(blocked_signals, "blocked signals interrupt nothing", 0) {
    char buffer[10];
    catch_signal(SIGALRM, count, 0);
    block(SIGALRM, true);
    peer_later(c, 100, OP_SEND, 10, 0);
    alarm_every(10);
    CHECK_EQ(recv(c->fd, buffer, 10, 0), 10);
    alarm_every(0);
    CHECK_EQ(caught, 0);
    check_bytes(c, buffer, 10);
    block(SIGALRM, false);
    CHECK_EQ(caught, 1);
    peer_settle();
}

/* A pending signal is let in by the call's own mask: it must end the wait at once. */
#define MASK_TEST(id, clause, call)                                          \
    TEST(id, clause, 0) {                                                    \
        sigset_t empty;                                                      \
        struct pollfd entry __attribute__((unused)) = {c->fd, POLLIN, 0};    \
        struct timespec limit __attribute__((unused)) = {20, 0};             \
        struct epoll_event got __attribute__((unused));                      \
        int set __attribute__((unused)) = epoll_with(c->fd, EPOLLIN, 1);     \
        fd_set input;                                                        \
        sigemptyset(&empty);                                                 \
        FD_ZERO(&input);                                                     \
        FD_SET(c->fd, &input);                                               \
        catch_signal(SIGUSR1, count, SA_RESTART);                            \
        block(SIGUSR1, true);                                                \
        CHECK_EQ(raise(SIGUSR1), 0);                                         \
        int64_t start = now_ms();                                            \
        CHECK_ERRNO(call, EINTR);                                            \
        CHECK(now_ms() - start < 15000);                                     \
        CHECK_EQ(caught, 1);                                                 \
        /* What is ready comes first; the signal stays pending. */           \
        CHECK_EQ(raise(SIGUSR1), 0);                                         \
        CHECK_EQ(caught, 1);                                                 \
        peer_send(c, 1);                                                     \
        await_input(c, 1);                                                   \
        FD_SET(c->fd, &input);                                               \
        CHECK_EQ(call, 1);                                                   \
        CHECK_EQ(caught, 1);                                                 \
        take(c, 1);                                                          \
        block(SIGUSR1, false);                                               \
        CHECK_EQ(caught, 2);                                                 \
    }

MASK_TEST(mask_of_ppoll, "masks in ppoll", ppoll(&entry, 1, &limit, &empty))
MASK_TEST(mask_of_pselect, "masks in pselect", pselect(c->fd + 1, &input, NULL, NULL, &limit, &empty))
MASK_TEST(mask_of_epoll_pwait, "masks in epoll_pwait", epoll_pwait(set, &got, 1, 20000, &empty))
MASK_TEST(mask_of_epoll_pwait2, "masks in epoll_pwait2", epoll_pwait2(set, &got, 1, &limit, &empty))

/* The call's mask keeps out what the thread's would let in. */
TEST(mask_keeps_out, "masks in ppoll", 0) {
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    struct pollfd entry = {c->fd, POLLIN, 0};
    struct timespec limit = {10, 0};
    catch_signal(SIGALRM, count, 0);
    block(SIGALRM, true);
    peer_later(c, 100, OP_SEND, 1, 0);
    alarm_every(10);
    CHECK_EQ(ppoll(&entry, 1, &limit, &alarms), 1);
    alarm_every(0);
    CHECK_EQ(caught, 0);
    take(c, 1);
    peer_settle();
}

/* --- handlers that do I/O --- */

static struct conn *handler_conn;
static volatile sig_atomic_t handler_pending;

/* Ping-pong, one step a signal. */
static void io_in_handler(int number) {
    (void)number;
    char buffer[16];
    int saved = errno;
    if (!handler_pending) {
        fill(handler_conn, buffer, 16);
        ssize_t n = send(handler_conn->fd, buffer, 16, MSG_DONTWAIT);
        if (n > 0) {
            CHECK_EQ(n, 16);
            sent(handler_conn, n);
            handler_pending = 16;
            caught = caught + 1;
        }
    } else {
        ssize_t n = read(handler_conn->fd, buffer, (size_t)handler_pending);
        if (n > 0) {
            check_bytes(handler_conn, buffer, n);
            handler_pending = handler_pending - (int)n;
        }
    }
    errno = saved;
}

TEST(handler_on_another_connection, "handler that does read/write on another connection", BARE | PROCESS) {
    enum { STEPS = 200 };
    struct conn one = open_warm(), other = open_warm();
    uint64_t echoed = other.tx;
    set_nonblocking(other.fd, true);
    handler_conn = &other;
    catch_signal(SIGALRM, io_in_handler, SA_RESTART);
    alarm_every(1);
    for (int i = 0; i < 20000 && caught < STEPS; i++) {
        /* The peer serves both in turn. */
        peer_post(&one, OP_ECHO, 1, 300);
        put(&one, 300);
        take(&one, 300);
        block(SIGALRM, true);
        if (other.tx > echoed) peer_post(&other, OP_ECHO, 1, (int64_t)(other.tx - echoed));
        echoed = other.tx;
        peer_settle();
        block(SIGALRM, false);
    }
    alarm_every(0);
    CHECK(caught > 5);
}

static void send_in_handler(int number) {
    (void)number;
    char buffer[8];
    int saved = errno;
    fill(handler_conn, buffer, 8);
    ssize_t n = send(handler_conn->fd, buffer, 8, MSG_DONTWAIT | MSG_NOSIGNAL);
    sent(handler_conn, n);
    if (n > 0) caught = caught + 1;
    errno = saved;
}

/* The thread reads, its handler writes, the same connection. */
TEST(handler_on_the_same_connection, "handler that does write on the same connection", 0) {
    handler_conn = c;
    uint64_t before = c->tx;
    catch_signal(SIGALRM, send_in_handler, SA_RESTART);
    peer_post(c, OP_PIECES, 200000, 2000);
    alarm_every(1);
    take(c, 200000);
    alarm_every(0);
    peer_settle();
    CHECK(caught > 0);
    peer_recv(c, c->tx - before);
}

static sigjmp_buf escape;
static void jump(int number) { (void)number; siglongjmp(escape, 1); }

/* Out of a blocked call by a jump: locks must not stay behind, nor bytes be lost. */
#define JUMP_TEST(id, prepare, call)                                         \
    TEST(jump_out_of_##id, "siglongjmp out of a handler", 0) {               \
        static volatile int rounds;                                          \
        static char buffer[10] __attribute__((unused));                      \
        uint64_t before = c->tx;                                             \
        struct pollfd entry __attribute__((unused)) = {c->fd, POLLIN, 0};    \
        struct epoll_event got __attribute__((unused));                      \
        int set __attribute__((unused)) = epoll_with(c->fd, EPOLLIN, 1);     \
        prepare;                                                             \
        catch_signal(SIGALRM, jump, SA_RESTART);                             \
        for (rounds = 0; rounds < 15; rounds++) {                            \
            if (sigsetjmp(escape, 1) == 0) {                                 \
                alarm_every(5);                                              \
                call;                                                        \
                FAIL("the call came back without a signal, errno %d", errno);\
            }                                                                \
            alarm_every(0);                                                  \
        }                                                                    \
        block(SIGALRM, true);                                                \
        if (c->tx > before) peer_recv(c, c->tx - before);                    \
        for (int i = 0; i < 10; i++) {                                       \
            peer_post(c, OP_ECHO, 1, 1000);                                  \
            put(c, 1000);                                                    \
            take(c, 1000);                                                   \
            peer_settle();                                                   \
        }                                                                    \
    }

JUMP_TEST(recv, (void)0, recv(c->fd, buffer, 10, 0))
JUMP_TEST(send, flood(c), send(c->fd, buffer, 10, 0))
JUMP_TEST(poll, (void)0, poll(&entry, 1, 10000))
JUMP_TEST(epoll_wait, (void)0, epoll_wait(set, &got, 1, 10000))

TEST(bulk_under_alarms, "alarm-driven loops", 0) {
    catch_signal(SIGALRM, count, 0);
    alarm_every(1);
    for (int i = 0; i < 8; i++) {
        peer_post(c, OP_RECV, 1 << 20, 0);
        put(c, 1 << 20);
        peer_post(c, OP_SEND, 1 << 20, 0);
        take(c, 1 << 20);
        peer_settle();
    }
    for (int i = 0; i < 3; i++) {
        peer_later(c, 10, OP_SEND, 10, 0);
        take(c, 10);
        peer_settle();
    }
    alarm_every(0);
    CHECK(caught > 0);
}

static void *blocked_reader(void *argument) {
    struct conn *c = argument;
    char buffer[10];
    CHECK_ERRNO(recv(c->fd, buffer, 10, 0), EINTR);
    return NULL;
}

TEST(pthread_kill_a_reader, "pthread_kill", 0) {
    catch_signal(SIGUSR1, count, 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, blocked_reader, c), 0);
    /* Again and again: the first may come before the thread blocks. */
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        pthread_kill(thread, SIGUSR1);
        sleep_ms(5);
    }
    CHECK(caught > 0);
    peer_send(c, 10);
    take(c, 10);
}

/* Stopped and continued, without a handler: the call goes on. */
TEST(stopped_and_continued, "SIGSTOP and SIGCONT", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        char buffer[10];
        CHECK_EQ(recv(c->fd, buffer, 10, MSG_WAITALL), 10);
        check_bytes(c, buffer, 10);
        child_done();
    }
    for (int i = 0; i < 3; i++) {
        int status;
        sleep_ms(20);
        CHECK_EQ(kill(child, SIGSTOP), 0);
        CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
        CHECK(WIFSTOPPED(status));
        sleep_ms(10);
        CHECK_EQ(kill(child, SIGCONT), 0);
    }
    peer_send(c, 10);
    reap(child);
}
