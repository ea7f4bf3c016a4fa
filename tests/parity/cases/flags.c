/* The flags of recv and send. */
#include "parity.h"

TEST(dontwait_empty, "MSG_DONTWAIT", 0) {
    char buffer[10];
    struct iovec iov = {buffer, 10};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    CHECK_ERRNO(recv(c->fd, buffer, 10, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(recvmsg(c->fd, &message, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(recvfrom(c->fd, buffer, 10, MSG_DONTWAIT | MSG_WAITALL, NULL, NULL), EAGAIN);
    CHECK_ERRNO(preadv2(c->fd, &iov, 1, -1, RWF_NOWAIT), EAGAIN);
    /* The flag is the call's, not the socket's. */
    CHECK_EQ(fcntl(c->fd, F_GETFL) & O_NONBLOCK, 0);
    peer_later(c, 20, OP_SEND, 10, 0);
    take(c, 10);
    peer_settle();
}

TEST(dontwait_partial, "MSG_DONTWAIT", 0) {
    char buffer[100];
    peer_send(c, 30);
    await_input(c, 30);
    CHECK_EQ(recv(c->fd, buffer, 100, MSG_DONTWAIT | MSG_WAITALL), 30);
    check_bytes(c, buffer, 30);
}

TEST(dontwait_full, "MSG_DONTWAIT on a full socket", 0) {
    char byte = 0;
    struct iovec iov = {&byte, 1};
    uint64_t before = c->tx;
    flood(c);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(pwritev2(c->fd, &iov, 1, -1, RWF_NOWAIT), EAGAIN);
    CHECK_EQ(poll_one(c->fd, POLLOUT, 0), 0);
    peer_recv(c, c->tx - before);
    await_events(c, POLLOUT);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(waitall, "MSG_WAITALL", 0) {
    char buffer[1000];
    peer_post(c, OP_PIECES, 1000, 130);
    CHECK_EQ(recv(c->fd, buffer, 1000, MSG_WAITALL), 1000);
    check_bytes(c, buffer, 1000);
    peer_settle();
}

TEST(waitall_beyond_every_buffer, "MSG_WAITALL of 6 MiB", 0) {
    enum { BIG = 6 << 20 };
    char *buffer = malloc(BIG);
    peer_post(c, OP_SEND, BIG, 0);
    CHECK_EQ(recv(c->fd, buffer, BIG, MSG_WAITALL), BIG);
    check_bytes(c, buffer, BIG);
    peer_settle();
}

TEST(waitall_recvmsg, "MSG_WAITALL by recvmsg", 0) {
    char buffer[1000];
    struct iovec iov[2] = {{buffer, 300}, {buffer + 300, 700}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    peer_post(c, OP_PIECES, 1000, 170);
    CHECK_EQ(recvmsg(c->fd, &message, MSG_WAITALL), 1000);
    check_bytes(c, buffer, 1000);
    peer_settle();
}

TEST(waitall_peer_closes, "MSG_WAITALL with peer close", 0) {
    char buffer[1000];
    peer_send(c, 400);
    peer_later(c, 20, OP_CLOSE, 0, 0);
    CHECK_EQ(recv(c->fd, buffer, 1000, MSG_WAITALL), 400);
    check_bytes(c, buffer, 400);
    peer_settle();
    check_eof(c);
}

TEST(waitall_peer_resets, "MSG_WAITALL with peer reset", 0) {
    char buffer[1000];
    peer_send(c, 400);
    await_input(c, 400);
    peer_later(c, 30, OP_RESET, 0, 0);
    /* What was received before the reset is returned first, if the reader got hold of it. */
    ssize_t n = recv(c->fd, buffer, 1000, MSG_WAITALL);
    CHECK(n == 400 || (n == -1 && errno == ECONNRESET));
    if (n == 400) check_bytes(c, buffer, 400);
    peer_settle();
}

static volatile sig_atomic_t alarms;
static void count_alarm(int number) { (void)number; alarms = alarms + 1; }

TEST(waitall_signal, "MSG_WAITALL with signal", 0) {
    char buffer[1000];
    peer_send(c, 400);
    await_input(c, 400);
    catch_signal(SIGALRM, count_alarm, SA_RESTART);
    alarm_every(30);
    /* SA_RESTART or not, what has been taken is returned. */
    CHECK_EQ(recv(c->fd, buffer, 1000, MSG_WAITALL), 400);
    alarm_every(0);
    CHECK(alarms > 0);
    check_bytes(c, buffer, 400);
}

TEST(waitall_timeout, "MSG_WAITALL with timeout", 0) {
    char buffer[1000];
    struct timeval limit = {0, 60000};
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    peer_send(c, 400);
    await_input(c, 400);
    CHECK_EQ(recv(c->fd, buffer, 1000, MSG_WAITALL), 400);
    check_bytes(c, buffer, 400);
    CHECK_ERRNO(recv(c->fd, buffer, 1000, MSG_WAITALL), EAGAIN);
}

TEST(trunc_discards, "MSG_TRUNC", 0) {
    char buffer[100];
    memset(buffer, 0x5a, sizeof buffer);
    peer_send(c, 300);
    await_input(c, 300);
    CHECK_EQ(recv(c->fd, buffer, 100, MSG_TRUNC), 100);
    for (int i = 0; i < 100; i++) CHECK_EQ(buffer[i], 0x5a);
    c->rx += 100;
    CHECK_EQ(recv(c->fd, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT), 200);
    c->rx += 200;
    CHECK_ERRNO(recv(c->fd, NULL, 100, MSG_TRUNC | MSG_DONTWAIT), EAGAIN);
    peer_send(c, 10);
    take(c, 10);
}

TEST(nosignal, "MSG_NOSIGNAL", 0) {
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(sendmsg(c->fd, &message, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(sendto(c->fd, &byte, 1, MSG_NOSIGNAL, NULL, 0), EPIPE);
}

static volatile sig_atomic_t pipes;
static void count_pipe(int number) { (void)number; pipes = pipes + 1; }

TEST(sigpipe, "SIGPIPE", 0) {
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    catch_signal(SIGPIPE, count_pipe, 0);
    CHECK_ERRNO(send(c->fd, &byte, 1, 0), EPIPE);
    CHECK_EQ(pipes, 1);
    CHECK_ERRNO(write(c->fd, &byte, 1), EPIPE);
    CHECK_EQ(pipes, 2);
    CHECK_ERRNO(writev(c->fd, &iov, 1), EPIPE);
    CHECK_EQ(pipes, 3);
    CHECK_ERRNO(sendmsg(c->fd, &message, 0), EPIPE);
    CHECK_EQ(pipes, 4);
    catch_signal(SIGPIPE, SIG_IGN, 0);
    CHECK_ERRNO(write(c->fd, &byte, 1), EPIPE);
    CHECK_EQ(pipes, 4);
}

/* The signal is for the thread that wrote, and the default action ends the process. */
TEST(sigpipe_kills, "SIGPIPE by default", 0) {
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        char byte = 0;
        shutdown(c->fd, SHUT_WR);
        write(c->fd, &byte, 1);
        child_done();
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

static void *write_after_shutdown(void *argument) {
    char byte = 0;
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK_ERRNO(write(((struct conn *)argument)->fd, &byte, 1), EPIPE);
    CHECK_EQ(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGPIPE));
    return NULL;
}

TEST(sigpipe_to_the_writing_thread, "SIGPIPE", 0) {
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    join(run_thread(write_after_shutdown, c));
}

TEST(more, "MSG_MORE", 0) {
    char buffer[10];
    peer_post(c, OP_RECV, 40, 0);
    for (int i = 0; i < 4; i++) {
        fill(c, buffer, 10);
        CHECK_EQ(send(c->fd, buffer, 10, i < 3 ? MSG_MORE : 0), 10);
        sent(c, 10);
    }
    peer_settle();
}

/* Held back for 200 ms at most. */
TEST(more_never_followed, "MSG_MORE", 0) {
    char buffer[10];
    fill(c, buffer, 10);
    CHECK_EQ(send(c->fd, buffer, 10, MSG_MORE), 10);
    sent(c, 10);
    peer_recv(c, 10);
}

TEST(cork, "TCP_CORK", 0) {
    int on = 1, off = 0;
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on), 0);
    put(c, 100);
    put(c, 3000);
    put(c, 5);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off), 0);
    peer_recv(c, 3105);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on), 0);
    put(c, 20);
    peer_recv(c, 20);
}

TEST(errqueue_is_empty, "MSG_ERRQUEUE", 0) {
    char buffer[10];
    struct iovec iov = {buffer, 10};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_ERRNO(recvmsg(c->fd, &message, MSG_ERRQUEUE), EAGAIN);
    CHECK_ERRNO(recv(c->fd, buffer, 10, MSG_ERRQUEUE | MSG_DONTWAIT), EAGAIN);
    take(c, 10);
}

/* Flags that mean nothing to TCP change nothing. */
TEST(irrelevant_flags, "flags without a meaning for TCP", 0) {
    char buffer[10];
    fill(c, buffer, 10);
    CHECK_EQ(send(c->fd, buffer, 10, MSG_EOR | MSG_CONFIRM | MSG_DONTROUTE), 10);
    sent(c, 10);
    peer_recv(c, 10);
    peer_send(c, 10);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_NOSIGNAL), 10);
    check_bytes(c, buffer, 10);
}
