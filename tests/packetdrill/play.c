/* Plays one clause of packetdrill's interface against the library: play LIBRARY 4|6 CLAUSE; exits with 0 if it holds. */
#include "interface.h"

#include <pthread.h>
#include <sys/syscall.h>

static const uint8_t syn_options[] = {2, 4, 3, 0xe8, 4, 2, 1, 1, 1, 3, 3, 7};

static int listener(void)
{
    struct sockaddr_storage at;
    int fd = CALL(socket, family, SOCK_STREAM, IPPROTO_TCP);
    CHECK(fd >= 0);
    socklen_t len = address(&at, ours, our_port);
    CHECK(CALL(bind, fd, (void *)&at, len) == 0 && CALL(listen, fd, 1) == 0);
    return fd;
}

/* The peer connects; answers the connection's descriptor. */
static int accepted(void)
{
    int fd = listener();
    inject(TH_SYN, 0, 60000, syn_options, sizeof syn_options, 0);
    struct left answer = receive();
    /* mss, nop, nop, sackOK, nop, wscale 8: Linux's order. */
    static const uint8_t expected[] = {2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 8};
    CHECK(answer.tcp.syn && answer.tcp.ack && ntohs(answer.tcp.window) == 65535);
    CHECK(answer.tcp.doff == 8 && !memcmp(answer.options, expected, sizeof expected));
    inject(TH_ACK, 1, 1000, NULL, 0, 0);
    struct sockaddr_storage peer, wanted;
    socklen_t len = sizeof peer;
    int connection = CALL(accept, fd, (void *)&peer, &len);
    CHECK(connection >= 0 && len == address(&wanted, theirs, their_port) && !memcmp(&peer, &wanted, len));
    return connection;
}

static void server(void)
{
    int fd = accepted();
    char bytes[4096];
    inject(TH_ACK | TH_PUSH, 1, 1000, NULL, 0, 500);
    CHECK(receive().tcp.ack_seq == htonl(their_seq));
    CHECK(CALL(read, fd, bytes, sizeof bytes) == 500 && bytes[499] == 'x');
    CHECK(CALL(write, fd, "hello", 5) == 5);
    struct left data = receive();
    CHECK(data.len == 5 && data.tcp.psh && !memcmp(data.payload, "hello", 5));
    inject(TH_ACK, 6, 1000, NULL, 0, 0);
    CHECK(CALL(shutdown, fd, SHUT_WR) == 0 && receive().tcp.fin);
    inject(TH_ACK | TH_FIN, 7, 1000, NULL, 0, 0);
    CHECK(receive().tcp.ack_seq == htonl(their_seq));
    CHECK(CALL(read, fd, bytes, sizeof bytes) == 0);
    CHECK(CALL(close, fd) == 0 && CALL(close, fd) == -1 && errno == EBADF);
}

