/* What the test programs share: packets whose content follows from their number. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <string.h>

#include "../check.h"

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
