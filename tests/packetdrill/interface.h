/* The table that packetdrill asks a library to fill in, and a peer that speaks raw IP through it. */
#pragma once

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

struct interface {
    void *userdata;
    void (*free)(void *);
    int (*socket)(void *, int, int, int);
    int (*bind)(void *, int, const struct sockaddr *, socklen_t);
    int (*listen)(void *, int, int);
    int (*accept)(void *, int, struct sockaddr *, socklen_t *);
    int (*connect)(void *, int, const struct sockaddr *, socklen_t);
    ssize_t (*read)(void *, int, void *, size_t);
    ssize_t (*readv)(void *, int, const struct iovec *, int);
    ssize_t (*recv)(void *, int, void *, size_t, int);
    ssize_t (*recvfrom)(void *, int, void *, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(void *, int, struct msghdr *, int);
    ssize_t (*write)(void *, int, const void *, size_t);
    ssize_t (*writev)(void *, int, const struct iovec *, int);
    ssize_t (*send)(void *, int, const void *, size_t, int);
    ssize_t (*sendto)(void *, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(void *, int, const struct msghdr *, int);
    int (*fcntl)(void *, int, int, ...);
    int (*ioctl)(void *, int, unsigned long, ...);
    int (*close)(void *, int);
    int (*shutdown)(void *, int, int);
    int (*getsockopt)(void *, int, int, int, void *, socklen_t *);
    int (*setsockopt)(void *, int, int, int, const void *, socklen_t);
    int (*poll)(void *, struct pollfd *, nfds_t, int);
    int (*netdev_send)(void *, const void *, size_t);
    int (*netdev_receive)(void *, void *, size_t *, long long *);
    int (*usleep)(void *, useconds_t);
    int (*gettimeofday)(void *, struct timeval *, struct timezone *);
    int (*epoll_create)(void *, int);
    int (*epoll_ctl)(void *, int, int, int, struct epoll_event *);
    int (*epoll_wait)(void *, int, struct epoll_event *, int, int);
    int (*pipe)(void *, int[2]);
    int (*splice)(void *, int, loff_t *, int, loff_t *, size_t, unsigned);
};

#define CHECK(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #holds, errno); \
            exit(2); \
        } \
    } while (0)

/* A call by the table's name, with its own userdata. */
#define CALL(name, ...) table.name(table.userdata, ##__VA_ARGS__)

static struct interface table;
static int family;
/* The ends: ours is one that the library has never heard of. */
static uint8_t ours[16], theirs[16];
static uint16_t our_port = 8080;
static const uint16_t their_port = 8080;
static uint32_t their_seq = 1000, our_isn;

static const char *remote_name(void) { return family == AF_INET ? "192.0.2.1" : "2001:db8::1"; }
static const char *local_name(void) { return family == AF_INET ? "192.168.77.12" : "fd3d:fa7b:d17d::4d:c"; }

static void load(const char *library, const char *flags)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    void (*init)(const char *, struct interface *) = dlsym(handle, "packetdrill_interface_init");
    CHECK(init);
    memset(&table, 0, sizeof table);
    init(flags, &table);
    void **members = (void **)&table;
    for (size_t i = 0; i < sizeof table / sizeof(void *); i++)
        CHECK(members[i]);
    CHECK(inet_pton(family, local_name(), ours) == 1 && inet_pton(family, remote_name(), theirs) == 1);
}

static socklen_t address(struct sockaddr_storage *to, const uint8_t *host, uint16_t port)
{
    memset(to, 0, sizeof *to);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (void *)to;
        v4->sin_family = AF_INET, v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, host, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (void *)to;
    v6->sin6_family = AF_INET6, v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, host, 16);
    return sizeof *v6;
}

static uint32_t sum(uint32_t total, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        total += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return total;
}

static uint16_t fold(uint32_t total)
{
    while (total > 0xffff)
        total = (total >> 16) + (total & 0xffff);
    return total;
}

static size_t host_len(void) { return family == AF_INET ? 4 : 16; }
static size_t ip_len(void) { return family == AF_INET ? 20 : 40; }

static uint16_t tcp_sum(const uint8_t *from, const uint8_t *to, const uint8_t *segment, size_t len)
{
    return fold(sum(sum(sum(6 + (uint32_t)len, from, host_len()), to, host_len()), segment, len));
}

/* A segment from the peer with `len` bytes 'x', at its present sequence number. */
static void inject(uint8_t flags, uint32_t ack, uint16_t window, const uint8_t *options, size_t options_len, size_t len)
{
    uint8_t packet[4096] = {0}, *tcp = packet + ip_len();
    size_t header = 20 + options_len, total = header + len;
    struct tcphdr head = {.source = htons(their_port), .dest = htons(our_port), .seq = htonl(their_seq)};
    head.ack_seq = htonl(flags & TH_ACK ? our_isn + ack : 0);
    head.doff = header / 4, head.th_flags = flags, head.window = htons(window);
    memcpy(tcp, &head, 20), memcpy(tcp + 20, options, options_len), memset(tcp + header, 'x', len);
    uint16_t checksum = htons(~tcp_sum(theirs, ours, tcp, total));
    memcpy(tcp + 16, &checksum, 2);
    if (family == AF_INET) {
        packet[0] = 0x45, packet[8] = 64, packet[9] = 6;
        packet[2] = (20 + total) >> 8, packet[3] = (20 + total) & 255;
        memcpy(packet + 12, theirs, 4), memcpy(packet + 16, ours, 4);
        checksum = htons(~fold(sum(0, packet, 20)));
        memcpy(packet + 10, &checksum, 2);
    } else {
        packet[0] = 0x60, packet[4] = total >> 8, packet[5] = total & 255, packet[6] = 6, packet[7] = 64;
        memcpy(packet + 8, theirs, 16), memcpy(packet + 24, ours, 16);
    }
    CHECK(CALL(netdev_send, packet, ip_len() + total) == 0);
    their_seq += len + !!(flags & (TH_SYN | TH_FIN));
}

/* The next packet that leaves: its header, where its payload is and how long. */
struct left {
    struct tcphdr tcp;
    uint8_t options[40], payload[4096];
    size_t len;
    long long time_us;
};

static struct left receive(void)
{
    static uint8_t packet[8192];
    struct left left = {0};
    size_t len = sizeof packet;
    CHECK(CALL(netdev_receive, packet, &len, &left.time_us) == 0);
    CHECK(packet[0] >> 4 == (family == AF_INET ? 4 : 6));
    const uint8_t *from = packet + (family == AF_INET ? 12 : 8), *to = from + host_len(), *tcp = packet + ip_len();
    /* It answers from wherever it was spoken to. */
    CHECK(!memcmp(to, theirs, host_len()));
    memcpy(ours, from, host_len());
    CHECK(tcp_sum(from, to, tcp, len - ip_len()) == 0xffff);
    CHECK(family == AF_INET6 || fold(sum(0, packet, 20)) == 0xffff);
    memcpy(&left.tcp, tcp, 20);
    size_t header = left.tcp.doff * 4;
    memcpy(left.options, tcp + 20, header - 20);
    left.len = len - ip_len() - header;
    memcpy(left.payload, tcp + header, left.len);
    if (left.tcp.syn)
        our_isn = ntohl(left.tcp.seq);
    return left;
}

static long long now_us(void)
{
    struct timeval time;
    CHECK(CALL(gettimeofday, &time, NULL) == 0);
    return time.tv_sec * 1000000LL + time.tv_usec;
}
