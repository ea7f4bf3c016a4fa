/* Sending and receiving, by every call that does it. */
#include "parity.h"

#include <limits.h>
#include <sys/syscall.h>

enum { MESSAGE = 700 };

/* One send call after another until the whole message is out; the peer verifies it. */
#define SEND_TEST(id, call)                                                     \
    TEST(send_by_##id, "read/write/recv/send/...v/...msg/...mmsg", 0) {         \
        char buffer[MESSAGE];                                                   \
        struct iovec iov[3] __attribute__((unused));                            \
        peer_post(c, OP_RECV, MESSAGE, 0);                                      \
        for (size_t left = MESSAGE; left > 0;) {                                \
            fill(c, buffer, left);                                              \
            iov[0] = (struct iovec){buffer, left / 3};                          \
            iov[1] = (struct iovec){buffer + left / 3, 0};                      \
            iov[2] = (struct iovec){buffer + left / 3, left - left / 3};        \
            struct msghdr message __attribute__((unused)) = {.msg_iov = iov, .msg_iovlen = 3}; \
            ssize_t n = call;                                                   \
            CHECK(n > 0 && n <= (ssize_t)left);                                 \
            sent(c, n);                                                         \
            left -= n;                                                          \
        }                                                                       \
        peer_settle();                                                          \
    }

SEND_TEST(write, write(c->fd, buffer, left))
SEND_TEST(writev, writev(c->fd, iov, 3))
SEND_TEST(pwritev2, pwritev2(c->fd, iov, 3, -1, 0))
SEND_TEST(send, send(c->fd, buffer, left, 0))
SEND_TEST(sendto, sendto(c->fd, buffer, left, 0, NULL, 0))
SEND_TEST(sendmsg, sendmsg(c->fd, &message, 0))
SEND_TEST(syscall_write, syscall(SYS_write, c->fd, buffer, left))
SEND_TEST(syscall_writev, syscall(SYS_writev, c->fd, iov, 3))
SEND_TEST(syscall_sendto, syscall(SYS_sendto, c->fd, buffer, left, 0, NULL, 0))
SEND_TEST(syscall_sendmsg, syscall(SYS_sendmsg, c->fd, &message, 0))

/* TCP ignores the address of a connected socket's sendto. */
TEST(sendto_with_address, "sendto on a connected socket", 0) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char buffer[50];
    CHECK_EQ(getpeername(c->fd, (struct sockaddr *)&address, &length), 0);
    fill(c, buffer, 50);
    ssize_t n = sendto(c->fd, buffer, 50, 0, (struct sockaddr *)&address, length);
    CHECK_EQ(n, 50);
    sent(c, n);
    peer_recv(c, 50);
}

#define RECEIVE_TEST(id, call)                                                  \
    TEST(receive_by_##id, "read/write/recv/send/...v/...msg/...mmsg", 0) {      \
        char buffer[MESSAGE], control[64] __attribute__((unused));              \
        struct iovec iov[3] __attribute__((unused));                            \
        struct sockaddr_storage from __attribute__((unused));                   \
        socklen_t from_bytes __attribute__((unused)) = sizeof from;             \
        peer_send(c, MESSAGE);                                                  \
        for (size_t left = MESSAGE; left > 0;) {                                \
            iov[0] = (struct iovec){buffer, left / 3};                          \
            iov[1] = (struct iovec){buffer + left / 3, 0};                      \
            iov[2] = (struct iovec){buffer + left / 3, left - left / 3};        \
            struct msghdr message __attribute__((unused)) = {                   \
                .msg_iov = iov, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from, \
                .msg_control = control, .msg_controllen = sizeof control, .msg_flags = -1}; \
            ssize_t n = call;                                                   \
            CHECK(n > 0 && n <= (ssize_t)left);                                 \
            check_bytes(c, buffer, n);                                          \
            left -= n;                                                          \
        }                                                                       \
    }

