/* Calls one by one, and what misuse of them answers: Linux's errno. Two contexts of one process, joined by a pipe.
 *
 *   calls CONFIGURATION      with the addresses 10.0.0.1 and 10.0.0.2, one for each core
 */
#include "common.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

static mctx_t a, b;

/* Both sides move a little. */
static void turn(void)
{
    struct pollfd none = {.fd = -1};
    for (int i = 0; i < 4; i++) {
        CHECK(mtcp_poll(a, &none, 1, 0) == 0);
        CHECK(mtcp_poll(b, &none, 1, 0) == 0);
    }
}

static int new_socket(mctx_t mctx)
{
    int sockid = mtcp_socket(mctx, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(sockid >= 0);
    return sockid;
}

static int listen_at(const char *address, int port)
{
    struct address at = address_of(address, port);
    int sockid = mtcp_socket(a, at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
    CHECK(sockid >= 0);
    CHECK(mtcp_bind(a, sockid, socket_address(&at), at.length) == 0 && mtcp_listen(a, sockid, 16) == 0);
    return sockid;
}

/* A connection from b to a listener of a: b's end, and a's. */
static void join(int listener, int port, int ends[2])
{
    struct address to = address_of("10.0.0.1", port);
    ends[0] = new_socket(b);
    FAILS(mtcp_connect(b, ends[0], socket_address(&to), to.length), EINPROGRESS);
    FAILS(mtcp_connect(b, ends[0], socket_address(&to), to.length), EALREADY);
    FAILS(mtcp_accept(a, listener, NULL, NULL), EAGAIN);
    FAILS(mtcp_send(b, ends[0], "early", 5, 0), EAGAIN);
    FAILS(mtcp_read(b, ends[0], &to, 1), EAGAIN);
    for (int tries = 0; (ends[1] = mtcp_accept(a, listener, NULL, NULL)) < 0; tries++) {
        CHECK(errno == EAGAIN && tries < 10000);
        turn();
    }
    CHECK(mtcp_setsock_nonblock(a, ends[1]) == 0);
    CHECK(mtcp_connect(b, ends[0], socket_address(&to), to.length) == 0);
    FAILS(mtcp_connect(b, ends[0], socket_address(&to), to.length), EISCONN);
}

static void contexts_and_configuration(const char *configuration)
{
    struct mtcp_conf conf;
    CHECK(mtcp_create_context(0) == NULL && errno == EINVAL);
    FAILS(mtcp_getconf(&conf), EINVAL);
    FAILS(mtcp_init("/nonexistent/configuration"), ENOENT);
    FAILS(mtcp_init(NULL), EFAULT);
    CHECK(mtcp_init(configuration) == 0);
    CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == 2 && conf.rcvbuf_size == 65536 && conf.tcp_timeout == 30);
    struct mtcp_conf change = {.max_concurrency = 100, .sndbuf_size = 32768};
    CHECK(mtcp_setconf(&change) == 0 && mtcp_getconf(&conf) == 0);
    CHECK(conf.max_concurrency == 100 && conf.sndbuf_size == 32768 && conf.rcvbuf_size == 65536);
    change.num_cores = 3;
    FAILS(mtcp_setconf(&change), EINVAL);
    FAILS(mtcp_core_affinitize(-1), EINVAL);
    CHECK(mtcp_core_affinitize(0) == 0);
    CHECK(mtcp_create_context(2) == NULL && errno == EINVAL);
    CHECK((a = mtcp_create_context(0)) != NULL && (b = mtcp_create_context(1)) != NULL && b->cpu == 1);
    CHECK(mtcp_create_context(0) == NULL && errno == EEXIST);
    struct mtcp_context foreign = {.cpu = 0};
    FAILS(mtcp_socket(NULL, AF_INET, SOCK_STREAM, 0), EACCES);
    FAILS(mtcp_socket(&foreign, AF_INET, SOCK_STREAM, 0), EACCES);
    FAILS(mtcp_destroy_context(&foreign), EACCES);
}

static void sockets_that_cannot_be(void)
{
    FAILS(mtcp_socket(a, AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    FAILS(mtcp_socket(a, AF_INET, SOCK_DGRAM, 0), ESOCKTNOSUPPORT);
    FAILS(mtcp_socket(a, AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    FAILS(mtcp_socket(a, AF_INET, 77, 0), EINVAL);
    char byte;
    FAILS(mtcp_read(a, -1, &byte, 1), EBADF);
    FAILS(mtcp_read(a, 99, &byte, 1), EBADF);
    FAILS(mtcp_close(a, 99), EBADF);
    FAILS(mtcp_abort(a, -5), EBADF);
}

static void binding(void)
{
    struct address ours = address_of("10.0.0.1", 1000), theirs = address_of("10.9.9.9", 1000), any = address_of("0.0.0.0", 0);
    int sockid = new_socket(a), other = new_socket(a);
    FAILS(mtcp_bind(a, sockid, NULL, 16), EFAULT);
    FAILS(mtcp_bind(a, sockid, socket_address(&ours), 8), EINVAL);
    FAILS(mtcp_bind(a, sockid, socket_address(&theirs), theirs.length), EADDRNOTAVAIL);
    struct sockaddr_in foreign = *(struct sockaddr_in *)&ours.storage;
    foreign.sin_family = AF_INET6;
    FAILS(mtcp_bind(a, sockid, (struct sockaddr *)&foreign, sizeof foreign), EAFNOSUPPORT);
    CHECK(mtcp_bind(a, sockid, socket_address(&ours), ours.length) == 0);
    FAILS(mtcp_bind(a, sockid, socket_address(&any), any.length), EINVAL);
    FAILS(mtcp_bind(a, other, socket_address(&ours), ours.length), EADDRINUSE);
    CHECK(mtcp_bind(a, other, socket_address(&any), any.length) == 0);
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(mtcp_getsockname(a, other, (struct sockaddr *)&name, &length) == 0);
    CHECK(length == sizeof name && name.sin_family == AF_INET && name.sin_port != 0 && name.sin_addr.s_addr == INADDR_ANY);
    FAILS(mtcp_getpeername(a, other, (struct sockaddr *)&name, &length), ENOTCONN);
    FAILS(mtcp_getsockname(a, other, NULL, &length), EFAULT);
    FAILS(mtcp_getsockname(a, other, (struct sockaddr *)&name, NULL), EFAULT);
    CHECK(mtcp_close(a, sockid) == 0 && mtcp_close(a, other) == 0);
    sockid = new_socket(a);
    CHECK(mtcp_bind(a, sockid, socket_address(&ours), ours.length) == 0 && mtcp_close(a, sockid) == 0);
}

static void data_without_a_connection(void)
{
    int sockid = new_socket(a), listener = listen_at("10.0.0.1", 1001);
    struct address nowhere = address_of("10.0.0.1", 1002);
    char byte = 0;
    FAILS(mtcp_read(a, sockid, &byte, 1), ENOTCONN);
    FAILS(mtcp_write(a, sockid, &byte, 1), EPIPE);
    FAILS(mtcp_shutdown(a, sockid, SHUT_WR), ENOTCONN);
    FAILS(mtcp_read(a, listener, &byte, 1), ENOTCONN);
    FAILS(mtcp_accept(a, sockid, NULL, NULL), EINVAL);
    FAILS(mtcp_connect(a, listener, socket_address(&nowhere), nowhere.length), EISCONN);
    FAILS(mtcp_connect(a, sockid, socket_address(&nowhere), 3), EINVAL);
    CHECK(mtcp_listen(a, listener, 5) == 0);
    CHECK(mtcp_close(a, listener) == 0 && mtcp_close(a, sockid) == 0);
}

static void a_refused_connection(void)
{
    struct address closed = address_of("10.0.0.1", 1003), far = address_of("192.0.2.1", 80);
    int sockid = new_socket(b), error = 0;
    socklen_t length = sizeof error;
    FAILS(mtcp_connect(b, sockid, socket_address(&far), far.length), ENETUNREACH);
    FAILS(mtcp_connect(b, sockid, socket_address(&closed), closed.length), EINPROGRESS);
    struct pollfd wait = {.fd = sockid, .events = POLLOUT};
    for (int tries = 0; mtcp_poll(b, &wait, 1, 0) == 0; tries++) {
        CHECK(tries < 10000);
        turn();
    }
    CHECK((wait.revents & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
    CHECK(mtcp_getsockopt(b, sockid, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNREFUSED);
    CHECK(mtcp_getsockopt(b, sockid, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    FAILS(mtcp_connect(b, sockid, socket_address(&closed), closed.length), ECONNABORTED);
    FAILS(mtcp_connect(b, sockid, socket_address(&closed), closed.length), EINPROGRESS);
    CHECK(mtcp_close(b, sockid) == 0);
}

/* Until so many bytes have come. */
static void await(mctx_t mctx, int sockid, int wanted)
{
    int unread = -1;
    for (int tries = 0; unread != wanted; tries++) {
        CHECK(tries < 10000);
        turn();
        CHECK(mtcp_socket_ioctl(mctx, sockid, FIONREAD, &unread) == 0);
    }
}

static void data_and_its_ends(void)
{
    int listener = listen_at("10.0.0.1", 1004), ends[2];
    join(listener, 1004, ends);
    char text[32] = {0};
    struct iovec parts[2] = {{text, 4}, {text + 4, 20}};
    CHECK(mtcp_send(b, ends[0], "one", 3, MSG_MORE | MSG_NOSIGNAL) == 3 && mtcp_write(b, ends[0], " two", 4) == 4);
    await(a, ends[1], 7);
    CHECK(mtcp_recv(a, ends[1], text, sizeof text, MSG_PEEK) == 7 && memcmp(text, "one two", 7) == 0);
    memset(text, 0, sizeof text);
    CHECK(mtcp_readv(a, ends[1], parts, 2) == 7 && memcmp(text, "one two", 7) == 0);
    FAILS(mtcp_recv(a, ends[1], text, 1, MSG_DONTWAIT), EAGAIN);
    FAILS(mtcp_recv(a, ends[1], text, 1, MSG_ERRQUEUE), EOPNOTSUPP);
    FAILS(mtcp_recv(a, ends[1], NULL, 1, 0), EFAULT);
    FAILS(mtcp_send(a, ends[1], NULL, 1, 0), EFAULT);
    FAILS(mtcp_readv(a, ends[1], parts, -1), EINVAL);
    FAILS(mtcp_writev(a, ends[1], parts, 1025), EINVAL);
    FAILS(mtcp_shutdown(b, ends[0], 7), EINVAL);
    CHECK(mtcp_shutdown(b, ends[0], SHUT_WR) == 0);
    FAILS(mtcp_write(b, ends[0], "x", 1), EPIPE);
    for (int tries = 0; mtcp_read(a, ends[1], text, 1) != 0; tries++) {
        CHECK(errno == EAGAIN && tries < 10000);
        turn();
    }
    CHECK(mtcp_write(a, ends[1], "back", 4) == 4);
    await(b, ends[0], 4);
    CHECK(mtcp_read(b, ends[0], text, sizeof text) == 4);
    CHECK(mtcp_abort(a, ends[1]) == 0);
    FAILS(mtcp_read(a, ends[1], text, 1), EBADF);
    ssize_t got;
    for (int tries = 0; (got = mtcp_read(b, ends[0], text, 1)) < 0 && errno == EAGAIN; tries++) {
        CHECK(tries < 10000);
        turn();
    }
    CHECK(got == -1 && errno == ECONNRESET);
    CHECK(mtcp_close(b, ends[0]) == 0 && mtcp_close(a, listener) == 0);
}

static void options(void)
{
    int listener = listen_at("10.0.0.1", 1005), ends[2], value;
    join(listener, 1005, ends);
    socklen_t length = sizeof value;
#define HAS(level, name, expected) \
    do { \
        length = sizeof value; \
        CHECK(mtcp_getsockopt(b, ends[0], level, name, &value, &length) == 0); \
        CHECK(value == (expected) && length == sizeof value); \
    } while (0)
#define SETS(level, name, wanted) \
    do { \
        value = wanted; \
        CHECK(mtcp_setsockopt(b, ends[0], level, name, &value, sizeof value) == 0); \
    } while (0)
    HAS(SOL_SOCKET, SO_TYPE, SOCK_STREAM);
    HAS(SOL_SOCKET, SO_DOMAIN, AF_INET);
    HAS(SOL_SOCKET, SO_ACCEPTCONN, 0);
    HAS(SOL_SOCKET, SO_KEEPALIVE, 1);
    HAS(IPPROTO_TCP, TCP_KEEPIDLE, 30);
    HAS(IPPROTO_TCP, TCP_NODELAY, 1);
    SETS(IPPROTO_TCP, TCP_NODELAY, 0);
    HAS(IPPROTO_TCP, TCP_NODELAY, 0);
    SETS(IPPROTO_TCP, TCP_KEEPCNT, 3);
    HAS(IPPROTO_TCP, TCP_KEEPCNT, 3);
    SETS(SOL_SOCKET, SO_SNDBUF, 20000);
    HAS(SOL_SOCKET, SO_SNDBUF, 40000);
    struct timeval wait = {.tv_usec = 20000};
    CHECK(mtcp_setsockopt(b, ends[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
    int off = 0;
    CHECK(mtcp_socket_ioctl(b, ends[0], FIONBIO, &off) == 0);
    FAILS(mtcp_read(b, ends[0], &value, 1), EAGAIN);
    struct tcp_info info;
    length = sizeof info;
    CHECK(mtcp_getsockopt(b, ends[0], IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_ESTABLISHED);
    char name[16];
    length = sizeof name;
    CHECK(mtcp_getsockopt(b, ends[0], IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, "cubic") == 0);
    CHECK(mtcp_setsockopt(b, ends[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    FAILS(mtcp_setsockopt(b, ends[0], IPPROTO_TCP, TCP_CONGESTION, "none", 4), ENOENT);
    FAILS(mtcp_setsockopt(b, ends[0], IPPROTO_TCP, TCP_NODELAY, &value, 1), EINVAL);
    FAILS(mtcp_setsockopt(b, ends[0], IPPROTO_TCP, 4711, &value, sizeof value), ENOPROTOOPT);
    FAILS(mtcp_getsockopt(b, ends[0], SOL_SOCKET, 4711, &value, &length), ENOPROTOOPT);
    FAILS(mtcp_getsockopt(b, ends[0], SOL_SOCKET, SO_TYPE, &value, NULL), EFAULT);
    FAILS(mtcp_socket_ioctl(b, ends[0], 0x1234, &value), ENOTTY);
    FAILS(mtcp_socket_ioctl(b, ends[0], FIONREAD, NULL), EFAULT);
    CHECK(mtcp_close(b, ends[0]) == 0 && mtcp_close(a, ends[1]) == 0 && mtcp_close(a, listener) == 0);
}

static void epoll_sets(void)
{
    int set = mtcp_epoll_create(a, 1), other = mtcp_epoll_create1(a, 0), listener = listen_at("10.0.0.1", 1006), ends[2];
    struct mtcp_epoll_event event = {.events = MTCP_EPOLLIN, .data.u64 = 0x123456789abc}, found[4];
    FAILS(mtcp_epoll_create(a, 0), EINVAL);
    FAILS(mtcp_epoll_create1(a, 7), EINVAL);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, 99, &event), EBADF);
    FAILS(mtcp_epoll_ctl(a, 99, MTCP_EPOLL_CTL_ADD, listener, &event), EBADF);
    FAILS(mtcp_epoll_ctl(a, listener, MTCP_EPOLL_CTL_ADD, set, &event), EINVAL);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, set, &event), EINVAL);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, other, &event), EPERM);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, listener, NULL), EFAULT);
    FAILS(mtcp_epoll_ctl(a, set, 9, listener, &event), EINVAL);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_MOD, listener, &event), ENOENT);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_DEL, listener, NULL), ENOENT);
    CHECK(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, listener, &event) == 0);
    FAILS(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, listener, &event), EEXIST);
    FAILS(mtcp_epoll_wait(a, set, found, 0, 0), EINVAL);
    FAILS(mtcp_epoll_wait(a, set, NULL, 4, 0), EFAULT);
    FAILS(mtcp_epoll_wait(a, listener, found, 4, 0), EINVAL);
    FAILS(mtcp_epoll_wait(a, 99, found, 4, 0), EBADF);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 0 && mtcp_epoll_wait(a, set, found, 4, 20) == 0);
    char byte;
    FAILS(mtcp_read(a, set, &byte, 1), ENOTSOCK);
    FAILS(mtcp_listen(a, set, 1), ENOTSOCK);
    join(listener, 1006, ends);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 0);
    event.events = MTCP_EPOLLIN | MTCP_EPOLLOUT | MTCP_EPOLLET;
    CHECK(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_ADD, ends[1], &event) == 0);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 1 && found[0].events == MTCP_EPOLLOUT);
    CHECK(found[0].data.u64 == event.data.u64 && mtcp_epoll_wait(a, set, found, 4, 0) == 0);
    CHECK(mtcp_write(b, ends[0], "x", 1) == 1);
    await(a, ends[1], 1);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 1 && found[0].events == (MTCP_EPOLLIN | MTCP_EPOLLOUT));
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 0);
    event.events = MTCP_EPOLLIN | MTCP_EPOLLONESHOT;
    CHECK(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_MOD, ends[1], &event) == 0);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 1 && found[0].events == MTCP_EPOLLIN);
    CHECK(mtcp_epoll_wait(a, set, found, 4, 0) == 0);
    CHECK(mtcp_epoll_ctl(a, set, MTCP_EPOLL_CTL_DEL, ends[1], NULL) == 0);
    CHECK(mtcp_close(a, ends[1]) == 0 && mtcp_close(b, ends[0]) == 0);
    CHECK(mtcp_close(a, set) == 0 && mtcp_close(a, other) == 0 && mtcp_close(a, listener) == 0);
    CHECK(strcmp(EventToString(MTCP_EPOLLIN | MTCP_EPOLLRDHUP), "MTCP_EPOLLIN|MTCP_EPOLLRDHUP") == 0);
    CHECK(strcmp(EventToString(0), "MTCP_EPOLLNONE") == 0);
}

