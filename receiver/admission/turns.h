/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The order in which complete requests go to the writer. The writer takes jobs in the order of
 * their submission, so only a few milliseconds of work are submitted at a time; the rest waits
 * here. The next request is that of the peer which has used the writer least. So a peer whose
 * requests cost much, or which sends many, waits for itself.
 *
 * What a request takes is estimated by its size and by earlier requests of its peer, and measured
 * when it has run. The writer leaves a large one after TURNS_READ_NS; it goes on elsewhere, and
 * only its peer waits for it. Thread: loop. Limits: TURNS_PEER_NS and TURNS_ALL_NS at the writer
 * (one request may exceed them alone); TURNS_PEER_MAX and TURNS_MAX requests that wait.
 */
#include "receiver/admission/sender.h"
#include <stdint.h>

#define TURNS_PEER_NS    UINT64_C(20000000)
#define TURNS_ALL_NS     UINT64_C(40000000)
#define TURNS_REQUEST_NS UINT64_C(50000)   /* the least that a request is taken for */
#define TURNS_READ_NS    UINT64_C(5000000) /* the most that is needed to see that it is large */
#define TURNS_MAX        2048
#define TURNS_PEER_MAX   1024

struct turn {
    struct list link;
    struct sender *sender;
    uint64_t estimate_ns;
    bool has_left; /* the writer */
};

struct turns {
    struct list waiting; /* peers with turns that wait */
    size_t n;
    size_t n_at_writer;
    uint64_t at_writer_ns;
    int64_t served_ns; /* used_ns of the peer that was served last */
};

void turns_init(struct turns *turns);
/* False: there are too many, nothing was added. is_compressed: the size is that of a compressed
 * body. Holds the sender until turns_done(). */
bool turns_add(struct turns *turns, struct turn *turn, struct sender *sender, size_t size,
               bool is_compressed);
/* The next one to be submitted now, which is then at the writer; NULL: none. anyway: without regard
 * to the limits. */
struct turn *turns_next(struct turns *turns, bool anyway);
/* It is large, which took so long to see: others need not wait for it. turns_done() follows. */
void turns_leave(struct turns *turns, struct turn *turn, uint64_t took_ns);
/* It has run for so long, in all; 0: not at all. */
void turns_done(struct turns *turns, struct turn *turn, uint64_t took_ns);
