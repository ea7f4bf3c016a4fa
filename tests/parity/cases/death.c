/* The peer is killed. */
#include "epolls.h"

#include <sys/select.h>

/* Kill the peer after a while, from a thread: the test's own call is blocked by then. */
static void *kill_soon(void *unused) {
    sleep_ms(40);
    peer_kill();
    return unused;
}

#define DEATH(id, clause) TEST(id, clause, PROCESS)

/* All that was received had been read: the kernel ends the connection with a FIN. */
DEATH(reader_blocked, "peer killed while reader blocked") {
    char byte;
    void *killer = run_thread(kill_soon, NULL);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
    join(killer);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

DEATH(in_poll, "peer killed while in poll") {
    void *killer = run_thread(kill_soon, NULL);
    CHECK_EQ(poll_one(c->fd, POLLIN | POLLRDHUP, 10000), POLLIN | POLLRDHUP);
    join(killer);
    check_eof(c);
}

DEATH(in_select, "peer killed while in select") {
    fd_set input;
    struct timeval limit = {10, 0};
    FD_ZERO(&input);
    FD_SET(c->fd, &input);
    void *killer = run_thread(kill_soon, NULL);
    CHECK_EQ(select(c->fd + 1, &input, NULL, NULL, &limit), 1);
    join(killer);
    check_eof(c);
}

DEATH(in_epoll, "peer killed while in epoll") {
    int set = epoll_with(c->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    void *killer = run_thread(kill_soon, NULL);
    CHECK_EQ(wait_one(set, 10000, 1), EPOLLIN | EPOLLRDHUP);
    join(killer);
    check_eof(c);
}

/* Its unread data makes the kernel answer with a reset. */
DEATH(writer_blocked, "peer killed while writer blocked") {
    char byte = 0;
    flood(c);
    void *killer = run_thread(kill_soon, NULL);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), ECONNRESET);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    join(killer);
}

DEATH(waiting_for_room, "peer killed while in poll for room") {
    flood(c);
    void *killer = run_thread(kill_soon, NULL);
    int revents = poll_one(c->fd, POLLOUT, 10000);
    CHECK((revents & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
    join(killer);
    char byte;
    CHECK_ERRNO(recv(c->fd, &byte, 1, 0), ECONNRESET);
}

DEATH(idle_then_write, "peer killed, idle, then write: EPIPE/ECONNRESET sequence") {
    char byte = 0;
    peer_kill();
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(send(c->fd, &byte, 1, MSG_NOSIGNAL), 1);
    CHECK(poll_one(c->fd, 0, 5000) & POLLHUP);
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

/* What it had sent before is still there. */
DEATH(data_before_death, "peer killed with data under way") {
    peer_send(c, 60000);
    peer_kill();
    take(c, 60000);
    check_eof(c);
}

DEATH(unread_data, "peer killed with data of mine unread") {
    char byte = 0;
    put(c, 1000);
    sleep_ms(5);
    peer_kill();
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    CHECK_ERRNO(recv(c->fd, &byte, 1, 0), ECONNRESET);
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

DEATH(sending_much, "peer killed in the middle of its sending") {
    char buffer[4096];
    peer_post(c, OP_SEND, 1ll << 40, 0);
    take(c, 100000);
    peer_kill();
    for (ssize_t n; (n = recv(c->fd, buffer, sizeof buffer, 0)) != 0;) {
        CHECK(n > 0);
        check_bytes(c, buffer, n);
    }
}

DEATH(receiving_much, "peer killed in the middle of its receiving") {
    char buffer[4096];
    peer_post(c, OP_RECV, 1ll << 40, 0);
    put(c, 3 << 20);
    void *killer = run_thread(kill_soon, NULL);
    ssize_t n;
    do {
        fill(c, buffer, sizeof buffer);
        n = send(c->fd, buffer, sizeof buffer, MSG_NOSIGNAL);
        sent(c, n);
    } while (n > 0);
    CHECK(errno == ECONNRESET || errno == EPIPE);
    join(killer);
}

DEATH(busy_both_ways, "peer killed in the middle of an exchange") {
    char buffer[300];
    ssize_t n = 1;
    peer_post(c, OP_ECHO, 1ll << 40, 300);
    void *killer = run_thread(kill_soon, NULL);
    while (n > 0) {
        fill(c, buffer, 300);
        n = send(c->fd, buffer, 300, MSG_NOSIGNAL);
        sent(c, n);
        if (n > 0) n = recv(c->fd, buffer, 300, 0);
        if (n > 0) check_bytes(c, buffer, n);
    }
    CHECK(n == 0 || errno == ECONNRESET || errno == EPIPE);
    join(killer);
}

/* A stopped peer is no dead peer. */
DEATH(stopped, "peer stopped and continued") {
    peer_post(c, OP_ECHO, 5, 100);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(kill(peer_pid(), SIGSTOP), 0);
        put(c, 100);
        CHECK_EQ(poll_one(c->fd, POLLIN, 20), 0);
        CHECK_EQ(kill(peer_pid(), SIGCONT), 0);
        take(c, 100);
    }
    peer_settle();
}

/* The subject itself dies in every possible way; the peer must see it. */
static void die_as_child(struct conn *c, int how) {
    pid_t child = fork_child();
    if (child == 0) {
        put(c, 5000);
        if (how == 0) _exit(0);
        if (how == 1) exit(0);
        if (how == 2) kill(getpid(), SIGKILL);
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    close(c->fd);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 5000);
}

TEST(by_underscore_exit, "_exit", 0) { die_as_child(c, 0); }
TEST(by_exit, "exit", 0) { die_as_child(c, 1); }
TEST(by_sigkill, "SIGKILL", 0) { die_as_child(c, 2); }
TEST(by_fault, "SIGSEGV", 0) { die_as_child(c, 3); }
