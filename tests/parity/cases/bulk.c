/* Much data, many messages, many connections. */
#include "epolls.h"

#include <sys/resource.h>

/* Send or receive what goes without blocking; true if anything went. */
static bool step(struct conn *from, struct conn *to, uint64_t end) {
    static char buffer[100000];
    bool progress = false;
    size_t piece = end - from->tx < sizeof buffer ? end - from->tx : sizeof buffer;
    if (piece > 0) {
        fill(from, buffer, piece);
        ssize_t n = send(from->fd, buffer, piece, 0);
        CHECK(n > 0 || errno == EAGAIN);
        sent(from, n);
        progress = n > 0;
    }
    ssize_t n = recv(to->fd, buffer, sizeof buffer, 0);
    CHECK(n > 0 || errno == EAGAIN);
    if (n > 0) check_bytes(to, buffer, n);
    return progress || n > 0;
}

TEST(both_ways_in_one_thread, "bulk both ways at once in one thread with non-blocking sockets", SOLO) {
    enum { BULK = 6 << 20 };
    struct conn a, b;
    open_inside_warm(&a, &b);
    set_nonblocking(a.fd, true);
    set_nonblocking(b.fd, true);
    uint64_t a_end = a.tx + BULK, b_end = b.tx + BULK;
    while (a.rx < b_end || b.rx < a_end) {
        bool progress = step(&a, &b, a_end);
        progress |= step(&b, &a, b_end);
        if (progress) continue;
        struct pollfd entries[2] = {{a.fd, POLLIN | (a.tx < a_end ? POLLOUT : 0), 0}, {b.fd, POLLIN | (b.tx < b_end ? POLLOUT : 0), 0}};
        CHECK(poll(entries, 2, 5000) > 0);
    }
}

TEST(both_ways, "bulk both ways", 0) {
    enum { BULK = 8 << 20, PIECE = 1 << 16 };
    static char buffer[PIECE];
    set_nonblocking(c->fd, true);
    peer_post(c, OP_ECHO, BULK / PIECE, PIECE);
    uint64_t tx_end = c->tx + BULK, rx_end = c->rx + BULK;
    while (c->rx < rx_end) {
        CHECK(poll_one(c->fd, POLLIN | (c->tx < tx_end ? POLLOUT : 0), 5000) != 0);
        size_t piece = tx_end - c->tx < PIECE ? tx_end - c->tx : PIECE - 7;
        if (piece > 0) {
            fill(c, buffer, piece);
            ssize_t n = send(c->fd, buffer, piece, 0);
            CHECK(n > 0 || errno == EAGAIN);
            sent(c, n);
        }
        ssize_t n = recv(c->fd, buffer, PIECE, 0);
        CHECK(n > 0 || errno == EAGAIN);
        if (n > 0) check_bytes(c, buffer, n);
    }
    peer_settle();
}

TEST(one_way_out, "bulk out", 0) {
    peer_post(c, OP_RECV, 32 << 20, 0);
    put(c, 32 << 20);
    peer_settle();
}

TEST(one_way_in, "bulk in", 0) {
    peer_post(c, OP_SEND, 32 << 20, 0);
    take(c, 32 << 20);
    peer_settle();
}

TEST(single_bytes, "many messages of one byte", 0) {
    peer_post(c, OP_RECV, 20000, 0);
    for (int i = 0; i < 20000; i++) put(c, 1);
    peer_settle();
    peer_post(c, OP_ECHO, 1000, 1);
    for (int i = 0; i < 1000; i++) {
        put(c, 1);
        take(c, 1);
    }
    peer_settle();
}

/* Sizes and pauses of every kind, from a fixed sequence. */
TEST(irregular_sizes, "messages of irregular sizes", 0) {
    uint32_t state = 12345;
    for (int i = 0; i < 300; i++) {
        state = state * 1664525 + 1013904223;
        size_t n = 1 + (state >> 8) % (i % 10 ? 3000 : 150000);
        peer_post(c, OP_RECV, n, 0);
        put(c, n);
        peer_post(c, OP_SEND, n / 2 + 1, 0);
        take(c, n / 2 + 1);
        peer_settle();
    }
}

