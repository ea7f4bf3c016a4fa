/* Buffers that are partly or wholly unusable: a short count or EFAULT, never a crash, no byte lost. */
#include "parity.h"

#include <sys/mman.h>

/* Whatever the call took must go on being the stream. */
static void settle_receive(struct conn *c, const void *buffer, ssize_t n, ssize_t usable, size_t total) {
    if (n < 0) {
        CHECK_EQ(errno, EFAULT);
        n = 0;
    }
    CHECK(n <= usable);
    check_bytes(c, buffer, n);
    take(c, total - n);
}

TEST(receive_half, "recv, second half unmapped", 0) {
    char *buffer = before_unmapped(50);
    struct iovec iov = {buffer, 100};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    peer_send(c, 100);
    await_input(c, 100);
    settle_receive(c, buffer, recv(c->fd, buffer, 100, 0), 50, 100);
    peer_send(c, 100);
    await_input(c, 100);
    settle_receive(c, buffer, read(c->fd, buffer, 100), 50, 100);
    peer_send(c, 100);
    await_input(c, 100);
    settle_receive(c, buffer, readv(c->fd, &iov, 1), 50, 100);
    peer_send(c, 100);
    await_input(c, 100);
    settle_receive(c, buffer, recvmsg(c->fd, &message, 0), 50, 100);
}

TEST(receive_half_of_much, "recv of much, second half unmapped", 0) {
    enum { USABLE = 30000, WHOLE = 100000 };
    char *buffer = before_unmapped(USABLE);
    peer_post(c, OP_SEND, WHOLE, 0);
    await_input(c, USABLE + 5000);
    ssize_t n = recv(c->fd, buffer, WHOLE, 0);
    settle_receive(c, buffer, n, USABLE, WHOLE);
    peer_settle();
}

TEST(receive_peek_half, "MSG_PEEK, second half unmapped", 0) {
    char *buffer = before_unmapped(50);
    peer_send(c, 100);
    await_input(c, 100);
    ssize_t n = recv(c->fd, buffer, 100, MSG_PEEK);
    CHECK((n >= 0 && n <= 50) || errno == EFAULT);
    take(c, 100);
}

TEST(receive_nowhere, "recv to NULL", 0) {
    void *volatile nowhere = NULL;
    peer_send(c, 100);
    await_input(c, 100);
    CHECK_ERRNO(recv(c->fd, nowhere, 100, 0), EFAULT);
    CHECK_ERRNO(read(c->fd, nowhere, 100), EFAULT);
    CHECK_ERRNO(read(c->fd, (void *)-4096, 100), EFAULT);
    take(c, 100);
    /* Nothing there yet: nothing to fail on. */
    CHECK_ERRNO(recv(c->fd, nowhere, 100, MSG_DONTWAIT), EAGAIN);
}

TEST(receive_to_read_only, "recv to a read-only page", 0) {
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    peer_send(c, 100);
    await_input(c, 100);
    CHECK_ERRNO(recv(c->fd, page, 100, 0), EFAULT);
    CHECK_ERRNO(recv(c->fd, page, 100, MSG_PEEK), EFAULT);
    CHECK_EQ(mprotect(page, 4096, PROT_NONE), 0);
    CHECK_ERRNO(recv(c->fd, page, 100, 0), EFAULT);
    CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    CHECK_EQ(recv(c->fd, page, 100, 0), 100);
    check_bytes(c, page, 100);
}

TEST(receive_bad_middle, "readv, bad middle", 0) {
    char first[10], last[10];
    struct iovec iov[3] = {{first, 10}, {NULL, 10}, {last, 10}};
    peer_send(c, 30);
    await_input(c, 30);
    settle_receive(c, first, readv(c->fd, iov, 3), 10, 30);
    peer_send(c, 30);
    await_input(c, 30);
    iov[1].iov_base = (void *)16;
    settle_receive(c, first, readv(c->fd, iov, 3), 10, 30);
}

static void settle_send(struct conn *c, ssize_t n, ssize_t usable) {
    if (n < 0) {
        CHECK_EQ(errno, EFAULT);
        n = 0;
    }
    CHECK(n <= usable);
    sent(c, n);
    put(c, 100);
    peer_recv(c, n + 100);
}

TEST(send_half, "send, second half unmapped", 0) {
    char *buffer = before_unmapped(50);
    struct iovec iov = {buffer, 100};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    fill(c, buffer, 50);
    settle_send(c, send(c->fd, buffer, 100, 0), 50);
    fill(c, buffer, 50);
    settle_send(c, write(c->fd, buffer, 100), 50);
    fill(c, buffer, 50);
    settle_send(c, writev(c->fd, &iov, 1), 50);
    fill(c, buffer, 50);
    settle_send(c, sendmsg(c->fd, &message, 0), 50);
}

