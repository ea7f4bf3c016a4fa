/* io_uring by bare system calls. A preloaded library may refuse it, or keep the connection on TCP;
 * what the program reads and writes must be right in any case. */
#include "parity.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

/* Past any hook, as liburing does it. */
static long bare_syscall(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
#else
    return syscall(number, a, b, c, d, e, f);
#endif
}

static bool hooked;  /* by syscall(2) instead */

static long ring_call(long number, long a, long b, long c, long d) {
    return hooked ? syscall(number, a, b, c, d, 0, 0) : bare_syscall(number, a, b, c, d, 0, 0);
}

/* False: the kernel or the library refuses, the program has to do without. */
static bool ring_open(struct ring *ring) {
    struct io_uring_params params = {0};
    ring->fd = (int)ring_call(SYS_io_uring_setup, 8, (long)&params, 0, 0);
    if (ring->fd < 0) {
        CHECK(errno == ENOSYS || errno == EPERM);
        return false;
    }
    size_t sq_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    int rights = PROT_READ | PROT_WRITE;
    char *sq = mmap(NULL, sq_bytes, rights, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_bytes, rights, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
    ring->sqes = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), rights, MAP_SHARED, ring->fd, IORING_OFF_SQES);
    CHECK(sq != MAP_FAILED && cq != MAP_FAILED && ring->sqes != MAP_FAILED);
    ring->sq_tail = (unsigned *)(sq + params.sq_off.tail);
    ring->sq_mask = (unsigned *)(sq + params.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(sq + params.sq_off.array);
    ring->cq_head = (unsigned *)(cq + params.cq_off.head);
    ring->cq_tail = (unsigned *)(cq + params.cq_off.tail);
    ring->cq_mask = (unsigned *)(cq + params.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
    return true;
}

static void submit(struct ring *ring, struct io_uring_sqe operation) {
    unsigned tail = *ring->sq_tail, slot = tail & *ring->sq_mask;
    ring->sqes[slot] = operation;
    ring->sq_array[slot] = slot;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    CHECK_EQ(ring_call(SYS_io_uring_enter, ring->fd, 1, 0, 0), 1);
}

static int completion(struct ring *ring) {
    unsigned head = *ring->cq_head;
    while (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) == head) {
        long r = ring_call(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS);
        CHECK(r >= 0 || errno == EINTR);
    }
    int result = ring->cqes[head & *ring->cq_mask].res;
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

static int run(struct ring *ring, int opcode, int fd, void *buffer, unsigned n, unsigned flags) {
    submit(ring, (struct io_uring_sqe){.opcode = (uint8_t)opcode, .fd = fd, .addr = (uintptr_t)buffer, .len = n, .msg_flags = flags});
    return completion(ring);
}

static void echo_by_ring(struct ring *ring, struct conn *c, int write_op, int read_op) {
    char buffer[300];
    peer_post(c, OP_ECHO, 1, 300);
    fill(c, buffer, 300);
    for (int n = 0; n < 300;) {
        int r = run(ring, write_op, c->fd, buffer + n, 300 - n, 0);
        CHECK(r > 0);
        n += r;
    }
    sent(c, 300);
    for (int n = 0; n < 300;) {
        int r = run(ring, read_op, c->fd, buffer, 300 - n, 0);
        CHECK(r > 0);
        check_bytes(c, buffer, r);
        n += r;
    }
    peer_settle();
}

static void use_ring(struct conn *c, bool through_the_library) {
    struct ring ring;
    hooked = through_the_library;
    if (ring_open(&ring)) {
        for (int i = 0; i < 20; i++) {
            echo_by_ring(&ring, c, IORING_OP_WRITE, IORING_OP_READ);
            echo_by_ring(&ring, c, IORING_OP_SEND, IORING_OP_RECV);
        }
        peer_later(c, 20, OP_SEND, 50, 0);
        submit(&ring, (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = c->fd, .poll32_events = POLLIN});
        CHECK(completion(&ring) & POLLIN);
        take(c, 50);
        peer_settle();
    }
    peer_post(c, OP_ECHO, 1, 1000);
    put(c, 1000);
    take(c, 1000);
    peer_settle();
}

TEST(by_syscall_function, "io_uring by syscall(2)", ANY_PATH) { use_ring(c, true); }

TEST(by_bare_instruction, "io_uring by bare system calls", ANY_PATH) { use_ring(c, false); }

/* The ring exists before the connection does. */
TEST(opened_first, "io_uring opened before the connection", BARE | ANY_PATH) {
    struct ring ring;
    hooked = false;
    bool open = ring_open(&ring);
    struct conn one = open_warm();
    for (int i = 0; i < 20 && open; i++) echo_by_ring(&ring, &one, IORING_OP_SEND, IORING_OP_RECV);
    peer_post(&one, OP_ECHO, 1, 1000);
    put(&one, 1000);
    take(&one, 1000);
    peer_settle();
}

/* Connections came first, and the ring before the one that it serves. */
TEST(opened_between, "io_uring opened between connections", BARE | ANY_PATH) {
    struct conn before[2] = {open_warm(), open_warm()};
    struct ring ring;
    hooked = false;
    sleep_ms(200);
    bool open = ring_open(&ring);
    struct conn one = open_warm();
    for (int i = 0; i < 20 && open; i++) echo_by_ring(&ring, &one, IORING_OP_SEND, IORING_OP_RECV);
    for (int i = 0; i < 2; i++) {
        peer_post(&before[i], OP_ECHO, 3, 1000);
        for (int k = 0; k < 3; k++) {
            put(&before[i], 1000);
            take(&before[i], 1000);
        }
        peer_settle();
    }
}
