/* MSG_PEEK: look without taking. */
#include "parity.h"

TEST(repeated, "MSG_PEEK repeated", 0) {
    char buffer[500];
    peer_send(c, 500);
    await_input(c, 500);
    for (int n = 1; n <= 500; n += 83) {
        CHECK_EQ(recv(c->fd, buffer, n, MSG_PEEK), n);
        check_ahead(c, buffer, n);
    }
    take(c, 500);
}

TEST(across_the_wrap, "MSG_PEEK across ring wrap", 0) {
    char buffer[5000];
    for (int i = 0; i < 40; i++) {
        peer_send(c, 5000);
        await_input(c, 5000);
        CHECK_EQ(recv(c->fd, buffer, 5000, MSG_PEEK), 5000);
        check_ahead(c, buffer, 5000);
        CHECK_EQ(recv(c->fd, buffer, 5000, MSG_PEEK | MSG_DONTWAIT), 5000);
        check_ahead(c, buffer, 5000);
        take(c, 5000);
    }
}

TEST(more_than_there_is, "MSG_PEEK", 0) {
    char buffer[100];
    peer_send(c, 30);
    CHECK_EQ(recv(c->fd, buffer, 100, MSG_PEEK), 30);
    check_ahead(c, buffer, 30);
    CHECK_EQ(recv(c->fd, buffer, 10, 0), 10);
    check_bytes(c, buffer, 10);
    CHECK_EQ(recv(c->fd, buffer, 100, MSG_PEEK), 20);
    check_ahead(c, buffer, 20);
    take(c, 20);
}

TEST(waits_for_data, "MSG_PEEK blocks", 0) {
    char buffer[10];
    peer_later(c, 30, OP_SEND, 10, 0);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_PEEK), 10);
    check_ahead(c, buffer, 10);
    peer_settle();
    take(c, 10);
}

TEST(with_waitall, "MSG_PEEK with WAITALL", 0) {
    char buffer[300];
    peer_post(c, OP_PIECES, 300, 60);
    CHECK_EQ(recv(c->fd, buffer, 300, MSG_PEEK | MSG_WAITALL), 300);
    check_ahead(c, buffer, 300);
    peer_settle();
    take(c, 300);
}

TEST(with_waitall_and_end, "MSG_PEEK with WAITALL", 0) {
    char buffer[300];
    peer_send(c, 100);
    peer_later(c, 20, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(recv(c->fd, buffer, 300, MSG_PEEK | MSG_WAITALL), 100);
    check_ahead(c, buffer, 100);
    peer_settle();
    take(c, 100);
    check_eof(c);
}

TEST(empty_is_eagain, "MSG_PEEK with DONTWAIT", 0) {
    char buffer[10];
    CHECK_ERRNO(recv(c->fd, buffer, 10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    peer_send(c, 1);
    take(c, 1);
    CHECK_ERRNO(recv(c->fd, buffer, 10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}

TEST(at_the_end, "MSG_PEEK at the end of the stream", 0) {
    char buffer[10];
    peer_send(c, 5);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_PEEK), 5);
    take(c, 5);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_PEEK), 0);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_PEEK), 0);
    check_eof(c);
}

TEST(keeps_readiness, "MSG_PEEK and poll, FIONREAD", 0) {
    char buffer[10];
    int available = 0;
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(recv(c->fd, buffer, 10, MSG_PEEK), 10);
    CHECK(poll_one(c->fd, POLLIN, 0) & POLLIN);
    CHECK_EQ(ioctl(c->fd, FIONREAD, &available), 0);
    CHECK_EQ(available, 10);
    take(c, 10);
    CHECK_EQ(poll_one(c->fd, POLLIN, 0), 0);
}

TEST(by_recvmsg, "MSG_PEEK by recvmsg", 0) {
    char buffer[200];
    struct iovec iov[2] = {{buffer, 77}, {buffer + 77, 123}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    peer_send(c, 200);
    await_input(c, 200);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(recvmsg(c->fd, &message, MSG_PEEK), 200);
        check_ahead(c, buffer, 200);
    }
    take(c, 200);
}

/* Peeked messages of one call all begin at the same byte. */
TEST(by_recvmmsg, "MSG_PEEK by recvmmsg", 0) {
    char buffers[3][50];
    struct iovec iov[3];
    struct mmsghdr messages[3] = {0};
    for (int i = 0; i < 3; i++) {
        iov[i] = (struct iovec){buffers[i], 50};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    peer_send(c, 150);
    await_input(c, 150);
    CHECK_EQ(recvmmsg(c->fd, messages, 3, MSG_PEEK, NULL), 3);
    for (int i = 0; i < 3; i++) check_ahead(c, buffers[i], 50);
    take(c, 150);
}

TEST(then_trunc, "MSG_PEEK with MSG_TRUNC", 0) {
    peer_send(c, 100);
    await_input(c, 100);
    CHECK_EQ(recv(c->fd, NULL, 60, MSG_PEEK | MSG_TRUNC), 60);
    CHECK_EQ(recv(c->fd, NULL, 60, MSG_TRUNC), 60);
    c->rx += 60;
    take(c, 40);
}

TEST(peek_offset, "SO_PEEK_OFF", 0) {
    char buffer[50];
    int offset = 0;
    if (setsockopt(c->fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) < 0) skip("SO_PEEK_OFF on TCP needs Linux 6.9");
    peer_send(c, 100);
    await_input(c, 100);
    CHECK_EQ(recv(c->fd, buffer, 50, MSG_PEEK), 50);
    check_ahead(c, buffer, 50);
    CHECK_EQ(recv(c->fd, buffer, 50, MSG_PEEK), 50);
    check_ahead_at(__FILE__, __LINE__, c, buffer, 50, 50);
    take(c, 100);
}

TEST(by_another_process, "MSG_PEEK and a shared socket", 0) {
    peer_send(c, 64);
    await_input(c, 64);
    pid_t child = fork_child();
    if (child == 0) {
        char buffer[64];
        CHECK_EQ(recv(c->fd, buffer, 64, MSG_PEEK), 64);
        check_ahead(c, buffer, 64);
        child_done();
    }
    reap(child);
    take(c, 64);
}
