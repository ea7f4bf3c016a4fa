/* The way in by the interface's numbers alone: a program that was compiled elsewhere. */
#include "numbers.h"
#include "way.h"

struct way {
    struct port port;
};

struct way *way_open(const char *name)
{
    struct way *way = malloc(sizeof *way);
    CHECK(way != NULL);
    if (strncmp(name, "netmap:", 7) == 0)
        name += 7;
    way->port = bind_port(name, ALL_NIC, 0);
    return way;
}

void way_close(struct way *way)
{
    CHECK(munmap(way->port.memory, way->port.reg.memsize) == 0);
    CHECK(close(way->port.fd) == 0);
    free(way);
}

int way_fd(const struct way *way) { return way->port.fd; }

int way_send(struct way *way, const void *frame, uint16_t bytes)
{
    struct ring *r = way->port.tx;
    if (r->head == r->tail)
        return 0;
    memcpy(buffer(r, r->head), frame, bytes);
    r->slot[r->head].len = bytes;
    r->slot[r->head].flags = 0;
    r->head = r->cur = next(r, r->head);
    return 1;
}

int way_receive(struct way *way, taker take, void *arg)
{
    int count = 0;
    struct ring *r = way->port.rx;
    for (; r->head != r->tail; count++) {
        take(arg, buffer(r, r->head), r->slot[r->head].len);
        r->head = r->cur = next(r, r->head);
    }
    return count;
}

int way_pending(const struct way *way)
{
    struct ring *r = way->port.tx;
    return next(r, r->tail) != r->head;
}

void way_sync(struct way *way)
{
    CHECK(ioctl(way->port.fd, TXSYNC, NULL) == 0);
    CHECK(ioctl(way->port.fd, RXSYNC, NULL) == 0);
}
