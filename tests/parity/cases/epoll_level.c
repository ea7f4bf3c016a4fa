/* epoll: registration, level triggering, and what an event says. */
#include "epolls.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

TEST(input, "epoll level", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 7);
    CHECK_EQ(wait_one(set, 0, 7), 0);
    peer_later(c, 30, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(set, 5000, 7), EPOLLIN);
    CHECK_EQ(wait_one(set, 5000, 7), EPOLLIN);
    take(c, 4);
    CHECK_EQ(wait_one(set, 5000, 7), EPOLLIN);
    take(c, 6);
    CHECK_EQ(wait_one(set, 0, 7), 0);
    peer_settle();
}

TEST(output, "epoll level EPOLLOUT", 0) {
    uint64_t before = c->tx;
    int set = epoll_with(c->fd, EPOLLOUT | EPOLLIN, 7);
    CHECK_EQ(wait_one(set, 0, 7), EPOLLOUT);
    flood(c);
    CHECK_EQ(wait_one(set, 0, 7), 0);
    peer_later(c, 30, OP_RECV, c->tx - before, 0);
    CHECK_EQ(wait_one(set, 5000, 7), EPOLLOUT);
    peer_settle();
}

TEST(data_is_opaque, "epoll opaque 64-bit data", BARE) {
    struct conn one = open_warm(), other = open_warm();
    const uint64_t data = 0xfedcba9876543210ull;
    int set = epoll_with(one.fd, EPOLLIN, data);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = data}, got[4];
    /* Two descriptors may carry equal data, even the number of some descriptor. */
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, other.fd, &event), 0);
    peer_send(&one, 3);
    CHECK_EQ(wait_one(set, 5000, data), EPOLLIN);
    peer_send(&other, 3);
    await_input(&other, 3);
    CHECK_EQ(epoll_wait(set, got, 4, 5000), 2);
    CHECK(got[0].data.u64 == data && got[1].data.u64 == data);
    modify(set, one.fd, EPOLLIN, other.fd);
    take(&other, 3);
    CHECK_EQ(wait_one(set, 5000, other.fd), EPOLLIN);
    take(&one, 3);
    CHECK_EQ(wait_one(set, 0, 0), 0);
}

TEST(control_errors, "EEXIST/ENOENT/EBADF/EINVAL", 0) {
    struct epoll_event event = {.events = EPOLLIN}, got[2];
    int set = epoll_with(c->fd, EPOLLIN, 1), pipe_ends[2];
    CHECK_EQ(pipe(pipe_ends), 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event), EEXIST);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, pipe_ends[0], &event), ENOENT);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, pipe_ends[0], NULL), ENOENT);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_ADD, -1, &event), EBADF);
    CHECK_ERRNO(epoll_ctl(-1, EPOLL_CTL_ADD, c->fd, &event), EBADF);
    CHECK_ERRNO(epoll_ctl(c->fd, EPOLL_CTL_ADD, pipe_ends[0], &event), EINVAL);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
    CHECK_ERRNO(epoll_ctl(set, 99, c->fd, &event), EINVAL);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, c->fd, NULL), EFAULT);
    CHECK_ERRNO(epoll_wait(set, got, 0, 0), EINVAL);
    volatile int negative = -1;
    CHECK_ERRNO(epoll_wait(set, got, negative, 0), EINVAL);
    CHECK_ERRNO(epoll_wait(c->fd, got, 1, 0), EINVAL);
    CHECK_ERRNO(epoll_wait(-1, got, 1, 0), EBADF);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_DEL, c->fd, NULL), 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, c->fd, NULL), ENOENT);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, c->fd, &event), ENOENT);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(epoll_wait(set, got, 1, 20), 0);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event), 0);
    CHECK_EQ(epoll_wait(set, got, 1, 5000), 1);
    take(c, 1);
}

TEST(bad_event_array, "epoll_wait EFAULT", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    struct epoll_event *invalid = (struct epoll_event *)before_unmapped(0);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_ERRNO(epoll_wait(set, invalid, 1, 5000), EFAULT);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 1);
}

TEST(modified_events, "epoll MOD", 0) {
    int set = epoll_with(c->fd, EPOLLOUT, 1);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLOUT);
    modify(set, c->fd, EPOLLIN, 2);
    CHECK_EQ(wait_one(set, 0, 2), EPOLLIN);
    modify(set, c->fd, EPOLLIN | EPOLLOUT, 3);
    CHECK_EQ(wait_one(set, 0, 3), EPOLLIN | EPOLLOUT);
    modify(set, c->fd, 0, 4);
    CHECK_EQ(wait_one(set, 0, 4), 0);
    take(c, 1);
}

TEST(half_closed, "EPOLLRDHUP", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLRDHUP, 1);
    peer_send(c, 5);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN | EPOLLRDHUP);
    take(c, 5);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN | EPOLLRDHUP);
    check_eof(c);
    modify(set, c->fd, EPOLLIN, 1);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
}

TEST(closed_both_ways, "EPOLLHUP", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK(poll_one(c->fd, 0, 5000) & POLLHUP);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN | EPOLLHUP);
}

TEST(reset_while_waiting, "EPOLLERR", 0) {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLRDHUP, 1);
    peer_later(c, 30, OP_RESET, 0, 0);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP);
    peer_settle();
}

TEST(timeouts_are_not_early, "epoll_wait timeout", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    for (int ms = 1; ms <= 64; ms *= 4) {
        int64_t start = now_ms();
        CHECK_EQ(wait_one(set, ms, 1), 0);
        CHECK(now_ms() - start >= ms - 1);
    }
}

