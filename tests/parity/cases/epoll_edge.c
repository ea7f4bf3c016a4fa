/* epoll: edge triggered, one-shot, exclusive. */
#include "epolls.h"

/* Read what there is until EAGAIN; the bytes. */
static size_t drain(struct conn *c) {
    char buffer[4096];
    size_t total = 0;
    for (;;) {
        ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return total;
        if (n == 0) return total;
        CHECK(n > 0);
        check_bytes(c, buffer, n);
        total += n;
    }
}

TEST(once_for_each_arrival, "epoll edge", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 0, 1), 0);
    peer_send(c, 10);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    CHECK_EQ(wait_one(set, 30, 1), 0);
    /* More data is a new edge, read or not. */
    peer_send(c, 10);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 5);
    CHECK_EQ(wait_one(set, 30, 1), 0);
    take(c, 15);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 1);
    peer_settle();
}

TEST(ready_when_added, "epoll edge, ADD of a ready socket", 0) {
    peer_send(c, 10);
    await_input(c, 10);
    int set = epoll_with(c->fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLIN | EPOLLOUT);
    CHECK_EQ(wait_one(set, 30, 1), 0);
    take(c, 10);
}

TEST(modify_rearms, "epoll MOD re-arm", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLET, 1);
    peer_send(c, 10);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    CHECK_EQ(wait_one(set, 0, 1), 0);
    modify(set, c->fd, EPOLLIN | EPOLLET, 2);
    CHECK_EQ(wait_one(set, 0, 2), EPOLLIN);
    CHECK_EQ(wait_one(set, 0, 2), 0);
    modify(set, c->fd, EPOLLIN | EPOLLOUT | EPOLLET, 3);
    CHECK_EQ(wait_one(set, 0, 3), EPOLLIN | EPOLLOUT);
    take(c, 10);
    modify(set, c->fd, EPOLLIN | EPOLLET, 4);
    CHECK_EQ(wait_one(set, 0, 4), 0);
}

TEST(room_after_eagain, "EPOLLOUT edge after EAGAIN", 0) {
    uint64_t before = c->tx;
    int set = epoll_with(c->fd, EPOLLOUT | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLOUT);
    CHECK_EQ(wait_one(set, 0, 1), 0);
    for (int i = 0; i < 3; i++) {
        flood(c);
        while (wait_one(set, 0, 1)) {}
        peer_later(c, 20, OP_RECV, c->tx - before, 0);
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLOUT);
        peer_settle();
        before = c->tx;
    }
}

/* The peer makes room between EAGAIN and the wait: the edge is not missed. */
TEST(room_before_the_wait, "EPOLLOUT edge after EAGAIN, room at once", 0) {
    int set = epoll_with(c->fd, EPOLLOUT | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLOUT);
    for (int i = 0; i < 3; i++) {
        uint64_t before = c->tx;
        flood(c);
        peer_recv(c, c->tx - before);
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLOUT);
    }
}

TEST(no_room_edge_without_need, "no EPOLLOUT edge without EAGAIN", 0) {
    int set = epoll_with(c->fd, EPOLLOUT | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLOUT);
    for (int i = 0; i < 5; i++) {
        put(c, 100);
        peer_recv(c, 100);
    }
    CHECK_EQ(wait_one(set, 40, 1), 0);
}

TEST(end_is_an_edge, "epoll edge at the end", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    peer_send(c, 5);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 5);
    peer_later(c, 20, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN | EPOLLRDHUP);
    CHECK_EQ(wait_one(set, 20, 1), 0);
    check_eof(c);
    peer_settle();
}

/* Data and the end may come as one edge or as two; after draining up to the end nothing is missing. */
TEST(data_and_end, "epoll edge, data then FIN", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    size_t total = 0;
    peer_later(c, 10, OP_SEND, 3000, 0);
    peer_post(c, OP_CLOSE, 0, 0);
    for (uint32_t events = 0; !(events & EPOLLRDHUP);) {
        events = wait_one(set, 5000, 1);
        CHECK(events & EPOLLIN);
        total += drain(c);
    }
    CHECK_EQ(total, 3000);
    check_eof(c);
    peer_settle();
}

