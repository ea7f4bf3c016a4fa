/* A check that says where it failed, for test programs that end with their first failure. */
#ifndef RINGWAY_CHECK_H
#define RINGWAY_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#endif
