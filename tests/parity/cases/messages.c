/* recvmsg, sendmsg and their multiple forms. */
#include "parity.h"

enum { SLOTS = 6, SLOT_BYTES = 100 };

struct batch {
    char buffers[SLOTS][SLOT_BYTES];
    struct iovec iov[SLOTS];
    struct mmsghdr messages[SLOTS];
};

static struct batch *batch(void) {
    struct batch *b = calloc(1, sizeof *b);
    for (int i = 0; i < SLOTS; i++) {
        b->iov[i] = (struct iovec){b->buffers[i], SLOT_BYTES};
        b->messages[i].msg_hdr = (struct msghdr){.msg_iov = &b->iov[i], .msg_iovlen = 1};
    }
    return b;
}

static void check_slots(struct conn *c, struct batch *b, int count, size_t total) {
    for (int i = 0; i < count; i++) {
        size_t expected = total < SLOT_BYTES ? total : SLOT_BYTES;
        CHECK_EQ(b->messages[i].msg_len, expected);
        check_bytes(c, b->buffers[i], expected);
        total -= expected;
    }
    CHECK_EQ(total, 0);
}

TEST(recvmmsg_several, "recvmmsg", 0) {
    struct batch *b = batch();
    peer_send(c, 250);
    await_input(c, 250);
    CHECK_EQ(recvmmsg(c->fd, b->messages, 3, 0, NULL), 3);
    check_slots(c, b, 3, 250);
}

TEST(recvmmsg_wait_for_one, "recvmmsg MSG_WAITFORONE", 0) {
    struct batch *b = batch();
    peer_send(c, 250);
    await_input(c, 250);
    CHECK_EQ(recvmmsg(c->fd, b->messages, SLOTS, MSG_WAITFORONE, NULL), 3);
    check_slots(c, b, 3, 250);
}

TEST(recvmmsg_blocks_for_the_first, "recvmmsg MSG_WAITFORONE", 0) {
    struct batch *b = batch();
    peer_later(c, 30, OP_SEND, 40, 0);
    CHECK_EQ(recvmmsg(c->fd, b->messages, SLOTS, MSG_WAITFORONE, NULL), 1);
    check_slots(c, b, 1, 40);
    peer_settle();
}

TEST(recvmmsg_timeout, "recvmmsg timeout", 0) {
    struct batch *b = batch();
    struct timespec none = {0, 0}, invalid = {0, -1};
    peer_send(c, 250);
    await_input(c, 250);
    CHECK_ERRNO(recvmmsg(c->fd, b->messages, 3, 0, &invalid), EINVAL);
    /* The time is looked at after each message only. */
    CHECK_EQ(recvmmsg(c->fd, b->messages, 3, 0, &none), 1);
    check_slots(c, b, 1, 100);
    take(c, 150);
}

TEST(recvmmsg_empty, "recvmmsg on a non-blocking socket", 0) {
    struct batch *b = batch();
    CHECK_ERRNO(recvmmsg(c->fd, b->messages, 3, MSG_DONTWAIT, NULL), EAGAIN);
    CHECK_EQ(recvmmsg(c->fd, b->messages, 0, MSG_DONTWAIT, NULL), 0);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    await_events(c, POLLIN);
    CHECK_EQ(recvmmsg(c->fd, b->messages, 1, 0, NULL), 1);
    CHECK_EQ(b->messages[0].msg_len, 0);
}

TEST(recvmmsg_across_the_end, "recvmmsg up to the FIN", 0) {
    struct batch *b = batch();
    peer_send(c, 150);
    peer(c, OP_SHUTDOWN, SHUT_WR, 0);
    await_input(c, 150);
    CHECK(poll_one(c->fd, POLLRDHUP, 5000) & POLLRDHUP);
    CHECK_EQ(recvmmsg(c->fd, b->messages, 3, 0, NULL), 3);
    check_slots(c, b, 3, 150);
}

TEST(sendmmsg_several, "sendmmsg", 0) {
    struct batch *b = batch();
    peer_post(c, OP_RECV, SLOTS * SLOT_BYTES, 0);
    for (int i = 0; i < SLOTS; i++) {
        fill(c, b->buffers[i], SLOT_BYTES);
        sent(c, SLOT_BYTES);
    }
    CHECK_EQ(sendmmsg(c->fd, b->messages, SLOTS, 0), SLOTS);
    for (int i = 0; i < SLOTS; i++) CHECK_EQ(b->messages[i].msg_len, SLOT_BYTES);
    CHECK_EQ(sendmmsg(c->fd, b->messages, 0, 0), 0);
    peer_settle();
}

TEST(sendmmsg_until_full, "sendmmsg on a full socket", 0) {
    enum { BIG = 1 << 20 };
    char *data = malloc(3 * BIG);
    struct iovec iov[3];
    struct mmsghdr messages[3] = {0};
    uint64_t before = c->tx;
    fill(c, data, 3 * BIG);
    for (int i = 0; i < 3; i++) {
        iov[i] = (struct iovec){data + i * BIG, BIG};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    /* Each message may be cut short; the stream then goes on with the next one's bytes. */
    int n = sendmmsg(c->fd, messages, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    CHECK_EQ(n, 1);
    CHECK(messages[0].msg_len > 0 && messages[0].msg_len <= BIG);
    sent(c, messages[0].msg_len);
    flood(c);
    CHECK_ERRNO(sendmmsg(c->fd, messages, 3, MSG_DONTWAIT | MSG_NOSIGNAL), EAGAIN);
    peer_recv(c, c->tx - before);
}

TEST(sendmmsg_after_shutdown, "sendmmsg errors", 0) {
    struct batch *b = batch();
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    CHECK_ERRNO(sendmmsg(c->fd, b->messages, 2, MSG_NOSIGNAL), EPIPE);
}

TEST(scattered_and_gathered, "sendmsg/recvmsg with many vectors", 0) {
    char in[1000], out[1000];
    struct iovec iov[10];
    peer_post(c, OP_ECHO, 1, 1000);
    fill(c, out, 1000);
    for (int i = 0; i < 10; i++) iov[i] = (struct iovec){out + i * 100, 100};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 10};
    CHECK_EQ(sendmsg(c->fd, &message, 0), 1000);
    sent(c, 1000);
    peer_settle();
    await_input(c, 1000);
    for (int i = 0; i < 10; i++) iov[i] = (struct iovec){in + i * 100, 100};
    CHECK_EQ(recvmsg(c->fd, &message, 0), 1000);
    CHECK_EQ(message.msg_flags, 0);
    check_bytes(c, in, 1000);
}

TEST(control_data_to_send, "sendmsg with control data", 0) {
    char byte, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    /* TCP passes no descriptors, and does not complain either. */
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &c->fd, sizeof c->fd);
    fill(c, &byte, 1);
    CHECK_EQ(sendmsg(c->fd, &message, 0), 1);
    sent(c, 1);
    header->cmsg_len = 3;
    CHECK_ERRNO(sendmsg(c->fd, &message, 0), EINVAL);
    peer_recv(c, 1);
}

TEST(flags_come_back, "recvmsg msg_flags", 0) {
    char buffer[20];
    struct iovec iov = {buffer, 20};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_flags = 0x5555};
    peer_send(c, 50);
    await_input(c, 50);
    /* More is there than was asked for: no MSG_TRUNC on a stream. */
    CHECK_EQ(recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC), 20);
    CHECK_EQ(message.msg_flags & ~MSG_CMSG_CLOEXEC, 0);
    check_bytes(c, buffer, 20);
    take(c, 30);
}
