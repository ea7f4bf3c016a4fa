/* Numbers that name a connection: dup and its relatives, close in all forms, numbers used again. */
#include "parity.h"

#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void echo_by(struct conn *c, int fd) {
    int saved = c->fd;
    c->fd = fd;
    peer_post(c, OP_ECHO, 1, 300);
    put(c, 300);
    take(c, 300);
    peer_settle();
    c->fd = saved;
}

#define DUPLICATE_TEST(id, call, cloexec)                              \
    TEST(id, #id, 0) {                                                 \
        int copy = call;                                               \
        CHECK(copy >= 0 && copy != c->fd);                             \
        CHECK_EQ(fcntl(copy, F_GETFD), cloexec);                       \
        for (int i = 0; i < 3; i++) {                                  \
            echo_by(c, copy);                                          \
            echo_by(c, c->fd);                                         \
        }                                                              \
        /* One of the two is enough to keep the connection. */         \
        CHECK_EQ(close(c->fd), 0);                                     \
        c->fd = copy;                                                  \
        echo_by(c, copy);                                              \
        CHECK_EQ(close(copy), 0);                                      \
        CHECK_EQ(peer(c, OP_READ, 0, 0), 0);                           \
    }

DUPLICATE_TEST(dup, dup(c->fd), 0)
DUPLICATE_TEST(dup2, dup2(c->fd, 300), 0)
DUPLICATE_TEST(dup3, dup3(c->fd, 300, O_CLOEXEC), FD_CLOEXEC)
DUPLICATE_TEST(f_dupfd, fcntl(c->fd, F_DUPFD, 100), 0)
DUPLICATE_TEST(f_dupfd_cloexec, fcntl(c->fd, F_DUPFD_CLOEXEC, 100), FD_CLOEXEC)
DUPLICATE_TEST(syscall_dup, (int)syscall(SYS_dup, c->fd), 0)
DUPLICATE_TEST(syscall_dup3, (int)syscall(SYS_dup3, c->fd, 300, 0), 0)
DUPLICATE_TEST(syscall_fcntl, (int)syscall(SYS_fcntl, c->fd, F_DUPFD, 100), 0)

TEST(onto_itself, "dup2/dup3 onto the same number", 0) {
    CHECK_EQ(dup2(c->fd, c->fd), c->fd);
    CHECK_ERRNO(dup3(c->fd, c->fd, 0), EINVAL);
    CHECK_ERRNO(dup2(c->fd, -1), EBADF);
    CHECK_ERRNO(dup2(-1, c->fd), EBADF);
    echo_by(c, c->fd);
}

TEST(replaced_by_a_pipe, "dup2 over an upgraded fd", 0) {
    int ends[2];
    char buffer[4];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(dup2(ends[0], c->fd), c->fd);
    /* That closed the connection, and the number is a pipe now. */
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    CHECK_EQ(write(ends[1], "pipe", 4), 4);
    CHECK_EQ(read(c->fd, buffer, 4), 4);
    CHECK_EQ(memcmp(buffer, "pipe", 4), 0);
    CHECK_ERRNO(recv(c->fd, buffer, 4, 0), ENOTSOCK);
}

TEST(replaced_by_another_connection, "dup2 of one upgraded fd over another", BARE) {
    struct conn one = open_warm(), other = open_warm();
    CHECK_EQ(dup2(other.fd, one.fd), one.fd);
    CHECK_EQ(peer(&one, OP_READ, 0, 0), 0);
    echo_by(&other, one.fd);
    echo_by(&other, other.fd);
    close(other.fd);
    echo_by(&other, one.fd);
}

TEST(swapped, "dup2 that swaps two connections", BARE) {
    struct conn one = open_warm(), other = open_warm();
    int spare = dup(one.fd);
    CHECK_EQ(dup2(other.fd, one.fd), one.fd);
    CHECK_EQ(dup2(spare, other.fd), other.fd);
    CHECK_EQ(close(spare), 0);
    echo_by(&one, other.fd);
    echo_by(&other, one.fd);
}

TEST(as_standard_input, "dup2 onto the standard streams", 0) {
    CHECK_EQ(dup2(c->fd, 0), 0);
    echo_by(c, 0);
    close(c->fd);
    c->fd = 0;
    echo_by(c, 0);
}

