/* Relays that write by calls that block, once they have been told that there is room. */
#include "parity.h"

enum { PIECE = 8192, TOTAL = 12000000 };

/* Both directions through one thread; nothing is read while a write blocks. */
static void write_then_read(struct conn *c, uint64_t total) {
    char buffer[PIECE];
    uint64_t sent_bytes = 0, received = 0;
    while (received < total || sent_bytes < total) {
        bool sending = sent_bytes < total;
        struct pollfd entry = {c->fd, POLLIN | (sending ? POLLOUT : 0), 0};
        CHECK_EQ(poll(&entry, 1, 5000), 1);
        if (entry.revents & POLLOUT) {
            size_t n = total - sent_bytes < PIECE ? total - sent_bytes : PIECE;
            fill(c, buffer, n);
            ssize_t written = write(c->fd, buffer, n);
            CHECK_EQ(written, n);
            sent(c, written);
            sent_bytes += written;
        }
        if (entry.revents & POLLIN) {
            ssize_t n = read(c->fd, buffer, sizeof buffer);
            CHECK(n > 0);
            check_bytes(c, buffer, n);
            received += n;
        }
    }
}

static void *other_end(void *end) {
    write_then_read(end, TOTAL);
    return NULL;
}

TEST(both_ends_write_first, "poll says writable: a blocking write of a piece does not block", SOLO) {
    struct conn a, b;
    open_inside_warm(&a, &b);
    void *thread = run_thread(other_end, &b);
    write_then_read(&a, TOTAL);
    join(thread);
}
