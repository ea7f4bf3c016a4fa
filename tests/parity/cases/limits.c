/* The program's own limits: what the library needs must not be missing to the program, nor the other way round. */
#include "parity.h"

#include <sys/resource.h>

static void limit_to(int resource, rlim_t soft) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(resource, &limit), 0);
    limit.rlim_cur = soft;
    CHECK_EQ(setrlimit(resource, &limit), 0);
}

/* More than the smallest ring holds, so that it has to grow. */
static void bulk(struct conn *c) {
    peer_post(c, OP_SEND, 3000000, 0);
    take(c, 3000000);
    peer_settle();
    peer_post(c, OP_RECV, 3000000, 0);
    put(c, 3000000);
    peer_settle();
}

TEST(address_space_used_up, "RLIMIT_AS reached once the connection exists", PROCESS) {
    limit_to(RLIMIT_AS, 1 << 20);
    bulk(c);
}

TEST(little_address_space, "RLIMIT_AS with many connections", BARE | PROCESS | ANY_PATH) {
    struct conn many[40];
    limit_to(RLIMIT_AS, 64 << 20);
    for (int i = 0; i < 40; i++) many[i] = open_warm();
    for (int i = 0; i < 40; i += 13) bulk(&many[i]);
    void *memory = malloc(30 << 20);
    CHECK(memory != NULL);
    free(memory);
}

static int open_descriptors(int limit) {
    int n = 0;
    for (int fd = 0; fd < limit; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(every_descriptor_is_the_programs, "RLIMIT_NOFILE: EMFILE comes at the limit", BARE | PROCESS) {
    enum { LIMIT = 64 };
    limit_to(RLIMIT_NOFILE, LIMIT);
    open_cold();
    int before = open_descriptors(LIMIT), duplicates = 0;
    struct conn one = open_warm();
    while (dup(0) >= 0) duplicates++;
    CHECK_EQ(errno, EMFILE);
    CHECK_EQ(duplicates, LIMIT - before - 1);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(limit.rlim_cur, LIMIT);
    bulk(&one);
}

TEST(few_descriptors_for_good, "RLIMIT_NOFILE with a hard limit", BARE | PROCESS | ANY_PATH) {
    enum { LIMIT = 24 };
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){LIMIT, LIMIT}), 0);
    open_cold();
    int before = open_descriptors(LIMIT), duplicates = 0;
    struct conn one = open_warm();
    while (dup(0) >= 0) duplicates++;
    CHECK_EQ(duplicates, LIMIT - before - 1);
    bulk(&one);
}

TEST(full_while_upgrading, "EMFILE while the connection is upgraded", BARE | PROCESS | ANY_PATH) {
    limit_to(RLIMIT_NOFILE, 64);
    struct conn one = open_cold();
    while (dup(0) >= 0) {}
    warm_up(&one);
    bulk(&one);
}
