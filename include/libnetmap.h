/*
 * libnetmap: netmap ports by name, step by step or at once. In the library of the same name (`-lnetmap -lringway`). Written from
 * the documented interface for programs that are compiled for Ringway.
 *
 *   subsystem:port[rings][@memory][/flags][options]
 *
 *   netmap:IF, netmap:IF{ID, netmap:IF}ID, valeS:P
 *   rings    ^ host rings, ^N one of them, * NIC and host rings, -N one NIC ring pair
 *   @N       in memory region N
 *   flags    x exclusive, z zero-copy monitor, t or r monitor of the tx or rx side, R or T rx or tx rings only
 *   options  @NAME=VALUE, @NAME:KEY=VALUE,...: share, conf, extmem, offset
 *
 * Functions answer 0 or -1, or a pointer or NULL, with errno; a message goes to the context's error().
 */
#ifndef LIBNETMAP_H_
#define LIBNETMAP_H_

#include <net/netmap_user.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nmctx;
struct nmem_d;
struct nmport_cleanup_d;

/* A port. From mem on it is to be read only. */
struct nmport_d {
    struct nmreq_header hdr;
    struct nmreq_register reg;
    struct nmem_d *mem; /* the same for ports that share memory */
    struct nmctx *ctx;
    int register_done;
    int mmap_done;
    struct nmreq_opt_extmem *extmem;
    int fd; /* -1 if it is not open */
    struct netmap_if *nifp;
    /* Rings to use; none if the first is behind the last. */
    uint16_t first_tx_ring;
    uint16_t last_tx_ring;
    uint16_t first_rx_ring;
    uint16_t last_rx_ring;
    uint16_t cur_tx_ring;
    uint16_t cur_rx_ring;
    struct nmport_cleanup_d *clist;
};

/* open = prepare + open_desc; prepare = new + parse; open_desc = register + mmap. Each has its undo. */
struct nmport_d *nmport_open(const char *portspec);
void nmport_close(struct nmport_d *d);
struct nmport_d *nmport_prepare(const char *portspec);
int nmport_open_desc(struct nmport_d *d);
void nmport_undo_prepare(struct nmport_d *d);
void nmport_undo_open_desc(struct nmport_d *d);
struct nmport_d *nmport_new(void);
int nmport_parse(struct nmport_d *d, const char *portspec);
int nmport_register(struct nmport_d *d);
int nmport_mmap(struct nmport_d *d);
void nmport_delete(struct nmport_d *d);
void nmport_undo_parse(struct nmport_d *d);
void nmport_undo_register(struct nmport_d *d);
void nmport_undo_mmap(struct nmport_d *d);

/* A prepared port with the same request, without its options. */
struct nmport_d *nmport_clone(struct nmport_d *d);
/* Copies a packet into the next tx ring with room: its bytes, or 0 if there is none. */
int nmport_inject(struct nmport_d *d, const void *packet, size_t bytes);

/* Before registering: the program's own memory, and data that begins at an offset. */
int nmport_extmem(struct nmport_d *d, void *base, size_t bytes);
int nmport_extmem_from_file(struct nmport_d *d, const char *path);
struct nmreq_pools_info *nmport_extmem_getinfo(struct nmport_d *d);
int nmport_offset(struct nmport_d *d, uint64_t initial, uint64_t max, uint64_t bits, uint64_t min_gap);

/* Options that nmport_parse takes; `offset` is off until it is enabled. */
void nmport_disable_option(const char *option);
int nmport_enable_option(const char *option);

/* Requests. The decoders move *text behind what they took, and change nothing if it is wrong. */
void nmreq_header_init(struct nmreq_header *header, uint16_t reqtype, void *body);
int nmreq_header_decode(const char **text, struct nmreq_header *header, struct nmctx *ctx);
int nmreq_register_decode(const char **text, struct nmreq_register *reg, struct nmctx *ctx);
int32_t nmreq_get_mem_id(const char **text, struct nmctx *ctx);

#define NMREQ_OPT_MAXKEYS 16

/* What the callback of an option gets: the values of its keys by their id, NULL where none was given. */
struct nmreq_parse_ctx {
    struct nmctx *ctx;
    void *token;
    const char *keys[NMREQ_OPT_MAXKEYS];
};

typedef int (*nmreq_opt_parser_cb)(struct nmreq_parse_ctx *);

struct nmreq_opt_key {
    const char *key;
    int id;
    unsigned int flags;
};

#define NMREQ_OPTK_ALLOWEMPTY (1U << 0)
#define NMREQ_OPTK_MUSTSET (1U << 1)
#define NMREQ_OPTK_DEFAULT (1U << 2)

struct nmreq_opt_parser {
    const char *prefix;
    nmreq_opt_parser_cb parse;
    int default_key; /* id of the key that a value alone is for; -1: none */
    int nr_keys;
    unsigned int flags;
    struct nmreq_opt_parser *next;
    struct nmreq_opt_key keys[NMREQ_OPT_MAXKEYS];
} __attribute__((aligned(16)));

#define NMREQ_OPTF_DISABLED (1U << 0)
#define NMREQ_OPTF_ALLOWEMPTY (1U << 1)

int nmreq_options_decode(const char *options, struct nmreq_opt_parser *parsers, void *token, struct nmctx *ctx);

void nmreq_push_option(struct nmreq_header *header, struct nmreq_option *option);
void nmreq_remove_option(struct nmreq_header *header, struct nmreq_option *option);
struct nmreq_option *nmreq_find_option(struct nmreq_header *header, uint32_t reqtype);
void nmreq_free_options(struct nmreq_header *header);
const char *nmreq_option_name(uint32_t reqtype);
#define nmreq_foreach_option(header, option) \
    for ((option) = (struct nmreq_option *)(uintptr_t)(header)->nr_options; (option) != NULL; \
         (option) = (struct nmreq_option *)(uintptr_t)(option)->nro_next)

/* How the library reports (only while verbose is not 0), allocates and locks. lock(ctx, 1) takes, lock(ctx, 0) gives. */
typedef void (*nmctx_error_cb)(struct nmctx *, const char *);
typedef void *(*nmctx_malloc_cb)(struct nmctx *, size_t);
typedef void (*nmctx_free_cb)(struct nmctx *, void *);
typedef void (*nmctx_lock_cb)(struct nmctx *, int);

struct nmctx {
    int verbose;
    nmctx_error_cb error;
    nmctx_malloc_cb malloc;
    nmctx_free_cb free;
    nmctx_lock_cb lock;
    struct nmem_d *mem_descs;
};

struct nmctx *nmctx_get(void);
/* Returns the one before. */
struct nmctx *nmctx_set_default(struct nmctx *ctx);
/* The library's own context locks from the beginning. */
void nmctx_set_threadsafe(void);
void *nmctx_malloc(struct nmctx *ctx, size_t bytes);
void nmctx_free(struct nmctx *ctx, void *memory);
void nmctx_lock(struct nmctx *ctx);
void nmctx_unlock(struct nmctx *ctx);

/* Formats a message and reports it. */
static inline __attribute__((format(printf, 2, 3), unused)) void nmctx_ferror(struct nmctx *ctx, const char *format, ...)
{
    char text[512];
    va_list values;
    if (!ctx->verbose)
        return;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    ctx->error(ctx, text);
}

/* A mapped region, in the context's list. */
struct nmem_d {
    uint16_t mem_id;
    int refcount;
    void *mem;
    size_t size;
    int is_extmem;
    struct nmem_d *next;
    struct nmem_d *prev;
};

#ifdef __cplusplus
}
#endif

#endif
