/*
 * netmap's interface, version 14: numbers and layouts, written from its documentation for programs that are
 * compiled for Ringway. Source: netmap(4).
 *
 * A program that is compiled against it is linked with `-lringway`, which serves /dev/netmap where the kernel has none, or
 * is run by `ringway run`.
 */
#ifndef _NET_NETMAP_H_
#define _NET_NETMAP_H_

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/types.h>

#define NETMAP_API 14
#define NETMAP_MIN_API 14
#define NETMAP_MAX_API 15
#define NETMAP_DEVICE_NAME "/dev/netmap"
#define NM_CACHE_ALIGN 128

/* One buffer in a ring. */
struct netmap_slot {
    uint32_t buf_idx;
    uint16_t len;
    uint16_t flags;
    uint64_t ptr;
};

#define NS_BUF_CHANGED 0x0001
#define NS_REPORT 0x0002
#define NS_FORWARD 0x0004
#define NS_NO_LEARN 0x0008
#define NS_INDIRECT 0x0010
#define NS_MOREFRAG 0x0020
#define NS_TXMON 0x0040
#define NS_PORT_SHIFT 8
#define NS_PORT_MASK (0xff << NS_PORT_SHIFT)
#define NS_RFRAGS(slot) (((slot)->flags >> 8) & 0xff)
#define NETMAP_MAX_FRAGS 64

/* The program owns the slots from head to before tail; cur is where it wants to be woken. */
struct netmap_ring {
    const int64_t buf_ofs;
    const uint32_t num_slots;
    const uint32_t nr_buf_size;
    const uint16_t ringid;
    const uint16_t dir;
    uint32_t head;
    uint32_t cur;
    uint32_t tail;
    uint32_t flags;
    struct timeval ts;
    uint64_t offset_mask;
    uint64_t buf_align;
    uint8_t sem[128] __attribute__((aligned(NM_CACHE_ALIGN)));
    struct netmap_slot slot[];
};

#define NR_TIMESTAMP 0x0002
#define NR_FORWARD 0x0004

/* What lies at nr_offset of the memory. ring_ofs: NIC tx, host tx, NIC rx, host rx. */
struct netmap_if {
    char ni_name[IF_NAMESIZE];
    const uint32_t ni_version;
    const uint32_t ni_flags;
    const uint32_t ni_tx_rings;
    const uint32_t ni_rx_rings;
    uint32_t ni_bufs_head;
    const uint32_t ni_host_tx_rings;
    const uint32_t ni_host_rx_rings;
    uint32_t ni_spare1[3];
    const ssize_t ring_ofs[];
};

#define NI_PRIV_MEM 0x1

#define NETMAP_REQ_MAXSIZE 4096
#define NETMAP_REQ_IFNAMSIZ 64

struct nmreq_option {
    uint64_t nro_next;
    uint32_t nro_reqtype;
    uint32_t nro_status;
    uint64_t nro_size;
};

struct nmreq_header {
    uint16_t nr_version;
    uint16_t nr_reqtype;
    uint32_t nr_reserved;
    char nr_name[NETMAP_REQ_IFNAMSIZ];
    uint64_t nr_options;
    uint64_t nr_body;
};

enum {
    NETMAP_REQ_REGISTER = 1,
    NETMAP_REQ_PORT_INFO_GET,
    NETMAP_REQ_VALE_ATTACH,
    NETMAP_REQ_VALE_DETACH,
    NETMAP_REQ_VALE_LIST,
    NETMAP_REQ_PORT_HDR_SET,
    NETMAP_REQ_PORT_HDR_GET,
    NETMAP_REQ_VALE_NEWIF,
    NETMAP_REQ_VALE_DELIF,
    NETMAP_REQ_VALE_POLLING_ENABLE,
    NETMAP_REQ_VALE_POLLING_DISABLE,
    NETMAP_REQ_POOLS_INFO_GET,
    NETMAP_REQ_SYNC_KLOOP_START,
    NETMAP_REQ_SYNC_KLOOP_STOP,
    NETMAP_REQ_CSB_ENABLE
};

