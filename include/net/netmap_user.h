/*
 * Working with netmap's rings: where things are, and how far one is; with NETMAP_WITH_LIBS also descriptors that are
 * opened, read and written as libpcap's are (in libnetmap, `-lnetmap`). Written from netmap(4) for programs that are compiled for
 * Ringway.
 */
#ifndef _NET_NETMAP_USER_H_
#define _NET_NETMAP_USER_H_

#include <net/netmap.h>
#include <string.h>

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

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
    return unlikely(i + 1 == ring->num_slots) ? 0 : i + 1;
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

/* Both places must have room for the next multiple of 64 bytes in netmap's own; here the length is exact. */
static inline void nm_pkt_copy(const void *from, void *to, int bytes)
{
    memcpy(to, from, (size_t)bytes);
}

#if defined(NETMAP_WITH_LIBS) && !defined(HAVE_NETMAP_WITH_LIBS)
#define HAVE_NETMAP_WITH_LIBS

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Messages of programs, with the time and the place. */
#ifndef ND
#define ND(...) do {} while (0)
#define D(format, ...) \
    do { \
        struct timeval nm_now; \
        gettimeofday(&nm_now, NULL); \
        fprintf(stderr, "%03d.%06d %s [%d] " format "\n", (int)(nm_now.tv_sec % 1000), (int)nm_now.tv_usec, \
                __func__, __LINE__, ##__VA_ARGS__); \
    } while (0)
/* Not more often than so many times a second. */
#define RD(per_second, format, ...) \
    do { \
        static int nm_second, nm_count; \
        struct timeval nm_time; \
        gettimeofday(&nm_time, NULL); \
        nm_count = nm_second == (int)nm_time.tv_sec ? nm_count : 0; \
        nm_second = (int)nm_time.tv_sec; \
        if (nm_count++ < (per_second)) \
            D(format, ##__VA_ARGS__); \
    } while (0)
#endif

struct nm_desc;

/* The first three as in pcap_pkthdr. caplen: what lies in one piece at buf; len: the whole packet, all fragments. */
struct nm_pkthdr {
    struct timeval ts;
    uint32_t caplen;
    uint32_t len;
    uint64_t flags;
    struct nm_desc *d;
    struct netmap_slot *slot;
    uint8_t *buf;
};

#define NM_MORE_PKTS 1 /* nm_dispatch: not the last packet of the call */

struct nm_stat {
    unsigned int ps_recv;
    unsigned int ps_drop;
    unsigned int ps_ifdrop;
};

#define NM_ERRBUF_SIZE 512

struct nm_desc {
    struct nm_desc *self;
    int fd;
    void *mem;
    uint64_t memsize;
    int done_mmap;
    struct netmap_if *nifp;
    uint16_t first_tx_ring, last_tx_ring, cur_tx_ring;
    uint16_t first_rx_ring, last_rx_ring, cur_rx_ring;
    struct nmreq req;
    struct nm_pkthdr hdr;
    struct netmap_ring *some_ring;
    void *buf_start;
    void *buf_end;
    int snaplen;
    int promisc;
    int to_ms;
    char *errbuf;
    uint32_t if_flags;
    uint32_t if_reqcap;
    uint32_t if_curcap;
    struct nm_stat st;
    char msg[NM_ERRBUF_SIZE];
};

#define P2NMD(p) ((struct nm_desc *)(p))
#define IS_NETMAP_DESC(d) ((d) && P2NMD(d)->self == P2NMD(d))
#define NETMAP_FD(d) (P2NMD(d)->fd)

typedef void (*nm_cb_t)(unsigned char *, const struct nm_pkthdr *, const unsigned char *);

/* What nm_open takes from its last argument, besides NETMAP_NO_TX_POLL and NETMAP_DO_RX_POLL. */
enum {
    NM_OPEN_NO_MMAP = 0x040000,
    NM_OPEN_IFNAME = 0x080000,
    NM_OPEN_ARG1 = 0x100000,
    NM_OPEN_ARG2 = 0x200000,
    NM_OPEN_ARG3 = 0x400000,
    NM_OPEN_RING_CFG = 0x800000
};

/* Opens, binds and maps a port by name. NULL with errno 0 for a name of another kind, with another errno if it fails.
 * req: first values of the request; arg: a descriptor to take from what flags say, and whose mapping is used if the
 * memory is the same (close it last). With NM_OPEN_NO_MMAP and without arg, nothing is mapped. */
struct nm_desc *nm_open(const char *name, const struct nmreq *req, uint64_t flags, const struct nm_desc *arg);
/* Takes name, rings and flags apart into d->req, without opening; err has room for MAXERRMSG bytes. 0 or -1. */
int nm_parse(const char *name, struct nm_desc *d, char *err);
#define MAXERRMSG 512
/* 0 or an errno. */
int nm_mmap(struct nm_desc *d, const struct nm_desc *parent);
/* 0, or EINVAL for what is no descriptor. */
int nm_close(struct nm_desc *d);
/* Copies a packet into the next tx ring with room, as fragments if it is longer than a buffer: its bytes, or 0 if there is
 * no room. It leaves with the next sync (poll, NIOCTXSYNC). */
int nm_inject(struct nm_desc *d, const void *packet, size_t bytes);
/* Calls back for up to count packets (all, if it is not positive) that have been received; returns how many. The callback
 * does not sync the descriptor. */
int nm_dispatch(struct nm_desc *d, int count, nm_cb_t callback, unsigned char *arg);
/* What the next slot holds, valid until the next sync; NULL if there is none. Of a packet in several slots it is one
 * fragment: header->slot->flags has NS_MOREFRAG on all but the last. */
unsigned char *nm_nextpkt(struct nm_desc *d, struct nm_pkthdr *header);

#ifdef __cplusplus
}
#endif

#endif /* NETMAP_WITH_LIBS */

#endif
