/* Urgent data: what a ring cannot carry must still be exact. */
#include "parity.h"

static bool at_mark(const struct conn *c) {
    int at = -1;
    CHECK_EQ(ioctl(c->fd, SIOCATMARK, &at), 0);
    return at != 0;
}

TEST(received_apart, "MSG_OOB", 0) {
    char byte = 0;
    peer_send(c, 50);
    peer(c, OP_OOB, 'u', 0);
    peer_send(c, 50);
    await_events(c, POLLPRI);
    CHECK_EQ(recv(c->fd, &byte, 1, MSG_OOB), 1);
    CHECK_EQ(byte, 'u');
    CHECK_ERRNO(recv(c->fd, &byte, 1, MSG_OOB), EINVAL);
    take(c, 100);
}

TEST(mark_stops_the_read, "SIOCATMARK", 0) {
    char buffer[200];
    CHECK(!at_mark(c));
    peer_send(c, 50);
    peer(c, OP_OOB, 'u', 0);
    peer_send(c, 50);
    await_events(c, POLLPRI);
    for (int n = 0; n < 50;) {
        CHECK(!at_mark(c));
        ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
        CHECK(got > 0 && n + got <= 50);
        check_bytes(c, buffer, got);
        n += got;
    }
    CHECK(at_mark(c));
    CHECK_EQ(sockatmark(c->fd), 1);
    take(c, 50);
    CHECK(!at_mark(c));
}

TEST(inline_byte, "SO_OOBINLINE", 0) {
    int on = 1;
    char buffer[10];
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on), 0);
    peer_send(c, 50);
    peer(c, OP_OOB, 'u', 0);
    peer_send(c, 50);
    await_events(c, POLLPRI);
    take(c, 50);
    CHECK(at_mark(c));
    CHECK_EQ(recv(c->fd, buffer, 1, 0), 1);
    CHECK_EQ(buffer[0], 'u');
    take(c, 50);
    CHECK_ERRNO(recv(c->fd, buffer, 1, MSG_OOB), EINVAL);
}

TEST(none_is_einval, "MSG_OOB without urgent data", 0) {
    char byte;
    CHECK_ERRNO(recv(c->fd, &byte, 1, MSG_OOB), EINVAL);
    peer_send(c, 3);
    await_input(c, 3);
    CHECK_ERRNO(recv(c->fd, &byte, 1, MSG_OOB | MSG_DONTWAIT), EINVAL);
    take(c, 3);
}

static volatile sig_atomic_t urgent_signals;
static void count_urgent(int number) { (void)number; urgent_signals = urgent_signals + 1; }

TEST(sigurg, "MSG_OOB raises SIGURG", 0) {
    char byte;
    catch_signal(SIGURG, count_urgent, SA_RESTART);
    CHECK_EQ(fcntl(c->fd, F_SETOWN, getpid()), 0);
    CHECK_EQ(fcntl(c->fd, F_GETOWN), getpid());
    peer(c, OP_OOB, 'u', 0);
    await_events(c, POLLPRI);
    for (int i = 0; i < 5000 && !urgent_signals; i++) sleep_ms(1);
    CHECK_EQ(urgent_signals, 1);
    CHECK_EQ(recv(c->fd, &byte, 1, MSG_OOB), 1);
    peer_send(c, 20);
    take(c, 20);
}

TEST(sent_in_the_middle, "MSG_OOB sent", SOLO) {
    struct conn a, b;
    char byte = 0;
    open_inside_warm(&a, &b);
    for (int i = 0; i < 20; i++) {
        put(&a, 100);
        byte = (char)('a' + i);
        CHECK_EQ(send(a.fd, &byte, 1, MSG_OOB), 1);
        put(&a, 100);
        await_events(&b, POLLPRI);
        take(&b, 100);
        CHECK_EQ(recv(b.fd, &byte, 1, MSG_OOB), 1);
        CHECK_EQ(byte, 'a' + i);
        take(&b, 100);
        put(&b, 100);
        take(&a, 100);
    }
}

/* Only the last byte of an urgent send is urgent. */
TEST(last_byte_is_urgent, "MSG_OOB of several bytes", SOLO) {
    struct conn a, b;
    char buffer[10];
    open_inside_warm(&a, &b);
    fill(&a, buffer, 9);
    buffer[9] = 'U';
    CHECK_EQ(send(a.fd, buffer, 10, MSG_OOB), 10);
    sent(&a, 9);
    await_events(&b, POLLPRI);
    take(&b, 9);
    CHECK_EQ(recv(b.fd, buffer, 1, MSG_OOB), 1);
    CHECK_EQ(buffer[0], 'U');
    put(&a, 10);
    take(&b, 10);
}

TEST(select_exceptional, "MSG_OOB and select", 0) {
    fd_set exceptional;
    char byte;
    struct timeval limit = {5, 0};
    FD_ZERO(&exceptional);
    FD_SET(c->fd, &exceptional);
    peer_later(c, 20, OP_OOB, 'u', 0);
    CHECK_EQ(select(c->fd + 1, NULL, NULL, &exceptional, &limit), 1);
    CHECK(FD_ISSET(c->fd, &exceptional));
    CHECK_EQ(recv(c->fd, &byte, 1, MSG_OOB), 1);
    peer_settle();
    peer_send(c, 20);
    take(c, 20);
}