static void pipes(void)
{
    int ends[2], set = mtcp_epoll_create1(a, 0);
    struct mtcp_epoll_event found;
    char text[8];
    FAILS(mtcp_pipe(a, NULL), EFAULT);
    CHECK(mtcp_pipe(a, ends) == 0);
    watch(a, set, MTCP_EPOLL_CTL_ADD, ends[0], MTCP_EPOLLIN);
    FAILS(mtcp_read(a, ends[0], text, 1), EDEADLK);
    CHECK(mtcp_setsock_nonblock(a, ends[0]) == 0);
    FAILS(mtcp_read(a, ends[0], text, 1), EAGAIN);
    FAILS(mtcp_read(a, ends[1], text, 1), EBADF);
    FAILS(mtcp_write(a, ends[0], text, 1), EBADF);
    CHECK(mtcp_epoll_wait(a, set, &found, 1, 0) == 0);
    CHECK(mtcp_write(a, ends[1], "wake", 4) == 4);
    CHECK(mtcp_epoll_wait(a, set, &found, 1, -1) == 1 && found.events == MTCP_EPOLLIN && found.data.sockid == ends[0]);
    CHECK(mtcp_read(a, ends[0], text, sizeof text) == 4 && memcmp(text, "wake", 4) == 0);
    CHECK(mtcp_close(a, ends[1]) == 0);
    CHECK(mtcp_epoll_wait(a, set, &found, 1, 0) == 1 && found.events == MTCP_EPOLLHUP);
    CHECK(mtcp_read(a, ends[0], text, 1) == 0 && mtcp_close(a, ends[0]) == 0 && mtcp_close(a, set) == 0);
}

