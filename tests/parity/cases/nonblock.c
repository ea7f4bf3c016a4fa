/* O_NONBLOCK, however and by whomever it is set: it belongs to the open file, not to the number. */
#include "parity.h"

#include <sys/syscall.h>

static void check_nonblocking(struct conn *c) {
    char buffer[10];
    CHECK_EQ(fcntl(c->fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_ERRNO(read(c->fd, buffer, 10), EAGAIN);
    CHECK_ERRNO(recv(c->fd, buffer, 10, MSG_WAITALL), EAGAIN);
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(read(c->fd, buffer, 10), 10);
    check_bytes(c, buffer, 10);
}

static void check_blocking(struct conn *c) {
    CHECK_EQ(fcntl(c->fd, F_GETFL) & O_NONBLOCK, 0);
    char buffer[10];
    peer_later(c, 30, OP_SEND, 10, 0);
    CHECK_EQ(read(c->fd, buffer, 10), 10);
    check_bytes(c, buffer, 10);
    peer_settle();
}

TEST(by_fcntl, "O_NONBLOCK by fcntl", 0) {
    check_blocking(c);
    set_nonblocking(c->fd, true);
    check_nonblocking(c);
    set_nonblocking(c->fd, false);
    check_blocking(c);
}

TEST(by_ioctl, "O_NONBLOCK by ioctl FIONBIO", 0) {
    int on = 1, off = 0;
    CHECK_EQ(ioctl(c->fd, FIONBIO, &on), 0);
    check_nonblocking(c);
    CHECK_EQ(ioctl(c->fd, FIONBIO, &off), 0);
    check_blocking(c);
}

TEST(by_syscall, "O_NONBLOCK by syscall(SYS_fcntl)", 0) {
    CHECK_EQ(syscall(SYS_fcntl, c->fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
    check_nonblocking(c);
    CHECK_EQ(syscall(SYS_fcntl, c->fd, F_SETFL, O_RDWR), 0);
    check_blocking(c);
}

TEST(by_dup, "O_NONBLOCK through a dup", 0) {
    int other = dup(c->fd);
    CHECK(other >= 0);
    set_nonblocking(other, true);
    check_nonblocking(c);
    set_nonblocking(other, false);
    check_blocking(c);
    close(other);
}

TEST(by_forked_process, "O_NONBLOCK set in a forked process", 0) {
    for (int on = 1; on >= 0; on--) {
        pid_t child = fork_child();
        if (child == 0) {
            set_nonblocking(c->fd, on);
            child_done();
        }
        reap(child);
        if (on) check_nonblocking(c);
        else check_blocking(c);
    }
}

static void *switch_on(void *argument) {
    set_nonblocking(((struct conn *)argument)->fd, true);
    return NULL;
}

TEST(by_another_thread, "O_NONBLOCK set in another thread", 0) {
    join(run_thread(switch_on, c));
    check_nonblocking(c);
}

/* A call that waits already goes on waiting. */
TEST(while_blocked, "O_NONBLOCK set while another thread is blocked", 0) {
    char buffer[10];
    peer_later(c, 80, OP_SEND, 10, 0);
    void *thread = run_thread(switch_on, c);
    ssize_t n = recv(c->fd, buffer, 10, 0);
    join(thread);
    if (n < 0 && errno == EAGAIN) {  /* the thread was faster than the call */
        await_input(c, 10);
        n = recv(c->fd, buffer, 10, 0);
    }
    CHECK_EQ(n, 10);
    check_bytes(c, buffer, 10);
    peer_settle();
}

TEST(by_accept4, "O_NONBLOCK by accept4", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(4, &address, &length);
    struct conn a = {.fd = tcp_socket(0), .direction = 0}, b = {.direction = 1};
    CHECK_EQ(connect(a.fd, (struct sockaddr *)&address, length), 0);
    b.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(b.fd >= 0);
    CHECK_EQ(fcntl(b.fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(fcntl(b.fd, F_GETFD), FD_CLOEXEC);
    warm_up_inside(&a, &b);
    char byte;
    CHECK_ERRNO(read(b.fd, &byte, 1), EAGAIN);
    put(&a, 1);
    take(&b, 1);
}

TEST(by_socket_type, "O_NONBLOCK by SOCK_NONBLOCK", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(4, &address, &length);
    struct conn a = {.fd = tcp_socket(SOCK_NONBLOCK), .direction = 0}, b = {.direction = 1};
    int r = connect(a.fd, (struct sockaddr *)&address, length);
    CHECK(r == 0 || errno == EINPROGRESS);
    b.fd = accept(listener, NULL, NULL);
    CHECK(b.fd >= 0);
    /* Not inherited from the listener or the peer. */
    CHECK_EQ(fcntl(b.fd, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(fcntl(b.fd, F_GETFD), 0);
    await_events(&a, POLLOUT);
    warm_up_inside(&a, &b);
    char byte;
    CHECK_ERRNO(read(a.fd, &byte, 1), EAGAIN);
}

TEST(partial_write, "non-blocking write takes what fits", 0) {
    enum { BIG = 32 << 20 };
    char *data = malloc(BIG);
    set_nonblocking(c->fd, true);
    fill(c, data, BIG);
    ssize_t n = write(c->fd, data, BIG);
    CHECK(n > 0 && n < BIG);
    sent(c, n);
    peer_recv(c, n);
}
