/*
 * The interface before version 12: one structure for every request, by NIOCREGIF and NIOCGINFO. Taken from version 11
 * on; new programs use NIOCCTRL. Included by net/netmap.h. Source: netmap(4).
 */
#ifndef _NET_NETMAP_LEGACY_H_
#define _NET_NETMAP_LEGACY_H_

struct nmreq {
    char nr_name[IF_NAMESIZE];
    uint32_t nr_version;
    uint32_t nr_offset;
    uint32_t nr_memsize;
    NETMAP_REQ_SHAPE
    uint16_t nr_ringid; /* a ring's number and NETMAP_* bits */
    uint16_t nr_cmd;    /* 0 registers (NIOCREGIF) or asks (NIOCGINFO) */
    uint16_t nr_arg1;   /* registering: further rings, which is advice */
    uint16_t nr_arg2;   /* the memory's id */
    uint32_t nr_arg3;   /* extra buffers */
    uint32_t nr_flags;  /* a mode (NR_REG_*) and NR_* flags */
    uint32_t spare2[1];
};

/* Bits of nr_ringid; the first two choose rings where nr_flags has no mode. */
#define NETMAP_HW_RING 0x4000
#define NETMAP_SW_RING 0x2000
#define NETMAP_NO_TX_POLL 0x1000
#define NETMAP_DO_RX_POLL 0x8000
#define NETMAP_RING_MASK 0x0fff

/* The mode in nr_flags. */
#define NR_REG_MASK 0xf

/* nr_cmd */
#define NETMAP_BDG_ATTACH 1
#define NETMAP_BDG_DETACH 2
#define NETMAP_BDG_REGOPS 3
#define NETMAP_BDG_LIST 4
#define NETMAP_BDG_VNET_HDR 5
#define NETMAP_BDG_NEWIF 6
#define NETMAP_BDG_DELIF 7
#define NETMAP_PT_HOST_CREATE 8
#define NETMAP_PT_HOST_DELETE 9
#define NETMAP_BDG_POLLING_ON 10
#define NETMAP_BDG_POLLING_OFF 11
#define NETMAP_VNET_HDR_GET 12
#define NETMAP_POOLS_INFO_GET 13

/* nr_arg1 of NETMAP_BDG_ATTACH: the host rings, too. */
#define NETMAP_BDG_HOST 1

/* What NETMAP_POOLS_INFO_GET fills in, at the address in the first bytes of nr_arg1. */
struct netmap_pools_info {
    uint64_t memsize;
    uint32_t memid;
    uint32_t if_pool_offset;
    uint32_t if_pool_objtotal;
    uint32_t if_pool_objsize;
    uint32_t ring_pool_offset;
    uint32_t ring_pool_objtotal;
    uint32_t ring_pool_objsize;
    uint32_t buf_pool_offset;
    uint32_t buf_pool_objtotal;
    uint32_t buf_pool_objsize;
};

/* For modules of a switch. */
#define NM_IFRDATA_LEN 256
struct nm_ifreq {
    char nifr_name[IF_NAMESIZE];
    char data[NM_IFRDATA_LEN];
};

#define NIOCGINFO _IOWR('i', 145, struct nmreq)
#define NIOCREGIF _IOWR('i', 146, struct nmreq)
#define NIOCCONFIG _IOWR('i', 150, struct nm_ifreq)

#endif
