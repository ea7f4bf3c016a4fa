/* Options that only the kernel's own data path can serve. */
#include "parity.h"

#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <linux/tls.h>

static void echo(struct conn *c) {
    for (int i = 0; i < 5; i++) {
        peer_post(c, OP_ECHO, 1, 1000);
        put(c, 1000);
        take(c, 1000);
        peer_settle();
    }
}

static bool attach_tls(int fd, int direction) {
    struct tls12_crypto_info_aes_gcm_128 info = {.info = {TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128}};
    memset(info.key, 7, sizeof info.key);
    memset(info.iv, 9, sizeof info.iv);
    memset(info.salt, 3, sizeof info.salt);
    return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 4) == 0 && setsockopt(fd, SOL_TLS, direction, &info, sizeof info) == 0;
}

/* Where the kernel has no TLS, the attempt must leave the connection as it was. */
TEST(kernel_tls, "kTLS attempt", SOLO) {
    struct conn a, b;
    open_inside_warm(&a, &b);
    bool tls = attach_tls(a.fd, TLS_TX);
    if (tls) CHECK(attach_tls(b.fd, TLS_RX));
    for (int i = 0; i < 10; i++) {
        put(&a, 3000);
        take(&b, 3000);
        put(&b, 500);
        take(&a, 500);
    }
    CHECK_ERRNO(setsockopt(b.fd, IPPROTO_TCP, TCP_ULP, "nonsense", 8), tls ? EEXIST : ENOENT);
    put(&b, 10);
    take(&a, 10);
}

/* A control message to receive. */
struct control {
    int level, type;
    void *value;
    size_t bytes;
    bool found;
};

static ssize_t receive_control(int fd, void *buffer, size_t n, int flags, struct control *wanted) {
    char control[256] = {0};
    struct iovec iov = {buffer, n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t r = recvmsg(fd, &message, flags);
    wanted->found = false;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); r >= 0 && h; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != wanted->level || h->cmsg_type != wanted->type) continue;
        memcpy(wanted->value, CMSG_DATA(h), wanted->bytes);
        wanted->found = true;
    }
    return r;
}

static ssize_t receive_with_control(int fd, void *buffer, size_t n, int flags, int level, int type, void *value, size_t value_bytes) {
    struct control wanted = {level, type, value, value_bytes, false};
    ssize_t r = receive_control(fd, buffer, n, flags, &wanted);
    if (r >= 0 && !wanted.found) FAIL("no control message %d/%d", level, type);
    return r;
}

/* The kernel begins to stamp packets some time after the first socket has asked for it, in a work queue, and goes
 * on as long as one does. A connection of its own sees to it that this is so before the test begins. */
