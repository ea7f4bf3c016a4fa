/* Making connections, and warming them up. */
#include "internal.h"

static void loopback(struct sockaddr_storage *address, socklen_t *length) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    memset(address, 0, sizeof *address);
    if (strcmp(address_family, "v6") == 0) {
        six->sin6_family = AF_INET6;
        six->sin6_addr = in6addr_loopback;
        *length = sizeof *six;
        return;
    }
    four->sin_family = AF_INET;
    const char *text = strcmp(address_family, "v4") == 0 ? "127.0.0.1" : address_family;
    CHECK_EQ(inet_pton(AF_INET, text, &four->sin_addr), 1);
    *length = sizeof *four;
}

int tcp_socket(int type_flags) {
    int fd = socket(strcmp(address_family, "v6") == 0 ? AF_INET6 : AF_INET, SOCK_STREAM | type_flags, 0);
    CHECK(fd >= 0);
    return fd;
}

int listen_any(int backlog, struct sockaddr_storage *address, socklen_t *length) {
    int fd = tcp_socket(SOCK_CLOEXEC);
    loopback(address, length);
    CHECK_EQ(bind(fd, (struct sockaddr *)address, *length), 0);
    CHECK_EQ(listen(fd, backlog), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, length), 0);
    return fd;
}

/* getsockopt by the bare instruction: what the kernel itself says, whoever hooks the function. */
static long kernel_getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = (long)value;
    register long r8 __asm__("r8") = (long)length;
    __asm__ volatile("syscall" : "=a"(result) : "a"(55L), "D"((long)fd), "S"((long)level), "d"((long)name), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
#else
    return getsockopt(fd, level, name, value, length);
#endif
}

void tcp_bytes(int fd, uint64_t *sent_bytes, uint64_t *received_bytes) {
    /* glibc's struct tcp_info ends before these fields. */
    struct {
        struct tcp_info basic;
        uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
        uint32_t segments[6];
        uint64_t delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
        uint32_t delivered[2];
        uint64_t bytes_sent;
    } info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    CHECK_EQ(kernel_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    *sent_bytes = info.bytes_sent;
    *received_bytes = info.bytes_received;
}

enum { PING_BYTES = 100, STEADY_ROUNDS = 4, ROUNDS_MAX = 4000, HASTY_ROUNDS = 600 };

/* One round trip after another until `round` no longer moves bytes through the kernel's TCP. */
static void warm(int fd, void (*round)(void *, void *), void *one, void *other) {
    int steady = 0;
    for (int i = 0; i < warm_rounds || (expect_upgrade && steady < STEADY_ROUNDS); i++) {
        if (i == warm_rounds + ROUNDS_MAX) FAIL("connection not upgraded after %d round trips", i);
        if (i > HASTY_ROUNDS) sleep_ms(1);
        uint64_t tx_before, rx_before, tx, rx;
        tcp_bytes(fd, &tx_before, &rx_before);
        round(one, other);
        tcp_bytes(fd, &tx, &rx);
        /* Less than the message: a doorbell byte may pass. */
        steady = tx - tx_before < PING_BYTES && rx - rx_before < PING_BYTES ? steady + 1 : 0;
    }
}

static void round_with_peer(void *c, void *unused) {
    (void)unused;
    peer_post(c, OP_ECHO, 1, PING_BYTES);
    put((struct conn *)c, PING_BYTES);
    take((struct conn *)c, PING_BYTES);
    peer_settle();
}

static void round_inside(void *a, void *b) {
    put((struct conn *)a, PING_BYTES);
    take((struct conn *)b, PING_BYTES);
    put((struct conn *)b, PING_BYTES);
    take((struct conn *)a, PING_BYTES);
}

/* The cold and the mid variant (few rounds) leave it to chance when the upgrade comes. */
enum { FULL_WARM_UP = 64 };

static void warm_as_told(int fd, void (*round)(void *, void *), void *one, void *other) {
    bool saved = expect_upgrade;
    expect_upgrade = saved && warm_rounds >= FULL_WARM_UP;
    warm(fd, round, one, other);
    expect_upgrade = saved;
}

void warm_up(struct conn *c) { warm_as_told(c->fd, round_with_peer, c, NULL); }

void warm_up_inside(struct conn *a, struct conn *b) { warm_as_told(a->fd, round_inside, a, b); }

void open_inside(struct conn *a, struct conn *b) {
    struct sockaddr_storage address;
    socklen_t length;
    int listener = listen_any(8, &address, &length);
    int connecting = tcp_socket(SOCK_CLOEXEC);
    CHECK_EQ(connect(connecting, (struct sockaddr *)&address, length), 0);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(accepted >= 0);
    close(listener);
    *a = (struct conn){.fd = connecting, .index = -1, .direction = 0};
    *b = (struct conn){.fd = accepted, .index = -1, .direction = 1};
}

void open_inside_warm(struct conn *a, struct conn *b) {
    open_inside(a, b);
    warm_up_inside(a, b);
}

struct conn open_warm(void) {
    struct conn c = open_cold();
    warm_up(&c);
    return c;
}
