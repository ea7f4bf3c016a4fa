/* The byte pattern, and plain sending and receiving with it. */
#include "internal.h"

/* No two offsets that are a plausible distance apart give the same run of bytes. */
static uint8_t pattern(int direction, uint64_t offset) {
    uint64_t x = (offset + 1) * 0x9E3779B97F4A7C15ull;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93ull;
    return (uint8_t)(x >> 56) ^ (direction ? 0xA5 : 0);
}

void fill(const struct conn *c, void *buffer, size_t n) {
    uint8_t *bytes = buffer;
    for (size_t i = 0; i < n; i++) bytes[i] = pattern(c->direction, c->tx + i);
}

void sent(struct conn *c, ssize_t n) {
    if (n > 0) c->tx += n;
}

void check_ahead_at(const char *file, int line, const struct conn *c, const void *buffer, size_t n, size_t skip) {
    const uint8_t *bytes = buffer;
    for (size_t i = 0; i < n; i++) {
        uint8_t expected = pattern(!c->direction, c->rx + skip + i);
        if (bytes[i] != expected)
            fail_at(file, line, "byte at offset %llu (%zu of %zu in this buffer) is %#x, expected %#x",
                    (unsigned long long)(c->rx + skip + i), i, n, bytes[i], expected);
    }
}

void check_bytes_at(const char *file, int line, struct conn *c, const void *buffer, size_t n) {
    check_ahead_at(file, line, c, buffer, n, 0);
    c->rx += n;
}

void put_at(const char *file, int line, struct conn *c, size_t n) {
    static __thread char buffer[65536];
    while (n > 0) {
        size_t piece = n < sizeof buffer ? n : sizeof buffer;
        fill(c, buffer, piece);
        ssize_t r = send(c->fd, buffer, piece, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0 && errno == EAGAIN) {
            poll_one(c->fd, POLLOUT, 5000);
            continue;
        }
        if (r <= 0) fail_at(file, line, "send of %zu gave %zd, errno %d", piece, r, errno);
        sent(c, r);
        n -= r;
    }
}

void take_at(const char *file, int line, struct conn *c, size_t n) {
    static __thread char buffer[65536];
    while (n > 0) {
        size_t piece = n < sizeof buffer ? n : sizeof buffer;
        ssize_t r = recv(c->fd, buffer, piece, 0);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0 && errno == EAGAIN) {
            poll_one(c->fd, POLLIN, 5000);
            continue;
        }
        if (r <= 0) fail_at(file, line, "recv with %zu bytes to come gave %zd, errno %d", n, r, errno);
        check_bytes_at(file, line, c, buffer, r);
        n -= r;
    }
}

void check_eof_at(const char *file, int line, struct conn *c) {
    char byte;
    for (;;) {
        ssize_t r = recv(c->fd, &byte, 1, 0);
        if (r < 0 && errno == EAGAIN && poll_one(c->fd, POLLIN, 5000)) continue;
        if (r != 0) fail_at(file, line, "end of stream expected, recv gave %zd, errno %d", r, errno);
        return;
    }
}

enum { QUIET_MS = 100 };

uint64_t flood(struct conn *c) {
    static __thread char buffer[65536];
    uint64_t total = 0;
    /* The kernel moves bytes on in the background: full is what stays full for a while. */
    for (int64_t full_since = now_ms(); now_ms() - full_since < QUIET_MS;) {
        fill(c, buffer, sizeof buffer);
        ssize_t r = send(c->fd, buffer, sizeof buffer, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r < 0 && errno == EAGAIN) {
            sleep_ms(2);
            continue;
        }
        if (r <= 0) FAIL("flooding send gave %zd, errno %d", r, errno);
        full_since = now_ms();
        sent(c, r);
        total += r;
    }
    return total;
}