/* Programs that write much before anybody reads, in one thread even, rely on the room that Linux gives:
 * with its usual settings about 2.5 MB and more. */
TEST(room_without_a_reader, "what fits before anybody reads", 0) {
    uint64_t n = flood(c);
    CHECK(n >= 1 << 20);
    peer_recv(c, n);
}

TEST(slow_reader, "a reader much slower than the writer", 0) {
    peer_post(c, OP_SEND, 4 << 20, 0);
    for (int i = 0; i < 64; i++) {
        sleep_ms(1);
        take(c, (4 << 20) / 64);
    }
    peer_settle();
}

TEST(idle_in_between, "idle times", 0) {
    for (int i = 0; i < 5; i++) {
        sleep_ms(60);
        peer_post(c, OP_ECHO, 1, 200);
        put(c, 200);
        take(c, 200);
        peer_settle();
    }
}

TEST(many_short_connections, "many short connections", SOLO) {
    for (int i = 0; i < 300; i++) {
        struct conn a, b;
        open_inside(&a, &b);
        for (int k = 0; k <= i % 7; k++) {
            put(&a, 30);
            take(&b, 30);
            put(&b, 40);
            take(&a, 40);
        }
        if (i % 2) {
            close(a.fd);
            check_eof(&b);
            close(b.fd);
        } else {
            CHECK_EQ(shutdown(b.fd, SHUT_WR), 0);
            close(b.fd);
            check_eof(&a);
            close(a.fd);
        }
    }
}

/* Lengths around the point where an upgrade would come, closed at once. */
TEST(closed_around_the_upgrade, "connections closed while the upgrade happens", SOLO) {
    for (int rounds = 1; rounds < 100; rounds++) {
        struct conn a, b;
        open_inside(&a, &b);
        for (int k = 0; k < rounds; k++) {
            put(&a, 100);
            take(&b, 100);
            put(&b, 100);
            take(&a, 100);
        }
        put(&a, 777);
        close(a.fd);
        take(&b, 777);
        check_eof(&b);
        close(b.fd);
    }
}

static void raise_limit(void) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2100) skip("needs 2,100 descriptors");
}

TEST(thousand_connections, "1,000 simultaneous connections", SOLO | ONCE) {
    enum { MANY = 1000 };
    static struct conn a[MANY], b[MANY];
    raise_limit();
    int set = epoll_create1(0);
    for (int i = 0; i < MANY; i++) {
        open_inside(&a[i], &b[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, b[i].fd, &event), 0);
    }
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < MANY; i++) put(&a[i], 64);
        for (int served = 0; served < MANY;) {
            struct epoll_event events[64];
            int n = epoll_wait(set, events, 64, 5000);
            CHECK(n > 0);
            for (int k = 0; k < n; k++) {
                struct conn *one = &b[events[k].data.u32];
                take(one, 64);
                put(one, 64);
            }
            served += n;
        }
        for (int i = 0; i < MANY; i++) take(&a[i], 64);
    }
    for (int i = 0; i < MANY; i++) {
        close(a[i].fd);
        check_eof(&b[i]);
    }
}

TEST(hundred_connections_to_a_peer, "many connections between two processes", BARE | PROCESS) {
    enum { MANY = 100 };
    static struct conn conns[MANY];
    for (int i = 0; i < MANY; i++) conns[i] = open_warm();
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) {
            peer_post(&conns[i], OP_ECHO, 1, 500);
            put(&conns[i], 500);
        }
        for (int i = MANY - 1; i >= 0; i--) take(&conns[i], 500);
        peer_settle();
    }
    for (int i = 0; i < MANY; i += 2) {
        close(conns[i].fd);
        CHECK_EQ(peer(&conns[i], OP_READ, 0, 0), 0);
    }
}
