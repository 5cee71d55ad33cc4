/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Facts as a person reads them in a terminal. Pure; thread: any. Errors: those of base/buf.h.
 */
#include "base/buf.h"

#define CLIENT_DURATION_MAX 32

/* "412 ms", "1.25 s", "0": three digits. Returns out. */
const char *client_duration(double ns, char out[CLIENT_DURATION_MAX]);
/* Right-aligned, and two spaces behind. */
int client_put_duration(struct buf *out, double ns, size_t width);
/* At most `width` characters, cut with an ellipsis; with spaces behind it up to width if `fill`.
 * What a terminal would take for more than text (control characters, changes of direction) is
 * replaced. */
int client_put_text(struct buf *out, struct bytes text, size_t width, bool fill);
