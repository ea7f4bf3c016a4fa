/* glibc's checking variants: this file is compiled with _FORTIFY_SOURCE, and no length is constant. */
#include "parity.h"

#include <sys/select.h>

#if !defined(_FORTIFY_SOURCE) || _FORTIFY_SOURCE < 2
#error "must be compiled with -D_FORTIFY_SOURCE=2"
#endif

static volatile size_t length = 100;

#define CHECKED_TEST(id, call)                                \
    TEST(id, "fortified " #id, 0) {                           \
        char buffer[200];                                     \
        peer_later(c, 10, OP_SEND, 100, 0);                   \
        for (size_t left = 100; left > 0;) {                  \
            length = left;                                    \
            ssize_t n = call;                                 \
            CHECK(n > 0);                                     \
            check_bytes(c, buffer, n);                        \
            left -= n;                                        \
        }                                                     \
        peer_settle();                                        \
    }

CHECKED_TEST(read_chk, read(c->fd, buffer, length))
CHECKED_TEST(recv_chk, recv(c->fd, buffer, length, 0))
CHECKED_TEST(recvfrom_chk, recvfrom(c->fd, buffer, length, 0, NULL, NULL))

TEST(poll_chk, "fortified poll and ppoll", 0) {
    struct pollfd entries[4] = {{c->fd, POLLIN, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    volatile nfds_t count = 3;
    struct timespec limit = {5, 0};
    peer_later(c, 10, OP_SEND, 10, 0);
    CHECK_EQ(poll(entries, count, 5000), 1);
    CHECK_EQ(ppoll(entries, count, &limit, NULL), 1);
    CHECK_EQ(entries[0].revents, POLLIN);
    take(c, 10);
    peer_settle();
}

TEST(fdelt_chk, "fortified FD_SET", 0) {
    fd_set input;
    volatile int fd = c->fd;
    struct timeval limit = {5, 0};
    FD_ZERO(&input);
    FD_SET(fd, &input);
    peer_later(c, 10, OP_SEND, 10, 0);
    CHECK_EQ(select(fd + 1, &input, NULL, NULL, &limit), 1);
    CHECK(FD_ISSET(fd, &input));
    take(c, 10);
    peer_settle();
}

TEST(pread_chk, "fortified pread", 0) {
    char buffer[200];
    CHECK_ERRNO(pread(c->fd, buffer, length, 0), ESPIPE);
}

#define OVERFLOW_TEST(id, call)                               \
    TEST(id, "fortified calls still find the overflow", 0) {  \
        int status;                                           \
        peer_send(c, 100);                                    \
        pid_t child = fork_child();                           \
        if (child == 0) {                                     \
            char buffer[50];                                  \
            volatile size_t too_long = 100;                   \
            dup2(open("/dev/null", O_WRONLY), 2);             \
            ssize_t n = call;                                 \
            FAIL("came back with %zd, %p", n, (void *)buffer); \
        }                                                     \
        CHECK_EQ(waitpid(child, &status, 0), child);          \
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT); \
        take(c, 100);                                         \
    }

OVERFLOW_TEST(read_overflow, read(c->fd, buffer, too_long))
OVERFLOW_TEST(recv_overflow, recv(c->fd, buffer, too_long, 0))
OVERFLOW_TEST(recvfrom_overflow, recvfrom(c->fd, buffer, too_long, 0, NULL, NULL))
