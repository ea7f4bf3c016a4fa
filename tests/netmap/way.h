/* A port as traffic.c uses it. The same is written three times: nm.c and nmport.c by the libraries' calls and our headers,
 * bare.c by the interface's numbers alone. */
#ifndef WAY_H
#define WAY_H

#include "check.h"

struct way;

typedef void (*taker)(void *arg, const char *frame, uint16_t bytes);

/* Ends the program if the port cannot be opened. */
struct way *way_open(const char *name);
void way_close(struct way *way);
int way_fd(const struct way *way);
/* Whether there was room; it leaves with the next poll. */
int way_send(struct way *way, const void *frame, uint16_t bytes);
/* Calls `take` for all received frames, whose slots go back with the next poll; how many there were. */
int way_receive(struct way *way, taker take, void *arg);
/* Whether the other side has not taken everything yet. */
int way_pending(const struct way *way);
/* Gives back what was received and sends what is to be sent, now. */
void way_sync(struct way *way);

#endif
