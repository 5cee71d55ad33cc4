/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The token of the pages where the configuration gives none: pages.token in the store's directory,
 * made when it is missing, mode 0640. It stays the same over restarts. Thread: loop.
 */
#include "base/buf.h"

/* Appends the token. 0, -EINVAL (the file holds something else), or a negative errno. */
int pages_token_load(const char *directory, struct buf *token);
/* Whether the text is a token: PAGES_TOKEN_BYTES_MIN to PAGES_TOKEN_BYTES_MAX visible characters.
 */
bool pages_token_is_valid(const struct buf *text);

#define PAGES_TOKEN_BYTES_MIN 16
#define PAGES_TOKEN_BYTES_MAX 512
