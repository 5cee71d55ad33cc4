/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_access.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256

/* Strips the port: after the last colon, or after the closing bracket of an IPv6 address. */
static bool split_host(const char *host, char name[HOST_MAX], bool *bracketed)
{
    const char *from = host, *end = strchr(host, ':');
    *bracketed = *host == '[';
    if (*bracketed) {
        from++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
    }
    size_t len = end ? (size_t)(end - from) : strlen(from);
    const char *port = !end ? "" : *bracketed ? end + 1 : end;
    if (*port == ':' && port[1 + strspn(port + 1, "0123456789")])
        return false;
    if (!len || len >= HOST_MAX)
        return false;
    memcpy(name, from, len);
    name[len] = '\0';
    return true;
}

static bool is_name(const char *name, const char *known)
{
    size_t len = strlen(name);
    if (len && name[len - 1] == '.') /* the DNS root's dot */
        len--;
    return len == strlen(known) && strncasecmp(name, known, len) == 0;
}

bool pages_access_knows_host(const struct config_pages *config, const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    char name[HOST_MAX];
    bool bracketed;
    if (!host || !split_host(host, name, &bracketed))
        return false;
    if (bracketed)
        return inet_pton(AF_INET6, name, &v6) == 1;
    if (inet_pton(AF_INET, name, &v4) == 1 || is_name(name, "localhost"))
        return true;
    if (is_name(name, config->endpoint.host))
        return true;
    for (size_t i = 0; i < config->allowed_hosts.count; i++)
        if (is_name(name, config->allowed_hosts.items[i]))
            return true;
    return false;
}

bool pages_access_has_token(const char *token, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    size_t len = strlen(token);
    if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return false;
    const char *given = authorization + sizeof(scheme) - 1;
    size_t given_len = strlen(given);
    unsigned difference = given_len != len;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)(token[i] ^ given[given_len ? i % given_len : 0]);
    return !difference;
}
