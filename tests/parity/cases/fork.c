/* Processes that share a connection after fork. */
#include "epolls.h"

#include <sched.h>
#include <sys/syscall.h>

TEST(child_reads_parent_writes, "fork: child reads, parent writes", 0) {
    enum { BULK = 400000, PIECE = 4000 };
    peer_post(c, OP_ECHO, BULK / PIECE, PIECE);
    pid_t child = fork_child();
    if (child == 0) {
        take(c, BULK);
        child_done();
    }
    put(c, BULK);
    reap(child);
    peer_settle();
    c->rx += BULK;
    peer_post(c, OP_ECHO, 1, 100);
    put(c, 100);
    take(c, 100);
    peer_settle();
}

TEST(child_writes_parent_reads, "fork: child writes, parent reads", 0) {
    enum { BULK = 400000, PIECE = 4000 };
    peer_post(c, OP_ECHO, BULK / PIECE, PIECE);
    pid_t child = fork_child();
    if (child == 0) {
        put(c, BULK);
        child_done();
    }
    take(c, BULK);
    reap(child);
    c->tx += BULK;
    peer_settle();
    put(c, 100);
    peer_recv(c, 100);
}

/* The connection's offsets in common memory, guarded by a lock of the program's own. */
static struct conn *share(const struct conn *c) {
    struct conn *shared = shared_memory(sizeof *shared);
    *shared = *c;
    return shared;
}

TEST(both_write, "fork: both write alternating records with a lock of their own", 0) {
    enum { RECORDS = 300, RECORD = 700 };
    struct conn *shared = share(c);
    pthread_mutex_t *lock = shared_lock();
    peer_post(c, OP_RECV, 2 * RECORDS * RECORD, 0);
    pid_t child = fork_child();
    for (int i = 0; i < RECORDS; i++) {
        pthread_mutex_lock(lock);
        put(shared, RECORD);
        pthread_mutex_unlock(lock);
        if (i % 16 == 0) sched_yield();
    }
    if (child == 0) child_done();
    reap(child);
    peer_settle();
}

TEST(both_read, "fork: both read", 0) {
    enum { BULK = 300000 };
    struct conn *shared = share(c);
    pthread_mutex_t *lock = shared_lock();
    peer_post(c, OP_SEND, BULK, 0);
    uint64_t end = c->rx + BULK;
    pid_t child = fork_child();
    for (bool more = true; more;) {
        char buffer[900];
        pthread_mutex_lock(lock);
        more = shared->rx < end;
        if (more) {
            ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
            CHECK(n > 0);
            check_bytes(shared, buffer, n);
        }
        pthread_mutex_unlock(lock);
    }
    if (child == 0) child_done();
    reap(child);
    CHECK_EQ(shared->rx, end);
    peer_settle();
}

/* Without a lock, every byte still goes to exactly one reader. */
static uint64_t sum_to_end(int fd, uint64_t *count) {
    unsigned char buffer[700];
    uint64_t sum = 0;
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        CHECK(n >= 0);
        if (n == 0) return sum;
        *count += n;
        for (ssize_t i = 0; i < n; i++) sum += buffer[i];
    }
}

TEST(both_read_unlocked, "fork: both read, without a lock", SOLO) {
    enum { BULK = 1 << 20 };
    struct conn a, b;
    uint64_t expected = 0, count = 0, *childs = shared_memory(2 * sizeof *childs);
    unsigned char *data = malloc(BULK);
    open_inside_warm(&a, &b);
    fill(&a, data, BULK);
    for (int i = 0; i < BULK; i++) expected += data[i];
    pid_t writer = fork_child();
    if (writer == 0) {
        close(b.fd);
        put(&a, BULK);
        child_done();
    }
    close(a.fd);
    pid_t child = fork_child();
    if (child == 0) {
        childs[0] = sum_to_end(b.fd, &childs[1]);
        child_done();
    }
    uint64_t sum = sum_to_end(b.fd, &count);
    reap(child);
    reap(writer);
    CHECK_EQ(count + childs[1], BULK);
    CHECK_EQ(sum + childs[0], expected);
}

