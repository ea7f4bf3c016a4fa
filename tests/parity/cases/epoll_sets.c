/* epoll: sets in sets, duplicates, threads and processes that share a set. */
#include "epolls.h"

#include <sys/select.h>

TEST(set_in_set, "epoll nested", 0) {
    int inner = epoll_with(c->fd, EPOLLIN, 1), middle = epoll_with(inner, EPOLLIN, 2), outer = epoll_with(middle, EPOLLIN, 3);
    CHECK_EQ(wait_one(outer, 0, 3), 0);
    for (int i = 0; i < 5; i++) {
        peer_later(c, 10, OP_SEND, 10, 0);
        CHECK_EQ(wait_one(outer, 5000, 3), EPOLLIN);
        CHECK_EQ(wait_one(middle, 0, 2), EPOLLIN);
        CHECK_EQ(wait_one(inner, 0, 1), EPOLLIN);
        take(c, 10);
        peer_settle();
        CHECK_EQ(wait_one(outer, 0, 3), 0);
    }
}

TEST(edge_set_in_set, "epoll nested, edge", 0) {
    int inner = epoll_with(c->fd, EPOLLIN, 1), outer = epoll_with(inner, EPOLLIN | EPOLLET, 2);
    for (int i = 0; i < 5; i++) {
        peer_later(c, 10, OP_SEND, 10, 0);
        CHECK_EQ(wait_one(outer, 5000, 2), EPOLLIN);
        CHECK_EQ(wait_one(inner, 0, 1), EPOLLIN);
        take(c, 10);
        peer_settle();
        CHECK_EQ(wait_one(inner, 0, 1), 0);
    }
}

TEST(poll_on_set, "poll on epfd", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    CHECK_EQ(poll_one(set, POLLIN, 0), 0);
    for (int i = 0; i < 5; i++) {
        peer_later(c, 10, OP_SEND, 10, 0);
        CHECK_EQ(poll_one(set, POLLIN, 5000), POLLIN);
        CHECK_EQ(wait_one(set, 0, 1), EPOLLIN);
        take(c, 10);
        peer_settle();
        CHECK_EQ(poll_one(set, POLLIN, 0), 0);
    }
    peer_later(c, 10, OP_CLOSE, 0, 0);
    CHECK_EQ(poll_one(set, POLLIN, 5000), POLLIN);
    peer_settle();
}

TEST(select_on_set, "select on epfd", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    fd_set input;
    struct timeval limit = {5, 0};
    FD_ZERO(&input);
    FD_SET(set, &input);
    peer_later(c, 10, OP_SEND, 10, 0);
    CHECK_EQ(select(set + 1, &input, NULL, NULL, &limit), 1);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLIN);
    take(c, 10);
    peer_settle();
}

TEST(room_in_set_in_set, "epoll nested EPOLLOUT", 0) {
    uint64_t before = c->tx;
    flood(c);
    int inner = epoll_with(c->fd, EPOLLOUT, 1), outer = epoll_with(inner, EPOLLIN, 2);
    CHECK_EQ(wait_one(outer, 0, 2), 0);
    peer_later(c, 20, OP_RECV, c->tx - before, 0);
    CHECK_EQ(wait_one(outer, 5000, 2), EPOLLIN);
    CHECK_EQ(wait_one(inner, 0, 1), EPOLLOUT);
    peer_settle();
}

TEST(closed_duplicate_keeps_registration, "closed dup keeps registration", 0) {
    int copy = dup(c->fd), number = c->fd;
    int set = epoll_with(c->fd, EPOLLIN, 1);
    CHECK_EQ(close(c->fd), 0);
    c->fd = copy;
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, number, NULL), EBADF);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL), ENOENT);
    take(c, 10);
    CHECK_EQ(wait_one(set, 0, 1), 0);
    peer_settle();
}

TEST(both_numbers_registered, "one socket registered under two numbers", 0) {
    int copy = dup(c->fd), set = epoll_with(c->fd, EPOLLIN, 1);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2}, got[4];
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, copy, &event), 0);
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(epoll_wait(set, got, 4, 5000), 2);
    CHECK_EQ(got[0].data.u64 + got[1].data.u64, 3);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL), 0);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLIN);
    close(copy);
    CHECK_EQ(wait_one(set, 0, 1), EPOLLIN);
    take(c, 10);
}

