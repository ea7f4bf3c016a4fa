/* pthread_cancel: the blocking calls are cancellation points, and leave everything in order. */
#include "epolls.h"

#include <sys/select.h>

static struct conn *target;
static int target_set;
static volatile int cleaned, entered;

static void clean_up(void *unused) { (void)unused; cleaned = 1; }

#define CANCEL_TEST(id, prepare, call)                                       \
    static void *in_##id(void *unused) {                                     \
        char buffer[10] __attribute__((unused)) = {0};                       \
        struct iovec iov __attribute__((unused)) = {buffer, 10};             \
        struct msghdr message __attribute__((unused)) = {.msg_iov = &iov, .msg_iovlen = 1}; \
        struct pollfd entry __attribute__((unused)) = {target->fd, POLLIN, 0}; \
        struct epoll_event got __attribute__((unused));                      \
        fd_set input;                                                        \
        FD_ZERO(&input);                                                     \
        FD_SET(target->fd, &input);                                          \
        pthread_cleanup_push(clean_up, NULL);                                \
        entered = 1;                                                         \
        call;                                                                \
        pthread_cleanup_pop(0);                                              \
        return unused;                                                       \
    }                                                                        \
    TEST(id, "pthread_cancel in " #id, 0) {                                  \
        pthread_t thread;                                                    \
        void *result = NULL;                                                 \
        uint64_t before = c->tx;                                             \
        target = c;                                                          \
        target_set = epoll_with(c->fd, EPOLLIN, 1);                          \
        prepare;                                                             \
        CHECK_EQ(pthread_create(&thread, NULL, in_##id, NULL), 0);           \
        while (!entered) sleep_ms(1);                                        \
        sleep_ms(20);                                                        \
        CHECK_EQ(pthread_cancel(thread), 0);                                 \
        CHECK_EQ(pthread_join(thread, &result), 0);                          \
        CHECK(result == PTHREAD_CANCELED && cleaned);                        \
        /* The connection goes on, in another thread, with nothing lost. */  \
        if (c->tx > before) peer_recv(c, c->tx - before);                    \
        for (int i = 0; i < 3; i++) {                                        \
            peer_post(c, OP_ECHO, 1, 500);                                   \
            put(c, 500);                                                     \
            take(c, 500);                                                    \
            peer_settle();                                                   \
        }                                                                    \
    }

CANCEL_TEST(recv, (void)0, recv(target->fd, buffer, 10, 0))
CANCEL_TEST(recv_waitall, (void)0, recv(target->fd, buffer, 10, MSG_WAITALL))
CANCEL_TEST(read, (void)0, read(target->fd, buffer, 10))
CANCEL_TEST(readv, (void)0, readv(target->fd, &iov, 1))
CANCEL_TEST(recvmsg, (void)0, recvmsg(target->fd, &message, 0))
CANCEL_TEST(send, flood(c), send(target->fd, buffer, 10, 0))
CANCEL_TEST(write, flood(c), write(target->fd, buffer, 10))
CANCEL_TEST(sendmsg, flood(c), sendmsg(target->fd, &message, 0))
CANCEL_TEST(poll, (void)0, poll(&entry, 1, -1))
CANCEL_TEST(select, (void)0, select(target->fd + 1, &input, NULL, NULL, NULL))
CANCEL_TEST(epoll_wait, (void)0, epoll_wait(target_set, &got, 1, -1))

static volatile int may_call;
static volatile ssize_t call_result;

/* A request that is pending already acts in the next call, before that takes anything. */
static void *call_when_told(void *keep_enabled) {
    char buffer[10];
    if (!keep_enabled) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    entered = 1;
    while (!may_call) {}
    call_result = recv(target->fd, buffer, 10, 0);
    if (call_result > 0) check_bytes(target, buffer, (size_t)call_result);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

static void *cancel_before_the_call(struct conn *c, bool keep_enabled) {
    pthread_t thread;
    void *result = NULL;
    target = c;
    call_result = -99;
    peer_send(c, 10);
    await_input(c, 10);
    CHECK_EQ(pthread_create(&thread, NULL, call_when_told, keep_enabled ? c : NULL), 0);
    while (!entered) sleep_ms(1);
    CHECK_EQ(pthread_cancel(thread), 0);
    may_call = 1;
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}

TEST(pending_request, "pthread_cancel, deferred", 0) {
    CHECK(cancel_before_the_call(c, true) == PTHREAD_CANCELED);
    CHECK_EQ(call_result, -99);
    take(c, 10);
}

TEST(disabled, "pthread_cancel, disabled", 0) {
    CHECK(cancel_before_the_call(c, false) == PTHREAD_CANCELED);
    CHECK_EQ(call_result, 10);
    peer_send(c, 10);
    take(c, 10);
}

static void *accept_forever(void *listener) {
    pthread_cleanup_push(clean_up, NULL);
    entered = 1;
    accept(*(int *)listener, NULL, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

TEST(accept_call, "pthread_cancel in accept", SOLO) {
    struct sockaddr_storage address;
    socklen_t length;
    pthread_t thread;
    void *result;
    int listener = listen_any(4, &address, &length);
    CHECK_EQ(pthread_create(&thread, NULL, accept_forever, &listener), 0);
    while (!entered) sleep_ms(1);
    sleep_ms(20);
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED && cleaned);
}