static void begin_stamping(void) {
    struct conn a, b;
    struct timeval stamp;
    struct control wanted = {SOL_SOCKET, SO_TIMESTAMP, &stamp, sizeof stamp, false};
    int on = 1;
    open_inside(&a, &b);
    CHECK_EQ(setsockopt(b.fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
    for (int i = 0; i < 5000 && !wanted.found; i++) {
        char byte;
        put(&a, 1);
        CHECK_EQ(receive_control(b.fd, &byte, 1, 0, &wanted), 1);
        check_bytes(&b, &byte, 1);
        sleep_ms(1);
    }
    CHECK(wanted.found);
}

TEST(timestamps, "SO_TIMESTAMP", 0) {
    int on = 1;
    char buffer[100];
    struct timeval stamp = {0, 0};
    begin_stamping();
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
    for (int i = 0; i < 3; i++) {
        time_t start = time(NULL);
        peer_send(c, 100);
        await_input(c, 100);
        CHECK_EQ(receive_with_control(c->fd, buffer, 100, 0, SOL_SOCKET, SO_TIMESTAMP, &stamp, sizeof stamp), 100);
        CHECK(stamp.tv_sec >= start - 1 && stamp.tv_sec <= time(NULL) + 1);
        check_bytes(c, buffer, 100);
    }
    echo(c);
}

/* One call takes what the ring still held and what came by TCP after it. */
TEST(one_read_across_the_way_back, "recv over a connection's return to TCP", 0) {
    char buffer[200];
    int on = 1;
    peer_send(c, 100);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
    peer_send(c, 50);
    CHECK_EQ(recv(c->fd, buffer, sizeof buffer, 0), 150);
    check_bytes(c, buffer, 150);
}

TEST(wait_for_all_across_the_way_back, "MSG_WAITALL over a connection's return to TCP", 0) {
    char buffer[220];
    int on = 1;
    peer_send(c, 100);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
    peer_send(c, 50);
    peer_later(c, 100, OP_SEND, 70, 0);
    CHECK_EQ(recv(c->fd, buffer, sizeof buffer, MSG_WAITALL), 220);
    check_bytes(c, buffer, 220);
    peer_settle();
}

TEST(send_timestamps, "SO_TIMESTAMPING and MSG_ERRQUEUE", 0) {
    int flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY | SOF_TIMESTAMPING_OPT_ID;
    struct scm_timestamping stamps = {0};
    char nothing[1];
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags), 0);
    put(c, 100);
    peer_recv(c, 100);
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    CHECK_EQ(receive_with_control(c->fd, nothing, 0, MSG_ERRQUEUE, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps), 0);
    CHECK(stamps.ts[0].tv_sec > 0);
    flags = 0;
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags), 0);
    echo(c);
}

TEST(zero_copy, "SO_ZEROCOPY, MSG_ZEROCOPY", 0) {
    int on = 1;
    static char buffer[50000];
    struct sock_extended_err done = {0};
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    CHECK_EQ(getsockname(c->fd, (struct sockaddr *)&from, &length), 0);
    bool six = from.ss_family == AF_INET6;
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on), 0);
    fill(c, buffer, sizeof buffer);
    peer_post(c, OP_RECV, sizeof buffer, 0);
    for (size_t n = 0; n < sizeof buffer;) {
        ssize_t r = send(c->fd, buffer + n, sizeof buffer - n, MSG_ZEROCOPY);
        CHECK(r > 0);
        n += r;
    }
    sent(c, sizeof buffer);
    peer_settle();
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    receive_with_control(c->fd, NULL, 0, MSG_ERRQUEUE, six ? SOL_IPV6 : SOL_IP, six ? IPV6_RECVERR : IP_RECVERR, &done, sizeof done);
    CHECK_EQ(done.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
    CHECK_EQ(done.ee_errno, 0);
    echo(c);
}

/* With every receive, how much is left. */
TEST(bytes_left, "TCP_INQ", 0) {
    int on = 1, left = -1;
    char buffer[60];
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on), 0);
    peer_send(c, 100);
    await_input(c, 100);
    CHECK_EQ(receive_with_control(c->fd, buffer, 60, 0, SOL_TCP, TCP_CM_INQ, &left, sizeof left), 60);
    CHECK_EQ(left, 40);
    check_bytes(c, buffer, 60);
    CHECK_EQ(receive_with_control(c->fd, buffer, 60, 0, SOL_TCP, TCP_CM_INQ, &left, sizeof left), 40);
    CHECK_EQ(left, 0);
    check_bytes(c, buffer, 40);
}

static volatile sig_atomic_t arrivals, arrival_fd, arrival_band;
static void note_arrival(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    arrivals = arrivals + 1;
    arrival_fd = info->si_fd;
    arrival_band = (int)info->si_band;
}

static void await_arrivals(int count) {
    for (int i = 0; i < 5000 && arrivals < count; i++) sleep_ms(1);
    CHECK(arrivals >= count);
}

