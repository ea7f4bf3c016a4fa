/* poll and ppoll. */
#include "parity.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

static int poll_once(struct pollfd *entries, nfds_t n, int timeout_ms) {
    int r;
    do r = poll(entries, n, timeout_ms);
    while (r < 0 && errno == EINTR);
    return r;
}

TEST(input, "poll POLLIN", 0) {
    CHECK_EQ(poll_one(c->fd, POLLIN, 0), 0);
    peer_later(c, 30, OP_SEND, 10, 0);
    CHECK_EQ(poll_one(c->fd, POLLIN, 5000), POLLIN);
    CHECK_EQ(poll_one(c->fd, POLLIN, 5000), POLLIN);
    take(c, 10);
    CHECK_EQ(poll_one(c->fd, POLLIN, 0), 0);
    peer_settle();
}

TEST(output, "poll POLLOUT", 0) {
    uint64_t before = c->tx;
    CHECK_EQ(poll_one(c->fd, POLLOUT, 0), POLLOUT);
    flood(c);
    CHECK_EQ(poll_one(c->fd, POLLOUT, 0), 0);
    peer_later(c, 30, OP_RECV, c->tx - before, 0);
    CHECK_EQ(poll_one(c->fd, POLLOUT, 5000), POLLOUT);
    peer_settle();
}

TEST(both, "poll POLLIN and POLLOUT", 0) {
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLOUT, 5000), POLLOUT);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLOUT, 5000), POLLIN | POLLOUT);
    take(c, 1);
}

TEST(normal_band, "POLLRDNORM/WRNORM", 0) {
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(poll_one(c->fd, POLLRDNORM | POLLWRNORM, 5000), POLLRDNORM | POLLWRNORM);
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM, 0), POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
    CHECK_EQ(poll_one(c->fd, POLLPRI | POLLRDBAND, 0), 0);
    /* TCP sets no POLLWRBAND. */
    CHECK_EQ(poll_one(c->fd, POLLWRBAND, 0) & ~POLLWRBAND, 0);
    take(c, 1);
}

TEST(no_events, "poll with no events", 0) {
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(poll_one(c->fd, 0, 20), 0);
    take(c, 1);
    peer(c, OP_RESET, 0, 0);
    int revents = poll_one(c->fd, 0, 5000);
    CHECK_EQ(revents & ~(POLLERR | POLLHUP), 0);
    CHECK(revents & POLLHUP);
}

TEST(half_closed, "poll POLLRDHUP", 0) {
    CHECK_EQ(poll_one(c->fd, POLLRDHUP, 0), 0);
    peer_later(c, 20, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(poll_one(c->fd, POLLRDHUP, 5000), POLLRDHUP);
    peer_settle();
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLRDHUP | POLLOUT, 0), POLLIN | POLLRDHUP | POLLOUT);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    int revents = 0;
    for (int i = 0; i < 1000 && !(revents & POLLHUP); i++) {
        revents = poll_one(c->fd, POLLIN | POLLOUT, 0);
        sleep_ms(1);
    }
    CHECK_EQ(revents, POLLIN | POLLOUT | POLLHUP);
}

TEST(data_then_half_closed, "poll POLLIN before the end", 0) {
    peer_send(c, 10);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(poll_one(c->fd, POLLRDHUP, 5000), POLLRDHUP);
    CHECK_EQ(poll_one(c->fd, POLLIN, 0), POLLIN);
    take(c, 10);
    CHECK_EQ(poll_one(c->fd, POLLIN, 0), POLLIN);
    check_eof(c);
}

TEST(after_reset, "poll POLLERR and POLLHUP", 0) {
    peer_later(c, 20, OP_RESET, 0, 0);
    int revents = poll_one(c->fd, POLLIN, 5000);
    CHECK_EQ(revents, POLLIN | POLLERR | POLLHUP);
    peer_settle();
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP);
}

TEST(own_shutdown, "poll after one's own shutdown", 0) {
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLRDHUP, 5000), POLLIN | POLLRDHUP);
    check_eof(c);
}

TEST(timeout_is_not_early, "poll timeout", 0) {
    for (int ms = 1; ms <= 64; ms *= 4) {
        int64_t start = now_ms();
        CHECK_EQ(poll_one(c->fd, POLLIN, ms), 0);
        CHECK(now_ms() - start >= ms - 1);
    }
}