enum {
    NETMAP_REQ_OPT_EXTMEM = 1,
    NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS,
    NETMAP_REQ_OPT_CSB,
    NETMAP_REQ_OPT_SYNC_KLOOP_MODE,
    NETMAP_REQ_OPT_OFFSETS,
    NETMAP_REQ_OPT_MAX
};

/* Slots of a ring and rings of a port, as several requests have them. */
#define NETMAP_REQ_SHAPE \
    uint32_t nr_tx_slots; \
    uint32_t nr_rx_slots; \
    uint16_t nr_tx_rings; \
    uint16_t nr_rx_rings;

struct nmreq_register {
    uint64_t nr_offset;
    uint64_t nr_memsize;
    NETMAP_REQ_SHAPE
    uint16_t nr_host_tx_rings;
    uint16_t nr_host_rx_rings;
    uint16_t nr_mem_id;
    uint16_t nr_ringid;
    uint32_t nr_mode;
    uint32_t nr_extra_bufs;
    uint64_t nr_flags;
};

#define NR_MONITOR_TX 0x100
#define NR_MONITOR_RX 0x200
#define NR_ZCOPY_MON 0x400
#define NR_EXCLUSIVE 0x800
#define NR_RX_RINGS_ONLY 0x2000
#define NR_TX_RINGS_ONLY 0x4000
#define NR_ACCEPT_VNET_HDR 0x8000
#define NR_DO_RX_POLL 0x10000
#define NR_NO_TX_POLL 0x20000

enum {
    NR_REG_DEFAULT = 0,
    NR_REG_ALL_NIC = 1,
    NR_REG_SW = 2,
    NR_REG_NIC_SW = 3,
    NR_REG_ONE_NIC = 4,
    NR_REG_PIPE_MASTER = 5,
    NR_REG_PIPE_SLAVE = 6,
    NR_REG_NULL = 7,
    NR_REG_ONE_SW = 8
};

struct nmreq_port_info_get {
    uint64_t nr_memsize;
    NETMAP_REQ_SHAPE
    uint16_t nr_host_tx_rings;
    uint16_t nr_host_rx_rings;
    uint16_t nr_mem_id;
    uint16_t pad[3];
};

struct nmreq_pools_info {
    uint64_t nr_memsize;
    uint16_t nr_mem_id;
    uint16_t pad1[3];
    uint64_t nr_if_pool_offset;
    uint32_t nr_if_pool_objtotal;
    uint32_t nr_if_pool_objsize;
    uint64_t nr_ring_pool_offset;
    uint32_t nr_ring_pool_objtotal;
    uint32_t nr_ring_pool_objsize;
    uint64_t nr_buf_pool_offset;
    uint32_t nr_buf_pool_objtotal;
    uint32_t nr_buf_pool_objsize;
};

/* nr_name: SWITCH:PORT. port_index: the port's number at the switch, filled in. */
struct nmreq_vale_attach {
    struct nmreq_register reg;
    uint32_t port_index;
    uint32_t pad1;
};

struct nmreq_vale_detach {
    uint32_t port_index;
    uint32_t pad1;
};

/* With a name: where that port is. Without: the first port from these numbers on, filled in with its name. */
struct nmreq_vale_list {
    uint16_t nr_bridge_idx;
    uint16_t pad1;
    uint32_t nr_port_idx;
};

/* Bytes of the virtio-net header before each frame: 0, 10 or 12. */
struct nmreq_port_hdr {
    uint32_t nr_hdr_len;
    uint32_t pad1;
};

struct nmreq_vale_newif {
    NETMAP_REQ_SHAPE
    uint16_t nr_mem_id;
    uint16_t pad1;
};

struct nmreq_vale_polling {
    uint32_t nr_mode;
    uint32_t nr_first_cpu_id;
    uint32_t nr_num_polling_cpus;
    uint32_t pad1;
};

#define NETMAP_POLLING_MODE_SINGLE_CPU 1
#define NETMAP_POLLING_MODE_MULTI_CPU 2

/* The loop runs in this call until NETMAP_REQ_SYNC_KLOOP_STOP. */
struct nmreq_sync_kloop_start {
    uint32_t sleep_us; /* between looks, where there are no eventfds */
    uint32_t pad1;
};

/* Options. nro_size counts where an option ends in an array. */

