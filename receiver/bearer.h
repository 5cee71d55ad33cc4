/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The tokens that clients of a receiver must send: "Authorization: SCHEME TOKEN". Thread: loop.
 * Limits: BEARER_TOKENS_MAX tokens of at most BEARER_TOKEN_MAX bytes. Source of the format: RFC
 * 6750; the Collector's bearertokenauth extension.
 */
#include "base/bytes.h"

#define BEARER_TOKENS_MAX 64
#define BEARER_TOKEN_MIN  16
#define BEARER_TOKEN_MAX  512

struct bearer;

/* Without tokens at first: nobody is allowed. scheme: borrowed. 0 or -ENOMEM. */
int bearer_open(const char *scheme, struct bearer **bearer);
void bearer_close(struct bearer *bearer); /* NULL is fine */
/* Replaces the tokens by those of the text, one on each line; empty lines are left out. -EINVAL:
 * there is none, or a line is no token, or there are too many; then the earlier ones stay. */
int bearer_set(struct bearer *bearer, struct bytes lines);
/* authorization: the header's value; empty: absent. The time does not depend on the tokens. */
bool bearer_allows(const struct bearer *bearer, struct bytes authorization);
