/* The end of a connection: half-closes, shutdown, reset, lingering. */
#include "epolls.h"

static void linger_zero(int fd) {
    struct linger abort_at_close = {1, 0};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_at_close, sizeof abort_at_close), 0);
}

TEST(half_close_by_subject_first, "half-close in both orders", 0) {
    put(c, 3000);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 3000);
    /* The other direction is still open. */
    peer_send(c, 25000);
    take(c, 25000);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    check_eof(c);
    check_eof(c);
}

TEST(half_close_by_peer_first, "half-close in both orders", 0) {
    peer_send(c, 3000);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    take(c, 3000);
    check_eof(c);
    peer_post(c, OP_RECV, 200000, 0);
    put(c, 200000);
    peer_settle();
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    check_eof(c);
}

TEST(half_close_crossing, "half-close of both at once", 0) {
    put(c, 1000);
    peer_send(c, 1000);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    take(c, 1000);
    check_eof(c);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 1000);
}

/* The end is seen after all the data, however much there is. */
TEST(data_then_end, "data then FIN ordering", 0) {
    enum { BULK = 4 << 20 };
    peer_post(c, OP_SEND, BULK, 0);
    peer_post(c, OP_CLOSE, 0, 0);
    take(c, BULK);
    check_eof(c);
    peer_settle();
}

TEST(unsent_data_at_close, "close with unsent data still delivered", 0) {
    uint64_t before = c->tx;
    flood(c);
    CHECK_EQ(close(c->fd), 0);
    sleep_ms(20);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), c->tx - before);
}

TEST(unsent_data_at_exit, "exit with unsent data still delivered", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        put(c, 30000);
        child_done();
    }
    CHECK_EQ(close(c->fd), 0);
    reap(child);
    sleep_ms(20);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 30000);
}

TEST(unread_data_resets, "RST on unread data at close", 0) {
    char byte = 0;
    put(c, 1000);
    peer_recv(c, 400);
    peer_close(c);
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    CHECK_ERRNO(recv(c->fd, &byte, 1, 0), ECONNRESET);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
}

TEST(unread_data_resets_the_other, "RST on unread data at one's own close", 0) {
    peer_send(c, 1000);
    await_input(c, 1000);
    CHECK_EQ(close(c->fd), 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), -ECONNRESET);
}

TEST(read_data_does_not_reset, "no RST when everything was read", 0) {
    put(c, 1000);
    peer_recv(c, 1000);
    peer_close(c);
    check_eof(c);
}

TEST(linger_zero_resets, "SO_LINGER 0", 0) {
    linger_zero(c->fd);
    CHECK_EQ(close(c->fd), 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), -ECONNRESET);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    CHECK_EQ(peer(c, OP_WRITE, 1, 0), -EPIPE);
}

/* What the peer has not read yet when the reset comes: Linux throws nothing away that was received. */
TEST(linger_zero_with_data, "SO_LINGER 0 with data under way", 0) {
    put(c, 1000);
    linger_zero(c->fd);
    CHECK_EQ(close(c->fd), 0);
    int64_t n = peer(c, OP_READ, 0, 0);
    CHECK(n == 1000 || n == -ECONNRESET);
    if (n == 1000) CHECK_EQ(peer(c, OP_READ, 0, 0), -ECONNRESET);
}

TEST(linger_waits, "SO_LINGER with a time", 0) {
    struct linger wait_for_it = {1, 5};
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &wait_for_it, sizeof wait_for_it), 0);
    put(c, 50000);
    peer_post(c, OP_DRAIN, 0, 0);
    CHECK_EQ(close(c->fd), 0);
    CHECK_EQ(peer_settle(), 50000);
}

TEST(reset_while_reading, "peer resets a blocked reader", 0) {
    char byte;
    peer_later(c, 30, OP_RESET, 0, 0);
    CHECK_ERRNO(recv(c->fd, &byte, 1, 0), ECONNRESET);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
    peer_settle();
}

TEST(reset_while_writing, "peer resets a blocked writer", 0) {
    char byte = 0;
    flood(c);
    peer_later(c, 30, OP_RESET, 0, 0);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), ECONNRESET);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    peer_settle();
}

TEST(write_after_peer_close, "EPIPE/ECONNRESET sequence after the peer closed", 0) {
    char byte = 0;
    peer_close(c);
    check_eof(c);
    /* The first write is answered by a reset; the second one fails. */
    ssize_t n = send(c->fd, &byte, 1, MSG_NOSIGNAL);
    CHECK_EQ(n, 1);
    CHECK(poll_one(c->fd, POLLERR | POLLHUP, 5000) & (POLLERR | POLLHUP));
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

TEST(unread_data_then_write, "peer closed with data of mine unread", 0) {
    char byte = 0;
    put(c, 10);
    sleep_ms(5);
    peer_close(c);
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), ECONNRESET);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

TEST(shutdown_read, "shutdown RD", 0) {
    char byte;
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
    put(c, 100);
    peer_recv(c, 100);
    /* Linux still takes what comes after. */
    peer_send(c, 10);
    await_input(c, 10);
    take(c, 10);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

TEST(shutdown_read_with_data, "shutdown RD with data", 0) {
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    take(c, 10);
    check_eof(c);
}

TEST(shutdown_both, "shutdown RDWR", 0) {
    char byte = 0;
    put(c, 500);
    CHECK_EQ(shutdown(c->fd, SHUT_RDWR), 0);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 500);
}

TEST(shutdown_twice, "shutdown again", 0) {
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    CHECK_ERRNO(shutdown(c->fd, 7), EINVAL);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

TEST(shutdown_after_reset, "shutdown of a reset connection", 0) {
    peer(c, OP_RESET, 0, 0);
    CHECK(poll_one(c->fd, POLLHUP, 5000) & POLLHUP);
    CHECK_ERRNO(shutdown(c->fd, SHUT_RDWR), ENOTCONN);
}

TEST(shutdown_flushes, "shutdown WR with much unsent", 0) {
    uint64_t before = c->tx;
    flood(c);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), c->tx - before);
    peer_send(c, 10);
    take(c, 10);
}

/* The peer's own shutdown of its receiving side does not concern the sender. */
TEST(peer_shuts_down_reading, "shutdown RD by the peer", 0) {
    peer(c, OP_SHUTDOWN, SHUT_RD, 0);
    put(c, 100);
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLOUT);
    peer_recv(c, 100);
}

TEST(close_and_close, "both close at once", SOLO) {
    for (int i = 0; i < 10; i++) {
        struct conn a, b;
        open_inside_warm(&a, &b);
        put(&a, 10);
        take(&b, 10);
        close(a.fd);
        close(b.fd);
    }
}
