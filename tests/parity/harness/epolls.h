/* Shorthands for epoll sets. */
#ifndef PARITY_EPOLLS_H
#define PARITY_EPOLLS_H

#include "parity.h"

#include <sys/epoll.h>

static inline int epoll_with(int fd, uint32_t events, uint64_t data) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0);
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    return set;
}

/* The events of the only descriptor that is ready, 0 if none is. */
static inline uint32_t wait_one(int set, int timeout_ms, uint64_t data) {
    struct epoll_event events[4];
    int n;
    do n = epoll_wait(set, events, 4, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n == 0) return 0;
    CHECK_EQ(n, 1);
    CHECK_EQ(events[0].data.u64, data);
    return events[0].events;
}

static inline void modify(int set, int fd, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
}

#endif