static void source_addresses(void)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    struct address to = address_of("10.0.0.1", 1007), ours = address_of("10.0.0.2", 0), theirs = address_of("10.0.0.9", 0);
    struct sockaddr_in *at = (struct sockaddr_in *)&to.storage;
    in_addr_t our = ((struct sockaddr_in *)&ours.storage)->sin_addr.s_addr, their = ((struct sockaddr_in *)&theirs.storage)->sin_addr.s_addr;
    FAILS(mtcp_init_rss(b, their, 1, at->sin_addr.s_addr, at->sin_port), EADDRNOTAVAIL);
    FAILS(mtcp_init_rss(b, our, 2, at->sin_addr.s_addr, at->sin_port), EADDRNOTAVAIL);
    CHECK(mtcp_init_rss(b, our, 1, at->sin_addr.s_addr, at->sin_port) == 0);
    int sockid = new_socket(b);
    FAILS(mtcp_connect(b, sockid, socket_address(&to), to.length), EINPROGRESS);
    CHECK(mtcp_getsockname(b, sockid, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_addr.s_addr == our && ntohs(name.sin_port) >= 32768);
    CHECK(mtcp_abort(b, sockid) == 0);
    CHECK(mtcp_init_rss(b, INADDR_ANY, 1, at->sin_addr.s_addr, at->sin_port) == 0);
}