TEST(ping_pong, "epoll edge, no wake-up lost", 0) {
    set_nonblocking(c->fd, true);
    int set = epoll_with(c->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
    peer_post(c, OP_ECHO, 2000, 50);
    for (int i = 0; i < 2000; i++) {
        put(c, 50);
        for (size_t got = 0; got < 50;) {
            CHECK(wait_one(set, 5000, 1) != 0);
            got += drain(c);
        }
    }
    peer_settle();
}

TEST(bulk_received, "epoll edge, bulk", 0) {
    enum { BULK = 8 << 20 };
    set_nonblocking(c->fd, true);
    int set = epoll_with(c->fd, EPOLLIN | EPOLLET, 1);
    peer_post(c, OP_SEND, BULK, 0);
    for (size_t got = 0; got < BULK;) {
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
        got += drain(c);
    }
    peer_settle();
}

/* "Shorter than asked for" means drained: the next byte is a new edge. */
TEST(short_read_means_drained, "epoll edge, short read", 0) {
    enum { BULK = 2 << 20 };
    static char buffer[1 << 16];
    set_nonblocking(c->fd, true);
    int set = epoll_with(c->fd, EPOLLIN | EPOLLET, 1);
    peer_post(c, OP_SEND, BULK, 0);
    for (size_t got = 0; got < BULK;) {
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
        ssize_t n;
        do {
            n = read(c->fd, buffer, sizeof buffer);
            if (n < 0 && errno == EAGAIN) break;
            CHECK(n > 0);
            check_bytes(c, buffer, n);
            got += n;
        } while (n == sizeof buffer);
    }
    peer_settle();
}

TEST(bulk_sent, "EPOLLOUT edge, bulk", 0) {
    enum { BULK = 8 << 20 };
    static char buffer[1 << 16];
    set_nonblocking(c->fd, true);
    int set = epoll_with(c->fd, EPOLLOUT | EPOLLET, 1);
    uint64_t end = c->tx + BULK;
    peer_post(c, OP_RECV, BULK, 0);
    while (c->tx < end) {
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLOUT);
        while (c->tx < end) {
            size_t piece = end - c->tx < sizeof buffer ? end - c->tx : sizeof buffer;
            fill(c, buffer, piece);
            ssize_t n = write(c->fd, buffer, piece);
            if (n < 0 && errno == EAGAIN) break;
            CHECK(n > 0);
            sent(c, n);
        }
    }
    peer_settle();
}

TEST(both_directions, "epoll edge, bulk both ways", 0) {
    enum { BULK = 3 << 20, PIECE = 1 << 16 };
    static char buffer[PIECE];
    set_nonblocking(c->fd, true);
    int set = epoll_with(c->fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    uint64_t tx_end = c->tx + BULK, rx_end = c->rx + BULK;
    peer_post(c, OP_ECHO, BULK / PIECE, PIECE);
    while (c->rx < rx_end) {
        CHECK(wait_one(set, 5000, 1) != 0);
        for (bool progress = true; progress;) {
            progress = drain(c) > 0;
            while (c->tx < tx_end) {
                size_t piece = tx_end - c->tx < PIECE ? tx_end - c->tx : PIECE;
                fill(c, buffer, piece);
                ssize_t n = write(c->fd, buffer, piece);
                if (n < 0 && errno == EAGAIN) break;
                CHECK(n > 0);
                sent(c, n);
                progress = true;
            }
        }
    }
    peer_settle();
}

TEST(one_shot, "epoll one-shot", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLONESHOT, 1);
    peer_send(c, 10);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    CHECK_EQ(wait_one(set, 20, 1), 0);
    peer_send(c, 10);
    await_input(c, 20);
    CHECK_EQ(wait_one(set, 20, 1), 0);
    modify(set, c->fd, EPOLLIN | EPOLLONESHOT, 2);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLIN);
    take(c, 20);
    modify(set, c->fd, EPOLLIN | EPOLLONESHOT, 3);
    CHECK_EQ(wait_one(set, 20, 3), 0);
    peer_later(c, 10, OP_SEND, 1, 0);
    CHECK_EQ(wait_one(set, 5000, 3), EPOLLIN);
    take(c, 1);
    peer_settle();
}

