/* The clauses of libnetmap.h that traffic.c does not touch: steps and their undoing, options, requests, contexts. */
#include <libnetmap.h>

#include "check.h"

#include <errno.h>
#include <sys/mman.h>

/* As the library lays them out. */
_Static_assert(sizeof(struct nmport_d) == 216 && offsetof(struct nmport_d, mem) == 144, "ports");
_Static_assert(offsetof(struct nmport_d, nifp) == 184 && offsetof(struct nmport_d, first_tx_ring) == 192, "their rings");
_Static_assert(sizeof(struct nmctx) == 48 && sizeof(struct nmreq_parse_ctx) == 144, "contexts");
_Static_assert(sizeof(struct nmreq_opt_parser) == 304 && offsetof(struct nmreq_opt_parser, keys) == 40, "parsers");

static int messages, allocations, locks;
static char last[512];

static void hear(struct nmctx *ctx, const char *text)
{
    (void)ctx;
    messages++;
    snprintf(last, sizeof last, "%s", text);
}

static void *allocate(struct nmctx *ctx, size_t bytes)
{
    (void)ctx;
    allocations++;
    return malloc(bytes);
}

static void release(struct nmctx *ctx, void *memory)
{
    (void)ctx;
    allocations -= memory != NULL;
    free(memory);
}

static void lock(struct nmctx *ctx, int take)
{
    (void)ctx;
    CHECK(take ? locks++ == 0 : --locks == 0);
}

/* Wrong, with EINVAL and one message that has `word`. */
#define REFUSED(call, word) \
    do { \
        messages = 0; \
        CHECK((call) && errno == EINVAL); \
        CHECK(messages == 1 && strstr(last, word) != NULL); \
    } while (0)

static void steps_and_their_undoing(void)
{
    struct nmport_d *d = nmport_new();
    CHECK(d != NULL && d->fd == -1 && !d->register_done && !d->mmap_done);
    CHECK(nmport_parse(d, "netmap:steps{1@conf:slots=512,rings=1") == 0);
    CHECK(strcmp(d->hdr.nr_name, "steps{1") == 0 && d->reg.nr_tx_slots == 512 && d->reg.nr_rx_rings == 1);
    REFUSED(nmport_mmap(d) == -1, "registered");
    CHECK(nmport_register(d) == 0 && d->register_done && d->fd >= 0 && d->reg.nr_memsize > 0);
    REFUSED(nmport_register(d) == -1, "registered");
    CHECK(nmport_mmap(d) == 0 && d->mmap_done && d->nifp != NULL);
    CHECK(NETMAP_TXRING(d->nifp, 0)->num_slots == 512);
    nmport_undo_mmap(d);
    nmport_undo_register(d);
    CHECK(d->fd == -1 && d->nifp == NULL && d->mem == NULL && !d->register_done && !d->mmap_done);
    CHECK(nmport_open_desc(d) == 0);
    nmport_undo_open_desc(d);
    nmport_undo_parse(d);
    CHECK(d->hdr.nr_name[0] == 0 && d->reg.nr_tx_slots == 0);
    nmport_delete(d);
    nmport_close(NULL);
}

static void a_clone_has_the_request_and_shares_the_memory(void)
{
    struct nmport_d *d = nmport_open("netmap:clone{1");
    CHECK(d != NULL);
    struct nmport_d *clone = nmport_clone(d);
    CHECK(clone != NULL && clone->fd == -1 && clone->hdr.nr_body == (uintptr_t)&clone->reg);
    CHECK(clone->reg.nr_mem_id == d->reg.nr_mem_id && clone->hdr.nr_options == 0);
    CHECK(nmport_open_desc(clone) == 0 && clone->mem == d->mem && clone->mem->refcount == 2);
    nmport_close(d);
    CHECK(clone->mem->refcount == 1);
    CHECK(nmport_inject(clone, "still mapped", 12) == 12);
    nmport_close(clone);
}

static void options_of_names(void)
{
    struct nmport_d *a = nmport_open("netmap:options{1");
    struct nmport_d *b = nmport_open("netmap:options{2@share:netmap:options{1");
    CHECK(a != NULL && b != NULL && a->mem == b->mem);
    nmport_close(b);
    nmport_close(a);
    REFUSED(nmport_open("netmap:x@offset=16") == NULL, "disabled");
    CHECK(nmport_enable_option("offset") == 0);
    CHECK(nmport_enable_option("none") == -1 && errno == EOPNOTSUPP);
    struct nmport_d *d = nmport_open("netmap:offset{1@offset:initial=16,bits=12");
    CHECK(d != NULL);
    struct netmap_ring *ring = NETMAP_TXRING(d->nifp, 0);
    struct netmap_slot *slot = &ring->slot[ring->head];
    CHECK(NETMAP_ROFFSET(ring, slot) == 16);
    CHECK(nmport_inject(d, "behind", 6) == 6 && memcmp(NETMAP_BUF(ring, slot->buf_idx) + 16, "behind", 6) == 0);
    nmport_close(d);
    nmport_disable_option("offset");
    REFUSED(nmport_open("netmap:x@offset=16") == NULL, "disabled");
    REFUSED(nmport_open("netmap:x@what=1") == NULL, "what");
    REFUSED(nmport_open("netmap:x@conf:ring=1") == NULL, "ring");
    REFUSED(nmport_open("netmap:x@conf:rings=many") == NULL, "many");
    REFUSED(nmport_open("netmap:x{1{2") == NULL, "x{1{2");
    REFUSED(nmport_open("eth0") == NULL, "netmap:");
    REFUSED(nmport_prepare("netmap:x/q") == NULL, "flags");
}

