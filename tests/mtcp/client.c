/* Sends on many connections at once and checks that all of it comes back, in order.
 *
 *   client CONFIGURATION ADDRESS PORT CONNECTIONS BYTES
 */
#include "common.h"

#define EVENTS_MAX 64

struct stream {
    unsigned number;
    unsigned long sent, received;
    int ended;
};

static struct stream *streams;
static unsigned long bytes;

static int start(mctx_t mctx, int set, const struct address *to, unsigned number)
{
    int sockid = mtcp_socket(mctx, to->storage.ss_family, MTCP_SOCK_STREAM, 0);
    CHECK(sockid >= 0 && mtcp_setsock_nonblock(mctx, sockid) == 0);
    int answer = mtcp_connect(mctx, sockid, socket_address(to), to->length);
    CHECK(answer == 0 || errno == EINPROGRESS);
    streams[sockid] = (struct stream){.number = number};
    watch(mctx, set, MTCP_EPOLL_CTL_ADD, sockid, MTCP_EPOLLIN | MTCP_EPOLLOUT);
    return sockid;
}

/* What fits; then the end. */
static void send_more(mctx_t mctx, int set, int sockid)
{
    struct stream *stream = &streams[sockid];
    char part[5000];
    while (stream->sent < bytes) {
        size_t length = bytes - stream->sent < sizeof part ? bytes - stream->sent : sizeof part;
        for (size_t i = 0; i < length; i++)
            part[i] = content(stream->number, stream->sent + i);
        struct iovec parts[2] = {{part, length / 3}, {part + length / 3, length - length / 3}};
        ssize_t sent = mtcp_writev(mctx, sockid, parts, 2);
        if (sent < 0 && errno == EAGAIN)
            return;
        CHECK(sent > 0);
        stream->sent += sent;
    }
    if (!stream->ended) {
        CHECK(mtcp_shutdown(mctx, sockid, SHUT_WR) == 0);
        stream->ended = 1;
        watch(mctx, set, MTCP_EPOLL_CTL_MOD, sockid, MTCP_EPOLLIN);
    }
}

/* Whether the end has come. */
static int receive_more(mctx_t mctx, int sockid)
{
    struct stream *stream = &streams[sockid];
    char part[8192];
    ssize_t got;
    while ((got = mtcp_recv(mctx, sockid, part, sizeof part, 0)) > 0)
        for (ssize_t i = 0; i < got; i++, stream->received++)
            CHECK(part[i] == content(stream->number, stream->received));
    if (got < 0) {
        CHECK(errno == EAGAIN);
        return 0;
    }
    CHECK(stream->received == bytes && stream->ended);
    return 1;
}

int main(int argc, char **argv)
{
    CHECK(argc == 6);
    struct address to = address_of(argv[2], atoi(argv[3]));
    int left = atoi(argv[4]);
    bytes = strtoul(argv[5], NULL, 10);
    struct mtcp_conf conf;
    CHECK(mtcp_init(argv[1]) == 0 && mtcp_getconf(&conf) == 0);
    CHECK((streams = calloc(conf.max_concurrency + 1024, sizeof *streams)) != NULL);
    mctx_t mctx = mtcp_create_context(0);
    CHECK(mctx != NULL);
    if (to.storage.ss_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&to.storage;
        CHECK(mtcp_init_rss(mctx, INADDR_ANY, 1, v4->sin_addr.s_addr, v4->sin_port) == 0);
    }
    int set = mtcp_epoll_create1(mctx, 0);
    CHECK(set >= 0);
    for (int n = 0; n < left; n++)
        start(mctx, set, &to, n);
    while (left > 0) {
        struct mtcp_epoll_event events[EVENTS_MAX];
        int count = mtcp_epoll_wait(mctx, set, events, EVENTS_MAX, 20000);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            int sockid = events[i].data.sockid, error = 0;
            socklen_t length = sizeof error;
            CHECK(mtcp_getsockopt(mctx, sockid, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
            errno = error;
            CHECK(error == 0);
            if (events[i].events & MTCP_EPOLLOUT)
                send_more(mctx, set, sockid);
            if ((events[i].events & MTCP_EPOLLIN) && receive_more(mctx, sockid)) {
                CHECK(mtcp_close(mctx, sockid) == 0);
                left--;
            }
        }
    }
    CHECK(mtcp_destroy_context(mctx) == 0 && mtcp_destroy() == 0);
    return 0;
}
