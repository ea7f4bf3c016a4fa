/* SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVLOWAT. */
#include "parity.h"

/* Time passed may be rounded to the clock tick, never cut by more. */
enum { TICK_MS = 10, LIMIT_MS = 80 };

static void set_limit(int fd, int option, int ms) {
    struct timeval limit = {ms / 1000, ms % 1000 * 1000};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit), 0);
}

TEST(values_read_back, "SO_RCVTIMEO/SNDTIMEO value", 0) {
    struct timeval limit = {3, 500000}, invalid = {0, 1000000}, got;
    socklen_t length = sizeof got;
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &got, &length), 0);
    CHECK(got.tv_sec == 0 && got.tv_usec == 0);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &got, &length), 0);
    CHECK(got.tv_sec == 3 && got.tv_usec == 500000);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &got, &length), 0);
    CHECK(got.tv_sec == 3 && got.tv_usec == 500000);
    CHECK_ERRNO(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &invalid, sizeof invalid), EDOM);
    CHECK_ERRNO(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, 4), EINVAL);
}

#define RECEIVE_TIMEOUT_TEST(id, call)                                  \
    TEST(receive_##id, "SO_RCVTIMEO", 0) {                              \
        char buffer[10];                                                \
        struct iovec iov = {buffer, 10};                                \
        struct msghdr message __attribute__((unused)) = {.msg_iov = &iov, .msg_iovlen = 1}; \
        set_limit(c->fd, SO_RCVTIMEO, LIMIT_MS);                        \
        for (int i = 0; i < 2; i++) {                                   \
            int64_t start = now_ms();                                   \
            CHECK_ERRNO(call, EAGAIN);                                  \
            CHECK(now_ms() - start >= LIMIT_MS - TICK_MS);              \
        }                                                               \
        peer_send(c, 10);                                               \
        take(c, 10);                                                    \
    }

RECEIVE_TIMEOUT_TEST(recv, recv(c->fd, buffer, 10, 0))
RECEIVE_TIMEOUT_TEST(read, read(c->fd, buffer, 10))
RECEIVE_TIMEOUT_TEST(readv, readv(c->fd, &iov, 1))
RECEIVE_TIMEOUT_TEST(recvmsg, recvmsg(c->fd, &message, 0))
RECEIVE_TIMEOUT_TEST(peek, recv(c->fd, buffer, 10, MSG_PEEK))

TEST(data_before_the_limit, "SO_RCVTIMEO", 0) {
    set_limit(c->fd, SO_RCVTIMEO, 20000);
    peer_later(c, 30, OP_SEND, 10, 0);
    take(c, 10);
    peer_settle();
}

TEST(no_limit_again, "SO_RCVTIMEO of zero", 0) {
    set_limit(c->fd, SO_RCVTIMEO, 20);
    set_limit(c->fd, SO_RCVTIMEO, 0);
    peer_later(c, 120, OP_SEND, 10, 0);
    char buffer[10];
    CHECK_EQ(recv(c->fd, buffer, 10, 0), 10);
    check_bytes(c, buffer, 10);
    peer_settle();
}

TEST(limit_is_not_for_poll, "SO_RCVTIMEO and poll", 0) {
    set_limit(c->fd, SO_RCVTIMEO, 10);
    peer_later(c, 80, OP_SEND, 10, 0);
    CHECK(poll_one(c->fd, POLLIN, -1) & POLLIN);
    take(c, 10);
    peer_settle();
}

TEST(send_partial_then_eagain, "SO_SNDTIMEO partial", 0) {
    enum { BIG = 64 << 20 };
    char *data = malloc(BIG);
    uint64_t before = c->tx;
    fill(c, data, BIG);
    set_limit(c->fd, SO_SNDTIMEO, LIMIT_MS);
    ssize_t n = send(c->fd, data, BIG, 0);
    CHECK(n > 0 && n < BIG);
    /* The kernel's buffers may move a little more meanwhile. */
    for (int i = 0; n > 0; i++) {
        CHECK(i < 50);
        sent(c, n);
        int64_t start = now_ms();
        n = send(c->fd, data + (c->tx - before), BIG - (c->tx - before), 0);
        if (n < 0) CHECK(now_ms() - start >= LIMIT_MS - TICK_MS);
    }
    CHECK_EQ(errno, EAGAIN);
    peer_recv(c, c->tx - before);
    put(c, 1000);
    peer_recv(c, 1000);
}

TEST(write_timeout, "SO_SNDTIMEO by write", 0) {
    char byte = 0;
    uint64_t before = c->tx;
    flood(c);
    set_limit(c->fd, SO_SNDTIMEO, LIMIT_MS);
    int64_t start = now_ms();
    CHECK_ERRNO(write(c->fd, &byte, 1), EAGAIN);
    CHECK(now_ms() - start >= LIMIT_MS - TICK_MS);
    peer_recv(c, c->tx - before);
}

TEST(accept_timeout, "SO_RCVTIMEO and accept", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(1, &address, &length);
    set_limit(listener, SO_RCVTIMEO, 30);
    CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
}

static void set_low_water(int fd, int bytes) {
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes), 0);
}

TEST(low_water_read_back, "SO_RCVLOWAT", 0) {
    int value = 0;
    socklen_t length = sizeof value;
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &value, &length), 0);
    CHECK_EQ(value, 1);
    set_low_water(c->fd, 100);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &value, &length), 0);
    CHECK_EQ(value, 100);
    set_low_water(c->fd, 0);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &value, &length), 0);
    CHECK_EQ(value, 1);
}

TEST(low_water_poll, "SO_RCVLOWAT with poll", 0) {
    set_low_water(c->fd, 100);
    peer_send(c, 99);
    await_input(c, 99);
    CHECK_EQ(poll_one(c->fd, POLLIN, 30), 0);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK(poll_one(c->fd, POLLIN, 5000) & POLLIN);
    peer_settle();
    take(c, 100);
}

TEST(low_water_recv, "SO_RCVLOWAT with blocking recv", 0) {
    char buffer[1000];
    set_low_water(c->fd, 100);
    peer_later(c, 30, OP_PIECES, 120, 40);
    /* Linux wakes the reader when 100 bytes wait, whatever it has taken already: send as many again. */
    peer_later(c, 50, OP_SEND, 200, 0);
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    CHECK(n >= 100 && n <= 320);
    check_bytes(c, buffer, n);
    peer_settle();
    set_low_water(c->fd, 1);
    take(c, 320 - n);
}

TEST(low_water_is_capped_by_the_request, "SO_RCVLOWAT with a small buffer", 0) {
    char buffer[50];
    set_low_water(c->fd, 100);
    peer_send(c, 60);
    await_input(c, 60);
    CHECK_EQ(recv(c->fd, buffer, 50, 0), 50);
    check_bytes(c, buffer, 50);
    CHECK_EQ(recv(c->fd, buffer, 50, MSG_DONTWAIT), 10);
    check_bytes(c, buffer, 10);
}

TEST(low_water_and_end, "SO_RCVLOWAT at the end of the stream", 0) {
    char buffer[200];
    set_low_water(c->fd, 100);
    peer_send(c, 20);
    await_input(c, 20);
    peer_later(c, 20, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK(poll_one(c->fd, POLLIN, 5000) & POLLIN);
    CHECK_EQ(recv(c->fd, buffer, 200, 0), 20);
    check_bytes(c, buffer, 20);
    check_eof(c);
    peer_settle();
}
