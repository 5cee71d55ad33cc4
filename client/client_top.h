/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What `top` shows: CPU time by something, most first, as lines of a terminal. Thread: the only
 * one.
 */
#include "client/client_ask.h"

struct top_view;

struct top {
    struct client *client;
    const struct top_view *view;
    const char *order;    /* of functions: "self", "total", or what the server will refuse */
    size_t rows, columns; /* at most */
    bool styled;          /* for a terminal alone: the heading is set off */
};

/* Asks, and appends the answer. 0, or negative errno: a sentence was said. */
int top_put(const struct top *top, struct buf *text);

/* False: the key changes nothing. */
bool top_take_key(struct top *top, char key);
int top_put_keys(const struct top *top, struct buf *text); /* what keys there are, in a line */

/* In a terminal: asks again and again, until q. */
int top_live(struct top *top);
