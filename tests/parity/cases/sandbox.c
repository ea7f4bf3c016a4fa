/* Programs that forbid themselves system calls: what the library calls besides must not end them. */
#include "parity.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Calls that neither the harness nor a program that only sends and receives makes. The last ones are needed by a
 * connection that is upgraded when the filter comes, until it is back on TCP. */
static const int FORBIDDEN[] = {
    SYS_socket, SYS_connect, SYS_sendmsg, SYS_recvmsg, SYS_setsockopt, SYS_membarrier, SYS_mremap, SYS_madvise,
    SYS_memfd_create, SYS_prlimit64, SYS_getsockopt, SYS_ioctl, SYS_futex, SYS_sched_yield, SYS_gettid,
};
enum { ALL = sizeof FORBIDDEN / sizeof *FORBIDDEN, MOST = ALL - 5 };

static struct sock_fprog *filter(int count, unsigned action) {
    static struct sock_filter code[2 * ALL + 2];
    static struct sock_fprog program;
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program = (struct sock_fprog){n, code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    return &program;
}

static void talk(struct conn *c) {
    for (int i = 0; i < 100; i++) {
        peer_post(c, OP_ECHO, 1, 500);
        put(c, 500);
        take(c, 500);
        peer_settle();
    }
    peer_post(c, OP_SEND, 3000000, 0);
    take(c, 3000000);
    peer_settle();
    peer_post(c, OP_RECV, 3000000, 0);
    put(c, 3000000);
    peer_settle();
}

TEST(killed_for_other_calls, "prctl: a seccomp filter that kills", PROCESS) {
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter(MOST, SECCOMP_RET_KILL_PROCESS)), 0);
    talk(c);
    CHECK_EQ(close(c->fd), 0);
    _exit(0);
}

/* After so many quick answers both ends poll, and a sleeper owes its peer a barrier (membarrier). */
TEST(killed_for_a_barrier, "prctl: a filter that kills, after a long exchange of small messages", PROCESS) {
    for (int i = 0; i < 20; i++) {
        peer_post(c, OP_ECHO, 100, 64);
        for (int k = 0; k < 100; k++) {
            put(c, 64);
            take(c, 64);
        }
        peer_settle();
    }
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter(MOST, SECCOMP_RET_KILL_PROCESS)), 0);
    talk(c);
    _exit(0);
}

TEST(refused_other_calls, "prctl: a seccomp filter that refuses", PROCESS) {
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter(MOST, SECCOMP_RET_ERRNO | EPERM)), 0);
    talk(c);
}

TEST(filtered_by_seccomp, "seccomp: a filter that kills", PROCESS) {
    CHECK_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter(MOST, SECCOMP_RET_KILL_PROCESS)), 0);
    talk(c);
    _exit(0);
}

TEST(filtered_from_the_start, "prctl: a strict filter before any traffic", COLD | PROCESS) {
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter(ALL, SECCOMP_RET_KILL_PROCESS)), 0);
    talk(c);
    CHECK_EQ(close(c->fd), 0);
    _exit(0);
}

TEST(asked_only, "seccomp: asked whether there are filters", 0) {
    CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL), EFAULT);
    CHECK_ERRNO(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0), EFAULT);
    CHECK_EQ(prctl(PR_GET_SECCOMP), 0);
    talk(c);
}

TEST(child_alone_is_filtered, "prctl: the child of a fork is filtered, its parent goes on", PROCESS) {
    pid_t child = fork_child();
    if (child == 0) {
        CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter(MOST, SECCOMP_RET_KILL_PROCESS)), 0);
        _exit(0);
    }
    reap(child);
    talk(c);
}