/* The number goes on to another connection while a duplicate keeps the old registration alive. */
TEST(number_reused_under_registration, "closed dup and fd number reuse", BARE) {
    struct conn one = open_warm(), other = open_warm();
    int number = one.fd, set = epoll_with(number, EPOLLIN, 1);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
    one.fd = dup(number);
    CHECK_EQ(dup2(other.fd, number), number);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, number, &event), 0);
    peer_send(&other, 10);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLIN);
    take(&other, 10);
    peer_send(&one, 10);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(&one, 10);
}

TEST(close_removes, "close removes the registration", BARE) {
    struct conn one = open_warm(), other = open_warm();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
    int number = one.fd, set = epoll_with(one.fd, EPOLLIN, 1);
    peer_send(&one, 10);
    await_input(&one, 10);
    CHECK_EQ(close(one.fd), 0);
    CHECK_EQ(wait_one(set, 20, 0), 0);
    CHECK_EQ(dup2(other.fd, number), number);
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, number, &event), 0);
    peer_send(&other, 1);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLIN);
    take(&other, 1);
}

TEST(duplicate_of_the_set, "dup of epfd", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1), copy = dup(set);
    CHECK_EQ(close(set), 0);
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(copy, 5000, 1), EPOLLIN);
    take(c, 10);
    peer_settle();
    modify(copy, c->fd, EPOLLOUT, 2);
    CHECK_EQ(wait_one(copy, 5000, 2), EPOLLOUT);
}

/* The number of a closed set comes back as a new, empty one. */
TEST(set_number_reused, "epfd number reuse", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1), number = set;
    CHECK_EQ(close(set), 0);
    set = epoll_create1(0);
    CHECK_EQ(set, number);
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(wait_one(set, 20, 1), 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event), 0);
    CHECK_EQ(wait_one(set, 5000, 2), EPOLLIN);
    take(c, 10);
}

struct shared_set { int set; int events; uint64_t data; };

static void *wait_in_thread(void *argument) {
    struct shared_set *shared = argument;
    struct epoll_event got = {0};
    int n;
    do n = epoll_wait(shared->set, &got, 1, 10000);
    while (n < 0 && errno == EINTR);
    shared->events = n == 1 ? (int)got.events : 0;
    shared->data = got.data.u64;
    return NULL;
}

TEST(added_while_waiting, "epoll ADD from another thread while waiting", 0) {
    struct shared_set shared = {epoll_create1(0), 0, 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5};
    void *thread = run_thread(wait_in_thread, &shared);
    sleep_ms(30);
    CHECK_EQ(epoll_ctl(shared.set, EPOLL_CTL_ADD, c->fd, &event), 0);
    peer_later(c, 30, OP_SEND, 10, 0);
    join(thread);
    CHECK(shared.events == EPOLLIN && shared.data == 5);
    take(c, 10);
    peer_settle();
}

TEST(modified_while_waiting, "epoll MOD from another thread while waiting", 0) {
    peer_send(c, 10);
    await_input(c, 10);
    struct shared_set shared = {epoll_with(c->fd, 0, 1), 0, 0};
    void *thread = run_thread(wait_in_thread, &shared);
    sleep_ms(30);
    modify(shared.set, c->fd, EPOLLIN, 6);
    join(thread);
    CHECK(shared.events == EPOLLIN && shared.data == 6);
    take(c, 10);
}

struct reader { int set; struct conn *c; pthread_mutex_t *lock; int handled; };

static void *serve_events(void *argument) {
    struct reader *reader = argument;
    for (;;) {
        struct epoll_event got;
        int n = epoll_wait(reader->set, &got, 1, 10000);
        if (n < 0 && errno == EINTR) continue;
        CHECK_EQ(n, 1);
        char buffer[100];
        /* One-shot: nobody else has this event. */
        ssize_t taken = recv(reader->c->fd, buffer, 100, MSG_DONTWAIT);
        if (taken == 0) break;
        if (taken > 0) {
            check_bytes(reader->c, buffer, taken);
            reader->handled++;
        }
        modify(reader->set, reader->c->fd, EPOLLIN | EPOLLONESHOT, 1);
    }
    modify(reader->set, reader->c->fd, EPOLLIN | EPOLLONESHOT, 1);
    return NULL;
}

TEST(two_threads_wait, "epoll_wait from two threads", 0) {
    struct reader readers[2];
    void *threads[2];
    int set = epoll_with(c->fd, EPOLLIN | EPOLLONESHOT, 1);
    uint64_t expected = c->rx + 200 * 300;
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){.set = set, .c = c};
        threads[i] = run_thread(serve_events, &readers[i]);
    }
    for (int i = 0; i < 200; i++) peer_post(c, i % 20 ? OP_SEND : OP_PIECES, 300, 100);
    peer_post(c, OP_SHUTDOWN, SHUT_WR, 0);
    peer_settle();
    for (int i = 0; i < 2; i++) join(threads[i]);
    CHECK_EQ(c->rx, expected);
}

