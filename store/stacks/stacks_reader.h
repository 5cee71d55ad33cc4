/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary of stacks through a reading connection. Thread: the connection's. The functions
 * behave as those of stacks.h; a borrowed result is valid until the next call of the same function.
 * -ENOENT also for a public id that the writer has not computed, and for damaged rows. Errors: of
 * db.h; -ENOMEM.
 */
#include "base/buf.h"
#include "store/stacks/stack_dictionary.h"
#include <sqlite3.h>

struct db;

struct stacks_reader {
    struct db *db;
    struct frame frames[STACKS_FRAMES_MAX];
    struct executable_facts facts;
    struct buf facts_body, name_texts;
    sqlite3_stmt *get_same, *get_frames, *get_public_id, *get_facts, *get_name, *get_code_name;
};

int stacks_reader_open(struct stacks_reader *reader, struct db *db);
void stacks_reader_close(struct stacks_reader *reader); /* also if open failed, or all zero */

int stacks_reader_frames(struct stacks_reader *reader, int64_t id, const struct frame **frames,
                         size_t *n);
int stacks_reader_executable(struct stacks_reader *reader, int64_t id,
                             const struct executable_facts **facts);
int stacks_reader_name(struct stacks_reader *reader, const struct frame *frame,
                       struct frame_name *name);
struct stack_dictionary stacks_reader_dictionary(struct stacks_reader *reader);
