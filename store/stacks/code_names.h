/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary's names of code that lies in no file. Private to the dictionary; the public
 * interface is stacks.h. Writer thread only. Errors as in intern.h.
 */
#include "base/buf.h"
#include "store/db/intern.h"

struct code_names {
    struct db *db;
    struct intern rows;
    sqlite3_stmt *get_body;
};

int code_names_open(struct code_names *names, struct db *db);
void code_names_close(struct code_names *names);
int code_names_reload(struct code_names *names);
/* hash: of `body`, which a new row gets. */
int code_names_intern(struct code_names *names, const uint8_t hash[16], struct bytes body,
                      int64_t *id);
/* Counts as a use, by a stack: 0, or -ENOENT. */
int code_names_use(struct code_names *names, int64_t id);
/* Appends the body. -ENOENT. */
int code_names_get(struct code_names *names, int64_t id, struct buf *out);
