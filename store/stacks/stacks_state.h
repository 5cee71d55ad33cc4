/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by stacks.c (rows, names), stacks_public.c (public ids) and stacks_unfinished.c (open
 * stacks). Private to these files. Writer thread.
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
    bool names_requested; /* matters for stacks with id <= last_before */
    int64_t same_as;      /* for a stack whose frames were open; 0 = no other stack */
    uint8_t public_id[16];
};

struct stacks_unfinished {
    struct map stacks;     /* stacks with open frames or names */
    struct list ages;      /* stacks with open frames, oldest first */
    struct map names;      /* requested, not answered */
    struct list name_ages; /* oldest first */
    bool names_closed;     /* a name was closed since the last review of stacks */
    size_t n_open[STACK_OPENS];
};

struct stacks {
    struct db *db;
    struct intern rows;
    struct executables executables;
    struct code_names code_names;
    struct stacks_unfinished unfinished;
    uint64_t generation_began_ns; /* 0 = not known yet */
    int64_t last_before; /* request names of stacks with id <= last_before again; 0: none */
    uint8_t hash_key[16];
    struct blob_writer scratch;
    struct frame frames[STACKS_FRAMES_MAX];
    struct buf name_texts;
    sqlite3_stmt *get_frames, *set_public_id, *get_same, *set_same, *walk_same, *get_last;
    sqlite3_stmt *set_name, *get_name, *load_meta, *save_meta;
};

/* Reads the row's own frames into stacks->frames. *row (get_frames) stays on the row, so the caller
 * can read the public id; the caller resets *row. */
int stacks_read_row(struct stacks *stacks, sqlite3_stmt *row, int64_t id, size_t *n);
/* Encodes into stacks->scratch. -EINVAL: n > STACKS_FRAMES_MAX. */
int stacks_encode(struct stacks *stacks, const struct frame *frames, size_t n);
/* Counts as a use of every executable and name of the frames. -ESTALE. */
int stacks_use_parts(struct stacks *stacks, const struct frame *frames, size_t n);
/* Reads the names of a named frame; the texts lie in stacks->name_texts. */
int stacks_code_name(struct stacks *stacks, const struct frame *frame, struct frame_name *name);

/* stacks_unfinished.c */
void stacks_unfinished_open(struct stacks_unfinished *unfinished);
void stacks_unfinished_close(struct stacks_unfinished *unfinished);
void stacks_unfinished_forget(struct stacks_unfinished *unfinished); /* after a rollback */
/* Adds the stacks that the referred stacks turned out to equal, and seals the set again. */
int stacks_add_same(struct stacks *stacks, struct id_set *referred);
