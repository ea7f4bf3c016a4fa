/* Making a connection: blocking, non-blocking, and the odd ways. */
#include "epolls.h"

#include <sys/syscall.h>

struct listener { int fd; struct sockaddr_storage address; socklen_t length; };

static struct listener listening(int backlog) {
    struct listener listener;
    listener.fd = listen_any(backlog, &listener.address, &listener.length);
    return listener;
}

static int connect_to(int fd, const struct listener *to) {
    return connect(fd, (const struct sockaddr *)&to->address, to->length);
}

static int pending_error(int fd) {
    int error = -1;
    socklen_t length = sizeof error;
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

static struct conn accept_from(const struct listener *listener) {
    struct conn c = {.fd = accept(listener->fd, NULL, NULL), .direction = 1};
    CHECK(c.fd >= 0);
    return c;
}

static void echo(struct conn *a, struct conn *b) {
    for (int i = 0; i < 5; i++) {
        put(a, 1000);
        take(b, 1000);
        put(b, 1000);
        take(a, 1000);
    }
}

TEST(nonblocking, "non-blocking connect: EINPROGRESS, POLLOUT, SO_ERROR, EISCONN", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(SOCK_NONBLOCK), .direction = 0};
    int r = connect_to(a.fd, &listener);
    CHECK(r == 0 || errno == EINPROGRESS);
    await_events(&a, POLLOUT);
    CHECK_EQ(pending_error(a.fd), 0);
    /* The first call after the handshake may report success once more. */
    r = connect_to(a.fd, &listener);
    CHECK(r == 0 || errno == EISCONN);
    CHECK_ERRNO(connect_to(a.fd, &listener), EISCONN);
    struct conn b = accept_from(&listener);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

TEST(nonblocking_by_epoll_edge, "non-blocking connect, awaited by epoll", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(SOCK_NONBLOCK), .direction = 0};
    int r = connect_to(a.fd, &listener);
    CHECK(r == 0 || errno == EINPROGRESS);
    int set = epoll_with(a.fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    CHECK_EQ(wait_one(set, 5000, 1), EPOLLOUT);
    CHECK_EQ(pending_error(a.fd), 0);
    struct conn b = accept_from(&listener);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

TEST(written_at_once, "write right after a non-blocking connect", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(SOCK_NONBLOCK), .direction = 0};
    char buffer[100];
    int r = connect_to(a.fd, &listener);
    CHECK(r == 0 || errno == EINPROGRESS);
    fill(&a, buffer, 100);
    /* Established already, on loopback, or not yet. */
    ssize_t n = send(a.fd, buffer, 100, 0);
    CHECK(n == 100 || errno == EAGAIN);
    sent(&a, n);
    struct conn b = accept_from(&listener);
    if (n == 100) take(&b, 100);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

static int refusing_address(struct listener *nobody) {
    *nobody = listening(1);
    return close(nobody->fd);
}

TEST(refused, "connect: ECONNREFUSED", SOLO) {
    struct listener nobody;
    CHECK_EQ(refusing_address(&nobody), 0);
    int fd = tcp_socket(0);
    CHECK_ERRNO(connect_to(fd, &nobody), ECONNREFUSED);
    CHECK_EQ(pending_error(fd), 0);
    close(fd);
    fd = tcp_socket(SOCK_NONBLOCK);
    CHECK_ERRNO(connect_to(fd, &nobody), EINPROGRESS);
    CHECK_EQ(poll_one(fd, POLLIN | POLLOUT, 5000), POLLIN | POLLOUT | POLLERR | POLLHUP);
    CHECK_EQ(pending_error(fd), ECONNREFUSED);
    CHECK_EQ(pending_error(fd), 0);
    close(fd);
}

/* The same descriptor may be used again after a refusal. */
TEST(again_after_refusal, "connect after ECONNREFUSED", SOLO) {
    struct listener nobody, listener = listening(4);
    CHECK_EQ(refusing_address(&nobody), 0);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    CHECK_ERRNO(connect_to(a.fd, &nobody), ECONNREFUSED);
    CHECK_EQ(connect_to(a.fd, &listener), 0);
    struct conn b = accept_from(&listener);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

/* A full backlog answers nothing: the state of a connect that takes long. */
static int connecting_for_long(const struct listener *full, int type_flags) {
    for (int i = 0; i < 10; i++) {
        int fd = tcp_socket(SOCK_NONBLOCK);
        int r = connect_to(fd, full);
        CHECK(r == 0 || errno == EINPROGRESS);
        if (poll_one(fd, POLLOUT, 100) == 0) {
            if (type_flags & SOCK_NONBLOCK) return fd;
            close(fd);
            return tcp_socket(0);
        }
    }
    skip("the backlog does not fill up");
}

TEST(in_progress_twice, "connect: EALREADY", SOLO | ONCE) {
    struct listener full = listening(0);
    int fd = connecting_for_long(&full, SOCK_NONBLOCK);
    char byte = 0;
    CHECK_ERRNO(connect_to(fd, &full), EALREADY);
    CHECK_EQ(pending_error(fd), 0);
    CHECK_ERRNO(send(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_EQ(close(fd), 0);
}

TEST(timeout, "blocking connect with SO_SNDTIMEO", SOLO | ONCE) {
    struct listener full = listening(0);
    int fd = connecting_for_long(&full, 0);
    struct timeval limit = {0, 50000};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    CHECK_ERRNO(connect_to(fd, &full), EINPROGRESS);
    CHECK_EQ(close(fd), 0);
}

static void nothing(int number) { (void)number; }

TEST(interrupted, "blocking connect and EINTR", SOLO | ONCE) {
    struct listener full = listening(0);
    int fd = connecting_for_long(&full, 0);
    catch_signal(SIGALRM, nothing, 0);
    alarm_every(20);
    CHECK_ERRNO(connect_to(fd, &full), EINTR);
    alarm_every(0);
    CHECK_EQ(close(fd), 0);
}

TEST(accept_flags, "accept/accept4 flags", SOLO) {
    static const int flags[] = {0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC};
    struct listener listener = listening(4);
    set_nonblocking(listener.fd, true);
    CHECK_ERRNO(accept(listener.fd, NULL, NULL), EAGAIN);
    CHECK_ERRNO(accept4(listener.fd, NULL, NULL, 0x1234567), EINVAL);
    for (int i = 0; i < 4; i++) {
        struct sockaddr_storage address, own;
        socklen_t length = sizeof address, own_length = sizeof own;
        struct conn a = {.fd = tcp_socket(0), .direction = 0}, b = {.direction = 1};
        CHECK_EQ(connect_to(a.fd, &listener), 0);
        CHECK(poll_one(listener.fd, POLLIN, 5000) & POLLIN);
        b.fd = accept4(listener.fd, (struct sockaddr *)&address, &length, flags[i]);
        CHECK(b.fd >= 0);
        CHECK_EQ(fcntl(b.fd, F_GETFL) & O_NONBLOCK, flags[i] & SOCK_NONBLOCK ? O_NONBLOCK : 0);
        CHECK_EQ(fcntl(b.fd, F_GETFD), flags[i] & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
        CHECK_EQ(getsockname(a.fd, (struct sockaddr *)&own, &own_length), 0);
        CHECK(length == own_length && memcmp(&own, &address, length) == 0);
        warm_up_inside(&a, &b);
        echo(&a, &b);
        close(a.fd);
        close(b.fd);
    }
}

TEST(by_syscall, "connect/accept4 by syscall(2)", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.direction = 0}, b = {.direction = 1};
    a.fd = (int)syscall(SYS_socket, listener.address.ss_family, SOCK_STREAM, 0);
    CHECK_EQ(syscall(SYS_connect, a.fd, &listener.address, listener.length), 0);
    b.fd = (int)syscall(SYS_accept4, listener.fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK(b.fd >= 0);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

/* connect() to "no address" dissolves the connection; the same socket can make another. */
TEST(dissolved, "connect with AF_UNSPEC", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    char byte;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(connect_to(a.fd, &listener), 0);
        struct conn b = accept_from(&listener);
        a.tx = a.rx = 0;
        warm_up_inside(&a, &b);
        echo(&a, &b);
        CHECK_EQ(connect(a.fd, &nowhere, sizeof nowhere), 0);
        CHECK_ERRNO(recv(b.fd, &byte, 1, 0), ECONNRESET);
        CHECK_ERRNO(recv(a.fd, &byte, 1, 0), ECONNRESET);
        CHECK_ERRNO(recv(a.fd, &byte, 1, 0), ENOTCONN);
        close(b.fd);
    }
}

TEST(to_itself, "self-connect", SOLO | ANY_PATH) {
    struct listener reserved = listening(1);
    struct conn self = {.fd = tcp_socket(0), .direction = 0};
    int on = 1;
    setsockopt(self.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    close(reserved.fd);
    CHECK_EQ(bind(self.fd, (struct sockaddr *)&reserved.address, reserved.length), 0);
    CHECK_EQ(connect_to(self.fd, &reserved), 0);
    /* What it sends, it receives. */
    struct conn mirror = {.fd = self.fd, .direction = 1};
    for (int i = 0; i < 70; i++) {
        put(&self, 300);
        take(&mirror, 300);
    }
    CHECK_EQ(poll_one(self.fd, POLLIN | POLLOUT, 0), POLLOUT);
    CHECK_EQ(shutdown(self.fd, SHUT_WR), 0);
    check_eof(&mirror);
}

TEST(fast_open, "TCP_FASTOPEN, MSG_FASTOPEN", SOLO) {
    struct listener listener = listening(4);
    int queue = 5;
    CHECK_EQ(setsockopt(listener.fd, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof queue), 0);
    for (int i = 0; i < 3; i++) {
        struct conn a = {.fd = tcp_socket(0), .direction = 0};
        char buffer[100];
        fill(&a, buffer, 100);
        ssize_t n = sendto(a.fd, buffer, 100, MSG_FASTOPEN, (struct sockaddr *)&listener.address, listener.length);
        if (n < 0 && errno == EOPNOTSUPP) skip("TCP fast open is switched off");
        CHECK_EQ(n, 100);
        sent(&a, n);
        struct conn b = accept_from(&listener);
        take(&b, 100);
        warm_up_inside(&a, &b);
        echo(&a, &b);
        close(a.fd);
        close(b.fd);
    }
}

/* connect() returns at once, the first write makes the connection. */
TEST(fast_open_connect, "TCP_FASTOPEN_CONNECT", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    int on = 1;
    CHECK_EQ(setsockopt(a.fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on), 0);
    CHECK_EQ(connect_to(a.fd, &listener), 0);
    put(&a, 100);
    struct conn b = accept_from(&listener);
    take(&b, 100);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

TEST(deferred_accept, "TCP_DEFER_ACCEPT", SOLO) {
    struct listener listener = listening(4);
    int seconds = 3;
    CHECK_EQ(setsockopt(listener.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds), 0);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    CHECK_EQ(connect_to(a.fd, &listener), 0);
    put(&a, 100);
    struct conn b = accept_from(&listener);
    take(&b, 100);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

/* Traffic that waits in the backlog, before anybody has accepted. */
TEST(sent_before_accept, "data sent before accept", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    CHECK_EQ(connect_to(a.fd, &listener), 0);
    for (int i = 0; i < 100; i++) put(&a, 100);
    struct conn b = accept_from(&listener);
    take(&b, 100 * 100);
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

TEST(closed_before_accept, "connection closed before accept", SOLO) {
    struct listener listener = listening(4);
    struct conn a = {.fd = tcp_socket(0), .direction = 0};
    CHECK_EQ(connect_to(a.fd, &listener), 0);
    put(&a, 1000);
    close(a.fd);
    struct conn b = accept_from(&listener);
    take(&b, 1000);
    check_eof(&b);
}

TEST(mapped_address, "IPv4 peer of an IPv6 socket", SOLO) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof six;
    int listener = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&six, sizeof six), 0);
    CHECK_EQ(listen(listener, 4), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&six, &length), 0);
    four.sin_port = six.sin6_port;
    struct conn a = {.fd = socket(AF_INET, SOCK_STREAM, 0), .direction = 0}, b = {.direction = 1};
    CHECK_EQ(connect(a.fd, (struct sockaddr *)&four, sizeof four), 0);
    b.fd = accept(listener, (struct sockaddr *)&six, &length);
    CHECK(b.fd >= 0 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr));
    warm_up_inside(&a, &b);
    echo(&a, &b);
}

TEST(remote_peer, "connection to a non-local peer is untouched", REMOTE) {
    uint64_t tx_before, rx_before, tx, rx;
    tcp_bytes(c->fd, &tx_before, &rx_before);
    peer_post(c, OP_ECHO, 500, 100);
    for (int i = 0; i < 500; i++) {
        put(c, 100);
        take(c, 100);
    }
    peer_settle();
    tcp_bytes(c->fd, &tx, &rx);
    CHECK_EQ(tx - tx_before, 50000);
    CHECK_EQ(rx - rx_before, 50000);
}
