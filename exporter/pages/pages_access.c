/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_access.h"
#include "base/bytes.h"
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX  256
#define BASIC_MAX 1024

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

/* In a time that does not tell how much of it is right. */
static bool is_token(const char *token, struct bytes given)
{
    size_t len = strlen(token);
    unsigned difference = given.len != len;
    if (!given.len)
        return false;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)((uint8_t)token[i] ^ given.data[i % given.len]);
    return !difference;
}

/* USER:PASSWORD in base64; any user will do. */
static bool is_password(const char *token, const char *encoded)
{
    gnutls_datum_t text = {(unsigned char *)encoded, (unsigned)strlen(encoded)}, decoded;
    if (text.size > BASIC_MAX || gnutls_base64_decode2(&text, &decoded) < 0)
        return false;
    const uint8_t *colon = memchr(decoded.data, ':', decoded.size);
    size_t user = colon ? (size_t)(colon - decoded.data) + 1 : 0;
    bool is = colon && is_token(token, BYTES(decoded.data + user, decoded.size - user));
    gnutls_memset(decoded.data, 0, decoded.size);
    gnutls_free(decoded.data);
    return is;
}

bool pages_access_has_token(const char *token, const char *authorization)
{
    static const char bearer[] = "Bearer ", basic[] = "Basic ";
    if (!authorization)
        return false;
    if (strncasecmp(authorization, bearer, sizeof(bearer) - 1) == 0)
        return is_token(token, BYTES_STR(authorization + sizeof(bearer) - 1));
    return strncasecmp(authorization, basic, sizeof(basic) - 1) == 0 &&
           is_password(token, authorization + sizeof(basic) - 1);
}
