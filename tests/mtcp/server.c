/* Sends back what comes, by levels for the listener and by edges for connections.
 *
 *   server CONFIGURATION ADDRESS PORT CONNECTIONS
 *
 * Ends with 0 when so many connections have come and ended in order, or after a signal with what is said of it. */
#include "common.h"

#include <signal.h>

#define EVENTS_MAX 64
#define SOCKETS_MAX 4096

/* What was read and not yet written. */
struct echo {
    char bytes[16384];
    size_t begin, end;
    int ended;
};

static struct echo *echoes[SOCKETS_MAX];
static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void accept_all(mctx_t mctx, int set, int listener)
{
    int sockid;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    while ((sockid = mtcp_accept(mctx, listener, (struct sockaddr *)&peer, &length)) >= 0) {
        CHECK(sockid < SOCKETS_MAX && echoes[sockid] == NULL);
        CHECK(peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
        CHECK(mtcp_setsock_nonblock(mctx, sockid) == 0);
        CHECK((echoes[sockid] = calloc(1, sizeof **echoes)) != NULL);
        watch(mctx, set, MTCP_EPOLL_CTL_ADD, sockid, MTCP_EPOLLIN | MTCP_EPOLLOUT | MTCP_EPOLLET);
        length = sizeof peer;
    }
    CHECK(errno == EAGAIN);
}

/* Whether the connection has ended. */
static int serve(mctx_t mctx, int sockid)
{
    struct echo *echo = echoes[sockid];
    for (;;) {
        while (echo->begin < echo->end) {
            ssize_t sent = mtcp_write(mctx, sockid, echo->bytes + echo->begin, echo->end - echo->begin);
            if (sent < 0 && errno == EAGAIN)
                return 0;
            CHECK(sent > 0);
            echo->begin += sent;
        }
        if (echo->ended)
            break;
        ssize_t got = mtcp_read(mctx, sockid, echo->bytes, sizeof echo->bytes);
        if (got < 0 && errno == EAGAIN)
            return 0;
        CHECK(got >= 0);
        echo->begin = 0;
        echo->end = got;
        echo->ended = got == 0;
    }
    CHECK(mtcp_close(mctx, sockid) == 0);
    free(echo);
    echoes[sockid] = NULL;
    return 1;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    struct address at = address_of(argv[2], atoi(argv[3]));
    int left = atoi(argv[4]), on = 1;
    struct mtcp_conf conf;
    CHECK(mtcp_init(argv[1]) == 0 && mtcp_getconf(&conf) == 0 && conf.num_cores == 1);
    CHECK(mtcp_register_signal(SIGINT, stop) != SIG_ERR);
    CHECK(mtcp_core_affinitize(0) == 0);
    mctx_t mctx = mtcp_create_context(0);
    CHECK(mctx != NULL && mctx->cpu == 0);
    int set = mtcp_epoll_create(mctx, EVENTS_MAX);
    int listener = mtcp_socket(mctx, at.storage.ss_family, SOCK_STREAM, 0);
    CHECK(set >= 0 && listener >= 0 && mtcp_setsock_nonblock(mctx, listener) == 0);
    CHECK(mtcp_setsockopt(mctx, listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(mtcp_bind(mctx, listener, socket_address(&at), at.length) == 0);
    CHECK(mtcp_listen(mctx, listener, 4096) == 0);
    watch(mctx, set, MTCP_EPOLL_CTL_ADD, listener, MTCP_EPOLLIN);
    fprintf(stderr, "listening\n");
    while (left > 0) {
        struct mtcp_epoll_event events[EVENTS_MAX];
        int count = mtcp_epoll_wait(mctx, set, events, EVENTS_MAX, -1);
        if (stopped) {
            CHECK(count == -1 && errno == EINTR);
            fprintf(stderr, "interrupted, %d left\n", left);
            break;
        }
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            CHECK((events[i].events & MTCP_EPOLLERR) == 0);
            if (events[i].data.sockid == listener)
                accept_all(mctx, set, listener);
            else if (serve(mctx, events[i].data.sockid))
                left--;
        }
    }
    CHECK(mtcp_destroy_context(mctx) == 0 && mtcp_destroy() == 0);
    return 0;
}
