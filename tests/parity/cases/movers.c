/* Bytes that the kernel moves by itself: sendfile, splice and relatives. */
#include "parity.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

/* A file of the next `n` bytes to send. */
static int file_to_send(const struct conn *c, size_t n) {
    char *data = malloc(n);
    int file = memfd_create("parity", MFD_CLOEXEC);
    CHECK(file >= 0);
    fill(c, data, n);
    for (size_t done = 0; done < n;) {
        ssize_t r = write(file, data + done, n - done);
        CHECK(r > 0);
        done += r;
    }
    free(data);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    return file;
}

static void echo(struct conn *c) {
    for (int i = 0; i < 5; i++) {
        peer_post(c, OP_ECHO, 1, 1000);
        put(c, 1000);
        take(c, 1000);
        peer_settle();
    }
}

TEST(file_from_its_position, "sendfile", 0) {
    int file = file_to_send(c, 10000);
    peer_post(c, OP_RECV, 10000, 0);
    CHECK_EQ(sendfile(c->fd, file, NULL, 4000), 4000);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 4000);
    /* Beyond the end of the file: what there is, then nothing. */
    CHECK_EQ(sendfile(c->fd, file, NULL, 1 << 20), 6000);
    CHECK_EQ(sendfile(c->fd, file, NULL, 1 << 20), 0);
    CHECK_EQ(sendfile(c->fd, file, NULL, 0), 0);
    sent(c, 10000);
    peer_settle();
    echo(c);
}

TEST(file_from_an_offset, "sendfile offset", 0) {
    int file = file_to_send(c, 10000);
    off_t offset = 0, beyond = 20000, negative = -1;
    peer_post(c, OP_RECV, 10000, 0);
    CHECK_EQ(sendfile(c->fd, file, &offset, 3000), 3000);
    CHECK_EQ(offset, 3000);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 0);
    CHECK_EQ(sendfile64(c->fd, file, &offset, 7000), 7000);
    CHECK_EQ(offset, 10000);
    CHECK_EQ(sendfile(c->fd, file, &beyond, 100), 0);
    CHECK_ERRNO(sendfile(c->fd, file, &negative, 100), EINVAL);
    sent(c, 10000);
    peer_settle();
    echo(c);
}

TEST(large_file, "sendfile of a large file", 0) {
    enum { BULK = 8 << 20 };
    int file = file_to_send(c, BULK);
    peer_post(c, OP_RECV, BULK, 0);
    for (off_t offset = 0; offset < BULK;) {
        ssize_t n = sendfile(c->fd, file, &offset, BULK - offset);
        CHECK(n > 0);
        sent(c, n);
    }
    peer_settle();
    echo(c);
}

TEST(file_by_syscall, "sendfile by syscall(2)", 0) {
    int file = file_to_send(c, 5000);
    peer_post(c, OP_RECV, 5000, 0);
    CHECK_EQ(syscall(SYS_sendfile, c->fd, file, NULL, 5000), 5000);
    sent(c, 5000);
    peer_settle();
}

TEST(file_to_a_full_socket, "sendfile to a blocked socket", 0) {
    enum { BULK = 16 << 20 };
    int file = file_to_send(c, BULK);
    uint64_t before = c->tx;
    off_t offset = 0;
    set_nonblocking(c->fd, true);
    ssize_t n = sendfile(c->fd, file, &offset, BULK);
    CHECK(n > 0 && n < BULK && offset == n);
    for (int quiet = 0; quiet < 20;) {
        n = sendfile(c->fd, file, &offset, BULK - offset);
        CHECK(n > 0 || errno == EAGAIN);
        quiet = n > 0 ? 0 : quiet + 1;
        sleep_ms(5);
    }
    CHECK_EQ(poll_one(c->fd, POLLOUT, 0), 0);
    sent(c, offset);
    peer_recv(c, c->tx - before);
    set_nonblocking(c->fd, false);
    peer_post(c, OP_RECV, BULK - offset, 0);
    while (offset < BULK) {
        n = sendfile(c->fd, file, &offset, BULK - offset);
        CHECK(n > 0);
        sent(c, n);
    }
    peer_settle();
}

TEST(file_errors, "sendfile errors", 0) {
    int file = file_to_send(c, 100), ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_ERRNO(sendfile(file, c->fd, NULL, 10), EINVAL);
    CHECK_ERRNO(sendfile(c->fd, -1, NULL, 10), EBADF);
    CHECK_ERRNO(sendfile(-1, file, NULL, 10), EBADF);
    CHECK_ERRNO(sendfile(c->fd, file, (off_t *)before_unmapped(0), 10), EFAULT);
    CHECK_ERRNO(copy_file_range(file, NULL, c->fd, NULL, 10, 0), EINVAL);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    catch_signal(SIGPIPE, SIG_IGN, 0);
    CHECK_ERRNO(sendfile(c->fd, file, NULL, 10), EPIPE);
}

