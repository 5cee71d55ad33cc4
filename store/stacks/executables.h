/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part of the dictionary that knows executables; stacks.h is its face. Writer thread only.
 */
#include "store/db/intern.h"
#include "store/stacks/stacks.h"

struct executables {
    struct db *db;
    struct intern rows;
    sqlite3_stmt *get_facts, *set_facts, *remove_names;
};

int executables_open(struct executables *executables, struct db *db);
void executables_close(struct executables *executables);
int executables_reload(struct executables *executables);
int executables_intern(struct executables *executables, const uint8_t identity[16], int64_t *id);
int executables_set_facts(struct executables *executables, int64_t id,
                          const struct executable_facts *facts);
int executables_get(struct executables *executables, int64_t id,
                    const struct executable_facts **facts);
/* A stack uses it: 0, or -ENOENT. */
int executables_use(struct executables *executables, int64_t id);
/* The column "facts"; texts are borrowed from it. All zero if it is malformed. Thread: any. */
void executables_decode(struct bytes blob, struct executable_facts *facts);
