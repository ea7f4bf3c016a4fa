/* exec and its relatives: the socket goes on in another program. */
#include "parity.h"

#include <spawn.h>
#include <sys/stat.h>

extern char **environ;

static void echo_rounds(struct conn *c, int rounds) {
    for (int i = 0; i < rounds; i++) {
        peer_post(c, OP_ECHO, 1, 700);
        put(c, 700);
        take(c, 700);
        peer_settle();
    }
}

CONTINUATION(goes_on) { echo_rounds(c, 20); }

TEST(subject_executes, "exec: the socket continues in the executed program", PROCESS) { execute("goes_on", c, true); }

TEST(subject_executes_unhooked, "exec into a program without the library", PROCESS) { execute("goes_on", c, false); }

CONTINUATION(warms_up_and_goes_on) {
    for (int i = 0; i < 200; i++) {
        peer_post(c, OP_ECHO, 1, 100);
        put(c, 100);
        take(c, 100);
        peer_settle();
    }
    execute("goes_on", c, true);
}

TEST(executes_twice, "exec, twice", PROCESS) { execute("warms_up_and_goes_on", c, true); }

CONTINUATION(finds_unread_data) {
    take(c, 50000);
    echo_rounds(c, 5);
}

TEST(with_unread_data, "exec with data in the buffers", PROCESS) {
    peer_send(c, 50000);
    await_input(c, 1);
    take(c, 0);
    execute("finds_unread_data", c, true);
}

TEST(with_unread_data_unhooked, "exec with data in the buffers, into a program without the library", PROCESS) {
    peer_send(c, 50000);
    await_input(c, 1);
    execute("finds_unread_data", c, false);
}

CONTINUATION(peer_reads_late) {
    /* The parent program left this much unread at the peer. */
    peer_recv(c, 60000);
    echo_rounds(c, 5);
}

TEST(with_unsent_data, "exec with data under way", PROCESS) {
    put(c, 60000);
    execute("peer_reads_late", c, true);
}

TEST(with_unsent_data_unhooked, "exec with data under way, into a program without the library", PROCESS) {
    put(c, 60000);
    execute("peer_reads_late", c, false);
}

TEST(executes_a_static_program, "exec into a program without a dynamic loader", PROCESS) { execute_static("goes_on", c); }

CONTINUATION(goes_on_and_comes_back) {
    echo_rounds(c, 20);
    execute_dynamic("goes_on", c);
}

TEST(executes_a_static_program_and_back, "exec into a program without a dynamic loader, and on", PROCESS) {
    execute_static("goes_on_and_comes_back", c);
}

TEST(static_program_with_unsent_data, "exec with data under way, into a program without a dynamic loader", PROCESS) {
    put(c, 60000);
    execute_static("peer_reads_late", c);
}

CONTINUATION(finds_unread_data_or_a_reset) {
    char buffer[1000];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    /* Known: what lies in the ring is out of a static program's reach. Never may there be a gap. */
    if (n < 0 && errno == ECONNRESET) _exit(0);
    CHECK(n > 0);
    check_bytes(c, buffer, n);
    take(c, 50000 - n);
    echo_rounds(c, 5);
}

TEST(static_program_with_unread_data, "exec with data in the buffers, into a program without a dynamic loader", PROCESS) {
    peer_send(c, 50000);
    await_input(c, 50000);
    execute_static("finds_unread_data_or_a_reset", c);
}

TEST(peer_executes, "exec of the other side", PROCESS) {
    for (int i = 0; i < 2; i++) {
        peer(c, OP_EXEC, 0, 0);
        echo_rounds(c, 20);
    }
}

TEST(peer_executes_unhooked, "exec of the other side into a program without the library", PROCESS) {
    put(c, 3000);
    peer_post(c, OP_RECV, 1000, 0);
    peer(c, OP_EXEC, 1, 0);
    peer_recv(c, 2000);
    echo_rounds(c, 20);
}

TEST(both_execute, "exec of both sides", PROCESS) {
    peer_post(c, OP_EXEC, 0, 0);
    peer_settle();
    execute("goes_on", c, true);
}

TEST(close_on_exec, "FD_CLOEXEC", PROCESS) {
    CHECK_EQ(fcntl(c->fd, F_SETFD, FD_CLOEXEC), 0);
    pid_t child = fork_child();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    reap(child);
    echo_rounds(c, 3);
    child = fork_child();
    if (child == 0) {
        put(c, 100);
        execl("/bin/sleep", "sleep", "0.05", NULL);
        _exit(1);
    }
    close(c->fd);
    CHECK_EQ(peer(c, OP_DRAIN, 0, 0), 100);
    reap(child);
}

TEST(failed_exec, "exec that fails", 0) {
    CHECK_ERRNO(execl("/nonexistent/program", "program", NULL), ENOENT);
    CHECK_ERRNO(execl("/", "program", NULL), EACCES);
    echo_rounds(c, 3);
}

