/* SCM_RIGHTS: connections that move between processes. */
#include "epolls.h"

#include <sys/syscall.h>

static void echo(struct conn *c, int rounds) {
    for (int i = 0; i < rounds; i++) {
        put(c, 600);
        take(c, 600);
    }
}

/* A helper process, forked before the connection exists, that serves one it is given. */
static pid_t helper(int *channel, void (*body)(int)) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t child = fork_child();
    if (child == 0) {
        close(ends[0]);
        body(ends[1]);
        child_done();
    }
    close(ends[1]);
    *channel = ends[0];
    return child;
}

static void hand_over(int channel, const struct conn *c) {
    CHECK_EQ(write(channel, c, sizeof *c), sizeof *c);
    send_fd(channel, c->fd);
}

static struct conn take_over(int channel) {
    struct conn c;
    CHECK_EQ(read(channel, &c, sizeof c), sizeof c);
    c.fd = receive_fd(channel);
    return c;
}

static void echo_twenty(int channel) {
    struct conn c = take_over(channel);
    echo(&c, 20);
    CHECK_EQ(write(channel, &c, sizeof c), sizeof c);
}

TEST(moved, "SCM_RIGHTS: pass an upgraded socket, the receiver continues", BARE) {
    int channel;
    pid_t child = helper(&channel, echo_twenty);
    struct conn one = open_warm();
    peer_post(&one, OP_ECHO, 20, 600);
    hand_over(channel, &one);
    close(one.fd);
    peer_settle();
    reap(child);
    CHECK_EQ(peer(&one, OP_READ, 0, 0), 0);
}

TEST(shared, "SCM_RIGHTS: both keep it", BARE) {
    int channel;
    pid_t child = helper(&channel, echo_twenty);
    struct conn one = open_warm(), after;
    peer_post(&one, OP_ECHO, 25, 600);
    hand_over(channel, &one);
    CHECK_EQ(read(channel, &after, sizeof after), sizeof after);
    one.tx = after.tx;
    one.rx = after.rx;
    echo(&one, 5);
    reap(child);
    peer_post(&one, OP_ECHO, 5, 600);
    echo(&one, 5);
    peer_settle();
}

static void read_the_rest(int channel) {
    struct conn c = take_over(channel);
    take(&c, 30000);
    echo(&c, 3);
}

TEST(moved_with_unread_data, "SCM_RIGHTS with data in the buffers", BARE) {
    int channel;
    pid_t child = helper(&channel, read_the_rest);
    struct conn one = open_warm();
    peer_send(&one, 31000);
    take(&one, 1000);
    hand_over(channel, &one);
    close(one.fd);
    peer_post(&one, OP_ECHO, 3, 600);
    peer_settle();
    reap(child);
}

/* For a moment nobody holds it: it lives in the message only. */
TEST(only_in_flight, "SCM_RIGHTS: in flight while no process has it", 0) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    peer_send(c, 2000);
    await_input(c, 2000);
    put(c, 3000);
    send_fd(ends[0], c->fd);
    CHECK_EQ(close(c->fd), 0);
    sleep_ms(20);
    peer_post(c, OP_RECV, 3000, 0);
    peer_post(c, OP_SEND, 100, 0);
    c->fd = receive_fd(ends[1]);
    take(c, 2100);
    peer_settle();
    peer_post(c, OP_ECHO, 10, 600);
    echo(c, 10);
    peer_settle();
}

TEST(received, "SCM_RIGHTS: receive one", BARE) {
    struct conn one = open_warm();
    struct conn other = peer_give(&one);
    for (int i = 0; i < 20; i++) {
        put(&one, 500);
        take(&other, 500);
        put(&other, 500);
        take(&one, 500);
    }
    CHECK_EQ(shutdown(other.fd, SHUT_WR), 0);
    check_eof(&one);
    close(one.fd);
    check_eof(&other);
}

static void send_two(int channel, const int *fds) {
    char byte = 0, control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message.msg_hdr);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int))};
    memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
    CHECK_EQ(sendmmsg(channel, &message, 1, 0), 1);
}

