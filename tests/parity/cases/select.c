/* select and pselect. */
#include "parity.h"

#include <sys/select.h>
#include <sys/syscall.h>

static int select_one(int fd, bool for_input, bool for_output, int ms) {
    fd_set input, output;
    struct timeval limit = {ms / 1000, ms % 1000 * 1000};
    FD_ZERO(&input);
    FD_ZERO(&output);
    if (for_input) FD_SET(fd, &input);
    if (for_output) FD_SET(fd, &output);
    int n = select(fd + 1, &input, &output, NULL, &limit);
    CHECK(n >= 0);
    int result = (FD_ISSET(fd, &input) ? 1 : 0) | (FD_ISSET(fd, &output) ? 2 : 0);
    CHECK_EQ(n, __builtin_popcount(result));
    return result;
}

TEST(input, "select for reading", 0) {
    CHECK_EQ(select_one(c->fd, true, false, 0), 0);
    peer_later(c, 30, OP_SEND, 10, 0);
    CHECK_EQ(select_one(c->fd, true, false, 5000), 1);
    take(c, 10);
    CHECK_EQ(select_one(c->fd, true, false, 0), 0);
    peer_settle();
}

TEST(output, "select for writing", 0) {
    uint64_t before = c->tx;
    CHECK_EQ(select_one(c->fd, false, true, 0), 2);
    flood(c);
    CHECK_EQ(select_one(c->fd, false, true, 0), 0);
    peer_later(c, 30, OP_RECV, c->tx - before, 0);
    CHECK_EQ(select_one(c->fd, true, true, 5000), 2);
    peer_settle();
}

TEST(end_of_stream, "select at the end of the stream", 0) {
    peer_later(c, 20, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(select_one(c->fd, true, false, 5000), 1);
    peer_settle();
    check_eof(c);
}

TEST(after_reset, "select after a reset", 0) {
    char byte;
    peer_later(c, 20, OP_RESET, 0, 0);
    CHECK_EQ(select_one(c->fd, true, false, 5000), 1);
    peer_settle();
    CHECK_EQ(select_one(c->fd, true, true, 5000), 3);
    CHECK_ERRNO(recv(c->fd, &byte, 1, 0), ECONNRESET);
}

TEST(timeout_is_not_early, "select timeout", 0) {
    for (int ms = 1; ms <= 64; ms *= 4) {
        int64_t start = now_ms();
        CHECK_EQ(select_one(c->fd, true, false, ms), 0);
        CHECK(now_ms() - start >= ms - 1);
    }
}

/* Linux writes back what was left of the time. */
TEST(time_left, "select and the time left", 0) {
    fd_set input;
    struct timeval limit = {50, 0};
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    peer_later(c, 40, OP_SEND, 1, 0);
    CHECK_EQ(select(c->fd + 1, &input, NULL, NULL, &limit), 1);
    CHECK(limit.tv_sec >= 30 && limit.tv_sec < 50);
    take(c, 1);
    peer_settle();
    limit = (struct timeval){0, 20000};
    FD_SET(c->fd, &input);
    CHECK_EQ(select(c->fd + 1, &input, NULL, NULL, &limit), 0);
    CHECK(limit.tv_sec == 0 && limit.tv_usec == 0);
    CHECK(!FD_ISSET(c->fd, &input));
}

TEST(pselect_timeout, "pselect timeout", 0) {
    fd_set input;
    struct timespec limit = {0, 30000000};
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    int64_t start = now_ms();
    CHECK_EQ(pselect(c->fd + 1, &input, NULL, NULL, &limit, NULL), 0);
    CHECK(now_ms() - start >= 29);
    CHECK_EQ(limit.tv_nsec, 30000000);
    FD_SET(c->fd, &input);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(pselect(c->fd + 1, &input, NULL, NULL, NULL, NULL), 1);
    take(c, 1);
    peer_settle();
}

TEST(bad_descriptor, "select EBADF", 0) {
    fd_set input;
    int closed = dup(c->fd);
    close(closed);
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    FD_SET(closed, &input);
    struct timeval none = {0, 0};
    CHECK_ERRNO(select(closed + 1 > c->fd ? closed + 1 : c->fd + 1, &input, NULL, NULL, &none), EBADF);
    CHECK_ERRNO(select(-1, &input, NULL, NULL, &none), EINVAL);
}

TEST(beyond_nfds, "select looks below nfds only", 0) {
    fd_set input;
    struct timeval none = {0, 0};
    peer_send(c, 1);
    await_input(c, 1);
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    CHECK_EQ(select(c->fd, &input, NULL, NULL, &none), 0);
    take(c, 1);
}

TEST(by_syscall, "select by syscall(2)", 0) {
    fd_set input;
    struct timespec limit = {5, 0};
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(syscall(SYS_pselect6, c->fd + 1, &input, NULL, NULL, &limit, NULL), 1);
    CHECK(FD_ISSET(c->fd, &input));
    take(c, 1);
    peer_settle();
}

TEST(mixed_with_a_pipe, "select mixed with a pipe", 0) {
    int ends[2];
    fd_set input;
    struct timeval limit = {5, 0};
    char byte = 1;
    CHECK_EQ(pipe(ends), 0);
    int top = (ends[0] > c->fd ? ends[0] : c->fd) + 1;
    FD_ZERO(&input);
    FD_SET(ends[0], &input);
    FD_SET(c->fd, &input);
    CHECK_EQ(write(ends[1], &byte, 1), 1);
    CHECK_EQ(select(top, &input, NULL, NULL, &limit), 1);
    CHECK(FD_ISSET(ends[0], &input) && !FD_ISSET(c->fd, &input));
    peer_send(c, 1);
    await_input(c, 1);
    FD_SET(c->fd, &input);
    CHECK_EQ(select(top, &input, NULL, NULL, &limit), 2);
    take(c, 1);
}