/* Without a peer channel: the parent drives the peer. */
CONTINUATION(child_echoes) {
    for (int i = 0; i < 20; i++) {
        put(c, 700);
        take(c, 700);
    }
}

static void follow_child(struct conn *c, pid_t child) {
    peer_settle();
    reap(child);
    c->tx += 20 * 700;
    c->rx += 20 * 700;
    echo_rounds(c, 3);
}

TEST(fork_then_exec, "fork and exec, the parent goes on afterwards", 0) {
    peer_post(c, OP_ECHO, 20, 700);
    follow_child(c, spawn("child_echoes", c, true));
}

TEST(fork_then_exec_unhooked, "fork and exec of a program without the library", 0) {
    peer_post(c, OP_ECHO, 20, 700);
    follow_child(c, spawn("child_echoes", c, false));
}

TEST(fork_then_exec_parent_closes, "fork and exec, the parent closes", 0) {
    peer_post(c, OP_ECHO, 20, 700);
    pid_t child = spawn("child_echoes", c, true);
    close(c->fd);
    peer_settle();
    reap(child);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
}

/* The channel to the peer stays with the parent. */
static char **environment_without_peer(void) {
    static char *kept[500];
    int n = 0;
    for (char **entry = environ; *entry && n < 499; entry++)
        if (strncmp(*entry, "PARITY_SYNC=", 12) != 0) kept[n++] = *entry;
    kept[n] = NULL;
    return kept;
}

TEST(vfork_then_exec, "vfork and exec", 0) {
    char **argv = continuation_argv("child_echoes", c);
    peer_post(c, OP_ECHO, 20, 700);
    char **without_peer = environment_without_peer();
    pid_t child = vfork();
    if (child == 0) {
        execve(argv[0], argv, without_peer);
        _exit(99);
    }
    CHECK(child > 0);
    follow_child(c, child);
}

/* The child of vfork moves descriptors about; the parent's must stay as they are. */
TEST(vfork_moves_descriptors, "vfork, dup2 and close in the child", 0) {
    pid_t child = vfork();
    if (child == 0) {
        dup2(c->fd, 200);
        close(c->fd);
        dup2(0, c->fd);
        execl("/bin/true", "true", NULL);
        _exit(99);
    }
    CHECK(child > 0);
    reap(child);
    CHECK_EQ(fcntl(200, F_GETFD), -1);
    echo_rounds(c, 3);
}

TEST(spawned, "posix_spawn", 0) {
    pid_t child;
    char **argv = continuation_argv("child_echoes", c);
    peer_post(c, OP_ECHO, 20, 700);
    CHECK_EQ(posix_spawn(&child, argv[0], NULL, NULL, argv, environment_without_peer()), 0);
    follow_child(c, child);
}

/* inetd: the connection becomes the standard streams of some program. */
static pid_t serve_by(struct conn *server, const char *command) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, server->fd, 0);
    posix_spawn_file_actions_adddup2(&actions, server->fd, 1);
    CHECK_EQ(posix_spawn(&child, "/bin/sh", &actions, NULL, argv, environ), 0);
    close(server->fd);
    return child;
}

TEST(cat_as_server, "posix_spawn with the socket as standard streams", SOLO) {
    enum { PIECE = 5000 };
    struct conn a, b;
    open_inside_warm(&a, &b);
    /* What comes back is what was sent: the same pattern, seen from the other side. */
    struct conn back = {.fd = a.fd, .direction = !a.direction, .rx = a.tx};
    pid_t child = serve_by(&b, "exec cat");
    for (int i = 0; i < 20; i++) {
        put(&a, PIECE);
        take(&back, PIECE);
    }
    CHECK_EQ(shutdown(a.fd, SHUT_WR), 0);
    check_eof(&a);
    reap(child);
}

TEST(shell_as_server, "the socket as a shell's standard streams", SOLO) {
    struct conn a, b;
    char line[64] = "";
    open_inside_warm(&a, &b);
    pid_t child = serve_by(&b, "read word; echo \"got $word\"; read word; echo \"and $word\"");
    CHECK_EQ(send(a.fd, "one\n", 4, 0), 4);
    CHECK_EQ(recv(a.fd, line, 8, MSG_WAITALL), 8);
    CHECK_EQ(memcmp(line, "got one\n", 8), 0);
    CHECK_EQ(send(a.fd, "two\n", 4, 0), 4);
    CHECK_EQ(recv(a.fd, line, 8, MSG_WAITALL), 8);
    CHECK_EQ(memcmp(line, "and two\n", 8), 0);
    check_eof(&a);
    reap(child);
}

TEST(other_programs_meanwhile, "system and popen", 0) {
    for (int i = 0; i < 3; i++) {
        char line[10] = "";
        CHECK_EQ(system("true"), 0);
        FILE *output = popen("echo hello", "r");
        CHECK(output != NULL && fgets(line, sizeof line, output) != NULL);
        CHECK_EQ(strcmp(line, "hello\n"), 0);
        CHECK_EQ(pclose(output), 0);
        echo_rounds(c, 2);
    }
}