TEST(closed_is_ebadf, "close", 0) {
    char byte = 0;
    CHECK_EQ(close(c->fd), 0);
    CHECK_ERRNO(close(c->fd), EBADF);
    CHECK_ERRNO(read(c->fd, &byte, 1), EBADF);
    CHECK_ERRNO(send(c->fd, &byte, 1, 0), EBADF);
    CHECK_ERRNO(dup(c->fd), EBADF);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

TEST(closed_by_syscall, "close by syscall(2)", 0) {
    char byte;
    CHECK_EQ(syscall(SYS_close, c->fd), 0);
    CHECK_ERRNO(read(c->fd, &byte, 1), EBADF);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

TEST(closed_by_range, "close_range", BARE) {
    struct conn one = open_warm(), other = open_warm();
    int low = dup2(one.fd, 400), high = dup2(other.fd, 420);
    close(one.fd);
    close(other.fd);
    CHECK_EQ(close_range(401, 499, 0), 0);
    CHECK_EQ(peer(&other, OP_READ, 0, 0), 0);
    echo_by(&one, low);
    char byte;
    CHECK_ERRNO(read(high, &byte, 1), EBADF);
    CHECK_EQ(syscall(SYS_close_range, 400, 400, 0), 0);
    CHECK_EQ(peer(&one, OP_READ, 0, 0), 0);
    CHECK_ERRNO(close_range(5, 4, 0), EINVAL);
}

TEST(range_marks_only, "close_range with CLOSE_RANGE_CLOEXEC", 0) {
    CHECK_EQ(close_range(c->fd, c->fd, CLOSE_RANGE_CLOEXEC), 0);
    CHECK_EQ(fcntl(c->fd, F_GETFD), FD_CLOEXEC);
    echo_by(c, c->fd);
}

TEST(closed_from, "closefrom", 0) {
    CHECK_EQ(dup2(c->fd, 500), 500);
    int number = c->fd;
    pid_t child = fork_child();
    if (child == 0) {
        char byte;
        closefrom(3);
        CHECK_ERRNO(read(number, &byte, 1), EBADF);
        CHECK_ERRNO(read(500, &byte, 1), EBADF);
        child_done();
    }
    reap(child);
    echo_by(c, 500);
    echo_by(c, number);
}

/* A daemon's "close everything", also what the library keeps for itself; then new connections. */
TEST(everything_closed_and_anew, "close of all descriptors", SOLO) {
    struct conn a, b;
    open_inside_warm(&a, &b);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    for (int i = 0; i < 3; i++) {
        open_inside(&a, &b);
        for (int k = 0; k < 200; k++) {
            put(&a, 100);
            take(&b, 100);
            put(&b, 100);
            take(&a, 100);
        }
        close(a.fd);
        check_eof(&b);
        close(b.fd);
    }
}

TEST(number_reused_by_a_pipe, "fd number reuse right after close", 0) {
    int ends[2], number = c->fd;
    char buffer[3];
    CHECK_EQ(close(number), 0);
    CHECK_EQ(pipe(ends), 0);
    CHECK(ends[0] == number || ends[1] == number);
    CHECK_EQ(write(ends[1], "abc", 3), 3);
    CHECK_EQ(read(ends[0], buffer, 3), 3);
    CHECK_EQ(memcmp(buffer, "abc", 3), 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

TEST(number_reused_by_a_file, "fd number reuse right after close", 0) {
    int number = c->fd;
    char byte = 1;
    CHECK_EQ(close(number), 0);
    CHECK_EQ(open("/dev/zero", O_RDWR), number);
    CHECK_EQ(read(number, &byte, 1), 1);
    CHECK_EQ(byte, 0);
    CHECK_EQ(write(number, &byte, 1), 1);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

/* In a process of its own: a peer thread would take numbers, too. */
TEST(number_reused_by_connections, "fd number reuse right after close", BARE | PROCESS) {
    int number = -1;
    for (int i = 0; i < 10; i++) {
        struct conn one = open_warm();
        CHECK(i == 0 || one.fd == number);
        number = one.fd;
        echo_by(&one, one.fd);
        put(&one, 50);
        close(one.fd);
        CHECK_EQ(peer(&one, OP_DRAIN, 0, 0), 50);
        peer_close(&one);
    }
}

/* Nothing that the library opens takes a low number. */
TEST(lowest_number, "fd numbers are the lowest free ones", BARE | PROCESS) {
    struct conn first = open_warm();
    int lowest = dup(0), second_lowest = dup(0);
    close(lowest);
    close(second_lowest);
    struct conn one = open_warm();
    CHECK_EQ(one.fd, lowest);
    int next = dup(0);
    CHECK_EQ(next, second_lowest);
    close(next);
    echo_by(&one, one.fd);
    echo_by(&first, first.fd);
}

TEST(high_number, "high fd numbers, RLIMIT_NOFILE raised after start", 0) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int high = fcntl(c->fd, F_DUPFD, (int)(limit.rlim_max > 60000 ? 60000 : limit.rlim_max - 10));
    CHECK(high >= 1000);
    close(c->fd);
    c->fd = high;
    echo_by(c, high);
    CHECK_EQ(poll_one(high, POLLIN | POLLOUT, 0), POLLOUT);
}