static void write_marks(int fd, unsigned char mark, size_t n) {
    unsigned char buffer[256];
    memset(buffer, mark, sizeof buffer);
    while (n > 0) {
        ssize_t r = send(fd, buffer, n < sizeof buffer ? n : sizeof buffer, 0);
        CHECK(r > 0);
        n -= r;
    }
}

TEST(both_write_unlocked, "fork: both write, without a lock", SOLO) {
    enum { EACH = 300000, WRITERS = 3 };
    struct conn a, b;
    unsigned char buffer[5000];
    size_t counts[256] = {0};
    pid_t children[WRITERS];
    open_inside_warm(&a, &b);
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork_child();
        if (children[i] == 0) {
            close(b.fd);
            write_marks(a.fd, (unsigned char)('A' + i), EACH);
            child_done();
        }
    }
    close(a.fd);
    for (;;) {
        ssize_t n = recv(b.fd, buffer, sizeof buffer, 0);
        CHECK(n >= 0);
        if (n == 0) break;
        for (ssize_t i = 0; i < n; i++) counts[buffer[i]]++;
    }
    for (int i = 0; i < WRITERS; i++) {
        reap(children[i]);
        CHECK_EQ(counts['A' + i], EACH);
    }
}

TEST(parent_closes, "fork: parent closes", 0) {
    int *may_go = shared_memory(sizeof(int));
    pid_t child = fork_child();
    if (child == 0) {
        while (!__atomic_load_n(may_go, __ATOMIC_SEQ_CST)) sleep_ms(1);
        put(c, 5000);
        take(c, 5000);
        child_done();
    }
    CHECK_EQ(close(c->fd), 0);
    peer_post(c, OP_ECHO, 1, 5000);
    __atomic_store_n(may_go, 1, __ATOMIC_SEQ_CST);
    peer_settle();
    reap(child);
    /* The child's exit was the last close. */
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

TEST(child_exits, "fork: child exits", 0) {
    for (int i = 0; i < 3; i++) {
        pid_t child = fork_child();
        if (child == 0) child_done();
        reap(child);
        peer_post(c, OP_ECHO, 1, 3000);
        put(c, 3000);
        take(c, 3000);
        peer_settle();
    }
}

TEST(child_closes, "fork: child closes", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        CHECK_EQ(close(c->fd), 0);
        char byte;
        CHECK_ERRNO(read(c->fd, &byte, 1), EBADF);
        child_done();
    }
    reap(child);
    peer_post(c, OP_ECHO, 1, 3000);
    put(c, 3000);
    take(c, 3000);
    peer_settle();
}

/* A shutdown is for all of them, a close is not. */
TEST(child_shuts_down, "fork: shutdown by the child", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
        child_done();
    }
    reap(child);
    char byte = 0;
    CHECK_ERRNO(send(c->fd, &byte, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    peer_send(c, 10);
    take(c, 10);
}

TEST(unsent_data_of_a_dead_child, "fork: child exits with data under way", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        put(c, 30000);
        child_done();
    }
    close(c->fd);
    reap(child);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 30000);
}

TEST(grandchild, "fork: grandchild", 0) {
    int *step = shared_memory(sizeof(int));
    pid_t child = fork_child();
    if (child == 0) {
        pid_t grandchild = fork_child();
        if (grandchild > 0) child_done();
        while (!__atomic_load_n(step, __ATOMIC_SEQ_CST)) sleep_ms(1);
        put(c, 5000);
        take(c, 5000);
        __atomic_store_n(step, 2, __ATOMIC_SEQ_CST);
        child_done();
    }
    reap(child);
    close(c->fd);
    peer_post(c, OP_ECHO, 1, 5000);
    __atomic_store_n(step, 1, __ATOMIC_SEQ_CST);
    peer_settle();
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    CHECK_EQ(__atomic_load_n(step, __ATOMIC_SEQ_CST), 2);
}

