/* Two processes pass packets over a pipe and wait by poll, select or epoll; content and order are checked. */
#include "numbers.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#define PACKETS 200000u

static void wait_by_poll(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    CHECK(poll(&p, 1, 10000) == 1);
    CHECK(p.revents == events);
}

static void wait_by_select(int fd, short events)
{
    fd_set set;
    struct timeval limit = {10, 0};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, events & POLLIN ? &set : NULL, events & POLLOUT ? &set : NULL, NULL, &limit) == 1);
    CHECK(FD_ISSET(fd, &set));
}

static void wait_by_epoll(int fd, short events)
{
    static int epfd = -1;
    struct epoll_event wanted = {.events = events, .data.u64 = 0x1234567890}, found;
    if (epfd < 0) {
        CHECK((epfd = epoll_create1(0)) >= 0);
        CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &wanted) == 0);
    }
    CHECK(epoll_wait(epfd, &found, 1, 10000) == 1);
    CHECK(found.events == (uint32_t)events && found.data.u64 == wanted.data.u64);
}

/* Edge-triggered: everything was taken or filled before, so the next event is for something new. */
static void wait_by_edge(int fd, short events)
{
    static int epfd = -1;
    struct epoll_event wanted = {.events = events | EPOLLET}, found;
    if (epfd < 0) {
        CHECK((epfd = epoll_create1(0)) >= 0);
        CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &wanted) == 0);
    }
    CHECK(epoll_wait(epfd, &found, 1, 10000) == 1);
    CHECK(found.events == (uint32_t)events);
}

typedef void (*waiter)(int, short);

static void send_all(struct port *p, waiter wait)
{
    struct ring *r = p->tx;
    for (uint32_t n = 0; n < PACKETS;) {
        wait(p->fd, POLLOUT);
        for (; r->head != r->tail && n < PACKETS; n++) {
            fill(buffer(r, r->head), n);
            r->slot[r->head].len = packet_bytes(n);
            r->slot[r->head].flags = 0;
            r->head = r->cur = next(r, r->head);
        }
    }
    flush(p);
}

static void receive_all(struct port *p, waiter wait)
{
    struct ring *r = p->rx;
    for (uint32_t n = 0; n < PACKETS;) {
        wait(p->fd, POLLIN);
        for (; r->head != r->tail; n++) {
            verify(buffer(r, r->head), r->slot[r->head].len, n);
            r->head = r->cur = next(r, r->head);
        }
    }
    CHECK(ioctl(p->fd, RXSYNC, NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    waiter wait = strcmp(argv[1], "select") == 0 ? wait_by_select
            : strcmp(argv[1], "epoll") == 0  ? wait_by_epoll
            : strcmp(argv[1], "edge") == 0   ? wait_by_edge
                             : wait_by_poll;
    struct port master = bind_port("x{1", ALL_NIC, 0);
    struct port slave = bind_port("x}1", ALL_NIC, 0);
    CHECK(master.reg.mem_id == slave.reg.mem_id && master.reg.mem_id != 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(master.fd);
        receive_all(&slave, wait);
        exit(0);
    }
    close(slave.fd);
    send_all(&master, wait);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%u packets by %s\n", PACKETS, argv[1]);
    return 0;
}
