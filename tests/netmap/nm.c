/* The way in by nm_open and its relatives. */
#define NETMAP_WITH_LIBS
#include <net/netmap_user.h>

#include "way.h"

struct way {
    struct nm_desc *d;
};

struct way *way_open(const char *name)
{
    struct way *way = malloc(sizeof *way);
    CHECK(way != NULL);
    way->d = nm_open(name, NULL, 0, NULL);
    CHECK(way->d != NULL);
    return way;
}

void way_close(struct way *way)
{
    CHECK(nm_close(way->d) == 0);
    free(way);
}

int way_fd(const struct way *way) { return NETMAP_FD(way->d); }

int way_send(struct way *way, const void *frame, uint16_t bytes)
{
    int sent = nm_inject(way->d, frame, bytes);
    CHECK(sent == 0 || sent == bytes);
    return sent != 0;
}

struct call {
    taker take;
    void *arg;
    int more;
};

static void found(u_char *arg, const struct nm_pkthdr *header, const u_char *frame)
{
    struct call *call = (struct call *)arg;
    CHECK(header->len == header->caplen && header->buf == frame && header->slot->len == header->len);
    call->more = header->flags == NM_MORE_PKTS;
    call->take(call->arg, (const char *)frame, (uint16_t)header->len);
}

/* The first by nm_nextpkt, the others by nm_dispatch. */
int way_receive(struct way *way, taker take, void *arg)
{
    struct nm_pkthdr header;
    struct call call = {take, arg, 0};
    u_char *frame = nm_nextpkt(way->d, &header);
    if (frame == NULL)
        return 0;
    CHECK(header.d == way->d && header.len == header.caplen);
    take(arg, (const char *)frame, (uint16_t)header.len);
    int others = nm_dispatch(way->d, -1, found, (u_char *)&call);
    CHECK(!call.more);
    return 1 + others;
}

int way_pending(const struct way *way)
{
    for (int i = way->d->first_tx_ring; i <= way->d->last_tx_ring; i++)
        if (nm_tx_pending(NETMAP_TXRING(way->d->nifp, i)))
            return 1;
    return 0;
}

void way_sync(struct way *way)
{
    CHECK(ioctl(way->d->fd, NIOCTXSYNC, NULL) == 0);
    CHECK(ioctl(way->d->fd, NIOCRXSYNC, NULL) == 0);
}
