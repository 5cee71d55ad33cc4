/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Scalars: from text to a typed value and back. Private to config/. Thread: any; no state.
 * Outcomes: 0; -EINVAL (not of this type); -ERANGE (of this type, but too large for it).
 */
#include "config/config.h"

/* What an unquoted YAML scalar is (core schema: true/false, decimal, 0x, 0o, floats). */
enum value_type { VALUE_TEXT, VALUE_BOOL, VALUE_INT, VALUE_FLOAT };
enum value_type value_type(const char *text);
bool value_is_null(const char *text); /* empty, ~, null */

int value_parse_bool(const char *text, bool *value);
int value_parse_count(const char *text, uint64_t *value); /* 12, 0x1f, 0o17; no sign but + */
int value_parse_ratio(const char *text, double *value);   /* finite, or -EINVAL */

/* Go's form: 1h2m3.5s, 100ms, 2us; a bare number means nanoseconds. Not negative. */
int value_parse_duration(const char *text, uint64_t *ns);
#define VALUE_DURATION_MAX 64
void value_format_duration(uint64_t ns, char out[VALUE_DURATION_MAX]); /* 1h30m, 100ms, 0s */

/* host:port, [v6]:port; with allow_scheme also http://, https:// and dns:/// before it, and
 * unix:///path or unix:/path instead.
 * NULL, or a sentence saying what is wrong and what would be right. */
const char *value_parse_endpoint(const char *text, bool allow_scheme,
                                 struct config_endpoint *endpoint);
/* http://host[:port][/path], https://... . The path is borrowed from text. Outcomes as above. */
#define VALUE_URL_PATH_MAX 2048
const char *value_parse_url(const char *text, struct config_url *url);
/* /path, unix:/path or unix:///path of a Unix socket; as above. */
bool value_is_socket_path(const char *text);
const char *value_parse_socket_path(const char *text, struct config_endpoint *endpoint);
#define VALUE_ENDPOINT_MAX 272
void value_format_endpoint(const struct config_endpoint *endpoint, char out[VALUE_ENDPOINT_MAX]);
