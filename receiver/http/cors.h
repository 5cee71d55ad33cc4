/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which web pages may send from a browser: questions beforehand (preflights) and the headers of
 * answers. Pure; thread: any. Source of the rules: the Fetch standard, "HTTP extensions"; the
 * Collector's keys.
 */
#include "config/config.h"

/* One *, which stands for anything, may be in each of the configured ones. origin may be NULL. */
bool cors_allows_origin(const struct config_cors *cors, const char *origin);
/* `asked`: the value of Access-Control-Request-Headers, which may be NULL. */
bool cors_allows_headers(const struct config_cors *cors, const char *asked);
bool cors_any_origin(const struct config_cors *cors); /* "*" alone: pages without credentials */
