/* Threads that share a connection. */
#include "epolls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *write_records(void *argument) {
    struct conn *c = argument;
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&lock);
        put(c, 1100);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

TEST(two_writers, "threads: two writers with framed records", 0) {
    peer_post(c, OP_RECV, 2 * 300 * 1100, 0);
    void *threads[2] = {run_thread(write_records, c), run_thread(write_records, c)};
    join(threads[0]);
    join(threads[1]);
    peer_settle();
}

static void *write_bulk(void *argument) {
    put((struct conn *)argument, 2 << 20);
    return NULL;
}

TEST(reader_and_writer, "threads: reader and writer", 0) {
    peer_post(c, OP_ECHO, (2 << 20) / 4096, 4096);
    void *thread = run_thread(write_bulk, c);
    take(c, 2 << 20);
    join(thread);
    peer_settle();
}

static void *read_records(void *argument) {
    struct conn *c = argument;
    char buffer[500];
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        CHECK_EQ(recv(c->fd, buffer, 500, MSG_WAITALL), 500);
        check_bytes(c, buffer, 500);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

TEST(two_readers, "threads: two readers", 0) {
    peer_post(c, OP_SEND, 2 * 200 * 500, 0);
    void *threads[2] = {run_thread(read_records, c), run_thread(read_records, c)};
    join(threads[0]);
    join(threads[1]);
    peer_settle();
}

struct tally { int fd; size_t counts[256]; };

static void *count_bytes(void *argument) {
    struct tally *tally = argument;
    unsigned char buffer[333];
    for (;;) {
        ssize_t n = recv(tally->fd, buffer, sizeof buffer, 0);
        CHECK(n >= 0);
        if (n == 0) return NULL;
        for (ssize_t i = 0; i < n; i++) tally->counts[buffer[i]]++;
    }
}

struct marker { int fd; unsigned char mark; };

static void *write_marks(void *argument) {
    struct marker *marker = argument;
    unsigned char buffer[200];
    memset(buffer, marker->mark, sizeof buffer);
    for (size_t left = 200000; left > 0;) {
        ssize_t n = send(marker->fd, buffer, left < sizeof buffer ? left : sizeof buffer, 0);
        CHECK(n > 0);
        left -= n;
    }
    return NULL;
}

/* Without any lock of the program: each byte arrives once. */
TEST(unlocked_crowd, "threads: several writers and readers, without a lock", SOLO) {
    enum { CROWD = 3 };
    struct conn a, b;
    struct tally tallies[CROWD] = {0};
    struct marker markers[CROWD];
    void *readers[CROWD], *writers[CROWD];
    open_inside_warm(&a, &b);
    for (int i = 0; i < CROWD; i++) {
        tallies[i].fd = b.fd;
        markers[i] = (struct marker){a.fd, (unsigned char)('0' + i)};
        readers[i] = run_thread(count_bytes, &tallies[i]);
        writers[i] = run_thread(write_marks, &markers[i]);
    }
    for (int i = 0; i < CROWD; i++) join(writers[i]);
    CHECK_EQ(shutdown(a.fd, SHUT_WR), 0);
    for (int i = 0; i < CROWD; i++) join(readers[i]);
    for (int i = 0; i < CROWD; i++) {
        size_t sum = 0;
        for (int k = 0; k < CROWD; k++) sum += tallies[k].counts['0' + i];
        CHECK_EQ(sum, 200000);
    }
}

struct blocked { struct conn *c; ssize_t result; int error; char buffer[100]; };

static void *block_in_recv(void *argument) {
    struct blocked *blocked = argument;
    blocked->result = recv(blocked->c->fd, blocked->buffer, sizeof blocked->buffer, 0);
    blocked->error = errno;
    return NULL;
}

TEST(shutdown_wakes_reader, "shutdown from another thread while blocked", 0) {
    struct blocked blocked = {.c = c, .result = -2};
    void *thread = run_thread(block_in_recv, &blocked);
    sleep_ms(30);
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    join(thread);
    CHECK_EQ(blocked.result, 0);
    put(c, 10);
    peer_recv(c, 10);
}

TEST(shutdown_both_wakes_reader, "shutdown from another thread while blocked", 0) {
    struct blocked blocked = {.c = c, .result = -2};
    void *thread = run_thread(block_in_recv, &blocked);
    sleep_ms(30);
    CHECK_EQ(shutdown(c->fd, SHUT_RDWR), 0);
    join(thread);
    CHECK_EQ(blocked.result, 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

static void *block_in_send(void *argument) {
    struct blocked *blocked = argument;
    blocked->result = send(blocked->c->fd, blocked->buffer, 1, MSG_NOSIGNAL);
    blocked->error = errno;
    return NULL;
}

TEST(shutdown_wakes_writer, "shutdown from another thread while blocked in send", 0) {
    struct blocked blocked = {.c = c, .result = -2};
    uint64_t before = c->tx;
    flood(c);
    void *thread = run_thread(block_in_send, &blocked);
    sleep_ms(30);
    CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    join(thread);
    CHECK(blocked.result == -1 && blocked.error == EPIPE);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), c->tx - before);
}

static void *block_in_poll(void *argument) {
    struct blocked *blocked = argument;
    blocked->result = poll_one(blocked->c->fd, POLLIN | POLLRDHUP, 10000);
    return NULL;
}

TEST(shutdown_wakes_poll, "shutdown from another thread while blocked in poll", 0) {
    struct blocked blocked = {.c = c};
    void *thread = run_thread(block_in_poll, &blocked);
    sleep_ms(30);
    CHECK_EQ(shutdown(c->fd, SHUT_RD), 0);
    join(thread);
    CHECK_EQ(blocked.result, POLLIN | POLLRDHUP);
}

/* Linux lets the call go on: it holds the socket, and gets what comes. */
TEST(close_under_reader, "close from another thread while blocked", 0) {
    struct blocked blocked = {.c = c, .result = -2};
    void *thread = run_thread(block_in_recv, &blocked);
    sleep_ms(50);
    CHECK_EQ(close(c->fd), 0);
    sleep_ms(20);
    peer_send(c, 10);
    join(thread);
    /* On a very slow machine the reader may not have begun before the close. */
    if (blocked.result == -1) {
        CHECK_EQ(blocked.error, EBADF);
    } else {
        CHECK_EQ(blocked.result, 10);
        check_bytes(c, blocked.buffer, 10);
    }
    CHECK_EQ(peer(c, OP_READ, 0, 0) <= 0, 1);
}

TEST(close_under_poll, "close from another thread while blocked in poll", 0) {
    struct blocked blocked = {.c = c};
    void *thread = run_thread(block_in_poll, &blocked);
    sleep_ms(50);
    CHECK_EQ(close(c->fd), 0);
    peer_send(c, 10);
    join(thread);
    CHECK(blocked.result == POLLIN || blocked.result == POLLNVAL);
}

static void nothing(int number) { (void)number; }

static void *read_until_told(void *argument) {
    struct blocked *blocked = argument;
    do blocked->result = recv(blocked->c->fd, blocked->buffer, sizeof blocked->buffer, 0);
    while (blocked->result < 0 && errno == EINTR);
    blocked->error = errno;
    return NULL;
}

/* Java: a dead socket is put over the number, then a signal wakes whoever is blocked on it. */
TEST(replaced_under_reader, "dup2 from another thread while blocked", 0) {
    struct blocked blocked = {.c = c, .result = -2};
    int dead[2];
    pthread_t thread;
    catch_signal(SIGUSR1, nothing, 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, dead), 0);
    CHECK_EQ(shutdown(dead[0], SHUT_RDWR), 0);
    CHECK_EQ(pthread_create(&thread, NULL, read_until_told, &blocked), 0);
    sleep_ms(30);
    CHECK_EQ(dup2(dead[0], c->fd), c->fd);
    for (int i = 0; i < 5000 && pthread_tryjoin_np(thread, NULL) != 0; i++) {
        pthread_kill(thread, SIGUSR1);
        sleep_ms(2);
        CHECK(i < 4999);
    }
    CHECK_EQ(blocked.result, 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

static volatile bool churn;

static void *open_and_close(void *unused) {
    while (churn) {
        struct conn a, b;
        open_inside(&a, &b);
        put(&a, 40);
        take(&b, 40);
        close(a.fd);
        close(b.fd);
    }
    return unused;
}

/* Numbers come and go in other threads while this connection works. */
TEST(churn_beside, "fd number reuse between threads", 0) {
    churn = true;
    void *threads[2] = {run_thread(open_and_close, NULL), run_thread(open_and_close, NULL)};
    peer_post(c, OP_ECHO, 1500, 200);
    for (int i = 0; i < 1500; i++) {
        put(c, 200);
        take(c, 200);
    }
    peer_settle();
    churn = false;
    join(threads[0]);
    join(threads[1]);
}

static void *block_for_good(void *argument) {
    char byte;
    recv(((struct conn *)argument)->fd, &byte, 1, 0);
    return NULL;
}

TEST(exit_while_blocked, "exit while other threads are blocked", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        run_thread(block_for_good, c);
        run_thread(block_for_good, c);
        sleep_ms(20);
        exit(0);
    }
    reap(child);
    peer_post(c, OP_ECHO, 1, 100);
    put(c, 100);
    take(c, 100);
    peer_settle();
}

static void *echo_thread(void *argument) {
    struct conn *c = argument;
    for (int i = 0; i < 500; i++) {
        take(c, 150);
        put(c, 150);
    }
    return NULL;
}

TEST(one_thread_each, "a thread for each end", SOLO) {
    enum { PAIRS = 4 };
    struct conn a[PAIRS], b[PAIRS];
    void *threads[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        open_inside(&a[i], &b[i]);
        threads[i] = run_thread(echo_thread, &b[i]);
    }
    for (int k = 0; k < 500; k++) {
        for (int i = 0; i < PAIRS; i++) put(&a[i], 150);
        for (int i = 0; i < PAIRS; i++) take(&a[i], 150);
    }
    for (int i = 0; i < PAIRS; i++) join(threads[i]);
}