/* Bytes in pieces, and the calls that carry them. */
static void pieces(void)
{
    int fd = accepted();
    char one[3] = "", two[10] = "";
    struct iovec to[2] = {{one, 3}, {two, 10}}, from[2] = {{"abc", 3}, {"defg", 4}};
    inject(TH_ACK | TH_PUSH, 1, 1000, NULL, 0, 8);
    receive();
    CHECK(CALL(readv, fd, to, 2) == 8 && one[2] == 'x' && two[4] == 'x' && two[5] == 0);
    CHECK(CALL(writev, fd, from, 2) == 7);
    CHECK(!memcmp(receive().payload, "abcdefg", 7));
    inject(TH_ACK, 8, 1000, NULL, 0, 0);
    struct msghdr message = {.msg_iov = from, .msg_iovlen = 2};
    CHECK(CALL(sendmsg, fd, &message, 0) == 7 && receive().len == 7);
    inject(TH_ACK | TH_PUSH, 15, 1000, NULL, 0, 5);
    struct msghdr taken = {.msg_iov = to, .msg_iovlen = 2};
    CHECK(CALL(recvmsg, fd, &taken, 0) == 5 && taken.msg_controllen == 0);
    CHECK(CALL(recv, fd, one, 3, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(CALL(recvfrom, fd, one, 3, MSG_DONTWAIT, NULL, NULL) == -1 && errno == EAGAIN);
    CHECK(CALL(sendto, fd, "z", 1, 0, NULL, 0) == 1 && CALL(send, fd, "z", 1, 0) == 1);
}

static void through_a_pipe(void)
{
    int fd = accepted(), ends[2];
    CHECK(CALL(pipe, ends) == 0 && CALL(write, ends[1], "spliced", 7) == 7);
    CHECK(CALL(splice, ends[0], NULL, fd, NULL, 100, 0) == 7);
    CHECK(!memcmp(receive().payload, "spliced", 7));
}

static void readiness(void)
{
    int fd = accepted(), set = CALL(epoll_create, 1);
    struct epoll_event asked = {.events = EPOLLIN, .data.fd = fd}, found = {0};
    CHECK(CALL(epoll_ctl, set, EPOLL_CTL_ADD, fd, &asked) == 0 && CALL(epoll_wait, set, &found, 1, 0) == 0);
    inject(TH_ACK | TH_PUSH, 1, 1000, NULL, 0, 10);
    CHECK(CALL(epoll_wait, set, &found, 1, 0) == 1 && found.events == EPOLLIN && found.data.fd == fd);
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(CALL(poll, &one, 1, 0) == 1 && one.revents == (POLLIN | POLLOUT));
    int waiting = 0;
    CHECK(CALL(ioctl, fd, FIONREAD, &waiting) == 0 && waiting == 10);
    CHECK(CALL(fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0 && CALL(fcntl, fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
}

/* Sleeping and asking move the clock, and timers go off at their time. */
static void clock_moves(void)
{
    long long before = now_us();
    CHECK(now_us() == before + 1);
    CHECK(CALL(usleep, 1000000) == 0 && now_us() == before + 1000002);
    int fd = accepted();
    CHECK(CALL(write, fd, "lost", 4) == 4);
    struct left first = receive(), again = receive(), more = receive();
    CHECK(again.len == 4 && again.tcp.seq == first.tcp.seq && more.tcp.seq == first.tcp.seq);
    CHECK(again.time_us - first.time_us >= 200000 && again.time_us - first.time_us < 225000);
    /* The second is a time-out after the probe. */
    CHECK(more.time_us - again.time_us >= 200000 && more.time_us - again.time_us < 450000);
    CHECK(now_us() >= more.time_us);
}

struct waiter {
    int fd, thread_id, result;
    long long returned_us;
};

static void *connect_on_a_thread(void *raw)
{
    struct waiter *waiter = raw;
    struct sockaddr_storage to;
    socklen_t len = address(&to, theirs, their_port);
    __atomic_store_n(&waiter->thread_id, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    waiter->result = CALL(connect, waiter->fd, (void *)&to, len);
    waiter->returned_us = now_us();
    return NULL;
}

static int is_asleep(int thread_id)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char *end = len ? strrchr(text, ')') : NULL;
    return end && end[2] == 'S';
}

/* As packetdrill does it: a second thread makes the call, and is watched until it sleeps. */
static void call_that_waits(void)
{
    struct waiter waiter = {.fd = CALL(socket, family, SOCK_STREAM, IPPROTO_TCP)};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, connect_on_a_thread, &waiter) == 0);
    for (int tries = 0; !is_asleep(__atomic_load_n(&waiter.thread_id, __ATOMIC_SEQ_CST)); tries++) {
        CHECK(tries < 10000);
        usleep(1000);
    }
    struct left syn = receive();
    CHECK(syn.tcp.syn && !syn.tcp.ack && ntohs(syn.tcp.dest) == their_port);
    /* mss, sackOK, timestamps, nop, wscale 8. */
    static const uint8_t begin[] = {2, 4, 5, 0xb4, 4, 2, 8, 10}, end[] = {1, 3, 3, 8};
    CHECK(syn.tcp.doff == 10 && !memcmp(syn.options, begin, 8) && !memcmp(syn.options + 16, end, 4));
    our_port = ntohs(syn.tcp.source);
    CHECK(CALL(usleep, 50000) == 0);
    long long answered_us = now_us();
    inject(TH_SYN | TH_ACK, 1, 60000, syn_options, sizeof syn_options, 0);
    CHECK(receive().tcp.ack_seq == htonl(their_seq));
    CHECK(pthread_join(thread, NULL) == 0 && waiter.result == 0);
    CHECK(waiter.returned_us >= answered_us && waiter.returned_us - answered_us < 1000);
}

/* libc's getsockopt, as packetdrill's assertions call it: the library is in LD_PRELOAD, too. */
static void info(void)
{
    int fd = accepted();
    struct tcp_info said, asked;
    socklen_t len = sizeof said;
    memset(&said, 0xff, sizeof said);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &said, &len) == 0 && len == sizeof said);
    CHECK(said.tcpi_state == TCP_ESTABLISHED && said.tcpi_snd_mss == 1000 && said.tcpi_snd_cwnd == 10);
    len = sizeof asked;
    CHECK(CALL(getsockopt, fd, IPPROTO_TCP, TCP_INFO, &asked, &len) == 0 && asked.tcpi_snd_mss == 1000);
    /* The numbers are real, and the kernel gives them to nobody else. */
    CHECK(fcntl(fd, F_GETFD) >= 0 && dup(0) != fd);
    /* What is none of ours goes to the kernel. */
    int kernels = socket(AF_INET, SOCK_STREAM, 0), type = 0;
    len = sizeof type;
    CHECK(getsockopt(kernels, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM);
    CHECK(getsockopt(77, SOL_SOCKET, SO_TYPE, &type, &len) == -1 && errno == EBADF);
}

/* The file named in RINGWAY_SYSCTL_FILE says tcp_sack=0, tcp_timestamps=0, and names that nobody knows. */
static void settings(void)
{
    listener();
    inject(TH_SYN, 0, 60000, syn_options, sizeof syn_options, 0);
    static const uint8_t expected[] = {2, 4, 5, 0xb4, 1, 3, 3, 8};
    struct left answer = receive();
    CHECK(answer.tcp.doff == 7 && !memcmp(answer.options, expected, sizeof expected));
}

/* Nothing is on its way and no timer is left: the library says so and ends with 1. */
static void silence(void)
{
    listener();
    receive();
}

static const struct {
    const char *name;
    void (*play)(void);
} clauses[] = {
    {"server", server}, {"pieces", pieces}, {"pipe", through_a_pipe}, {"readiness", readiness},
    {"clock", clock_moves}, {"waits", call_that_waits}, {"info", info}, {"settings", settings},
    {"silence", silence},
};

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    family = argv[2][0] == '4' ? AF_INET : AF_INET6;
    /* IPv6 headers are 20 bytes longer: the same MSS. */
    load(argv[1], family == AF_INET ? "" : "mtu=1520");
    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        if (!strcmp(clauses[i].name, argv[3])) {
            clauses[i].play();
            CALL(free);
            return 0;
        }
    }
    fprintf(stderr, "no clause %s\n", argv[3]);
    return 2;
}