TEST(ppoll_timeout, "ppoll timeout", 0) {
    struct pollfd entry = {.fd = c->fd, .events = POLLIN};
    struct timespec limit = {0, 30000000}, none = {0, 0}, invalid = {0, 1000000000};
    int64_t start = now_ms();
    CHECK_EQ(ppoll(&entry, 1, &limit, NULL), 0);
    CHECK(now_ms() - start >= 29);
    /* The C library keeps the caller's time as it was. */
    CHECK_EQ(limit.tv_nsec, 30000000);
    CHECK_EQ(ppoll(&entry, 1, &none, NULL), 0);
    CHECK_ERRNO(ppoll(&entry, 1, &invalid, NULL), EINVAL);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(ppoll(&entry, 1, NULL, NULL), 1);
    CHECK_EQ(entry.revents, POLLIN);
    take(c, 1);
    peer_settle();
}

TEST(by_syscall, "poll by syscall(2)", 0) {
    struct pollfd entry = {.fd = c->fd, .events = POLLIN};
    struct timespec limit = {5, 0};
    peer_later(c, 20, OP_SEND, 10, 0);
#ifdef SYS_poll
    CHECK_EQ(syscall(SYS_poll, &entry, 1, 5000), 1);
    CHECK_EQ(entry.revents, POLLIN);
#endif
    CHECK_EQ(syscall(SYS_ppoll, &entry, 1, &limit, NULL, 0), 1);
    CHECK_EQ(entry.revents, POLLIN);
    take(c, 10);
    peer_settle();
}

TEST(same_descriptor_twice, "poll with the same fd twice", 0) {
    struct pollfd entries[3] = {{c->fd, POLLIN, 0}, {c->fd, POLLOUT, 0}, {c->fd, POLLIN, 0}};
    CHECK_EQ(poll_once(entries, 3, 0), 1);
    peer_send(c, 5);
    await_input(c, 5);
    CHECK_EQ(poll_once(entries, 3, 5000), 3);
    CHECK(entries[0].revents == POLLIN && entries[1].revents == POLLOUT && entries[2].revents == POLLIN);
    take(c, 5);
}

TEST(invalid_descriptors, "POLLNVAL", 0) {
    int closed = dup(c->fd);
    close(closed);
    struct pollfd entries[4] = {{closed, POLLIN, 0}, {-1, POLLIN, 99}, {c->fd, POLLIN, 0}, {-c->fd, POLLIN, 99}};
    CHECK_EQ(poll_once(entries, 4, 5000), 1);
    CHECK_EQ(entries[0].revents, POLLNVAL);
    CHECK_EQ(entries[1].revents, 0);
    CHECK_EQ(entries[2].revents, 0);
    CHECK_EQ(entries[3].revents, 0);
    peer_send(c, 1);
    await_input(c, 1);
    CHECK_EQ(poll_once(entries, 4, 5000), 2);
    take(c, 1);
}

TEST(errors, "poll errors", 0) {
    struct rlimit limit;
    struct pollfd *volatile invalid = (struct pollfd *)before_unmapped(0);
    CHECK_ERRNO(poll(invalid, 1, 0), EFAULT);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct pollfd entry = {c->fd, POLLIN, 0};
    CHECK_ERRNO(poll(&entry, (nfds_t)limit.rlim_cur + 1, 0), EINVAL);
    CHECK_EQ(poll(NULL, 0, 10), 0);
}

TEST(huge_array, "poll with a huge array", 0) {
    enum { MANY = 900 };
    struct pollfd *entries = calloc(MANY, sizeof *entries);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < MANY; i++) entries[i] = (struct pollfd){i % 3 ? ends[0] : -1, POLLIN, 0};
    entries[MANY - 1] = (struct pollfd){c->fd, POLLIN, 0};
    CHECK_EQ(poll_once(entries, MANY, 0), 0);
    peer_later(c, 20, OP_SEND, 1, 0);
    CHECK_EQ(poll_once(entries, MANY, 5000), 1);
    CHECK_EQ(entries[MANY - 1].revents, POLLIN);
    take(c, 1);
    peer_settle();
}