/* redis: the parent serves on while a child holds every socket for minutes. */
TEST(idle_child_holds_the_socket, "fork: idle child, parent serves and closes", BARE) {
    int ends[2];
    char byte;
    struct conn one = open_cold();
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork_child();
    if (child == 0) {
        close(ends[1]);
        CHECK_EQ(read(ends[0], &byte, 1), 0);
        child_done();
    }
    close(ends[0]);
    warm_up(&one);
    for (int i = 0; i < 20; i++) {
        peer_post(&one, OP_ECHO, 1, 2000);
        put(&one, 2000);
        take(&one, 2000);
        peer_settle();
    }
    close(one.fd);
    /* No FIN while the child lives. */
    peer(&one, OP_SETOPT, SOL_SOCKET << 16 | SO_KEEPALIVE, 1);
    peer_send(&one, 100);
    peer_post(&one, OP_READ, 0, 0);
    sleep_ms(30);
    close(ends[1]);
    reap(child);
    int64_t last = peer_settle();
    /* The child never read the 100 bytes: the kernel ends such a connection with a reset. */
    CHECK(last == 0 || last == -ECONNRESET);
}

TEST(killed_while_reading, "fork: member killed in a blocked read", 0) {
    pid_t child = fork_child();
    if (child == 0) {
        char buffer[10];
        recv(c->fd, buffer, 10, 0);
        child_done();
    }
    sleep_ms(30);
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 10; i++) {
        peer_post(c, OP_ECHO, 1, 1000);
        put(c, 1000);
        take(c, 1000);
        peer_settle();
    }
}

TEST(killed_while_writing_blocked, "fork: member killed in a blocked write", 0) {
    uint64_t before = c->tx;
    flood(c);
    pid_t child = fork_child();
    if (child == 0) {
        char byte = 0;
        send(c->fd, &byte, 1, 0);
        child_done();
    }
    sleep_ms(30);
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    peer_recv(c, c->tx - before);
    peer_post(c, OP_ECHO, 1, 1000);
    put(c, 1000);
    take(c, 1000);
    peer_settle();
}

/* Killed at any point of its sending: the stream is right as far as it goes, and its count is known. */
TEST(killed_while_sending, "fork: member killed under load", 0) {
    struct conn *shared = share(c);
    pid_t child = fork_child();
    if (child == 0) {
        for (;;) put(shared, 100);
    }
    peer_post(c, OP_DRAIN, 0, 0);
    sleep_ms(20 + (int)(c->tx % 17));
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    close(c->fd);
    uint64_t counted = shared->tx - c->tx, got = (uint64_t)peer_settle();
    CHECK(got >= counted && got <= counted + 100);
}

/* While another thread is blocked on it, too. */
static void *read_ten(void *argument) {
    take((struct conn *)argument, 10);
    return NULL;
}

TEST(with_a_blocked_thread, "fork while a thread is blocked in recv", 0) {
    void *thread = run_thread(read_ten, c);
    sleep_ms(20);
    pid_t child = fork_child();
    if (child == 0) {
        put(c, 10);
        child_done();
    }
    reap(child);
    c->tx += 10;
    peer_recv(c, 10);
    peer_send(c, 10);
    join(thread);
    peer_send(c, 20);
    take(c, 20);
}

static pid_t bare_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

/* Processes made past the C library's fork: no fork handler runs. */
#define RAW_FORK_TEST(id, call)                                   \
    TEST(id, "clone", 0) {                                        \
        peer_post(c, OP_ECHO, 1, 20000);                          \
        pid_t child = call;                                       \
        CHECK(child >= 0);                                        \
        if (child == 0) {                                         \
            put(c, 20000);                                        \
            child_done();                                         \
        }                                                         \
        take(c, 20000);                                           \
        reap(child);                                              \
        c->tx += 20000;                                           \
        peer_settle();                                            \
        put(c, 10);                                               \
        peer_recv(c, 10);                                         \
    }

RAW_FORK_TEST(by_clone, bare_clone())
RAW_FORK_TEST(by_underscore_fork, _Fork())

static int close_and_exit(void *argument) {
    struct conn *c = argument;
    char buffer[10];
    if (recv(c->fd, buffer, 10, 0) != 10 || close(c->fd) != 0) return 1;
    return 0;
}

