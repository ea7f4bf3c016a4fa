/* What the server and the client share: addresses, and content that follows from its place. */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <mtcp_api.h>
#include <mtcp_epoll.h>
#include <string.h>

#include "../check.h"

/* A call that is to fail with this errno. */
#define FAILS(call, expected) CHECK((call) == -1 && errno == (expected))

struct address {
    struct sockaddr_storage storage;
    socklen_t length;
};

static inline struct address address_of(const char *text, int port)
{
    struct address at = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at.storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at.storage;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return at;
    }
    memset(&at.storage, 0, sizeof at.storage);
    CHECK(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    at.length = sizeof *v6;
    return at;
}

static inline const struct sockaddr *socket_address(const struct address *at)
{
    return (const struct sockaddr *)&at->storage;
}

/* Byte `at` of the stream of connection `n`. */
static inline char content(unsigned n, unsigned long at) { return (char)(n * 131 + at * 7 + at / 251); }

static inline void watch(mctx_t mctx, int set, int operation, int sockid, uint32_t events)
{
    struct mtcp_epoll_event event = {.events = events, .data.sockid = sockid};
    CHECK(mtcp_epoll_ctl(mctx, set, operation, sockid, &event) == 0);
}

#endif
