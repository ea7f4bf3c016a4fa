/* The C library's streams on a socket: they bypass the hooked functions. */
#include "parity.h"

static void echo(struct conn *c) {
    for (int i = 0; i < 3; i++) {
        peer_post(c, OP_ECHO, 1, 1000);
        put(c, 1000);
        take(c, 1000);
        peer_settle();
    }
}

TEST(written_by_a_stream, "fdopen, fwrite, fflush", 0) {
    char buffer[3000];
    FILE *stream = fdopen(c->fd, "w");
    CHECK(stream != NULL);
    for (int i = 0; i < 10; i++) {
        peer_post(c, OP_RECV, sizeof buffer, 0);
        fill(c, buffer, sizeof buffer);
        CHECK_EQ(fwrite(buffer, 1, sizeof buffer, stream), sizeof buffer);
        CHECK_EQ(fflush(stream), 0);
        sent(c, sizeof buffer);
        peer_settle();
    }
    echo(c);
}

TEST(read_by_a_stream, "fdopen, fread, fgetc", 0) {
    char buffer[1000];
    FILE *stream = fdopen(c->fd, "r");
    CHECK(stream != NULL);
    for (int i = 0; i < 10; i++) {
        peer_later(c, i % 3, OP_SEND, sizeof buffer, 0);
        int first = fgetc(stream);
        CHECK(first >= 0);
        CHECK_EQ(ungetc(first, stream), first);
        CHECK_EQ(fread(buffer, 1, sizeof buffer, stream), sizeof buffer);
        check_bytes(c, buffer, sizeof buffer);
        peer_settle();
    }
}

TEST(stream_with_unread_data, "fdopen with data in the buffers", 0) {
    char buffer[1000];
    peer_send(c, 20000);
    take(c, 1000);
    FILE *stream = fdopen(c->fd, "r");
    for (int i = 0; i < 19; i++) {
        CHECK_EQ(fread(buffer, 1, sizeof buffer, stream), sizeof buffer);
        check_bytes(c, buffer, sizeof buffer);
    }
}

TEST(lines_both_ways, "fdopen, fprintf, fgets", SOLO) {
    struct conn a, b;
    char line[100];
    open_inside_warm(&a, &b);
    FILE *left = fdopen(a.fd, "r+"), *right = fdopen(dup(b.fd), "r"), *right_out = fdopen(b.fd, "w");
    CHECK(left && right && right_out);
    for (int i = 0; i < 50; i++) {
        CHECK(fprintf(left, "GET %d\n", i) > 0);
        CHECK_EQ(fflush(left), 0);
        CHECK(fgets(line, sizeof line, right) != NULL);
        CHECK(strncmp(line, "GET ", 4) == 0 && atoi(line + 4) == i);
        CHECK(fprintf(right_out, "OK %d\n", i) > 0);
        CHECK_EQ(fflush(right_out), 0);
        CHECK(fgets(line, sizeof line, left) != NULL);
        CHECK(strncmp(line, "OK ", 3) == 0 && atoi(line + 3) == i);
    }
    CHECK_EQ(fclose(left), 0);
    CHECK(fgets(line, sizeof line, right) == NULL && feof(right));
}

TEST(dprintf_call, "dprintf", SOLO) {
    struct conn a, b;
    char line[40];
    open_inside_warm(&a, &b);
    for (int i = 0; i < 20; i++) {
        int n = dprintf(a.fd, "number %d\n", i);
        CHECK(n > 0);
        CHECK_EQ(recv(b.fd, line, n, MSG_WAITALL), n);
        CHECK(strncmp(line, "number ", 7) == 0 && atoi(line + 7) == i);
        put(&a, 100);
        take(&b, 100);
        put(&b, 100);
        take(&a, 100);
    }
}

TEST(closed_by_fclose, "fclose and fd number reuse", 0) {
    int number = c->fd;
    char byte;
    FILE *stream = fdopen(c->fd, "r+");
    CHECK_EQ(fputs("", stream) >= 0, 1);
    CHECK_EQ(fclose(stream), 0);
    CHECK_EQ(peer(c, OP_READ, 0, 0), 0);
    /* The library did not see that close. */
    CHECK_EQ(open("/dev/zero", O_RDONLY), number);
    CHECK_EQ(read(number, &byte, 1), 1);
    CHECK_EQ(byte, 0);
    CHECK_EQ(poll_one(number, POLLIN, 0), POLLIN);
}

TEST(number_reused_after_fclose, "fclose and a new connection at the number", BARE) {
    for (int i = 0; i < 5; i++) {
        struct conn one = open_warm();
        FILE *stream = fdopen(one.fd, "w");
        put(&one, 50);
        CHECK_EQ(fclose(stream), 0);
        CHECK_EQ(peer(&one, OP_DRAIN, 0, 0), 50);
        peer_close(&one);
    }
}

TEST(standard_output, "printf to a socket by dup2", SOLO) {
    struct conn a, b;
    char line[40];
    open_inside_warm(&a, &b);
    int saved = dup(1);
    CHECK_EQ(dup2(a.fd, 1), 1);
    for (int i = 0; i < 10; i++) {
        int n = printf("line %d\n", i);
        CHECK_EQ(fflush(stdout), 0);
        CHECK_EQ(recv(b.fd, line, n, MSG_WAITALL), n);
        CHECK(strncmp(line, "line ", 5) == 0 && atoi(line + 5) == i);
    }
    CHECK_EQ(dup2(saved, 1), 1);
    close(a.fd);
    check_eof(&b);
}

TEST(standard_input, "fgets from a socket by dup2", SOLO) {
    struct conn a, b;
    char line[40];
    open_inside_warm(&a, &b);
    CHECK_EQ(dup2(b.fd, 0), 0);
    for (int i = 0; i < 10; i++) {
        int n = snprintf(line, sizeof line, "line %d\n", i);
        CHECK_EQ(send(a.fd, line, n, 0), n);
        CHECK(fgets(line, sizeof line, stdin) != NULL);
        CHECK(strncmp(line, "line ", 5) == 0 && atoi(line + 5) == i);
    }
    close(a.fd);
    CHECK(fgets(line, sizeof line, stdin) == NULL);
}

TEST(stream_and_calls_mixed, "stdio and plain calls in turn", 0) {
    char buffer[500];
    FILE *stream = fdopen(dup(c->fd), "w");
    for (int i = 0; i < 10; i++) {
        peer_post(c, OP_RECV, 1000, 0);
        fill(c, buffer, 500);
        CHECK_EQ(fwrite(buffer, 1, 500, stream), 500);
        CHECK_EQ(fflush(stream), 0);
        sent(c, 500);
        put(c, 500);
        peer_settle();
        peer_send(c, 100);
        take(c, 100);
    }
}
