/* Traffic that checks itself, for fault runs: whoever is left says how it ended.
 *
 *   checked PROGRESS listen|connect KIND SEED [BYTES]
 *
 * KIND: stream  one way, from the connecting end; BYTES of it and then an orderly end, or for ever
 *       echo    requests and answers, one at a time
 *       many    as echo, over CONNECTIONS connections at once: poll at one end, epoll at the other
 *       family  the listening end forks; its processes take requests from one socket in turns
 *       brief   as echo, but a new connection after every 40 requests
 *       endure  the listening end uses each connection in all ways, whatever comes, until it ends
 *
 * Byte i of every stream is a function of i. PROGRESS is a file that all processes map: it holds the port,
 * and what each end has sent and received so far, so that others can tell what was lost. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 16, WORKERS = 4, CREDITS = 64, LONGEST = 16384, BRIEF = 40 };

/* Mirrored by faults.py. */
struct progress {
    _Atomic uint64_t port, sent[2], received[2], rounds, workers[WORKERS];
};

struct record {
    uint64_t worker, number;
};

static struct progress *progress;
static int self; /* 0 connects, 1 listens */
static uint64_t state;
static unsigned char buffer[2 * LONGEST];

static uint64_t choose(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static unsigned char byte_at(uint64_t i) {
    return (i * 0x9e3779b97f4a7c15u) >> 56;
}

static void fill(unsigned char *to, uint64_t from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = byte_at(from + i);
}

static void check(const unsigned char *got, uint64_t from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (got[i] != byte_at(from + i)) {
            printf("BROKEN at byte %llu\n", (unsigned long long)(from + i));
            exit(3);
        }
    }
}

static void fail(const char *what) {
    printf("BROKEN %s: %s\n", what, strerrorname_np(errno));
    exit(3);
}

static const char *outcome(ssize_t n) {
    return n > 0 ? "data" : n == 0 ? "end" : strerrorname_np(errno);
}

static int bits(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

/* The peer is gone: everything that a program could now ask the socket. */
static void examine(int fd, const char *call, ssize_t n) {
    const char *first = outcome(n);
    int before = bits(fd);
    const char *received = outcome(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT));
    const char *sent = outcome(send(fd, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    const char *again = outcome(send(fd, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    printf("%s %s poll %#x recv %s send %s %s poll %#x\n", call, first, before, received, sent, again, bits(fd));
}

static int connect_once(void) {
    uint64_t port;
    while (!(port = progress->port)) usleep(200);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
    return fd;
}

static int listen_once(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    if (bind(fd, (struct sockaddr *)&at, n) || listen(fd, 128)) fail("listen");
    getsockname(fd, (struct sockaddr *)&at, &n);
    progress->port = ntohs(at.sin_port);
    return fd;
}

/* Sends all; false at the end, which has been described. */
static int send_all(int fd, const unsigned char *from, size_t n, const char *what) {
    while (n) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);
        if (sent <= 0) return examine(fd, what, sent), 0;
        progress->sent[self] += sent;
        from += sent, n -= sent;
    }
    return 1;
}

static int receive_checked(int fd, size_t n, const char *what) {
    while (n) {
        ssize_t got = recv(fd, buffer, n < sizeof buffer ? n : sizeof buffer, 0);
        if (got <= 0) return examine(fd, what, got), 0;
        check(buffer, progress->received[self], got);
        progress->received[self] += got;
        n -= got;
    }
    return 1;
}

static void stream(int fd, uint64_t bytes) {
    if (self == 1) {
        /* The orderly end of a limited stream must not be disturbed by what `examine` sends. */
        while (bytes ? progress->received[1] < bytes : 1) {
            if (!receive_checked(fd, bytes && bytes - progress->received[1] < sizeof buffer
                                         ? bytes - progress->received[1] : sizeof buffer, "recv")) return;
        }
        return;
    }
    for (uint64_t at = 0; !bytes || at < bytes;) {
        size_t n = 1 + choose(LONGEST);
        if (bytes && n > bytes - at) n = bytes - at;
        fill(buffer, at, n);
        if (!send_all(fd, buffer, n, "send")) return;
        at += n;
    }
    shutdown(fd, SHUT_WR);
    receive_checked(fd, 1, "recv");
}

/* The answering end of echo. */
static void answer(int fd) {
    for (;;) {
        ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) return examine(fd, "recv", got);
        progress->received[1] += got;
        if (!send_all(fd, buffer, got, "send")) return;
    }
}

/* The asking end: so many rounds; false if the peer has gone. */
static int ask(int fd, uint64_t rounds) {
    for (; rounds; rounds--) {
        size_t n = 1 + choose(LONGEST / 4);
        fill(buffer, progress->sent[0], n);
        if (!send_all(fd, buffer, n, "send") || !receive_checked(fd, n, "recv")) return 0;
        progress->rounds++;
    }
    return 1;
}

static void brief(int listener) {
    for (;;) {
        int fd = listener < 0 ? connect_once() : accept(listener, NULL, NULL);
        if (self == 0) {
            if (!ask(fd, BRIEF)) return;
        } else {
            ssize_t got;
            while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
                if (!send_all(fd, buffer, got, "send")) return;
            }
            if (got < 0) return examine(fd, "recv", got);
        }
        close(fd);
    }
}