/* Any of them may end the wait. */
TEST(mixed_with_others, "poll mixed with pipes/eventfd/timerfd/signalfd/listener", 0) {
    enum { PIPE, EVENT, TIMER, SIGNAL, LISTENER, CONNECTION, COUNT };
    struct sockaddr_storage address;
    socklen_t length;
    sigset_t usr1;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    int fds[COUNT] = {ends[0], eventfd(0, 0), timerfd_create(CLOCK_MONOTONIC, 0), signalfd(-1, &usr1, 0),
                      listen_any(4, &address, &length), c->fd};
    struct itimerspec soon = {.it_value = {0, 20000000}};
    struct pollfd entries[COUNT];
    for (int source = 0; source < COUNT; source++) {
        for (int i = 0; i < COUNT; i++) entries[i] = (struct pollfd){fds[i], POLLIN, 0};
        CHECK_EQ(poll_once(entries, COUNT, 0), 0);
        int client = -1;
        uint64_t value = 1;
        switch (source) {
        case PIPE: CHECK_EQ(write(ends[1], &value, 8), 8); break;
        case EVENT: CHECK_EQ(write(fds[EVENT], &value, 8), 8); break;
        case TIMER: CHECK_EQ(timerfd_settime(fds[TIMER], 0, &soon, NULL), 0); break;
        case SIGNAL: CHECK_EQ(kill(getpid(), SIGUSR1), 0); break;
        case LISTENER:
            client = tcp_socket(0);
            CHECK_EQ(connect(client, (struct sockaddr *)&address, length), 0);
            break;
        case CONNECTION: peer_later(c, 20, OP_SEND, 1, 0); break;
        }
        CHECK_EQ(poll_once(entries, COUNT, 5000), 1);
        CHECK_EQ(entries[source].revents, POLLIN);
        struct signalfd_siginfo sink;
        if (source == LISTENER) {
            close(accept(fds[LISTENER], NULL, NULL));
            close(client);
        } else if (source == CONNECTION) {
            take(c, 1);
            peer_settle();
        } else {
            CHECK(read(fds[source], &sink, source == SIGNAL ? sizeof sink : 8) > 0);
        }
    }
}

TEST(many_connections, "poll over many connections", BARE) {
    enum { MANY = 20 };
    struct conn conns[MANY];
    struct pollfd entries[MANY];
    for (int i = 0; i < MANY; i++) {
        conns[i] = open_warm();
        entries[i] = (struct pollfd){conns[i].fd, POLLIN, 0};
    }
    for (int i = 0; i < 3 * MANY; i++) {
        int k = i * 7 % MANY;
        peer_later(&conns[k], i % 4 ? 0 : 5, OP_SEND, 33, 0);
        CHECK_EQ(poll_once(entries, MANY, 5000), 1);
        CHECK_EQ(entries[k].revents, POLLIN);
        take(&conns[k], 33);
        peer_settle();
    }
}

/* The waiting call began when the connection still was plain TCP. */
TEST(upgrade_while_waiting, "poll while the upgrade happens", BARE) {
    struct conn one = open_cold();
    for (int i = 0; i < 300; i++) {
        peer_later(&one, 0, OP_ECHO, 1, 100);
        put(&one, 100);
        CHECK(poll_one(one.fd, POLLIN | POLLRDHUP, 5000) & POLLIN);
        take(&one, 100);
        peer_settle();
    }
}

static void *poll_both(void *fds) {
    struct pollfd entries[] = {{((int *)fds)[0], POLLIN, 0}, {((int *)fds)[1], POLLIN, 0}};
    CHECK_EQ(poll_once(entries, 2, 5000), 1);
    CHECK_EQ(entries[0].revents, 0);
    CHECK_EQ(entries[1].revents, POLLIN);
    return NULL;
}

/* The wait goes on with what the number meant when it began; what it means afterwards is not touched. */
TEST(number_reused, "poll while another thread gives the number to another connection", BARE) {
    struct conn one = open_warm(), two = open_warm();
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    void *thread = run_thread(poll_both, (int[]){one.fd, ends[0]});
    sleep_ms(50);
    CHECK_EQ(dup2(two.fd, one.fd), one.fd);
    close(two.fd);
    two.fd = one.fd;
    CHECK_EQ(write(ends[1], "", 1), 1);
    join(thread);
    peer_post(&two, OP_ECHO, 3, 1000);
    for (int i = 0; i < 3; i++) {
        put(&two, 1000);
        take(&two, 1000);
    }
    peer_settle();
}
