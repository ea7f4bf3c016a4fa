/* The clauses of nm_open and its relatives that traffic.c does not touch. */
#define NETMAP_WITH_LIBS
#include <net/netmap_user.h>

#include "check.h"

#define BIG_BYTES 5000

/* As the library lays them out. */
_Static_assert(sizeof(struct nm_pkthdr) == 56 && sizeof(struct nm_desc) == 760, "sizes");
_Static_assert(offsetof(struct nm_desc, req) == 60 && offsetof(struct nm_desc, hdr) == 120, "request and header");
_Static_assert(offsetof(struct nm_desc, some_ring) == 176 && offsetof(struct nm_desc, msg) == 248, "the rest");

static void names_are_taken_apart(void)
{
    struct nm_desc d;
    char why[MAXERRMSG];
    memset(&d, 0, sizeof d);
    CHECK(nm_parse("netmap:eth0-3@7/xzT", &d, why) == 0);
    CHECK(strcmp(d.req.nr_name, "eth0") == 0 && (d.req.nr_ringid & NETMAP_RING_MASK) == 3 && d.req.nr_arg2 == 7);
    CHECK((d.req.nr_flags & NR_REG_MASK) == NR_REG_ONE_NIC);
    CHECK((d.req.nr_flags & ~NR_REG_MASK) == (NR_EXCLUSIVE | NR_ZCOPY_MON | NR_TX_RINGS_ONLY));
    CHECK(nm_parse("netmap:eth0^", &d, why) == 0 && (d.req.nr_flags & NR_REG_MASK) == NR_REG_SW);
    CHECK(nm_parse("netmap:eth0-", &d, why) == -1 && errno == EINVAL && strlen(why) > 0);
    CHECK(nm_parse("netmap:a_name_of_more_than_15_bytes", &d, why) == -1);
}

static void what_cannot_be_opened_says_why(void)
{
    CHECK(nm_open("eth0", NULL, 0, NULL) == NULL && errno == 0);
    CHECK(nm_open("netmap:no/such", NULL, 0, NULL) == NULL && errno == EINVAL);
    CHECK(nm_open("vale0:a-9", NULL, 0, NULL) == NULL && errno == EINVAL);
    CHECK(nm_close(NULL) == EINVAL);
    struct nm_desc foreign;
    memset(&foreign, 0, sizeof foreign);
    struct nm_desc *d = &foreign;
    CHECK(nm_close(d) == EINVAL && !IS_NETMAP_DESC(d));
}

/* The ends of a pipe share their memory, and so one mapping. */
static void one_mapping_serves_a_pipe(void)
{
    struct nm_desc *a = nm_open("netmap:share{1", NULL, 0, NULL);
    CHECK(a != NULL && IS_NETMAP_DESC(a) && a->done_mmap);
    struct nm_desc *b = nm_open("netmap:share}1", NULL, NM_OPEN_NO_MMAP, a);
    CHECK(b != NULL && b->mem == a->mem && !b->done_mmap && b->nifp != a->nifp);
    struct nm_desc *other = nm_open("vale0:apart", NULL, NM_OPEN_NO_MMAP, a);
    CHECK(other != NULL && other->mem != a->mem && other->done_mmap);
    struct nm_desc *bare = nm_open("netmap:share{2", NULL, NM_OPEN_NO_MMAP, NULL);
    CHECK(bare != NULL && bare->mem == NULL && bare->nifp == NULL && bare->fd >= 0);
    CHECK(nm_mmap(bare, a) == 0 && bare->mem == a->mem && bare->nifp != NULL);
    CHECK(nm_close(bare) == 0 && nm_close(other) == 0 && nm_close(b) == 0 && nm_close(a) == 0);
}

static void a_request_is_inherited(void)
{
    struct nmreq wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.nr_tx_slots = wanted.nr_rx_slots = 256;
    struct nm_desc *a = nm_open("vale0:first", &wanted, 0, NULL);
    CHECK(a != NULL && NETMAP_TXRING(a->nifp, 0)->num_slots == 256);
    struct nm_desc *b = nm_open("vale0:second", NULL, NM_OPEN_RING_CFG, a);
    CHECK(b != NULL && NETMAP_RXRING(b->nifp, 0)->num_slots == 256);
    struct nm_desc *c = nm_open("vale0:third/R", NULL, 0, NULL);
    CHECK(c != NULL && c->first_tx_ring > c->last_tx_ring && nm_inject(c, "x", 1) == 0);
    CHECK(nm_close(c) == 0 && nm_close(b) == 0 && nm_close(a) == 0);
}

struct heard {
    uint32_t packets, fragments;
    int last_had_more;
};

static void hear(u_char *arg, const struct nm_pkthdr *header, const u_char *data)
{
    struct heard *heard = (struct heard *)arg;
    CHECK(header->len == BIG_BYTES && header->caplen < BIG_BYTES && data[0] == (u_char)heard->packets);
    CHECK(header->slot->flags & NS_MOREFRAG);
    heard->packets++;
    heard->last_had_more = header->flags == NM_MORE_PKTS;
}

/* Long packets go as fragments; nm_dispatch hands out packets, nm_nextpkt fragments. */
static void long_packets_are_fragments(void)
{
    struct nm_desc *a = nm_open("netmap:long{1", NULL, 0, NULL), *b = nm_open("netmap:long}1", NULL, 0, NULL);
    CHECK(a != NULL && b != NULL);
    static u_char packet[BIG_BYTES], found[BIG_BYTES];
    for (int n = 0; n < 4; n++) {
        for (int i = 0; i < BIG_BYTES; i++)
            packet[i] = (u_char)(n + i);
        CHECK(nm_inject(a, packet, BIG_BYTES) == BIG_BYTES);
    }
    CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0 && ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
    struct heard heard = {0, 0, 0};
    CHECK(nm_dispatch(b, 2, hear, (u_char *)&heard) == 2 && heard.packets == 2 && !heard.last_had_more);
    CHECK(nm_dispatch(b, 1, hear, (u_char *)&heard) == 1 && heard.packets == 3 && !heard.last_had_more);
    struct nm_pkthdr header;
    uint32_t bytes = 0;
    for (int more = 1; more;) {
        u_char *part = nm_nextpkt(b, &header);
        CHECK(part != NULL && header.len == header.caplen && bytes + header.len <= BIG_BYTES);
        memcpy(found + bytes, part, header.len);
        bytes += header.len;
        more = header.slot->flags & NS_MOREFRAG;
    }
    CHECK(bytes == BIG_BYTES && memcmp(found, packet, BIG_BYTES) == 0);
    CHECK(nm_nextpkt(b, &header) == NULL);
    static u_char too_long[2048 * (NETMAP_MAX_FRAGS + 1)];
    CHECK(nm_inject(a, too_long, sizeof too_long) == 0);
    CHECK(nm_close(a) == 0 && nm_close(b) == 0);
}

int main(void)
{
    names_are_taken_apart();
    what_cannot_be_opened_says_why();
    one_mapping_serves_a_pipe();
    a_request_is_inherited();
    long_packets_are_fragments();
    return 0;
}