TEST(signal_driven, "F_SETOWN, O_ASYNC: SIGIO", 0) {
    struct sigaction action = {.sa_sigaction = note_arrival, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK_EQ(sigaction(SIGIO, &action, NULL), 0);
    CHECK_EQ(fcntl(c->fd, F_SETOWN, getpid()), 0);
    CHECK_EQ(fcntl(c->fd, F_SETFL, O_RDWR | O_ASYNC), 0);
    CHECK(fcntl(c->fd, F_GETFL) & O_ASYNC);
    for (int i = 0; i < 5; i++) {
        int before = arrivals;
        peer_send(c, 100);
        await_arrivals(before + 1);
        take(c, 100);
    }
    CHECK_EQ(fcntl(c->fd, F_SETFL, O_RDWR), 0);
    echo(c);
}

TEST(signal_with_descriptor, "F_SETSIG", 0) {
    struct sigaction action = {.sa_sigaction = note_arrival, .sa_flags = SA_SIGINFO | SA_RESTART};
    int on = 1;
    CHECK_EQ(sigaction(SIGRTMIN, &action, NULL), 0);
    CHECK_EQ(fcntl(c->fd, F_SETSIG, SIGRTMIN), 0);
    CHECK_EQ(fcntl(c->fd, F_GETSIG), SIGRTMIN);
    CHECK_EQ(fcntl(c->fd, F_SETOWN, getpid()), 0);
    CHECK_EQ(ioctl(c->fd, FIOASYNC, &on), 0);
    peer_send(c, 100);
    await_arrivals(1);
    CHECK_EQ(arrival_fd, c->fd);
    CHECK(arrival_band & POLLIN);
    take(c, 100);
    peer_later(c, 10, OP_CLOSE, 0, 0);
    int before = arrivals;
    await_arrivals(before + 1);
    check_eof(c);
    peer_settle();
}

/* A filter that lets everything through, taken away again. */
TEST(packet_filter, "SO_ATTACH_FILTER", 0) {
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0xffffffff}};
    struct sock_fprog program = {1, all};
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    echo(c);
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_DETACH_FILTER, &program, sizeof program), 0);
    echo(c);
}

TEST(set_before_connect, "options set before the connection exists", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(4, &address, &length), on = 1;
    struct conn a = {.fd = tcp_socket(0), .direction = 0}, b = {.direction = 1};
    struct timeval limit = {0, 40000};
    CHECK_EQ(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    CHECK_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    CHECK_EQ(setsockopt(a.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    CHECK_EQ(connect(a.fd, (struct sockaddr *)&address, length), 0);
    b.fd = accept(listener, NULL, NULL);
    CHECK(b.fd >= 0);
    warm_up_inside(&a, &b);
    char byte;
    CHECK_ERRNO(recv(a.fd, &byte, 1, 0), EAGAIN);
    /* Linux lets an accepted socket inherit the listener's options. */
    CHECK_ERRNO(recv(b.fd, &byte, 1, 0), EAGAIN);
    int value = 0;
    length = sizeof value;
    CHECK_EQ(getsockopt(b.fd, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
    CHECK(value != 0);
}

TEST(timestamps_before_connect, "SO_TIMESTAMP set before the connection exists", SOLO | ANY_PATH) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(4, &address, &length), on = 1;
    struct conn a = {.fd = tcp_socket(0), .direction = 0}, b = {.direction = 1};
    begin_stamping();
    CHECK_EQ(setsockopt(a.fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
    CHECK_EQ(connect(a.fd, (struct sockaddr *)&address, length), 0);
    b.fd = accept(listener, NULL, NULL);
    CHECK(b.fd >= 0);
    warm_up_inside(&a, &b);
    char buffer[100];
    struct timeval stamp = {0, 0};
    put(&b, 100);
    await_input(&a, 100);
    CHECK_EQ(receive_with_control(a.fd, buffer, 100, 0, SOL_SOCKET, SO_TIMESTAMP, &stamp, sizeof stamp), 100);
    check_bytes(&a, buffer, 100);
}
