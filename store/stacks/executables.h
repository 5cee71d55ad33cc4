/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary's executables. Private to the dictionary; the public interface is stacks.h. Writer
 * thread only.
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
/* Counts as a use, by a stack: 0, or -ENOENT. */
int executables_use(struct executables *executables, int64_t id);
/* Decodes the column "facts"; texts are borrowed from blob. A malformed blob gives all zero.
 * Thread: any. */
void executables_decode(struct bytes blob, struct executable_facts *facts);
