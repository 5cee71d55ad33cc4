/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which web pages may send telemetry from a browser: preflight requests, and the headers of
 * answers. Pure; thread: any. Source of the rules: the Fetch standard, "HTTP extensions"; the
 * Collector's keys.
 */
#include "config/config.h"

/* Each configured origin may contain one *, which matches any text. origin may be NULL. */
bool cors_allows_origin(const struct config_cors *cors, const char *origin);
/* `asked`: the value of Access-Control-Request-Headers, which may be NULL. */
bool cors_allows_headers(const struct config_cors *cors, const char *asked);
bool cors_any_origin(const struct config_cors *cors); /* "*" alone: pages without credentials */
