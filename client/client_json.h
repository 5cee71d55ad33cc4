/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON as a tree, for commands that print parts of an answer. Thread: that of the arena.
 * Limits: the arena's; CLIENT_JSON_DEPTH_MAX arrays and objects within each other.
 */
#include "base/arena.h"
#include "base/bytes.h"

#define CLIENT_JSON_DEPTH_MAX 32

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT };

struct value {
    enum value_kind kind;
    struct bytes key;    /* within an object */
    struct bytes text;   /* VALUE_STRING */
    double number;       /* VALUE_NUMBER; VALUE_BOOL: 0 or 1 */
    size_t n;            /* items */
    struct value *first; /* item */
    struct value *next;  /* sibling */
};

/* 0; -EPROTO: no JSON; -ENOMEM. */
int client_json_read(struct bytes text, struct arena *arena, struct value *value);

/* What is not there, or of another kind, is NULL, empty, 0. value may be NULL. */
const struct value *value_get(const struct value *value, const char *key);
struct bytes value_text(const struct value *value, const char *key);
double value_number(const struct value *value, const char *key);
const struct value *value_items(const struct value *value,
                                const char *key); /* the first; or NULL */