/* TCP fills in neither sender nor control data nor flags. */
static ssize_t receive_plain_message(int fd, struct msghdr *message) {
    ssize_t n = recvmsg(fd, message, 0);
    CHECK_EQ(message->msg_namelen, 0);
    CHECK_EQ(message->msg_controllen, 0);
    CHECK_EQ(message->msg_flags, 0);
    return n;
}

static ssize_t receive_from(int fd, void *buffer, size_t n, struct sockaddr_storage *from, socklen_t *length) {
    memset(from, 0x77, sizeof *from);
    *length = sizeof *from;
    ssize_t got = recvfrom(fd, buffer, n, 0, (struct sockaddr *)from, length);
    CHECK_EQ(*length, 0);
    CHECK_EQ(from->ss_family, 0x7777);
    return got;
}

RECEIVE_TEST(read, read(c->fd, buffer, left))
RECEIVE_TEST(readv, readv(c->fd, iov, 3))
RECEIVE_TEST(preadv2, preadv2(c->fd, iov, 3, -1, 0))
RECEIVE_TEST(recv, recv(c->fd, buffer, left, 0))
RECEIVE_TEST(recvfrom, receive_from(c->fd, buffer, left, &from, &from_bytes))
RECEIVE_TEST(recvmsg, receive_plain_message(c->fd, &message))
RECEIVE_TEST(syscall_read, syscall(SYS_read, c->fd, buffer, left))
RECEIVE_TEST(syscall_readv, syscall(SYS_readv, c->fd, iov, 3))
RECEIVE_TEST(syscall_recvfrom, syscall(SYS_recvfrom, c->fd, buffer, left, 0, NULL, NULL))
RECEIVE_TEST(syscall_recvmsg, syscall(SYS_recvmsg, c->fd, &message, 0))

TEST(positions_are_espipe, "read/write: a socket has no position", 0) {
    char buffer[10];
    struct iovec iov = {buffer, sizeof buffer};
    peer_send(c, 10);
    CHECK_ERRNO(pread(c->fd, buffer, 10, 0), ESPIPE);
    CHECK_ERRNO(pwrite(c->fd, buffer, 10, 0), ESPIPE);
    CHECK_ERRNO(preadv(c->fd, &iov, 1, 0), ESPIPE);
    CHECK_ERRNO(pwritev(c->fd, &iov, 1, 0), ESPIPE);
    CHECK_ERRNO(preadv2(c->fd, &iov, 1, 4, 0), ESPIPE);
    CHECK_ERRNO(lseek(c->fd, 0, SEEK_CUR), ESPIPE);
    take(c, 10);
}

TEST(zero_length, "zero-length operations", 0) {
    char byte;
    struct iovec none = {&byte, 0};
    struct msghdr message = {.msg_iov = &none, .msg_iovlen = 1};
    CHECK_EQ(write(c->fd, &byte, 0), 0);
    CHECK_EQ(send(c->fd, NULL, 0, 0), 0);
    CHECK_EQ(writev(c->fd, &none, 1), 0);
    CHECK_EQ(writev(c->fd, NULL, 0), 0);
    CHECK_EQ(sendmsg(c->fd, &message, 0), 0);
    /* With nothing asked for, nothing is waited for. */
    CHECK_EQ(read(c->fd, &byte, 0), 0);
    CHECK_EQ(readv(c->fd, &none, 1), 0);
    CHECK_EQ(recv(c->fd, &byte, 0, MSG_DONTWAIT), -1);
    CHECK_EQ(errno, EAGAIN);
    peer_send(c, 5);
    await_input(c, 5);
    CHECK_EQ(recv(c->fd, &byte, 0, 0), 0);
    CHECK_EQ(recvmsg(c->fd, &message, 0), 0);
    take(c, 5);
    put(c, 5);
    peer_recv(c, 5);
}

