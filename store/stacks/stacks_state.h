/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What stacks.c (rows, names), stacks_public.c (public ids) and stacks_unfinished.c (what is open)
 * share; private to them. WRITER thread.
 */
#include "base/list.h"
#include "base/map.h"
#include "store/db/blob.h"
#include "store/stacks/code_names.h"
#include "store/db/db.h"
#include "store/stacks/executables.h"
#include "store/db/intern.h"
#include "store/stacks/stacks.h"
#include "store/stacks/stacks_unfinished.h"

struct cached_stack {
    struct intern_entry entry;
    bool same_known;
    bool public_known;
    bool looked_after; /* its names, if it is older than what was asked */
    int64_t same_as;   /* of one whose frames were open; 0 = it stands for itself */
    uint8_t public_id[16];
};

struct stacks_unfinished {
    struct map stacks;     /* of which something is open */
    struct list ages;      /* of those with open frames, oldest first */
    struct map names;      /* asked for and not answered */
    struct list name_ages; /* oldest first */
    bool names_closed;     /* any, since stacks were last reviewed */
    size_t n_open[STACK_OPENS];
};

struct stacks {
    struct db *db;
    struct intern rows;
    struct executables executables;
    struct code_names code_names;
    struct stacks_unfinished unfinished;
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

/* stacks_unfinished.c */
void stacks_unfinished_open(struct stacks_unfinished *unfinished);
void stacks_unfinished_close(struct stacks_unfinished *unfinished);
void stacks_unfinished_forget(struct stacks_unfinished *unfinished); /* rolled back */
/* Adds what referred stacks are the same as, and seals again. */
int stacks_add_same(struct stacks *stacks, struct id_set *referred);
