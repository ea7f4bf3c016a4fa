/*
 * Working with netmap's rings: where things are, and how far one is. Written from netmap(4) for programs that are
 * compiled for Ringway.
 */
#ifndef _NET_NETMAP_USER_H_
#define _NET_NETMAP_USER_H_

#include <net/netmap.h>
#include <string.h>

#define _NETMAP_OFFSET(type, from, bytes) ((type)(void *)((char *)(from) + (bytes)))

#define NETMAP_IF(memory, offset) _NETMAP_OFFSET(struct netmap_if *, memory, offset)
#define NETMAP_TXRING(nifp, i) _NETMAP_OFFSET(struct netmap_ring *, nifp, (nifp)->ring_ofs[i])
#define NETMAP_RXRING(nifp, i) \
    _NETMAP_OFFSET(struct netmap_ring *, nifp, \
                   (nifp)->ring_ofs[(i) + (nifp)->ni_tx_rings + (nifp)->ni_host_tx_rings])

#define NETMAP_BUF(ring, index) ((char *)(ring) + (ring)->buf_ofs + (size_t)(index) * (ring)->nr_buf_size)
#define NETMAP_BUF_IDX(ring, buf) (((char *)(buf) - ((char *)(ring) + (ring)->buf_ofs)) / (ring)->nr_buf_size)

/* Where in its buffer a slot's data begins (option OFFSETS). */
#define NETMAP_ROFFSET(ring, slot) ((slot)->ptr & (ring)->offset_mask)
#define NETMAP_WOFFSET(ring, slot, offset) \
    ((slot)->ptr = ((slot)->ptr & ~(ring)->offset_mask) | ((offset) & (ring)->offset_mask))
#define NETMAP_BUF_OFFSET(ring, slot) (NETMAP_BUF(ring, (slot)->buf_idx) + NETMAP_ROFFSET(ring, slot))

static inline uint32_t nm_ring_next(struct netmap_ring *ring, uint32_t i)
{
    return i + 1 == ring->num_slots ? 0 : i + 1;
}

/* Whether slots that were given back or filled are still the other side's. */
static inline int nm_tx_pending(struct netmap_ring *ring)
{
    return nm_ring_next(ring, ring->tail) != ring->head;
}

/* Slots from head to tail. */
static inline uint32_t nm_ring_space(struct netmap_ring *ring)
{
    uint32_t head = ring->head, tail = ring->tail;
    return tail >= head ? tail - head : tail + ring->num_slots - head;
}

static inline int nm_ring_empty(struct netmap_ring *ring)
{
    return ring->head == ring->tail;
}

static inline void nm_pkt_copy(const void *from, void *to, int bytes)
{
    memcpy(to, from, (size_t)bytes);
}

#endif
