/* A sender, a receiver and a bridge between them. Content and order of all packets are checked.
 *
 *   traffic send PORT            numbered packets, at most WINDOW of them on their way
 *   traffic bridge PORT PORT     everything from each to the other; the first is the sender's side
 *   traffic receive PORT         checks, and says how far it is
 *   traffic all SEND BRIDGE BRIDGE RECEIVE      the three in one process, one thread
 *
 * The receiver says "0 received" until packets come, so it does not matter who starts first; the window is smaller than any
 * ring, so switches have no reason to drop. */
#include "way.h"

#include <poll.h>
#include <stddef.h>
#include <unistd.h>

#define PACKETS 50000u
#define WINDOW 256u
#define NAP_MS 10
#define LIMIT_S 50

enum kind { DATA, RECEIVED, BYE };

struct frame {
    unsigned char to[6], from[6];
    uint16_t type, kind;
    char data[1500];
};

#define HEAD_BYTES offsetof(struct frame, data)

struct role {
    struct way *ways[2];
    void (*step)(struct role *role, int quiet);
    /* Sender: sent and known to be received. Receiver: received. */
    uint32_t sent, received;
    int begun, bye, done;
};

static int send_frame(struct way *way, enum kind kind, unsigned char to, unsigned char from, uint32_t n)
{
    /* The last byte of the addresses; 0x88b5 is for experiments. */
    struct frame frame = {.to = {2, 0, 0, 0, 0, to}, .from = {2, 0, 0, 0, 0, from}, .type = 0xb588, .kind = kind};
    uint16_t bytes = sizeof n;
    memcpy(frame.data, &n, sizeof n);
    if (kind == DATA) {
        bytes = packet_bytes(n);
        fill(frame.data, n);
    }
    return way_send(way, &frame, HEAD_BYTES + bytes);
}

static void hear(void *arg, const char *bytes, uint16_t length)
{
    struct role *role = arg;
    struct frame frame;
    CHECK(length > HEAD_BYTES && length <= sizeof frame);
    memcpy(&frame, bytes, length);
    CHECK(frame.kind == RECEIVED);
    uint32_t received;
    memcpy(&received, frame.data, sizeof received);
    CHECK(received >= role->received && received <= role->sent);
    role->received = received;
    role->begun = 1;
}

static void step_sender(struct role *role, int quiet)
{
    (void)quiet;
    struct way *way = role->ways[0];
    way_receive(way, hear, role);
    while (role->begun && role->sent < PACKETS && role->sent - role->received < WINDOW
           && send_frame(way, DATA, 2, 1, role->sent))
        role->sent++;
    if (role->received == PACKETS && !role->bye)
        role->bye = send_frame(way, BYE, 2, 1, 0);
    else if (role->bye)
        role->done = !way_pending(way);
}

static void check(void *arg, const char *bytes, uint16_t length)
{
    struct role *role = arg;
    struct frame frame;
    CHECK(length > HEAD_BYTES && length <= sizeof frame && !role->bye);
    memcpy(&frame, bytes, length);
    if (frame.kind == BYE) {
        CHECK(role->received == PACKETS);
        role->bye = 1;
        return;
    }
    CHECK(frame.kind == DATA && frame.to[5] == 2 && frame.from[5] == 1);
    verify(frame.data, length - HEAD_BYTES, role->received);
    role->received++;
    role->begun = 1;
}

static void step_receiver(struct role *role, int quiet)
{
    struct way *way = role->ways[0];
    int came = way_receive(way, check, role);
    role->done = role->bye;
    if ((came > 0 && !role->bye) || (quiet && !role->begun))
        CHECK(send_frame(way, RECEIVED, 1, 2, role->received) || !role->begun);
}

static void pass(void *arg, const char *bytes, uint16_t length)
{
    struct role *role = arg;
    struct frame frame;
    CHECK(length <= sizeof frame);
    memcpy(&frame, bytes, length);
    /* Before packets come, the receiver repeats itself, and nobody may be there to take it. */
    CHECK(way_send(role->ways[1], bytes, length) || !role->begun);
    role->begun = role->begun || frame.kind == DATA;
    role->bye = role->bye || frame.kind == BYE;
}

static void step_bridge(struct role *role, int quiet)
{
    (void)quiet;
    if (role->bye)
        role->done = !way_pending(role->ways[1]);
    struct role back = {.ways = {role->ways[1], role->ways[0]}, .begun = role->begun};
    way_receive(role->ways[0], pass, role);
    way_receive(role->ways[1], pass, &back);
}

/* Steps all roles until they are done, and waits in between. */
static void run(struct role *roles, int count)
{
    for (int left = count, quiet = 0; left > 0;) {
        struct pollfd fds[4];
        int n = 0;
        left = 0;
        for (struct role *role = roles; role < roles + count; role++) {
            if (!role->done)
                role->step(role, quiet);
            left += !role->done;
            for (int i = 0; i < 2 && role->ways[i] != NULL; i++)
                fds[n++] = (struct pollfd){.fd = way_fd(role->ways[i]), .events = POLLIN};
        }
        int ready = poll(fds, n, left > 0 ? NAP_MS : 0);
        CHECK(ready >= 0);
        for (int i = 0; i < n; i++)
            CHECK((fds[i].revents & ~POLLIN) == 0);
        quiet = ready == 0;
    }
}

int main(int argc, char **argv)
{
    struct role roles[3] = {0};
    int count = 0;
    CHECK(argc > 1);
    int all = strcmp(argv[1], "all") == 0, at = 2;
    alarm(LIMIT_S);
    if (all || strcmp(argv[1], "send") == 0) {
        CHECK(at < argc);
        roles[count++] = (struct role){.ways = {way_open(argv[at])}, .step = step_sender};
        at += 1;
    }
    if (all || strcmp(argv[1], "bridge") == 0) {
        CHECK(at + 1 < argc);
        roles[count++] = (struct role){.ways = {way_open(argv[at]), way_open(argv[at + 1])}, .step = step_bridge};
        at += 2;
    }
    if (all || strcmp(argv[1], "receive") == 0) {
        CHECK(at < argc);
        roles[count++] = (struct role){.ways = {way_open(argv[at])}, .step = step_receiver};
        at += 1;
    }
    CHECK(count > 0 && at == argc);
    run(roles, count);
    for (struct role *role = roles; role < roles + count; role++)
        for (int i = 0; i < 2 && role->ways[i] != NULL; i++) {
            way_sync(role->ways[i]);
            way_close(role->ways[i]);
        }
    printf("%u packets\n", PACKETS);
    return 0;
}
