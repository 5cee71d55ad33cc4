/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of value.h. Elsewhere an address without a host (":4317") means all addresses. Here the
 * host must be written out, so that a forgotten host does not open a port to the network.
 */
#include "config/yaml/value.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool skip_prefix(const char **text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strncmp(*text, prefix, len) != 0)
        return false;
    *text += len;
    return true;
}

static const char *skip_scheme(const char **text, enum config_scheme *scheme)
{
    *scheme = CONFIG_SCHEME_NONE;
    if (skip_prefix(text, "http://"))
        *scheme = CONFIG_SCHEME_HTTP;
    else if (skip_prefix(text, "https://"))
        *scheme = CONFIG_SCHEME_HTTPS;
    else
        skip_prefix(text, "dns:///");
    if (strstr(*text, "://") || skip_prefix(text, "unix:") || skip_prefix(text, "dns:"))
        return "has a scheme that is not supported; write host:port, http://host:port, "
               "https://host:port or unix:///path";
    return NULL;
}

static const char *parse_port(const char *text, uint16_t *port)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long value = strtoul(text, NULL, 10);
    if (digits == 0 || digits > 5 || text[digits] || value > 65535)
        return "has a port that is not a number of 0 to 65535; write host:port, for example "
               "localhost:4317";
    *port = (uint16_t)value;
    return NULL;
}

/* Copies the host, without brackets, and moves *text to the ':' before the port. */
static const char *parse_host(const char **text, char *host, size_t size)
{
    bool bracket = skip_prefix(text, "[");
    size_t len = strcspn(*text, bracket ? "]" : ":");
    if (len >= size)
        return "has a host name that is too long (at most 253 bytes)";
    memcpy(host, *text, len);
    host[len] = 0;
    *text += len;
    struct in6_addr address;
    if (bracket) {
        if (!skip_prefix(text, "]") || inet_pton(AF_INET6, host, &address) != 1)
            return "has no IPv6 address in its brackets; write it like [::1]:4317";
        return NULL;
    }
    if (strchr(*text, ':') != strrchr(*text, ':'))
        return "has an IPv6 address without brackets; write it like [::1]:4317";
    if (len == 0)
        return "has no host; write localhost:4317 for this node, 0.0.0.0:4317 or [::]:4317 for all "
               "addresses";
    if (host[strspn(host, LETTERS "0123456789.-_")])
        return "has a host with characters that no host name has; write host:port, for example "
               "localhost:4317";
    return NULL;
}

const char *value_parse_endpoint(const char *text, bool allow_scheme,
                                 struct config_endpoint *endpoint)
{
    struct config_endpoint parsed = {.set = true};
    if (allow_scheme && strncmp(text, "unix:", 5) == 0)
        return value_parse_socket_path(text, endpoint);
    const char *problem = allow_scheme ? skip_scheme(&text, &parsed.scheme) : NULL;
    if (problem)
        return problem;
    char plain[512];
    size_t len = strlen(text);
    if (parsed.scheme != CONFIG_SCHEME_NONE && len && text[len - 1] == '/')
        len--; /* http://host:4317/ */
    if (len >= sizeof(plain))
        return "is too long for host:port";
    memcpy(plain, text, len);
    plain[len] = 0;
    if (strchr(plain, '/'))
        return allow_scheme
                   ? "has a path, which OTLP/gRPC does not; write host:port"
                   : "is not host:port; write for example localhost:4317, without a scheme";
    const char *rest = plain;
    problem = parse_host(&rest, parsed.host, sizeof(parsed.host));
    if (problem)
        return problem;
    if (!skip_prefix(&rest, ":"))
        return "has no port; write host:port, for example localhost:4317";
    problem = parse_port(rest, &parsed.port);
    if (!problem)
        *endpoint = parsed;
    return problem;
}

#define URL_FORM "write it like http://localhost:4318"

static const char *check_path(const char *path)
{
    if (*path == '?' || strchr(path, '#'))
        return "has a ? without a path before it, or a #; " URL_FORM;
    if (strlen(path) > VALUE_URL_PATH_MAX)
        return "has a path that is too long (at most 2048 bytes)";
    for (; *path; path++)
        if (*path <= 0x20 || *path > 0x7e)
            return "has a path with blanks or other characters that must be written as %XX";
    return NULL;
}

const char *value_parse_url(const char *text, struct config_url *url)
{
    struct config_url parsed = {.endpoint = {.set = true}};
    char address[300];
    const char *problem = skip_scheme(&text, &parsed.endpoint.scheme), *rest = address;
    if (problem || parsed.endpoint.scheme == CONFIG_SCHEME_NONE)
        return "is not a URL that begins with http:// or https://; " URL_FORM;
    size_t len = strcspn(text, "/?#");
    if (len >= sizeof(address))
        return "has a host name that is too long (at most 253 bytes)";
    memcpy(address, text, len);
    address[len] = 0;
    parsed.path = text + len;
    parsed.endpoint.port = parsed.endpoint.scheme == CONFIG_SCHEME_HTTPS ? 443 : 80;
    problem = check_path(parsed.path);
    if (!problem)
        problem = parse_host(&rest, parsed.endpoint.host, sizeof(parsed.endpoint.host));
    if (!problem && *rest)
        problem = skip_prefix(&rest, ":") ? parse_port(rest, &parsed.endpoint.port)
                                          : "has something between host and path; " URL_FORM;
    if (!problem && parsed.endpoint.port == 0)
        problem = "has port 0, where nothing can be sent; " URL_FORM;
    if (!problem)
        *url = parsed;
    return problem;
}

bool value_is_socket_path(const char *text)
{
    return *text == '/' || strncmp(text, "unix:", 5) == 0;
}

const char *value_parse_socket_path(const char *text, struct config_endpoint *endpoint)
{
    struct config_endpoint parsed = {.set = true, .transport = CONFIG_UNIX};
    if (!skip_prefix(&text, "unix://"))
        skip_prefix(&text, "unix:");
    size_t len = strlen(text);
    if (*text != '/' || text[len - 1] == '/')
        return "is no absolute path of a socket; write one like unix:///run/spanprof/otlp.sock";
    if (len >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return "is too long for a socket's path (at most 107 bytes)";
    memcpy(parsed.host, text, len + 1);
    *endpoint = parsed;
    return NULL;
}

void value_format_endpoint(const struct config_endpoint *endpoint, char out[VALUE_ENDPOINT_MAX])
{
    if (endpoint->transport == CONFIG_UNIX) {
        snprintf(out, VALUE_ENDPOINT_MAX, "unix://%s", endpoint->host);
        return;
    }
    bool v6 = strchr(endpoint->host, ':') != NULL;
    snprintf(out, VALUE_ENDPOINT_MAX, "%s%s%s:%u", v6 ? "[" : "", endpoint->host, v6 ? "]" : "",
             (unsigned)endpoint->port);
}
