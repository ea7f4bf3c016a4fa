/* What the test programs share: a check that says where it failed, and packets whose content follows from their number. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* Packet number n: 60 to 1500 bytes that depend on n. */
static inline uint16_t packet_bytes(uint32_t n) { return 60 + n * 7919 % 1441; }

static inline void fill(char *at, uint32_t n)
{
    memcpy(at, &n, sizeof n);
    for (uint32_t i = sizeof n; i < packet_bytes(n); i++)
        at[i] = (char)(n * 31 + i);
}

static inline void verify(const char *at, uint16_t bytes, uint32_t n)
{
    uint32_t found;
    memcpy(&found, at, sizeof found);
    CHECK(found == n);
    CHECK(bytes == packet_bytes(n));
    for (uint32_t i = sizeof n; i < bytes; i++)
        CHECK(at[i] == (char)(n * 31 + i));
}

#endif