/* One table of descriptors for two processes: the child's close is the parent's. */
TEST(clone_with_common_files, "clone(CLONE_FILES)", 0) {
    static char stack[1 << 17] __attribute__((aligned(16)));
    peer_send(c, 10);
    pid_t child = clone(close_and_exit, stack + sizeof stack, CLONE_FILES | SIGCHLD, c);
    CHECK(child > 0);
    reap(child);
    char byte;
    CHECK_ERRNO(read(c->fd, &byte, 1), EBADF);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

static void *close_own_copy(void *argument) {
    struct conn *c = argument;
    CHECK_EQ(unshare(CLONE_FILES), 0);
    CHECK_EQ(close(c->fd), 0);
    char byte;
    CHECK_ERRNO(read(c->fd, &byte, 1), EBADF);
    return NULL;
}

TEST(thread_with_files_of_its_own, "unshare(CLONE_FILES)", 0) {
    join(run_thread(close_own_copy, c));
    peer_post(c, OP_ECHO, 1, 1000);
    put(c, 1000);
    take(c, 1000);
    peer_settle();
}

/* PostgreSQL: accept, fork, the parent closes, the child serves until the client is done. */
TEST(fork_per_connection, "fork after accept, parent closes its copy", SOLO) {
    enum { CLIENTS = 4 };
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(CLIENTS, &address, &length);
    struct conn clients[CLIENTS];
    pid_t children[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct conn){.fd = tcp_socket(SOCK_CLOEXEC), .direction = 0};
        CHECK_EQ(connect(clients[i].fd, (struct sockaddr *)&address, length), 0);
        struct conn server = {.fd = accept(listener, NULL, NULL), .direction = 1};
        CHECK(server.fd >= 0);
        children[i] = fork_child();
        if (children[i] == 0) {
            for (int k = 0; k <= i; k++) close(clients[k].fd);
            for (int k = 0; k < 300; k++) {
                take(&server, 100);
                put(&server, 100);
            }
            check_eof(&server);
            child_done();
        }
        close(server.fd);
    }
    for (int k = 0; k < 300; k++) {
        for (int i = 0; i < CLIENTS; i++) put(&clients[i], 100);
        for (int i = 0; i < CLIENTS; i++) take(&clients[i], 100);
    }
    for (int i = 0; i < CLIENTS; i++) close(clients[i].fd);
    for (int i = 0; i < CLIENTS; i++) reap(children[i]);
}

/* nginx: workers that accept from a listener they inherited. */
TEST(prefork, "accept in forked workers", SOLO) {
    enum { WORKERS = 3, CLIENTS = 9 };
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(CLIENTS, &address, &length);
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork_child();
        for (int n = 0; workers[i] == 0 && n < CLIENTS / WORKERS; n++) {
            struct conn server = {.fd = accept(listener, NULL, NULL), .direction = 1};
            CHECK(server.fd >= 0);
            for (int k = 0; k < 200; k++) {
                take(&server, 64);
                put(&server, 64);
            }
            check_eof(&server);
            close(server.fd);
        }
        if (workers[i] == 0) child_done();
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct conn client = {.fd = tcp_socket(0), .direction = 0};
        CHECK_EQ(connect(client.fd, (struct sockaddr *)&address, length), 0);
        for (int k = 0; k < 200; k++) {
            put(&client, 64);
            take(&client, 64);
        }
        close(client.fd);
    }
    for (int i = 0; i < WORKERS; i++) reap(workers[i]);
}

TEST(family_of_ten, "fork: a family takes turns", 0) {
    enum { MEMBERS = 10, TURNS = 5 };
    struct conn *shared = share(c);
    int *turn = shared_memory(sizeof(int));
    pid_t children[MEMBERS];
    peer_post(c, OP_ECHO, MEMBERS * TURNS, 900);
    for (int i = 0; i < MEMBERS; i++) {
        children[i] = fork_child();
        if (children[i] > 0) continue;
        for (int k = 0; k < TURNS; k++) {
            while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) != k * MEMBERS + i) sleep_ms(1);
            put(shared, 900);
            take(shared, 900);
            __atomic_add_fetch(turn, 1, __ATOMIC_SEQ_CST);
        }
        child_done();
    }
    for (int i = 0; i < MEMBERS; i++) reap(children[i]);
    peer_settle();
    put(shared, 10);
    peer_recv(c, 10);
}