TEST(one_shot_hangup, "epoll one-shot stays silent on hang-up", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLONESHOT, 1);
    peer_send(c, 1);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    peer(c, OP_RESET, 0, 0);
    CHECK(poll_one(c->fd, POLLHUP, 5000) & POLLHUP);
    CHECK_EQ(wait_one(set, 20, 1), 0);
    modify(set, c->fd, 0, 2);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLERR | EPOLLHUP);
}

TEST(one_shot_edge, "epoll one-shot and edge", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLET | EPOLLONESHOT, 1);
    for (int i = 0; i < 20; i++) {
        peer_later(c, i % 4 ? 0 : 3, OP_SEND, 10, 0);
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
        peer_settle();
        CHECK_EQ(drain(c), 10);
        modify(set, c->fd, EPOLLIN | EPOLLET | EPOLLONESHOT, 1);
    }
}

TEST(exclusive, "epoll exclusive", 0) {
    int one = epoll_with(c->fd, EPOLLIN | EPOLLEXCLUSIVE, 1), other = epoll_with(c->fd, EPOLLIN | EPOLLEXCLUSIVE, 2);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK_ERRNO(epoll_ctl(one, EPOLL_CTL_MOD, c->fd, &event), EINVAL);
    event.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    CHECK_EQ(epoll_ctl(one, EPOLL_CTL_DEL, c->fd, NULL), 0);
    CHECK_ERRNO(epoll_ctl(one, EPOLL_CTL_ADD, c->fd, &event), EINVAL);
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    CHECK_EQ(epoll_ctl(one, EPOLL_CTL_ADD, c->fd, &event), 0);
    peer_send(c, 10);
    await_input(c, 10);
    /* Level triggered: whoever looks finds it. */
    event.events = 0;
    struct epoll_event got;
    int found = (epoll_wait(one, &got, 1, 0) == 1) + (epoll_wait(other, &got, 1, 0) == 1);
    CHECK(found >= 1);
    take(c, 10);
}

struct waiter { int set; int *woken; };

static void *wait_exclusively(void *argument) {
    struct waiter *waiter = argument;
    struct epoll_event got;
    int n;
    do n = epoll_wait(waiter->set, &got, 1, 10000);
    while (n < 0 && errno == EINTR);
    if (n == 1) __atomic_add_fetch(waiter->woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

TEST(exclusive_wakes_someone, "epoll exclusive, two waiting threads", 0) {
    int woken = 0;
    struct waiter waiters[2];
    void *threads[2];
    for (int i = 0; i < 2; i++) {
        waiters[i] = (struct waiter){epoll_with(c->fd, EPOLLIN | EPOLLEXCLUSIVE, i), &woken};
        threads[i] = run_thread(wait_exclusively, &waiters[i]);
    }
    sleep_ms(30);
    peer_send(c, 10);
    for (int i = 0; i < 5000 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) == 0; i++) sleep_ms(1);
    CHECK(__atomic_load_n(&woken, __ATOMIC_SEQ_CST) >= 1);
    /* Another arrival wakes the one that still waits, if there is one. */
    for (int i = 0; i < 500 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) < 2; i++) {
        peer_send(c, 1);
        sleep_ms(1);
    }
    for (int i = 0; i < 2; i++) join(threads[i]);
    CHECK_EQ(woken, 2);
}
