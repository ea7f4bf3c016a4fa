/* The subject's way to its peer, and small helpers for test bodies. */
#include "internal.h"

#include <sys/mman.h>
#include <sys/time.h>

static int channel = -1;
static int outstanding;
static pid_t pid_of_peer;
static pthread_t peer_thread;
static bool threaded;
static int own_listener = -1;
static struct sockaddr_storage listen_address;
static socklen_t listen_length;
static bool peer_listens;

void peer_attach(int fd) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    channel = fd;
    if (getenv("PARITY_PEER_PID")) pid_of_peer = atoi(getenv("PARITY_PEER_PID"));
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) pid_of_peer = credentials.pid;
}

static void *peer_body(void *fd) {
    peer_serve((int)(intptr_t)fd);
    return NULL;
}

void peer_start_thread(void) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    channel = ends[0];
    threaded = true;
    /* Signals of the test are for the subject's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    CHECK_EQ(pthread_create(&peer_thread, NULL, peer_body, (void *)(intptr_t)ends[1]), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A signal may interrupt the command, never cut it. */
static void post(const struct command *command) {
    ssize_t n;
    do n = send(channel, command, sizeof *command, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    CHECK_EQ(n, sizeof *command);
    outstanding++;
}

static struct reply settle(void) {
    struct reply reply = {0};
    while (outstanding > 0) {
        ssize_t n;
        do n = read(channel, &reply, sizeof reply);
        while (n < 0 && errno == EINTR);
        if (n != sizeof reply) FAIL("the peer is gone");
        outstanding--;
    }
    return reply;
}

void peer_post(const struct conn *c, enum op op, int64_t a, int64_t b) {
    struct command command = {.op = op, .index = c ? c->index : -1, .a = a, .b = b};
    post(&command);
}

int64_t peer_settle(void) { return settle().value; }

int64_t peer(const struct conn *c, enum op op, int64_t a, int64_t b) {
    peer_post(c, op, a, b);
    return peer_settle();
}

void peer_later(const struct conn *c, int ms, enum op op, int64_t a, int64_t b) {
    peer_post(c, OP_SLEEP, ms, 0);
    peer_post(c, op, a, b);
}

struct conn peer_give(const struct conn *c) {
    peer_settle();
    peer_post(c, OP_GIVE, 0, 0);
    struct conn given = {.fd = receive_fd(channel), .index = -1, .direction = !c->direction, .tx = c->rx, .rx = c->tx};
    peer_settle();
    return given;
}

pid_t peer_pid(void) { return pid_of_peer; }

void peer_kill(void) {
    CHECK(pid_of_peer > 0);
    CHECK_EQ(kill(pid_of_peer, SIGKILL), 0);
    /* Its sockets are closed once it is gone for good: the channel's end is the sign. */
    char byte;
    while (recv(channel, &byte, 1, 0) > 0 || errno == EINTR) errno = 0;
    outstanding = 0;
    close(channel);
    channel = -1;
}

void peer_release(void) {
    if (channel < 0) return;
    peer(NULL, OP_QUIT, 0, 0);
    if (threaded) pthread_join(peer_thread, NULL);
}

static struct conn connect_to_peer(void) {
    if (!peer_listens) {
        peer_post(NULL, OP_LISTEN, 0, 0);
        struct reply reply = settle();
        listen_address = reply.address;
        listen_length = reply.address_bytes;
        peer_listens = true;
    }
    struct conn c = {.fd = tcp_socket(0), .direction = 0};
    CHECK_EQ(connect(c.fd, (struct sockaddr *)&listen_address, listen_length), 0);
    c.index = (int)peer(NULL, OP_ACCEPT, 0, 0);
    return c;
}

static struct conn accept_from_peer(void) {
    if (own_listener < 0) own_listener = listen_any(512, &listen_address, &listen_length);
    struct command command = {.op = OP_CONNECT, .index = -1, .address = listen_address, .address_bytes = listen_length};
    post(&command);
    struct conn c = {.fd = accept(own_listener, NULL, NULL), .direction = 1};
    CHECK(c.fd >= 0);
    c.index = (int)peer_settle();
    return c;
}

struct conn open_cold(void) { return subject_connects ? connect_to_peer() : accept_from_peer(); }

void await_input_at(const char *file, int line, int fd, int n) {
    int available = 0;
    for (int64_t end = now_ms() + 5000; now_ms() < end; sleep_ms(1)) {
        if (ioctl(fd, FIONREAD, &available) == 0 && available >= n) return;
    }
    fail_at(file, line, "%d bytes to read after 5 s, expected %d", available, n);
}

int poll_one(int fd, int events, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = (short)events};
    int n;
    do n = poll(&entry, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    return n == 1 ? entry.revents : 0;
}

void set_nonblocking(int fd, bool on) {
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0);
    CHECK_EQ(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    while (nanosleep(&t, &t) < 0 && errno == EINTR) {}
}

pid_t fork_child(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    return child;
}

void reap_at(const char *file, int line, pid_t child) {
    int status;
    pid_t got;
    do got = waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got != child || status != 0) fail_at(file, line, "child ended with status %#x", status);
}