/* Two at once, by the multiple calls; received as close-on-exec. */
TEST(several_by_mmsg, "SCM_RIGHTS by sendmmsg/recvmmsg", BARE) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct conn conns[2] = {open_warm(), open_warm()};
    int fds[2] = {conns[0].fd, conns[1].fd};
    send_two(ends[0], fds);
    close(fds[0]);
    close(fds[1]);
    char byte, control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}};
    CHECK_EQ(recvmmsg(ends[1], &message, 1, MSG_CMSG_CLOEXEC, NULL), 1);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message.msg_hdr)), sizeof fds);
    for (int i = 0; i < 2; i++) {
        conns[i].fd = fds[i];
        CHECK_EQ(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        peer_post(&conns[i], OP_ECHO, 5, 600);
        echo(&conns[i], 5);
        peer_settle();
    }
}

TEST(to_oneself, "SCM_RIGHTS to the same process", 0) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    send_fd(ends[0], c->fd);
    int copy = receive_fd(ends[1]);
    for (int i = 0; i < 5; i++) {
        int number = c->fd;
        c->fd = copy;
        copy = number;
        peer_post(c, OP_ECHO, 1, 600);
        echo(c, 1);
        peer_settle();
    }
}

/* The receiver waits on it at once, by epoll and by poll. */
static void wait_on_it(int channel) {
    struct conn c = take_over(channel);
    int set = epoll_with(c.fd, EPOLLIN, 3);
    CHECK_EQ(write(channel, "r", 1), 1);
    CHECK_EQ(wait_one(set, 5000, 3), EPOLLIN);
    CHECK_EQ(poll_one(c.fd, POLLIN, 0), POLLIN);
    take(&c, 10);
}

TEST(waited_on, "SCM_RIGHTS and readiness", BARE) {
    int channel;
    char byte;
    pid_t child = helper(&channel, wait_on_it);
    struct conn one = open_warm();
    hand_over(channel, &one);
    close(one.fd);
    CHECK_EQ(read(channel, &byte, 1), 1);
    peer_later(&one, 20, OP_SEND, 10, 0);
    reap(child);
    peer_settle();
}

TEST(moved_to_an_unhooked_program, "SCM_RIGHTS to a program without the library", BARE) {
    /* The receiver starts as a program of its own, before the connection exists. */
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct conn channel = {.fd = ends[1]};
    pid_t child = spawn("serves_what_it_gets", &channel, false);
    close(ends[1]);
    struct conn one = open_warm();
    peer_post(&one, OP_ECHO, 20, 600);
    hand_over(ends[0], &one);
    close(one.fd);
    peer_settle();
    reap(child);
}

CONTINUATION(serves_what_it_gets) {
    struct conn given = take_over(c->fd);
    echo(&given, 20);
}

TEST(moved_to_a_hooked_program, "SCM_RIGHTS to a program with the library", BARE) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct conn channel = {.fd = ends[1]};
    pid_t child = spawn("serves_what_it_gets", &channel, true);
    close(ends[1]);
    struct conn one = open_warm();
    peer_post(&one, OP_ECHO, 20, 600);
    hand_over(ends[0], &one);
    close(one.fd);
    peer_settle();
    reap(child);
}

TEST(taken_by_pidfd, "pidfd_getfd", 0) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t parent = getpid(), child = fork_child();
    if (child == 0) {
        close(c->fd);
        int pidfd = (int)syscall(SYS_pidfd_open, parent, 0);
        int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, c->fd, 0);
        if (fd < 0) {
            write(ends[1], "n", 1);
            child_done();
        }
        write(ends[1], "y", 1);
        c->fd = fd;
        echo(c, 5);
        child_done();
    }
    char answer = 0;
    CHECK_EQ(read(ends[0], &answer, 1), 1);
    if (answer == 'n') skip("pidfd_getfd is not permitted");
    peer(c, OP_ECHO, 5, 600);
    reap(child);
}
