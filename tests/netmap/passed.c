/* Compiled against our header: one process opens both ends of a pipe and passes one to another by SCM_RIGHTS, which has
 * never opened /dev/netmap; that one maps it, waits and receives. Content and order are checked. */
#include "check.h"

#include <net/netmap_user.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKETS 20000u

/* All that the receiver is told besides the descriptor. */
struct place {
    uint64_t offset, memsize;
};

static int bind_port(const char *name, struct place *place)
{
    struct nmreq_register reg = {.nr_mode = NR_REG_ALL_NIC};
    struct nmreq_header header = {.nr_version = NETMAP_API, .nr_reqtype = NETMAP_REQ_REGISTER};
    int fd = open(NETMAP_DEVICE_NAME, O_RDWR);
    CHECK(fd >= 0);
    strncpy(header.nr_name, name, sizeof(header.nr_name) - 1);
    header.nr_body = (uintptr_t)&reg;
    CHECK(ioctl(fd, NIOCCTRL, &header) == 0);
    *place = (struct place){reg.nr_offset, reg.nr_memsize};
    return fd;
}

static struct netmap_if *map(int fd, struct place place)
{
    char *memory = mmap(NULL, place.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    return NETMAP_IF(memory, place.offset);
}

static void pass(int line, int fd, struct place place)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&place, sizeof place};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(first), &fd, sizeof fd);
    CHECK(sendmsg(line, &message, 0) == sizeof place);
}

static int take(int line, struct place *place)
{
    int fd;
    char control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {place, sizeof *place};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(line, &message, 0) == sizeof *place);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void receive(int line)
{
    struct place place;
    int fd = take(line, &place);
    struct netmap_ring *ring = NETMAP_RXRING(map(fd, place), 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (uint32_t n = 0; n < PACKETS;) {
        CHECK(poll(&wait, 1, 10000) == 1 && wait.revents == POLLIN);
        for (; !nm_ring_empty(ring); n++) {
            uint32_t found;
            memcpy(&found, NETMAP_BUF(ring, ring->slot[ring->head].buf_idx), sizeof found);
            CHECK(found == n && ring->slot[ring->head].len == 60 + n % 1000);
            ring->head = ring->cur = nm_ring_next(ring, ring->head);
        }
    }
    CHECK(ioctl(fd, NIOCRXSYNC, NULL) == 0);
}

int main(void)
{
    int line[2], status;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        receive(line[1]);
        exit(0);
    }
    struct place ours, theirs;
    int fd = bind_port("y{1", &ours), passed = bind_port("y}1", &theirs);
    pass(line[0], passed, theirs);
    close(passed);
    struct netmap_ring *ring = NETMAP_TXRING(map(fd, ours), 0);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    for (uint32_t n = 0; n < PACKETS;) {
        CHECK(poll(&wait, 1, 10000) == 1 && wait.revents == POLLOUT);
        for (; !nm_ring_empty(ring) && n < PACKETS; n++) {
            struct netmap_slot *slot = &ring->slot[ring->head];
            memcpy(NETMAP_BUF(ring, slot->buf_idx), &n, sizeof n);
            slot->len = 60 + n % 1000;
            slot->flags = 0;
            ring->head = ring->cur = nm_ring_next(ring, ring->head);
        }
    }
    while (nm_tx_pending(ring)) {
        CHECK(ioctl(fd, NIOCTXSYNC, NULL) == 0);
        usleep(100);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}