/* Memory of the program's own is refused, and the message says which option it was. */
static void external_memory(void)
{
    size_t bytes = 1 << 24;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    struct nmport_d *d = nmport_prepare("netmap:extmem{1");
    CHECK(d != NULL && nmport_extmem_getinfo(d) == NULL);
    CHECK(nmport_extmem(d, memory, bytes) == 0 && nmport_extmem_getinfo(d)->nr_memsize == bytes);
    REFUSED(nmport_extmem(d, memory, bytes) == -1, "memory");
    REFUSED(nmport_clone(d) == NULL, "memory");
    messages = 0;
    CHECK(nmport_open_desc(d) == -1 && errno == EOPNOTSUPP && strstr(last, "extmem") != NULL);
    CHECK(d->extmem->nro_opt.nro_status == EOPNOTSUPP);
    nmport_undo_prepare(d);
    CHECK(munmap(memory, bytes) == 0);
}

static void requests(void)
{
    struct nmreq_header header;
    struct nmreq_register reg;
    memset(&reg, 0, sizeof reg);
    nmreq_header_init(&header, NETMAP_REQ_REGISTER, &reg);
    const char *text = "vale1:p{3^2/xr@conf:rings=1";
    CHECK(nmreq_header_decode(&text, &header, nmctx_get()) == 0 && strcmp(header.nr_name, "vale1:p{3") == 0);
    CHECK(nmreq_register_decode(&text, &reg, nmctx_get()) == 0 && strcmp(text, "@conf:rings=1") == 0);
    CHECK(reg.nr_mode == NR_REG_ONE_SW && reg.nr_ringid == 2 && reg.nr_flags == (NR_EXCLUSIVE | NR_MONITOR_RX));
    struct nmreq_option a = {.nro_reqtype = NETMAP_REQ_OPT_CSB}, b = {.nro_reqtype = NETMAP_REQ_OPT_OFFSETS}, *found;
    nmreq_push_option(&header, &a);
    nmreq_push_option(&header, &b);
    int count = 0;
    nmreq_foreach_option(&header, found)
        count++;
    CHECK(count == 2 && nmreq_find_option(&header, NETMAP_REQ_OPT_CSB) == &a);
    nmreq_remove_option(&header, &b);
    CHECK(nmreq_find_option(&header, NETMAP_REQ_OPT_OFFSETS) == NULL && header.nr_options == (uintptr_t)&a);
    CHECK(strcmp(nmreq_option_name(NETMAP_REQ_OPT_CSB), "csb") == 0);
}

/* Of a parser's own: values by their key's id, the default key, and what must be set. */
static struct nmreq_parse_ctx seen;
static char seen_first[16];

static int take(struct nmreq_parse_ctx *values)
{
    seen = *values;
    snprintf(seen_first, sizeof seen_first, "%s", values->keys[1]);
    return 0;
}

static void parsers_of_the_program(void)
{
    int token;
    struct nmreq_opt_parser parser = {
        .prefix = "own", .parse = take, .default_key = 1, .nr_keys = 2,
        .keys = {{"first", 1, NMREQ_OPTK_DEFAULT | NMREQ_OPTK_MUSTSET}, {"second", 0, NMREQ_OPTK_ALLOWEMPTY}},
    };
    CHECK(nmreq_options_decode("@own=5@own:second,first=7", &parser, &token, nmctx_get()) == 0);
    CHECK(seen.token == &token && seen.keys[0] != NULL && strcmp(seen_first, "7") == 0);
    REFUSED(nmreq_options_decode("@own:second", &parser, NULL, nmctx_get()) == -1, "first");
    REFUSED(nmreq_options_decode("own=5", &parser, NULL, nmctx_get()) == -1, "@");
}

int main(void)
{
    struct nmctx own = {.verbose = 1, .error = hear, .malloc = allocate, .free = release, .lock = lock}, *before;
    before = nmctx_set_default(&own);
    CHECK(nmctx_get() == &own && before != &own);
    nmctx_ferror(&own, "%s %d", "number", 5);
    CHECK(messages == 1 && strcmp(last, "number 5") == 0);
    steps_and_their_undoing();
    a_clone_has_the_request_and_shares_the_memory();
    options_of_names();
    external_memory();
    requests();
    parsers_of_the_program();
    CHECK(allocations == 0 && locks == 0 && own.mem_descs == NULL);
    CHECK(nmctx_set_default(before) == &own && nmctx_get() == before);
    return 0;
}
