/* The way in by nmport_open and its relatives. */
#include <libnetmap.h>

#include "way.h"

struct way {
    struct nmport_d *d;
};

struct way *way_open(const char *name)
{
    struct way *way = malloc(sizeof *way);
    CHECK(way != NULL);
    way->d = nmport_open(name);
    CHECK(way->d != NULL);
    return way;
}

void way_close(struct way *way)
{
    nmport_close(way->d);
    free(way);
}

int way_fd(const struct way *way) { return way->d->fd; }

int way_send(struct way *way, const void *frame, uint16_t bytes)
{
    int sent = nmport_inject(way->d, frame, bytes);
    CHECK(sent == 0 || sent == bytes);
    return sent != 0;
}

int way_receive(struct way *way, taker take, void *arg)
{
    int count = 0;
    for (int i = way->d->first_rx_ring; i <= way->d->last_rx_ring; i++) {
        struct netmap_ring *ring = NETMAP_RXRING(way->d->nifp, i);
        for (; !nm_ring_empty(ring); count++) {
            struct netmap_slot *slot = &ring->slot[ring->head];
            take(arg, NETMAP_BUF_OFFSET(ring, slot), slot->len);
            ring->head = ring->cur = nm_ring_next(ring, ring->head);
        }
    }
    return count;
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