TEST(header_file_trailer, "sendfile between writes, corked", 0) {
    int on = 1, off = 0;
    peer_post(c, OP_RECV, 100 + 5000 + 50, 0);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on), 0);
    put(c, 100);
    CHECK_EQ(sendfile(c->fd, file_to_send(c, 5000), NULL, 5000), 5000);
    sent(c, 5000);
    put(c, 50);
    CHECK_EQ(setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off), 0);
    peer_settle();
}

TEST(splice_out_of_socket, "splice from the socket", 0) {
    int ends[2];
    char buffer[2000];
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 5; i++) {
        peer_later(c, i, OP_SEND, 2000, 0);
        for (int left = 2000; left > 0;) {
            ssize_t n = splice(c->fd, NULL, ends[1], NULL, left, 0);
            CHECK(n > 0);
            CHECK_EQ(read(ends[0], buffer, sizeof buffer), n);
            check_bytes(c, buffer, n);
            left -= n;
        }
        peer_settle();
        echo(c);
    }
}

TEST(splice_into_socket, "splice to the socket", 0) {
    int ends[2];
    char buffer[2000];
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 5; i++) {
        peer_post(c, OP_RECV, 2000, 0);
        fill(c, buffer, 2000);
        CHECK_EQ(write(ends[1], buffer, 2000), 2000);
        for (int left = 2000; left > 0;) {
            ssize_t n = splice(ends[0], NULL, c->fd, NULL, left, SPLICE_F_MOVE | (i % 2 ? SPLICE_F_MORE : 0));
            CHECK(n > 0);
            left -= n;
        }
        sent(c, 2000);
        peer_settle();
        echo(c);
    }
}

TEST(splice_with_unread_data, "splice with data in the buffers", 0) {
    int ends[2];
    char buffer[4096];
    CHECK_EQ(pipe(ends), 0);
    peer_send(c, 40000);
    take(c, 1000);
    for (int left = 39000; left > 0;) {
        ssize_t n = splice(c->fd, NULL, ends[1], NULL, left < 4096 ? left : 4096, 0);
        CHECK(n > 0);
        CHECK_EQ(read(ends[0], buffer, sizeof buffer), n);
        check_bytes(c, buffer, n);
        left -= n;
    }
    echo(c);
}

TEST(splice_corner_cases, "splice errors and the end", 0) {
    int ends[2], others[2];
    loff_t offset = 0;
    char byte;
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(pipe(others), 0);
    CHECK_ERRNO(splice(c->fd, &offset, ends[1], NULL, 10, 0), EINVAL);
    set_nonblocking(c->fd, true);
    CHECK_ERRNO(splice(c->fd, NULL, ends[1], NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
    set_nonblocking(c->fd, false);
    CHECK_ERRNO(tee(c->fd, ends[1], 10, 0), EINVAL);
    peer_send(c, 10);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    await_input(c, 10);
    CHECK_EQ(splice(c->fd, NULL, ends[1], NULL, 100, 0), 10);
    CHECK_EQ(tee(ends[0], others[1], 10, 0), 10);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(read(others[0], &byte, 1), 1);
        check_bytes(c, &byte, 1);
    }
    CHECK_EQ(splice(c->fd, NULL, ends[1], NULL, 100, 0), 0);
}

TEST(vmsplice_to_socket, "vmsplice and splice", 0) {
    int ends[2];
    char *buffer = malloc(8000);
    struct iovec iov = {buffer, 8000};
    CHECK_EQ(pipe(ends), 0);
    fill(c, buffer, 8000);
    peer_post(c, OP_RECV, 8000, 0);
    CHECK_EQ(vmsplice(ends[1], &iov, 1, 0), 8000);
    for (int left = 8000; left > 0;) {
        ssize_t n = splice(ends[0], NULL, c->fd, NULL, left, 0);
        CHECK(n > 0);
        left -= n;
    }
    sent(c, 8000);
    peer_settle();
    echo(c);
}

/* HAProxy: from one connection through a pipe into another, whose far end is ours as well. */
TEST(spliced_proxy, "splice between two connections", BARE) {
    enum { BULK = 60000 };
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    struct conn front = open_warm(), back = open_warm(), far = peer_give(&back);
    /* What arrives there is the peer's pattern of the first connection, from where that stands: the two
     * need not have been upgraded after as many round trips. */
    far.direction = front.direction;
    far.rx = front.rx;
    peer_post(&front, OP_SEND, BULK, 0);
    for (int moved = 0; moved < BULK;) {
        ssize_t n = splice(front.fd, NULL, ends[1], NULL, 16384, SPLICE_F_MOVE);
        CHECK(n > 0);
        moved += n;
        for (ssize_t left = n; left > 0;) {
            ssize_t m = splice(ends[0], NULL, back.fd, NULL, left, SPLICE_F_MOVE);
            CHECK(m > 0);
            left -= m;
        }
    }
    peer_settle();
    take(&far, BULK);
}
