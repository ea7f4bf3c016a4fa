/* The peer: obeys commands, one after the other. */
#include "internal.h"

struct peer_state {
    int channel, listener;
    struct conn connections[PEER_CONNECTIONS_MAX];
    int count;
};

static int64_t keep(struct peer_state *peer, int fd, int direction) {
    CHECK(fd >= 0 && peer->count < PEER_CONNECTIONS_MAX);
    peer->connections[peer->count] = (struct conn){.fd = fd, .index = peer->count, .direction = direction};
    return peer->count++;
}

static int64_t connect_to(struct peer_state *peer, const struct command *command) {
    int fd = socket(command->address.ss_family, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)&command->address, command->address_bytes), 0);
    return keep(peer, fd, 0);
}

static int64_t drain(struct conn *c) {
    char buffer[65536];
    int64_t total = 0;
    for (;;) {
        ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n >= 0);
        if (n == 0) return total;
        check_bytes(c, buffer, n);
        total += n;
    }
}

static int64_t read_once(struct conn *c) {
    char buffer[65536];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0) return -errno;
    check_bytes(c, buffer, n);
    return n;
}

static int64_t write_once(struct conn *c, size_t n) {
    char *buffer = malloc(n);
    fill(c, buffer, n);
    ssize_t r = send(c->fd, buffer, n, MSG_NOSIGNAL);
    int error = errno;
    free(buffer);
    sent(c, r);
    return r < 0 ? -error : r;
}

static void reset(struct conn *c) {
    struct linger abort_at_close = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &abort_at_close, sizeof abort_at_close), 0);
    CHECK_EQ(close(c->fd), 0);
}

static int64_t transfer(struct conn *c, const struct command *command) {
    int64_t a = command->a, b = command->b;
    switch (command->op) {
    case OP_SEND: put(c, a); return a;
    case OP_PIECES:
        for (; a > 0; a -= b) {
            put(c, a < b ? a : b);
            sleep_ms(1);
        }
        return 0;
    case OP_RECV: take(c, a); return a;
    case OP_ECHO:
        for (; a > 0; a--) {
            take(c, b);
            put(c, b);
        }
        return 0;
    case OP_DRAIN: return drain(c);
    case OP_READ: return read_once(c);
    case OP_WRITE: return write_once(c, a);
    case OP_FLOOD: return flood(c);
    case OP_OOB: {
        char byte = (char)a;
        CHECK_EQ(send(c->fd, &byte, 1, MSG_OOB), 1);
        return 0;
    }
    default: FAIL("unknown command %d", command->op);
    }
}

static void execute_peer(struct peer_state *peer, struct conn *c, bool without_preload) {
    char channel[16];
    snprintf(channel, sizeof channel, "%d", peer->channel);
    setenv("PARITY_SYNC", channel, 1);
    execute("peer", c, !without_preload);
}

static void give(struct peer_state *peer, struct conn *c) {
    send_fd(peer->channel, c->fd);
    CHECK_EQ(close(c->fd), 0);
}

static void obey(struct peer_state *peer, const struct command *command, struct reply *reply) {
    struct conn *c = command->index >= 0 && command->index < peer->count ? &peer->connections[command->index] : NULL;
    int value = (int)command->b;
    switch (command->op) {
    case OP_LISTEN:
        peer->listener = listen_any(512, &reply->address, &reply->address_bytes);
        break;
    case OP_ACCEPT: reply->value = keep(peer, accept(peer->listener, NULL, NULL), 1); break;
    case OP_CONNECT: reply->value = connect_to(peer, command); break;
    case OP_SHUTDOWN: CHECK_EQ(shutdown(c->fd, (int)command->a), 0); break;
    case OP_CLOSE: CHECK_EQ(close(c->fd), 0); break;
    case OP_RESET: reset(c); break;
    case OP_SETOPT:
        CHECK_EQ(setsockopt(c->fd, (int)(command->a >> 16), (int)(command->a & 0xffff), &value, sizeof value), 0);
        break;
    case OP_SLEEP: sleep_ms((int)command->a); break;
    case OP_GIVE: give(peer, c); break;
    case OP_EXEC: execute_peer(peer, c, command->a != 0); break;
    case OP_QUIT: break;
    default: CHECK(c != NULL); reply->value = transfer(c, command);
    }
}

static void serve(struct peer_state *peer) {
    struct command command;
    do {
        ssize_t n = read(peer->channel, &command, sizeof command);
        if (n <= 0) return;  /* the subject is gone; what it found counts */
        CHECK_EQ(n, sizeof command);
        struct reply reply = {0};
        obey(peer, &command, &reply);
        if (write(peer->channel, &reply, sizeof reply) != sizeof reply) return;
    } while (command.op != OP_QUIT);
}

void peer_serve(int channel) {
    struct peer_state *peer = calloc(1, sizeof *peer);
    peer->channel = channel;
    peer->listener = -1;
    serve(peer);
}

/* argv: resume peer fd index direction tx rx. Only the executing connection goes on. */
void peer_resume(int channel, int argc, char **argv) {
    (void)argc;
    struct peer_state *peer = calloc(1, sizeof *peer);
    int index = atoi(argv[4]);
    peer->channel = channel;
    peer->listener = -1;
    peer->count = index + 1;
    peer->connections[index] =
        (struct conn){atoi(argv[3]), index, atoi(argv[5]), strtoull(argv[6], NULL, 10), strtoull(argv[7], NULL, 10)};
    struct reply reply = {0};
    CHECK_EQ(write(channel, &reply, sizeof reply), sizeof reply);
    serve(peer);
}
