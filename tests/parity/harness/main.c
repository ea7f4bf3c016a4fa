/* Entry: lists the tests, or plays one role of one test.
 *
 *   parity list                              name, flags, clause; one test a line
 *   parity subject NAME                      run the body; the peer is at descriptor PARITY_SYNC,
 *                                            or a thread when that is unset
 *   parity peer                              obey commands from descriptor PARITY_SYNC
 *   parity resume CONTINUATION fd ...        what `execute` starts
 *
 * PARITY_SIDE=connect|accept, PARITY_FAMILY=v4|v6|ADDRESS, PARITY_ROUNDS=round trips before the body,
 * PARITY_EXPECT_UPGRADE=1.
 */
#include "internal.h"

#include <stdarg.h>

#define TESTS_MAX 600

struct test {
    const char *name, *clause;
    int flags;
    void (*body)(struct conn *);
};

static struct test tests[TESTS_MAX], continuations[TESTS_MAX];
static int test_count, continuation_count;
static const char *running = "?";
static bool in_peer;

const char *binary_path;
bool subject_connects, expect_upgrade;
int warm_rounds;
const char *address_family;

void test_register(const char *file, const char *id, const char *clause, int flags, void (*body)(struct conn *)) {
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    char *name = NULL;
    if (test_count == TESTS_MAX || asprintf(&name, "%.*s.%s", (int)(strlen(base) - 2), base, id) < 0) abort();
    tests[test_count++] = (struct test){name, clause, flags & SOLO ? flags | BARE : flags, body};
}

void continuation_register(const char *id, void (*body)(struct conn *)) {
    if (continuation_count == TESTS_MAX) abort();
    continuations[continuation_count++] = (struct test){id, "", 0, body};
}

static const struct test *find(const struct test *table, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    fprintf(stderr, "parity: no test or continuation named %s\n", name);
    exit(2);
}

void fail_at(const char *file, int line, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    dprintf(1, "not ok %s%s - %s:%d: %s\n", running, in_peer ? " (peer)" : "", base, line, text);
    _exit(1);
}

void skip(const char *why) {
    dprintf(1, "ok %s # SKIP %s\n", running, why);
    _exit(77);
}

void child_done(void) { _exit(0); }

static void passed(void) {
    dprintf(1, "ok %s\n", running);
    exit(0);
}

static const char *setting(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

static int run_subject(const char *name) {
    const struct test *test = find(tests, test_count, name);
    running = test->name;
    setenv("PARITY_RUNNING", running, 1);
    if (getenv("PARITY_SYNC"))
        peer_attach(atoi(getenv("PARITY_SYNC")));
    else if (!(test->flags & SOLO))
        peer_start_thread();
    if (test->flags & ANY_PATH) expect_upgrade = false;
    if (test->flags & BARE) {
        test->body(NULL);
    } else {
        struct conn c = open_warm();
        test->body(&c);
    }
    peer_release();
    passed();
    return 0;
}

/* argv: resume CONTINUATION fd index direction tx rx peer-pid */
static int run_continuation(int argc, char **argv) {
    if (argc < 8) return 2;
    running = setting("PARITY_RUNNING", "?");
    if (strcmp(argv[2], "peer") == 0) {
        in_peer = true;
        peer_resume(atoi(getenv("PARITY_SYNC")), argc, argv);
        return 0;
    }
    struct conn c = {atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), strtoull(argv[6], NULL, 10), strtoull(argv[7], NULL, 10)};
    if (getenv("PARITY_SYNC")) peer_attach(atoi(getenv("PARITY_SYNC")));
    find(continuations, continuation_count, argv[2])->body(&c);
    peer_release();
    passed();
    return 0;
}

int main(int argc, char **argv) {
    binary_path = realpath("/proc/self/exe", NULL);
    subject_connects = strcmp(setting("PARITY_SIDE", "connect"), "connect") == 0;
    address_family = setting("PARITY_FAMILY", "v4");
    warm_rounds = atoi(setting("PARITY_ROUNDS", "64"));
    expect_upgrade = atoi(setting("PARITY_EXPECT_UPGRADE", "0")) != 0;
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int i = 0; i < test_count; i++) printf("%s\t%d\t%s\n", tests[i].name, tests[i].flags, tests[i].clause);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "subject") == 0) return run_subject(argv[2]);
    if (argc == 3 && strcmp(argv[1], "peer") == 0) {
        running = argv[2];
        setenv("PARITY_RUNNING", running, 1);
        in_peer = true;
        peer_serve(atoi(setting("PARITY_SYNC", "-1")));
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "resume") == 0) return run_continuation(argc, argv);
    fprintf(stderr, "usage: parity list | subject NAME | peer NAME | resume ...\n");
    return 2;
}
