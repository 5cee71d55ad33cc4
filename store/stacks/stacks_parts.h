/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What stacks.c (rows, names), stacks_public.c (public ids), stacks_promised.c (promises) and
 * stacks_unnamed.c (names on their way) share; nobody else includes it. WRITER thread.
 */
#include "base/list.h"
#include "base/map.h"
#include "store/db/blob.h"
#include "store/stacks/code_names.h"
#include "store/db/db.h"
#include "store/stacks/executables.h"
#include "store/db/intern.h"
#include "store/stacks/stacks.h"

struct cached_stack {
    struct intern_entry entry;
    bool same_known;
    bool public_known;
    bool looked_after; /* its names, if it is older than what was asked */
    int64_t same_as;   /* of one whose promise was fulfilled; 0 = it stands for itself */
    uint8_t public_id[16];
};

struct promised_stack {
    int64_t id;
};

struct stacks_unnamed {
    struct map names;  /* that are waited for */
    struct list ages;  /* of names, asked for first before */
    struct map stacks; /* that wait */
};

struct stacks {
    struct db *db;
    struct intern rows;
    struct executables executables;
    struct code_names code_names;
    struct map promised; /* those that are open */
    struct stacks_unnamed unnamed;
    uint64_t generation_began_ns; /* 0 = not known yet */
    int64_t last_before; /* row; whoever asked for the names of earlier stacks is gone; 0: none */
    uint8_t hash_key[16];
    struct blob_writer scratch;
    struct frame frames[STACKS_FRAMES_MAX];
    struct buf name_texts;
    sqlite3_stmt *get_frames, *set_public_id, *get_same, *set_same, *walk_same, *get_last;
    sqlite3_stmt *set_name, *get_name, *load_meta, *save_meta;
};

/* The row's own frames go to stacks->frames. It stays at hand in *row (get_frames) for its public
 * id; the caller resets it. */
int stacks_read_row(struct stacks *stacks, sqlite3_stmt *row, int64_t id, size_t *n);
/* Into stacks->scratch. -EINVAL: too many. */
int stacks_encode(struct stacks *stacks, const struct frame *frames, size_t n);
/* All that the frames refer to. -ESTALE. */
int stacks_use_parts(struct stacks *stacks, const struct frame *frames, size_t n);
/* Of a named frame, into stacks->name_texts. */
int stacks_code_name(struct stacks *stacks, const struct frame *frame, struct bytes *function);

/* stacks_unnamed.c */
void stacks_unnamed_open(struct stacks_unnamed *unnamed);
void stacks_unnamed_close(struct stacks_unnamed *unnamed);
void stacks_unnamed_forget(struct stacks_unnamed *unnamed);
/* id has become the same as another, and waits as that one does. */
void stacks_unnamed_follow(struct stacks_unnamed *unnamed, int64_t id, int64_t same_as);

/* stacks_promised.c */
void stacks_forget_promises(struct stacks *stacks);
/* Adds what referred stacks are the same as, and seals again. */
int stacks_add_same(struct stacks *stacks, struct id_set *referred);