/* Memory of the program's own for a port. */
struct nmreq_opt_extmem {
    struct nmreq_option nro_opt;
    uint64_t nro_usrptr;
    struct nmreq_pools_info nro_info;
};

/* A pair for each cell, in the cells' order; below 0: none. */
struct nmreq_opt_sync_kloop_eventfds {
    struct nmreq_option nro_opt;
    struct {
        int32_t ioeventfd; /* the program kicks the loop */
        int32_t irqfd;     /* the loop kicks the program */
    } eventfds[];
};

struct nmreq_opt_sync_kloop_mode {
    struct nmreq_option nro_opt;
    uint32_t mode;
};

#define NM_OPT_SYNC_KLOOP_DIRECT_TX (1 << 0)
#define NM_OPT_SYNC_KLOOP_DIRECT_RX (1 << 1)

/* Two arrays with a cell for each bound ring, tx before rx. */
struct nmreq_opt_csb {
    struct nmreq_option nro_opt;
    uint64_t csb_atok;
    uint64_t csb_ktoa;
};

/* The low nro_offset_bits of each slot's ptr say where in its buffer the data begins. */
struct nmreq_opt_offsets {
    struct nmreq_option nro_opt;
    uint64_t nro_max_offset;
    uint64_t nro_initial_offset;
    uint32_t nro_offset_bits;
    uint64_t nro_tx_align;
    uint64_t nro_min_gap;
};

/* Cells of CSB mode: application to kernel, and back. */
struct nm_csb_atok {
    uint32_t head;
    uint32_t cur;
    uint32_t appl_need_kick;
    uint32_t sync_flags;
    uint32_t pad[12];
};

struct nm_csb_ktoa {
    uint32_t hwcur;
    uint32_t hwtail;
    uint32_t kern_need_kick;
    uint32_t pad[13];
};

static inline void nm_stst_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void nm_ldld_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* cur goes out before head, so that no reader sees a head that is newer than its cur. */
static inline void nm_sync_kloop_appl_write(struct nm_csb_atok *atok, uint32_t cur, uint32_t head)
{
    nm_stst_barrier();
    __atomic_store_n(&atok->cur, cur, __ATOMIC_RELAXED);
    __atomic_store_n(&atok->head, head, __ATOMIC_RELEASE);
}

/* hwtail comes in before hwcur, for the same reason the other way round. */
static inline void nm_sync_kloop_appl_read(struct nm_csb_ktoa *ktoa, uint32_t *hwtail, uint32_t *hwcur)
{
    *hwtail = __atomic_load_n(&ktoa->hwtail, __ATOMIC_ACQUIRE);
    *hwcur = __atomic_load_n(&ktoa->hwcur, __ATOMIC_RELAXED);
    nm_ldld_barrier();
}

#define NIOCCTRL _IOWR('i', 151, struct nmreq_header)
#define NIOCTXSYNC _IO('i', 148)
#define NIOCRXSYNC _IO('i', 149)

#define NM_BDG_NAME "vale"

/* The tail is the other side's: a ring without slots for the program is empty. */
static inline int nm_ring_empty(struct netmap_ring *ring)
{
    return ring->head == ring->tail;
}

#include <net/netmap_legacy.h>

#ifndef __cplusplus
_Static_assert(sizeof(struct netmap_slot) == 16, "a slot");
_Static_assert(offsetof(struct netmap_ring, slot) == 256, "a ring");
_Static_assert(offsetof(struct netmap_if, ring_ofs) == 56, "an interface");
_Static_assert(sizeof(struct nmreq_header) == 88 && sizeof(struct nmreq_register) == 56, "a registration");
_Static_assert(sizeof(struct nmreq_port_info_get) == 32 && sizeof(struct nmreq_pools_info) == 64, "information");
_Static_assert(sizeof(struct nmreq_opt_offsets) == 64 && sizeof(struct nmreq_opt_extmem) == 96, "options");
_Static_assert(sizeof(struct nm_csb_atok) == 64 && sizeof(struct nm_csb_ktoa) == 64, "cells");
_Static_assert(sizeof(struct nmreq) == 60, "a request of old");
#endif

#endif