TEST(set_across_fork, "epoll across fork", 0) {
    int set = epoll_with(c->fd, EPOLLIN, 1);
    peer_later(c, 30, OP_SEND, 10, 0);
    pid_t child = fork_child();
    if (child == 0) {
        CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
        take(c, 10);
        CHECK_EQ(wait_one(set, 0, 1), 0);
        child_done();
    }
    reap(child);
    peer_settle();
    c->rx += 10;
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLIN);
    take(c, 10);
    peer_settle();
}

/* What the child registers, the parent gets: there is one set. */
TEST(registered_by_the_child, "epoll across fork", 0) {
    int set = epoll_create1(0);
    pid_t child = fork_child();
    if (child == 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
        CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event), 0);
        child_done();
    }
    reap(child);
    peer_later(c, 20, OP_SEND, 10, 0);
    CHECK_EQ(wait_one(set, 5000, 8), EPOLLIN);
    take(c, 10);
    peer_settle();
}

TEST(set_passed_on, "epfd over SCM_RIGHTS", 0) {
    int ends[2], set = epoll_with(c->fd, EPOLLIN, 4);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t child = fork_child();
    if (child == 0) {
        close(set);
        close(c->fd);
        int received = receive_fd(ends[1]);
        CHECK_EQ(wait_one(received, 5000, 4), EPOLLIN);
        child_done();
    }
    send_fd(ends[0], set);
    peer_later(c, 20, OP_SEND, 10, 0);
    reap(child);
    take(c, 10);
    peer_settle();
}

TEST(many_registered, "epoll over many connections", BARE) {
    enum { MANY = 40 };
    struct conn conns[MANY];
    int set = epoll_create1(0);
    for (int i = 0; i < MANY; i++) {
        conns[i] = open_warm();
        struct epoll_event event = {.events = EPOLLIN | (i % 2 ? EPOLLET : 0), .data.ptr = &conns[i]};
        CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, conns[i].fd, &event), 0);
    }
    for (int i = 0; i < 4 * MANY; i++) {
        struct conn *one = &conns[i * 11 % MANY];
        peer_later(one, i % 8 ? 0 : 2, OP_SEND, 20, 0);
        CHECK_EQ(wait_one(set, 5000, (uint64_t)(uintptr_t)one), EPOLLIN);
        take(one, 20);
        peer_settle();
    }
}

/* Each child has the set for a while: one ends, one executes another program, one is killed. */
static void come_and_go(void) {
    pid_t child = fork_child();
    if (child == 0) child_done();
    reap(child);
    child = fork_child();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    reap(child);
    child = fork_child();
    if (child == 0) pause();
    sleep_ms(20);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    /* Killed members of a family are looked for at intervals. */
    sleep_ms(20);
}

TEST(added_after_children_have_gone, "epoll and fork: what is added once the child is gone", BARE | PROCESS) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    for (int round = 0; round < 2; round++) {
        come_and_go();
        struct conn one = open_cold();
        struct epoll_event event = {.events = EPOLLIN, .data.fd = one.fd}, got;
        CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, one.fd, &event), 0);
        warm_up(&one);
        peer_later(&one, 20, OP_SEND, 100, 0);
        CHECK_EQ(epoll_wait(set, &got, 1, 5000), 1);
        CHECK_EQ(got.data.fd, one.fd);
        take(&one, 100);
        peer_settle();
    }
}

TEST(added_while_a_child_waits, "epoll and fork: what is added while the child waits on the set", BARE | PROCESS | ANY_PATH) {
    int set = epoll_create1(0);
    int *seen = shared_memory(sizeof *seen);
    pid_t child = fork_child();
    if (child == 0) {
        struct epoll_event got;
        while (!__atomic_load_n(seen, __ATOMIC_SEQ_CST)) epoll_wait(set, &got, 1, 10);
        child_done();
    }
    struct conn one = open_cold();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = one.fd}, got;
    CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, one.fd, &event), 0);
    warm_up(&one);
    peer_later(&one, 20, OP_SEND, 100, 0);
    CHECK_EQ(epoll_wait(set, &got, 1, 5000), 1);
    take(&one, 100);
    peer_settle();
    __atomic_store_n(seen, 1, __ATOMIC_SEQ_CST);
    reap(child);
}
