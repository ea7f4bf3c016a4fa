/* The interface of /dev/netmap, version 14, by its numbers alone: what an already compiled program knows. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include "check.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct header {
    uint16_t version, reqtype;
    uint32_t reserved;
    char name[64];
    uint64_t options, body;
};

struct registration {
    uint64_t offset, memsize;
    uint32_t tx_slots, rx_slots;
    uint16_t tx_rings, rx_rings, host_tx_rings, host_rx_rings, mem_id, ringid;
    uint32_t mode, extra_bufs;
    uint64_t flags;
};

struct slot {
    uint32_t buf_idx;
    uint16_t len, flags;
    uint64_t ptr;
};

struct ring {
    int64_t buf_ofs;
    uint32_t num_slots, buf_size;
    uint16_t ringid, dir;
    uint32_t head, cur, tail, flags;
    int64_t ts[2];
    uint64_t offset_mask, buf_align;
    char sem[128] __attribute__((aligned(128)));
    struct slot slot[];
};

struct interface {
    char name[16];
    uint32_t version, flags, tx_rings, rx_rings, bufs_head, host_tx_rings, host_rx_rings, spare[3];
    int64_t ring_ofs[];
};

#undef CTRL
#define CTRL _IOWR('i', 151, struct header)
#define TXSYNC _IO('i', 148)
#define RXSYNC _IO('i', 149)
#define ALL_NIC 1
#define MOREFRAG 0x20

/* A bound descriptor with its memory and first rings. */
struct port {
    int fd;
    struct registration reg;
    char *memory;
    struct interface *interface;
    struct ring *tx, *rx;
};

static inline void map(struct port *p)
{
    p->memory = mmap(NULL, p->reg.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    CHECK(p->memory != MAP_FAILED);
    p->interface = (struct interface *)(p->memory + p->reg.offset);
    p->tx = (struct ring *)((char *)p->interface + p->interface->ring_ofs[0]);
    int first_rx = p->interface->tx_rings + p->interface->host_tx_rings;
    p->rx = (struct ring *)((char *)p->interface + p->interface->ring_ofs[first_rx]);
}

static inline struct port bind_port(const char *name, uint32_t mode, uint64_t flags)
{
    struct port p = {.fd = open("/dev/netmap", O_RDWR), .reg = {.mode = mode, .flags = flags}};
    struct header h = {.version = 14, .reqtype = 1, .body = (uintptr_t)&p.reg};
    strncpy(h.name, name, sizeof(h.name) - 1);
    CHECK(p.fd >= 0);
    CHECK(ioctl(p.fd, CTRL, &h) == 0);
    map(&p);
    return p;
}

static inline char *buffer(struct ring *r, uint32_t i)
{
    return (char *)r + r->buf_ofs + (size_t)r->slot[i].buf_idx * r->buf_size;
}

static inline uint32_t next(struct ring *r, uint32_t i)
{
    return i + 1 == r->num_slots ? 0 : i + 1;
}

/* Syncs until the other side has taken everything. */
static inline void flush(struct port *p)
{
    while (next(p->tx, p->tx->tail) != p->tx->head) {
        CHECK(ioctl(p->fd, TXSYNC, NULL) == 0);
        usleep(100);
    }
}

#endif
