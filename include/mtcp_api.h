/*
 * mTCP's interface over Ringway's TCP: contexts, sockets, data. Written from the interface's documentation; docs/mtcp.md says
 * what differs. In libmtcp (`-lmtcp`).
 *
 * A context belongs to one thread at a time. Functions answer -1 and errno: Linux's for the same call on a socket, and
 * EACCES for what is no context. There is no SIGPIPE.
 */
#ifndef MTCP_API_H
#define MTCP_API_H

#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef INPORT_ANY
#define INPORT_ANY (uint16_t)0
#endif

enum socket_type {
    MTCP_SOCK_UNUSED,
    MTCP_SOCK_STREAM,
    MTCP_SOCK_PROXY,
    MTCP_SOCK_LISTENER,
    MTCP_SOCK_EPOLL,
    MTCP_SOCK_PIPE
};

struct mtcp_conf {
    int num_cores;
    int max_concurrency;
    int max_num_buffers;
    int rcvbuf_size;
    int sndbuf_size;
    int tcp_timewait;
    int tcp_timeout;
};

typedef struct mtcp_context *mctx_t;

struct mtcp_context {
    int cpu;
};

/* Reads the configuration; what is wrong in it is said on standard error. Before anything else. */
int mtcp_init(const char *config_file);
int mtcp_destroy(void);
int mtcp_getconf(struct mtcp_conf *conf);
/* Takes the fields above 0, for contexts that are made from now on. */
int mtcp_setconf(const struct mtcp_conf *conf);
int mtcp_core_affinitize(int cpu);
/* Opens the core's port. NULL and errno if that fails; a core has one context. */
mctx_t mtcp_create_context(int cpu);
/* Closes all sockets, and waits at most 2 seconds until what was sent has arrived. */
int mtcp_destroy_context(mctx_t mctx);

/* Calls that wait end with EINTR once the handler has run. Answers the handler before. */
typedef void (*mtcp_sighandler_t)(int);
mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler);

/* The ends of a pipe within the context, the one to read first. */
int mtcp_pipe(mctx_t mctx, int pipeid[2]);

/* AF_INET or AF_INET6; SOCK_STREAM or MTCP_SOCK_STREAM, with SOCK_NONBLOCK. Without Nagle's delay, unless TCP_NODELAY is
 * set to 0. */
int mtcp_socket(mctx_t mctx, int domain, int type, int protocol);
int mtcp_bind(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);
int mtcp_listen(mctx_t mctx, int sockid, int backlog);
int mtcp_accept(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);
int mtcp_accept4(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen, int flags);
/* Source addresses for connections to a place, taken in turn. A core's own port gets all answers anyway, so programs may
 * leave this out. Addresses and port in network order. */
int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport);
int mtcp_connect(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);
int mtcp_shutdown(mctx_t mctx, int sockid, int how);
int mtcp_close(mctx_t mctx, int sockid);
/* Like mtcp_close, but resets the connection. */
int mtcp_abort(mctx_t mctx, int sockid);

int mtcp_getsockname(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);
int mtcp_getpeername(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);
int mtcp_getsockopt(mctx_t mctx, int sockid, int level, int optname, void *optval, socklen_t *optlen);
int mtcp_setsockopt(mctx_t mctx, int sockid, int level, int optname, const void *optval, socklen_t optlen);
int mtcp_setsock_nonblock(mctx_t mctx, int sockid);
/* FIONREAD, FIONBIO, TIOCOUTQ, SIOCATMARK */
int mtcp_socket_ioctl(mctx_t mctx, int sockid, int request, void *argp);

/* MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_OOB */
ssize_t mtcp_recv(mctx_t mctx, int sockid, void *buf, size_t len, int flags);
ssize_t mtcp_read(mctx_t mctx, int sockid, void *buf, size_t len);
ssize_t mtcp_readv(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);
/* MSG_DONTWAIT, MSG_MORE, MSG_OOB */
ssize_t mtcp_send(mctx_t mctx, int sockid, const void *buf, size_t len, int flags);
ssize_t mtcp_write(mctx_t mctx, int sockid, const void *buf, size_t len);
ssize_t mtcp_writev(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);

/* poll, on numbers of sockets. */
int mtcp_poll(mctx_t mctx, struct pollfd *fds, nfds_t nfds, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