TEST(send_half_of_much, "send of much, second half unmapped", 0) {
    enum { USABLE = 60000, WHOLE = 200000 };
    char *buffer = before_unmapped(USABLE);
    fill(c, buffer, USABLE);
    settle_send(c, send(c->fd, buffer, WHOLE, 0), USABLE);
}

TEST(send_nothing_good, "send from NULL", 0) {
    void *volatile nowhere = NULL;
    CHECK_ERRNO(send(c->fd, nowhere, 100, 0), EFAULT);
    CHECK_ERRNO(write(c->fd, (void *)-4096, 100), EFAULT);
    settle_send(c, 0, 0);
}

TEST(send_bad_middle, "writev, bad middle", 0) {
    char first[10], last[10] = {0};
    struct iovec iov[3] = {{first, 10}, {NULL, 10}, {last, 10}};
    fill(c, first, 10);
    settle_send(c, writev(c->fd, iov, 3), 10);
}

/* Beyond the end of a mapped file a copy would raise SIGBUS. */
TEST(send_beyond_mapped_file, "send from a truncated file's mapping", 0) {
    int file = memfd_create("parity", 0);
    CHECK_EQ(ftruncate(file, 8192), 0);
    char *buffer = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(buffer != MAP_FAILED);
    fill(c, buffer, 4096);
    CHECK_EQ(ftruncate(file, 4096), 0);
    settle_send(c, send(c->fd, buffer, 8192, 0), 4096);
    peer_send(c, 5000);
    await_input(c, 5000);
    CHECK_EQ(ftruncate(file, 100), 0);
    ssize_t n = recv(c->fd, buffer + 4000, 5000, 0);
    settle_receive(c, buffer + 4000, n, 96, 5000);
}

TEST(bad_headers, "bad msghdr and iovec pointers", 0) {
    void *volatile nowhere = NULL;
    struct msghdr message = {.msg_iov = (struct iovec *)16, .msg_iovlen = 1};
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_ERRNO(recvmsg(c->fd, nowhere, 0), EFAULT);
    CHECK_ERRNO(recvmsg(c->fd, &message, 0), EFAULT);
    CHECK_ERRNO(sendmsg(c->fd, nowhere, 0), EFAULT);
    CHECK_ERRNO(sendmsg(c->fd, &message, 0), EFAULT);
    CHECK_ERRNO(readv(c->fd, nowhere, 2), EFAULT);
    CHECK_ERRNO(writev(c->fd, nowhere, 2), EFAULT);
    CHECK_ERRNO(recvmmsg(c->fd, nowhere, 1, MSG_DONTWAIT, NULL), EFAULT);
    CHECK_ERRNO(sendmmsg(c->fd, nowhere, 1, 0), EFAULT);
    take(c, 10);
    settle_send(c, 0, 0);
}

/* A length far beyond the buffer is fine as long as less arrives. */
TEST(huge_receive_length, "huge lengths", 0) {
    char *buffer = before_unmapped(4096);
    peer_send(c, 1000);
    await_input(c, 1000);
    CHECK_EQ(recv(c->fd, buffer, (size_t)1 << 30, 0), 1000);
    check_bytes(c, buffer, 1000);
    peer_send(c, 1000);
    await_input(c, 1000);
    CHECK_EQ(read(c->fd, buffer, (size_t)3 << 30), 1000);
    check_bytes(c, buffer, 1000);
    volatile size_t everything = (size_t)-1;
    CHECK_ERRNO(read(c->fd, buffer, everything), EFAULT);
    CHECK_ERRNO(write(c->fd, buffer, everything), EFAULT);
}

TEST(on_the_stack, "stack buffers", 0) {
    char buffer[1 << 20];
    peer_post(c, OP_RECV, sizeof buffer, 0);
    fill(c, buffer, sizeof buffer);
    for (size_t n = 0; n < sizeof buffer;) {
        ssize_t r = send(c->fd, buffer + n, sizeof buffer - n, 0);
        CHECK(r > 0);
        n += r;
    }
    sent(c, sizeof buffer);
    peer_settle();
    peer_post(c, OP_SEND, sizeof buffer, 0);
    CHECK_EQ(recv(c->fd, buffer, sizeof buffer, MSG_WAITALL), sizeof buffer);
    check_bytes(c, buffer, sizeof buffer);
    peer_settle();
}

TEST(every_alignment, "unaligned buffers", 0) {
    static char area[4096 + 64];
    for (int shift = 0; shift < 64; shift += 3) {
        peer_post(c, OP_ECHO, 1, 1009);
        fill(c, area + shift, 1009);
        CHECK_EQ(send(c->fd, area + shift, 1009, 0), 1009);
        sent(c, 1009);
        CHECK_EQ(recv(c->fd, area + 64 - shift, 1009, MSG_WAITALL), 1009);
        check_bytes(c, area + 64 - shift, 1009);
        peer_settle();
    }
}
