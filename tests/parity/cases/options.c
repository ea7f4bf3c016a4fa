/* What can be asked of a socket, and set. */
#include "parity.h"

#include <linux/sockios.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

static int get_option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK_EQ(getsockopt(fd, level, name, &value, &length), 0);
    CHECK_EQ(length, sizeof value);
    return value;
}

static void set_option(int fd, int level, int name, int value) {
    CHECK_EQ(setsockopt(fd, level, name, &value, sizeof value), 0);
}

TEST(identity, "SO_TYPE/SO_PROTOCOL/SO_DOMAIN", 0) {
    int domain = get_option(c->fd, SOL_SOCKET, SO_DOMAIN);
    CHECK(domain == AF_INET || domain == AF_INET6);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_ERROR), 0);
}

TEST(is_a_socket, "fstat, /proc/self/fd, isatty", 0) {
    struct stat status;
    char path[64], target[64] = "";
    CHECK_EQ(fstat(c->fd, &status), 0);
    CHECK(S_ISSOCK(status.st_mode));
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->fd);
    CHECK(readlink(path, target, sizeof target - 1) > 0);
    CHECK_EQ(strncmp(target, "socket:[", 8), 0);
    CHECK_EQ(isatty(c->fd), 0);
    CHECK_EQ(errno, ENOTTY);
    CHECK_EQ(fcntl(c->fd, F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST(addresses, "getsockname/getpeername", 0) {
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t length = sizeof here;
    CHECK_EQ(getsockname(c->fd, (struct sockaddr *)&here, &length), 0);
    length = sizeof there;
    CHECK_EQ(getpeername(c->fd, (struct sockaddr *)&there, &length), 0);
    CHECK_EQ(here.ss_family, there.ss_family);
    CHECK_EQ(length, here.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    CHECK(memcmp(&here, &there, length) != 0);
    CHECK_ERRNO(connect(c->fd, (struct sockaddr *)&there, length), EISCONN);
    CHECK_ERRNO(bind(c->fd, (struct sockaddr *)&here, length), EINVAL);
    CHECK_ERRNO(listen(c->fd, 1), EINVAL);
    CHECK_ERRNO(accept(c->fd, NULL, NULL), EINVAL);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(addresses_after_reset, "getpeername of a reset connection", 0) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    peer(c, OP_RESET, 0, 0);
    CHECK(poll_one(c->fd, POLLHUP, 5000) & POLLHUP);
    CHECK_ERRNO(getpeername(c->fd, (struct sockaddr *)&address, &length), ENOTCONN);
    CHECK_EQ(getsockname(c->fd, (struct sockaddr *)&address, &length), 0);
}

TEST(fionread, "FIONREAD", 0) {
    int n = -1;
    CHECK_EQ(ioctl(c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 0);
    peer_send(c, 1000);
    await_input(c, 1000);
    CHECK_EQ(ioctl(c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 1000);
    take(c, 300);
    CHECK_EQ(ioctl(c->fd, SIOCINQ, &n), 0);
    CHECK_EQ(n, 700);
    CHECK_EQ(syscall(SYS_ioctl, c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 700);
    take(c, 700);
    CHECK_EQ(ioctl(c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 0);
    CHECK_ERRNO(ioctl(c->fd, FIONREAD, NULL), EFAULT);
}

TEST(fionread_at_the_end, "FIONREAD counts no FIN", 0) {
    int n = -1;
    peer_send(c, 7);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(ioctl(c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 7);
    take(c, 7);
    CHECK_EQ(ioctl(c->fd, FIONREAD, &n), 0);
    CHECK_EQ(n, 0);
}

TEST(siocoutq, "SIOCOUTQ", 0) {
    int unread = -1, unsent = -1;
    uint64_t before = c->tx;
    CHECK_EQ(ioctl(c->fd, SIOCOUTQ, &unread), 0);
    CHECK(unread >= 0 && unread <= 1000);
    uint64_t total = flood(c);
    CHECK_EQ(ioctl(c->fd, SIOCOUTQ, &unread), 0);
    CHECK_EQ(ioctl(c->fd, SIOCOUTQNSD, &unsent), 0);
    CHECK(unread > 0 && (uint64_t)unread <= total);
    CHECK(unsent >= 0 && unsent <= unread);
    peer_recv(c, c->tx - before);
    for (int i = 0; i < 5000 && unread > 0; i++) {
        CHECK_EQ(ioctl(c->fd, SIOCOUTQ, &unread), 0);
        sleep_ms(1);
    }
    CHECK_EQ(unread, 0);
}

TEST(unknown_ioctl, "unknown ioctls", 0) {
    struct termios terminal;
    CHECK_ERRNO(ioctl(c->fd, TCGETS, &terminal), ENOTTY);
    CHECK_EQ(ioctl(c->fd, FIOCLEX), 0);
    CHECK_EQ(fcntl(c->fd, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(ioctl(c->fd, FIONCLEX), 0);
    CHECK_EQ(fcntl(c->fd, F_GETFD), 0);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(tcp_info, "TCP_INFO", 0) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    CHECK_EQ(getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    CHECK_EQ(length, sizeof info);
    CHECK_EQ(info.tcpi_state, TCP_ESTABLISHED);
    CHECK(info.tcpi_snd_mss > 0 && info.tcpi_snd_cwnd > 0);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    CHECK_EQ(info.tcpi_state, TCP_CLOSE_WAIT);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(nodelay, "TCP_NODELAY get/set", 0) {
    set_option(c->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    CHECK_EQ(get_option(c->fd, IPPROTO_TCP, TCP_NODELAY), 1);
    put(c, 10);
    peer_recv(c, 10);
    set_option(c->fd, IPPROTO_TCP, TCP_NODELAY, 0);
    CHECK_EQ(get_option(c->fd, IPPROTO_TCP, TCP_NODELAY), 0);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(plain_options, "options of both levels, set and read back", 0) {
    static const struct { int level, name, value; } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 77}, {IPPROTO_TCP, TCP_KEEPINTVL, 11},
        {IPPROTO_TCP, TCP_KEEPCNT, 3}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 30000}, {IPPROTO_TCP, TCP_QUICKACK, 1},
        {SOL_SOCKET, SO_REUSEADDR, 1}, {SOL_SOCKET, SO_PRIORITY, 3}, {IPPROTO_TCP, TCP_LINGER2, 5},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384}, {SOL_SOCKET, SO_OOBINLINE, 1}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        set_option(c->fd, options[i].level, options[i].name, options[i].value);
        CHECK_EQ(get_option(c->fd, options[i].level, options[i].name), options[i].value);
        put(c, 100);
        peer_recv(c, 100);
        peer_send(c, 100);
        take(c, 100);
    }
}

TEST(text_options, "TCP_CONGESTION", 0) {
    char name[16] = "";
    socklen_t length = sizeof name;
    CHECK_EQ(getsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    CHECK(strlen(name) > 0);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    length = sizeof name;
    CHECK_EQ(getsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    CHECK_EQ(strcmp(name, "reno"), 0);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(option_errors, "getsockopt/setsockopt errors", 0) {
    int value = 1;
    socklen_t length = sizeof value;
    CHECK_ERRNO(getsockopt(c->fd, SOL_SOCKET, 9999, &value, &length), ENOPROTOOPT);
    CHECK_ERRNO(setsockopt(c->fd, SOL_SOCKET, 9999, &value, length), ENOPROTOOPT);
    CHECK_ERRNO(setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &value, 2), EINVAL);
    CHECK_ERRNO(setsockopt(c->fd, SOL_SOCKET, SO_ERROR, &value, length), ENOPROTOOPT);
    CHECK_ERRNO(setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, NULL, length), EFAULT);
    CHECK_ERRNO(getsockopt(c->fd, SOL_SOCKET, SO_TYPE, &value, NULL), EFAULT);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(linger_value, "SO_LINGER", 0) {
    struct linger linger = {1, 7}, got = {0};
    socklen_t length = sizeof got;
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_LINGER, &got, &length), 0);
    CHECK(got.l_onoff == 1 && got.l_linger == 7);
}

TEST(buffer_sizes, "SO_RCVBUF/SNDBUF", 0) {
    /* The kernel doubles what is asked for. */
    set_option(c->fd, SOL_SOCKET, SO_RCVBUF, 50000);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_RCVBUF), 100000);
    set_option(c->fd, SOL_SOCKET, SO_SNDBUF, 30000);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_SNDBUF), 60000);
    set_option(c->fd, SOL_SOCKET, SO_RCVBUF, 1);
    CHECK(get_option(c->fd, SOL_SOCKET, SO_RCVBUF) >= 1);
    /* Such windows make the kernel slow. */
    for (int i = 0; i < 3; i++) {
        peer_post(c, OP_ECHO, 1, 5000);
        put(c, 5000);
        take(c, 5000);
        peer_settle();
    }
}

/* Small buffers bound what can be under way; however small, everything arrives. */
TEST(small_buffers_bound_the_flood, "SO_RCVBUF/SNDBUF", 0) {
    set_option(c->fd, SOL_SOCKET, SO_SNDBUF, 8192);
    peer(c, OP_SETOPT, SOL_SOCKET << 16 | SO_RCVBUF, 8192);
    uint64_t total = flood(c);
    CHECK(total > 0 && total <= 16u << 20);
    peer_recv(c, total);
    peer_post(c, OP_RECV, 100000, 0);
    put(c, 100000);
    peer_settle();
}

/* A sender that asks for a small buffer learns early that nobody reads: no ring takes much more for it. */
TEST(small_send_buffer_bounds_what_is_unread, "SO_SNDBUF", 0) {
    set_option(c->fd, SOL_SOCKET, SO_SNDBUF, 4096);
    peer(c, OP_SETOPT, SOL_SOCKET << 16 | SO_RCVBUF, 4096);
    uint64_t total = flood(c);
    CHECK(total > 0 && total < 256u << 10);
    peer_recv(c, total);
    peer_settle();
}

TEST(cookie_is_the_identity, "SO_COOKIE of duplicates", 0) {
    uint64_t one = 0, other = 0;
    socklen_t length = sizeof one;
    int copy = dup(c->fd);
    CHECK_EQ(getsockopt(c->fd, SOL_SOCKET, SO_COOKIE, &one, &length), 0);
    CHECK_EQ(getsockopt(copy, SOL_SOCKET, SO_COOKIE, &other, &length), 0);
    CHECK(one != 0 && one == other);
    close(copy);
}

TEST(error_is_read_once, "SO_ERROR", 0) {
    peer(c, OP_RESET, 0, 0);
    CHECK(poll_one(c->fd, POLLERR, 5000) & POLLERR);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_ERROR), ECONNRESET);
    CHECK_EQ(get_option(c->fd, SOL_SOCKET, SO_ERROR), 0);
    char byte;
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

TEST(not_a_socket, "socket calls on other descriptors", SOLO) {
    int ends[2], value = 0;
    socklen_t length = sizeof value;
    char byte = 0;
    CHECK_EQ(pipe(ends), 0);
    CHECK_ERRNO(recv(ends[0], &byte, 1, 0), ENOTSOCK);
    CHECK_ERRNO(send(ends[1], &byte, 1, 0), ENOTSOCK);
    CHECK_ERRNO(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &length), ENOTSOCK);
    CHECK_ERRNO(shutdown(ends[0], SHUT_RD), ENOTSOCK);
    CHECK_ERRNO(recv(-1, &byte, 1, 0), EBADF);
    CHECK_ERRNO(send(1 << 20, &byte, 1, 0), EBADF);
    CHECK_ERRNO(read(INT32_MAX, &byte, 1), EBADF);
    CHECK_ERRNO(close(-1), EBADF);
    int unconnected = tcp_socket(0);
    CHECK_ERRNO(recv(unconnected, &byte, 1, 0), ENOTCONN);
    CHECK_ERRNO(send(unconnected, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(shutdown(unconnected, SHUT_WR), ENOTCONN);
}