void *run_thread(void *(*body)(void *), void *argument) {
    pthread_t *thread = malloc(sizeof *thread);
    CHECK_EQ(pthread_create(thread, NULL, body, argument), 0);
    return thread;
}

void join(void *handle) {
    CHECK_EQ(pthread_join(*(pthread_t *)handle, NULL), 0);
    free(handle);
}

char **continuation_argv(const char *continuation, const struct conn *c) {
    static char numbers[5][24];
    static char *argv[9];
    snprintf(numbers[0], sizeof numbers[0], "%d", c->fd);
    snprintf(numbers[1], sizeof numbers[1], "%d", c->index);
    snprintf(numbers[2], sizeof numbers[2], "%d", c->direction);
    snprintf(numbers[3], sizeof numbers[3], "%llu", (unsigned long long)c->tx);
    snprintf(numbers[4], sizeof numbers[4], "%llu", (unsigned long long)c->rx);
    argv[0] = (char *)binary_path;
    argv[1] = "resume";
    argv[2] = (char *)continuation;
    for (int i = 0; i < 5; i++) argv[3 + i] = numbers[i];
    return argv;
}

void execute(const char *continuation, const struct conn *c, bool preload) {
    if (!preload) unsetenv("LD_PRELOAD");
    execv(binary_path, continuation_argv(continuation, c));
    FAIL("execv: %s", strerror(errno));
}

static void execute_file(const char *path, const char *continuation, const struct conn *c) {
    char **argv = continuation_argv(continuation, c);
    argv[0] = (char *)path;
    execv(path, argv);
    FAIL("execv %s: %s", path, strerror(errno));
}

void execute_static(const char *continuation, const struct conn *c) {
    char path[4096];
    snprintf(path, sizeof path, "%s-static", binary_path);
    execute_file(path, continuation, c);
}

void execute_dynamic(const char *continuation, const struct conn *c) {
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)(strlen(binary_path) - strlen("-static")), binary_path);
    execute_file(path, continuation, c);
}

pid_t spawn(const char *continuation, const struct conn *c, bool preload) {
    pid_t child = fork_child();
    /* The channel to the peer stays with the parent: the child's continuation has no peer of its own. */
    if (child == 0) {
        unsetenv("PARITY_SYNC");
        execute(continuation, c, preload);
    }
    return child;
}

void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

pthread_mutex_t *shared_lock(void) {
    pthread_mutex_t *lock = shared_memory(sizeof *lock);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    CHECK_EQ(pthread_mutex_init(lock, &attributes), 0);
    return lock;
}

void send_fd(int to, int fd) {
    char byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK_EQ(sendmsg(to, &message, MSG_NOSIGNAL), 1);
}

int receive_fd(int from) {
    char byte, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK_EQ(recvmsg(from, &message, 0), 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

char *before_unmapped(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
    char *start = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    /* Not unmapped: whatever is mapped next would take the place. */
    CHECK_EQ(mprotect(start + whole, page, PROT_NONE), 0);
    return start + whole - size;
}

void catch_signal(int number, void (*handler)(int), int sa_flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = sa_flags};
    CHECK_EQ(sigaction(number, &action, NULL), 0);
}

void alarm_every(int ms) {
    struct timeval period = {ms / 1000, ms % 1000 * 1000};
    struct itimerval timer = {period, period};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}
