/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/http/cors.h"
#include <strings.h>

static bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcasecmp(pattern, text) == 0;
    size_t before = (size_t)(star - pattern), behind = strlen(star + 1), len = strlen(text);
    return len >= before + behind && strncasecmp(pattern, text, before) == 0 &&
           strcasecmp(star + 1, text + len - behind) == 0;
}

bool cors_allows_origin(const struct config_cors *cors, const char *origin)
{
    for (size_t i = 0; origin && i < cors->allowed_origins.count; i++)
        if (pattern_matches(cors->allowed_origins.items[i], origin))
            return true;
    return false;
}

bool cors_any_origin(const struct config_cors *cors)
{
    for (size_t i = 0; i < cors->allowed_origins.count; i++)
        if (strcmp(cors->allowed_origins.items[i], "*") == 0)
            return true;
    return false;
}

static bool is_name(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && strncasecmp(name, text, len) == 0;
}

static bool allows_header(const struct config_cors *cors, const char *text, size_t len)
{
    static const char *const always[] = {"accept", "content-type", "x-requested-with"};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        if (is_name(always[i], text, len))
            return true;
    for (size_t i = 0; i < cors->allowed_headers.count; i++)
        if (is_name(cors->allowed_headers.items[i], text, len) ||
            strcmp(cors->allowed_headers.items[i], "*") == 0)
            return true;
    return false;
}

/* Tokens of RFC 9110 only, so an echoed header name cannot break a line. */
#define TOKEN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"

bool cors_allows_headers(const struct config_cors *cors, const char *asked)
{
    while (asked && *asked) {
        asked += strspn(asked, " \t,");
        size_t len = strspn(asked, TOKEN);
        if (len && !allows_header(cors, asked, len))
            return false;
        asked += len;
        if (*asked && !strchr(" \t,", *asked))
            return false;
    }
    return true;
}