TEST(pwait2, "epoll_pwait2", 0) {
    struct epoll_event got;
    struct timespec limit = {0, 30500000}, long_limit = {5, 0}, invalid = {0, -1};
    int set = epoll_with(c->fd, EPOLLIN, 1);
    int64_t start = now_ms();
    CHECK_EQ(epoll_pwait2(set, &got, 1, &limit, NULL), 0);
    CHECK(now_ms() - start >= 29);
    CHECK_ERRNO(epoll_pwait2(set, &got, 1, &invalid, NULL), EINVAL);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(epoll_pwait2(set, &got, 1, &long_limit, NULL), 1);
    CHECK_EQ(got.events, EPOLLIN);
    take(c, 1);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(epoll_pwait2(set, &got, 1, NULL, NULL), 1);
    take(c, 1);
    peer_settle();
}

TEST(by_syscall, "epoll by syscall(2)", 0) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, got;
    int set = (int)syscall(SYS_epoll_create1, 0);
    CHECK(set >= 0);
    CHECK_EQ(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, c->fd, &event), 0);
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(syscall(SYS_epoll_pwait, set, &got, 1, 5000, NULL, 8), 1);
    CHECK(got.events == EPOLLIN && got.data.u64 == 5);
    take(c, 10);
    peer_settle();
}

TEST(registered_before_the_upgrade, "epoll registered before the upgrade", BARE) {
    struct conn one = open_cold();
    int set = epoll_with(one.fd, EPOLLIN | EPOLLRDHUP, 9);
    warm_up(&one);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(wait_one(set, 0, 9), 0);
        peer_later(&one, i % 5 ? 0 : 3, OP_SEND, 200, 0);
        CHECK_EQ(wait_one(set, 5000, 9), EPOLLIN);
        take(&one, 200);
        peer_settle();
    }
    peer_later(&one, 10, OP_CLOSE, 0, 0);
    CHECK_EQ(wait_one(set, 5000, 9), EPOLLIN | EPOLLRDHUP);
    peer_settle();
}

TEST(registered_before_connect, "epoll registered before connect", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(4, &address, &length);
    struct conn a = {.fd = tcp_socket(SOCK_NONBLOCK), .direction = 0}, b = {.direction = 1};
    int set = epoll_with(a.fd, EPOLLIN | EPOLLOUT, 3);
    /* An unconnected socket is hung up. */
    CHECK_EQ(wait_one(set, 0, 3), EPOLLOUT | EPOLLHUP);
    int r = connect(a.fd, (struct sockaddr *)&address, length);
    CHECK(r == 0 || errno == EINPROGRESS);
    CHECK_EQ(wait_one(set, 5000, 3), EPOLLOUT);
    b.fd = accept(listener, NULL, NULL);
    warm_up_inside(&a, &b);
    modify(set, a.fd, EPOLLIN, 4);
    CHECK_EQ(wait_one(set, 0, 4), 0);
    put(&b, 10);
    CHECK_EQ(wait_one(set, 5000, 4), EPOLLIN);
    take(&a, 10);
}

TEST(added_after_data, "epoll ADD of a readable socket", 0) {
    peer_send(c, 10);
    await_input(c, 10);
    int set = epoll_with(c->fd, EPOLLIN, 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLIN);
    take(c, 10);
}

TEST(two_sets, "one socket in two epoll sets", 0) {
    int one = epoll_with(c->fd, EPOLLIN, 1), other = epoll_with(c->fd, EPOLLIN, 2);
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(one, 5000, 1), EPOLLIN);
    CHECK_EQ(wait_one(other, 5000, 2), EPOLLIN);
    close(one);
    CHECK_EQ(wait_one(other, 5000, 2), EPOLLIN);
    take(c, 10);
    CHECK_EQ(wait_one(other, 0, 2), 0);
    peer_settle();
}

TEST(mixed_with_others, "epoll mixed with a pipe and an eventfd", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1), ends[2], counter = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2}, got[4];
    uint64_t one = 1;
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    event.data.u64 = 3;
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, counter, &event), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLIN);
    CHECK_EQ(read(ends[0], got, 1), 1);
    CHECK_EQ(write(counter, &one, 8), 8);
    CHECK_EQ(wait_one(set, 5000, 3), EPOLLIN);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(epoll_wait(set, got, 4, 5000), 2);
    CHECK_EQ(read(counter, &one, 8), 8);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 1);
}

TEST(fair_with_few_slots, "epoll maxevents fairness", BARE) {
    enum { MANY = 12 };
    struct conn conns[MANY];
    bool seen[MANY] = {false};
    int set = epoll_create1(0), count = 0;
    for (int i = 0; i < MANY; i++) {
        conns[i] = open_warm();
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, conns[i].fd, &event), 0);
        peer_send(&conns[i], 1);
        await_input(&conns[i], 1);
    }
    /* Nobody reads, yet each of them has its turn. */
    for (int round = 0; round < 10 * MANY && count < MANY; round++) {
        struct epoll_event got[3];
        int n = epoll_wait(set, got, 3, 5000);
        CHECK_EQ(n, 3);
        for (int i = 0; i < n; i++) {
            CHECK(got[i].data.u32 < MANY);
            if (!seen[got[i].data.u32]) count++;
            seen[got[i].data.u32] = true;
        }
    }
    CHECK_EQ(count, MANY);
}

TEST(mixed_fair, "epoll maxevents fairness with a busy pipe", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1), ends[2];
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2}, got;
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    peer_send(c, 1);
    await_input(c, 1);
    bool seen[3] = {false};
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(epoll_wait(set, &got, 1, 5000), 1);
        seen[got.data.u64] = true;
    }
    CHECK(seen[1] && seen[2]);
    take(c, 1);
}