static void numbers_run_out(void)
{
    int sockets[4096], count = 0;
    while (count < 4096 && (sockets[count] = mtcp_socket(b, AF_INET, SOCK_STREAM, 0)) >= 0)
        count++;
    CHECK(count > 100 && count < 4096 && errno == EMFILE);
    for (int i = 0; i < count; i++)
        CHECK(mtcp_close(b, sockets[i]) == 0);
    CHECK(new_socket(b) == 0 && mtcp_close(b, 0) == 0);
}

static volatile sig_atomic_t rung;

static void ring(int number) { rung = number; }

static void a_signal_ends_a_wait(void)
{
    struct mtcp_epoll_event found;
    int set = mtcp_epoll_create1(a, 0);
    CHECK(mtcp_register_signal(SIGALRM, ring) == SIG_DFL);
    CHECK(mtcp_register_signal(-1, ring) == SIG_ERR && errno == EINVAL);
    CHECK(mtcp_register_signal(SIGKILL, ring) == SIG_ERR && errno == EINVAL);
    struct itimerval soon = {.it_value.tv_usec = 20000};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    FAILS(mtcp_epoll_wait(a, set, &found, 1, -1), EINTR);
    CHECK(rung == SIGALRM && mtcp_register_signal(SIGALRM, SIG_DFL) == ring);
    CHECK(mtcp_close(a, set) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    contexts_and_configuration(argv[1]);
    sockets_that_cannot_be();
    binding();
    data_without_a_connection();
    a_refused_connection();
    data_and_its_ends();
    options();
    epoll_sets();
    pipes();
    source_addresses();
    numbers_run_out();
    a_signal_ends_a_wait();
    CHECK(mtcp_destroy_context(a) == 0 && mtcp_destroy_context(b) == 0);
    FAILS(mtcp_close(a, 0), EACCES);
    CHECK(mtcp_destroy() == 0);
    return 0;
}
