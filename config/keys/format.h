/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Values and ranges of keys as text: for messages, print-config and the manual. Private to config/.
 * Thread: any; no state.
 */
#include "config/keys/keys.h"

#define FORMAT_MAX 256

/* "1s to 1h", "gzip, none", ...; "" if any value of the kind will do. */
void format_range(const struct config_key *key, char out[FORMAT_MAX]);
const char *format_type(const struct config_key *key); /* "duration", "list of texts", ... */

/* The field as YAML on one line, readable again ($ doubled); headers are redacted. */
int format_value(const struct config_key *key, const void *settings, struct buf *out);
int format_text(const char *text, struct buf *out); /* quoted where YAML needs it, $ doubled */

/* A field of the settings. Its type is the key's. */
static inline const void *format_field(const struct config_key *key, const void *settings)
{
    return (const char *)settings + key->offset;
}