struct one {
    uint64_t sent, received;
    int fd, open;
};

/* Whatever is there, checked; and, if all was answered, the next request. */
static void turn(struct one *c) {
    ssize_t got = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        examine(c->fd, "recv", got);
        c->open = 0;
        return;
    }
    check(buffer, c->received, got);
    c->received += got;
    progress->rounds++;
}

static void ask_many(void) {
    struct one all[CONNECTIONS] = {0};
    struct pollfd p[CONNECTIONS];
    int open = CONNECTIONS;
    for (int i = 0; i < CONNECTIONS; i++) all[i].fd = p[i].fd = connect_once(), all[i].open = p[i].events = POLLIN;
    while (open) {
        open = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            struct one *c = &all[i];
            if (c->open && c->received == c->sent) {
                size_t n = 1 + choose(2000);
                fill(buffer, c->sent, n);
                ssize_t sent = send(c->fd, buffer, n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent <= 0) examine(c->fd, "send", sent), c->open = 0;
                else c->sent += sent;
            }
            p[i].fd = c->open ? c->fd : -1;
            open += c->open != 0;
        }
        if (open && poll(p, CONNECTIONS, -1) < 0) fail("poll");
        for (int i = 0; i < CONNECTIONS; i++) {
            if (all[i].open && p[i].revents) turn(&all[i]);
        }
    }
}

/* Requests are shorter than any send buffer and one at a time: an answer always has room. */
static void answer_many(int listener) {
    int set = epoll_create1(0), left = CONNECTIONS;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP}, ready[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        event.data.fd = accept(listener, NULL, NULL);
        epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    while (left) {
        int n = epoll_wait(set, ready, CONNECTIONS, -1);
        /* The kernel does not restart it after SIGCONT. */
        if (n < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            for (int j = 0; j < i; j++) {
                if (ready[j].data.fd == fd) puts("BROKEN epoll_wait: one connection twice"), exit(3);
            }
            ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) continue;
            ssize_t sent = got > 0 ? send(fd, buffer, got, MSG_NOSIGNAL | MSG_DONTWAIT) : got;
            if (got > 0 && sent == got) continue;
            examine(fd, got > 0 ? "send" : "recv", sent);
            close(fd);
            left--;
        }
    }
}

/* One of a family: takes a credit, answers with a record. The credit is taken by one process only. */
static void work(int fd, int worker) {
    char credit;
    for (uint64_t number = 0;; number++) {
        ssize_t got = recv(fd, &credit, 1, 0);
        if (got <= 0) _exit(0);
        struct record r = {worker, number};
        if (send(fd, &r, sizeof r, MSG_NOSIGNAL) != sizeof r) _exit(0);
    }
}