TEST(zero_length_at_the_end, "zero-length operations", 0) {
    char byte;
    catch_signal(SIGPIPE, SIG_IGN, 0);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    await_events(c, POLLIN);
    CHECK_EQ(read(c->fd, &byte, 0), 0);
    check_eof(c);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_EQ(write(c->fd, &byte, 0), -1);
    CHECK_EQ(errno, EPIPE);
}

TEST(vector_of_iov_max, "huge iovecs", 0) {
    static char buffer[IOV_MAX * 8];
    static struct iovec iov[IOV_MAX + 1];
    fill(c, buffer, sizeof buffer);
    for (int i = 0; i <= IOV_MAX; i++) iov[i] = (struct iovec){buffer + i % IOV_MAX * 8, 8};
    peer_post(c, OP_ECHO, 1, sizeof buffer);
    CHECK_EQ(writev(c->fd, iov, IOV_MAX), sizeof buffer);
    sent(c, sizeof buffer);
    peer_settle();
    await_input(c, sizeof buffer);
    memset(buffer, 0, sizeof buffer);
    CHECK_EQ(readv(c->fd, iov, IOV_MAX), sizeof buffer);
    check_bytes(c, buffer, sizeof buffer);
}

TEST(vector_beyond_iov_max, "huge iovecs", 0) {
    static char byte;
    static struct iovec iov[IOV_MAX + 1];
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = IOV_MAX + 1};
    for (int i = 0; i <= IOV_MAX; i++) iov[i] = (struct iovec){&byte, 1};
    CHECK_ERRNO(writev(c->fd, iov, IOV_MAX + 1), EINVAL);
    CHECK_ERRNO(readv(c->fd, iov, IOV_MAX + 1), EINVAL);
    volatile int negative = -1;
    CHECK_ERRNO(writev(c->fd, iov, negative), EINVAL);
    CHECK_ERRNO(sendmsg(c->fd, &message, 0), EMSGSIZE);
    CHECK_ERRNO(recvmsg(c->fd, &message, MSG_DONTWAIT), EMSGSIZE);
    /* A single negative length spoils the whole vector. */
    iov[1].iov_len = (size_t)-1;
    CHECK_ERRNO(writev(c->fd, iov, 2), EINVAL);
    CHECK_ERRNO(readv(c->fd, iov, 2), EINVAL);
    put(c, 1);
    peer_recv(c, 1);
}

TEST(sizes_around_everything, "every size from 1 byte to 300 KiB", 0) {
    static const size_t sizes[] = {1, 7, 8, 63, 64, 65, 1447, 1448, 1449, 4095, 4096, 4097, 16383, 16384, 16385,
                                   65535, 65536, 65537, 262143, 262145, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        peer_post(c, OP_RECV, sizes[i], 0);
        put(c, sizes[i]);
        peer_post(c, OP_SEND, sizes[i], 0);
        take(c, sizes[i]);
        peer_settle();
    }
}

TEST(short_reads_of_a_long_message, "stream semantics", 0) {
    peer_post(c, OP_SEND, 20000, 0);
    for (int i = 0, n = 0; n < 20000; i++) {
        char buffer[64];
        ssize_t got = read(c->fd, buffer, 1 + i % 64);
        CHECK(got > 0);
        check_bytes(c, buffer, got);
        n += got;
    }
    peer_settle();
}

TEST(long_read_of_short_messages, "stream semantics", 0) {
    char buffer[3000];
    for (int i = 0; i < 10; i++) peer_send(c, 300);
    await_input(c, 3000);
    CHECK_EQ(read(c->fd, buffer, sizeof buffer), 3000);
    check_bytes(c, buffer, 3000);
}

TEST(ping_pong, "stream semantics", 0) {
    peer_post(c, OP_ECHO, 2000, 64);
    for (int i = 0; i < 2000; i++) {
        put(c, 64);
        take(c, 64);
    }
    peer_settle();
}
