/* What the harness's own files share with each other. */
#ifndef PARITY_INTERNAL_H
#define PARITY_INTERNAL_H

#include "parity.h"

#define PEER_CONNECTIONS_MAX 1024

struct command {
    int32_t op, index;
    int64_t a, b;
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

struct reply {
    int64_t value;
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

/* The peer's side of everything: obeys commands from `channel` until OP_QUIT or its end. */
void peer_serve(int channel);
void peer_resume(int channel, int argc, char **argv);

/* The subject's side. */
void peer_attach(int channel);
void peer_start_thread(void);
void peer_release(void);

extern const char *binary_path;
/* From the environment: see main.c. */
extern bool subject_connects;
extern bool expect_upgrade;
extern int warm_rounds;
extern const char *address_family;

#endif