static void serve_as_family(int fd) {
    /* Traffic of the parent's own, so that the connection is upgraded before or after the forks. */
    for (uint64_t n = choose(60); n; n--) {
        char credit;
        struct record r = {WORKERS, 0};
        if (recv(fd, &credit, 1, 0) != 1 || send(fd, &r, sizeof r, 0) != sizeof r) fail("first");
    }
    for (int i = 0; i < WORKERS; i++) {
        pid_t pid = fork();
        if (pid == 0) work(fd, i);
        progress->workers[i] = pid;
    }
    while (wait(NULL) > 0) {}
    puts("family over");
}

/* Each worker's records come once, whole and in order, whoever of them dies. */
static void grant_credits(int fd) {
    uint64_t next[WORKERS] = {0};
    char credits[CREDITS] = {0};
    if (send(fd, credits, CREDITS, MSG_NOSIGNAL) != CREDITS) fail("credits");
    progress->sent[0] = CREDITS;
    for (;;) {
        struct record r;
        ssize_t got = recv(fd, &r, sizeof r, MSG_WAITALL);
        if (got <= 0) return examine(fd, "recv", got);
        if (got != sizeof r || r.worker > WORKERS || (r.worker < WORKERS && r.number != next[r.worker]++)) {
            printf("BROKEN record %llu of worker %llu, %zd bytes\n", (unsigned long long)r.number,
                   (unsigned long long)r.worker, got);
            exit(3);
        }
        progress->rounds++;
        progress->received[0]++;
        if (send(fd, credits, 1, MSG_NOSIGNAL) != 1) fail("credit");
        progress->sent[0]++;
    }
}

/* One call of a program that does not know what its peer is up to; false at the end. */
static int use(int fd, int set) {
    struct epoll_event event;
    struct pollfd p = {fd, POLLIN, 0};
    size_t n = choose(4) ? 1 + choose(500) : 1 + choose(LONGEST);
    ssize_t got = 1;
    switch (choose(7)) {
    case 0: poll(&p, 1, -1); break;
    case 1: epoll_wait(set, &event, 1, -1); break;
    case 2: got = send(fd, buffer, n, MSG_NOSIGNAL | MSG_DONTWAIT); break;
    case 3: got = recv(fd, buffer, n, MSG_PEEK | MSG_DONTWAIT); break;
    case 4: got = recv(fd, buffer, n, 0); break;
    case 5: got = recv(fd, buffer, n, MSG_WAITALL); break;
    default: got = recv(fd, buffer, n, MSG_DONTWAIT);
    }
    progress->rounds++;
    if (got > (ssize_t)n) fail("more than was asked for");
    if (got > 0 || (got < 0 && errno == EAGAIN)) return 1;
    if (got < 0 && errno != ECONNRESET && errno != EPIPE && errno != ENOTCONN) fail("an error that TCP does not have");
    return 0;
}

static void endure(int listener) {
    int set = epoll_create1(0);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        while (use(fd, set)) {}
        close(fd);
        progress->received[1]++;
    }
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    int file = open(argv[1], O_RDWR);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (progress == MAP_FAILED) fail("progress");
    close(file);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *kind = argv[3];
    self = !strcmp(argv[2], "listen");
    state = strtoull(argv[4], NULL, 10);
    uint64_t bytes = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    int listener = self ? listen_once() : -1;
    if (!strcmp(kind, "many")) return self ? answer_many(listener) : ask_many(), 0;
    if (!strcmp(kind, "brief")) return brief(listener), 0;
    if (!strcmp(kind, "endure")) return endure(listener), 0;
    int fd = self ? accept(listener, NULL, NULL) : connect_once();
    if (!strcmp(kind, "stream")) stream(fd, bytes);
    else if (!strcmp(kind, "echo")) self ? answer(fd) : (void)ask(fd, bytes ? bytes : UINT64_MAX);
    else if (!strcmp(kind, "family")) self ? serve_as_family(fd) : grant_credits(fd);
    else return 2;
    return 0;
}
