/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host may have several addresses, and not all must work: a node without IPv6 still has
 * "localhost". But an address in use by another process is an error: a listener on only some
 * addresses would be noticed late.
 */
#include "receiver/listen.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512 };

static const char *listen_reason(int error)
{
    switch (-error) {
    case EADDRINUSE:
        return "the port is in use by another program: stop that one or choose another port";
    case EACCES:
        return "not permitted: ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one";
    case EADDRNOTAVAIL:
        return "this node does not have that address";
    case ENOENT:
        return "the host name is not known";
    case ETIMEDOUT:
    case EAGAIN:
        return "no server of names tells the host's address in time: write its address, or put the "
               "name into /etc/hosts";
    default:
        return strerror(-error);
    }
}

static const char *listen_path_reason(int error)
{
    switch (-error) {
    case EADDRINUSE:
        return "another program listens there, or it is a file of another kind: choose another "
               "path";
    case ENOENT:
        return "its directory is missing: make it";
    default:
        return strerror(-error);
    }
}

static int listen_explain(struct buf *text, const char *path,
                          const struct config_endpoint *endpoint, int error)
{
    const char *form = strchr(endpoint->host, ':') ? "%s: cannot listen on [%s]:%u: %s"
                                                   : "%s: cannot listen on %s:%u: %s";
    char sentence[768];
    if (endpoint->transport == CONFIG_UNIX)
        snprintf(sentence, sizeof(sentence), "%s: cannot listen on %s: %s", path, endpoint->host,
                 listen_path_reason(error));
    else
        snprintf(sentence, sizeof(sentence), form, path, endpoint->host, endpoint->port,
                 listen_reason(error));
    if (text)
        buf_append_bytes(text, BYTES_STR(sentence));
    return error;
}

static int address_listen(const struct addrinfo *address, bool both_families)
{
    const int on = 1, v6only = !both_families;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)); /* peers.h */
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
    if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, BACKLOG))
        return fd;
    int error = -errno;
    close(fd);
    return error;
}

static void address_set_port(struct addrinfo *address, uint16_t port)
{
    if (address->ai_family == AF_INET)
        ((struct sockaddr_in *)(void *)address->ai_addr)->sin_port = htons(port);
    else if (address->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address->ai_addr)->sin6_port = htons(port);
}

static uint16_t socket_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t size = sizeof(address);
    if (getsockname(fd, &address.any, &size))
        return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* Not every node has every family. */
static bool error_is_tolerable(int error)
{
    return error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT;
}

static int sockets_open_all(struct addrinfo *list, uint16_t port, bool both_families,
                            struct listen_sockets *sockets)
{
    int lacking = -EADDRNOTAVAIL;
    for (struct addrinfo *address = list; address && sockets->n < LISTEN_SOCKETS_MAX;
         address = address->ai_next) {
        address_set_port(address, sockets->port ? sockets->port : port);
        int fd = address_listen(address, both_families);
        if (fd < 0 && !error_is_tolerable(fd))
            return fd;
        if (fd < 0) {
            lacking = fd;
            continue;
        }
        sockets->fds[sockets->n++] = fd;
        sockets->port = socket_port(fd);
    }
    return sockets->n ? 0 : lacking;
}

/* An address as text: nobody is asked. */
static int address_parse(const char *host, int family, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_family = family,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    int result = getaddrinfo(host, "0", &hints, list);
    if (result == EAI_SYSTEM)
        return -errno;
    return result == EAI_MEMORY ? -ENOMEM : result ? -ENOENT : 0;
}

/* /etc/hosts of many containers gives "localhost" one family only. */
static int sockets_open_host(const char *host, uint16_t port, int family, bool both_families,
                             struct listen_sockets *sockets)
{
    struct addrinfo *list;
    int error = address_parse(host, family, &list);
    if (error)
        return error;
    error = sockets_open_all(list, port, both_families, sockets);
    freeaddrinfo(list);
    return error;
}

/* All addresses of a name that are of this family. */
static int sockets_open_name(struct bytes addresses, uint16_t port, int family,
                             struct listen_sockets *sockets)
{
    int lacking = -ENOENT;
    for (const uint8_t *end;
         addresses.len && (end = memchr(addresses.data, '\n', addresses.len));) {
        char host[sizeof(sockets->endpoint.host)];
        size_t len = (size_t)(end - addresses.data);
        snprintf(host, sizeof(host), "%.*s", (int)len, (const char *)addresses.data);
        addresses = bytes_skip(addresses, len + 1);
        int error = sockets_open_host(host, port, family, false, sockets);
        if (error && error != -ENOENT && !error_is_tolerable(error))
            return error;
        lacking = error ? error : lacking;
    }
    return sockets->n ? 0 : lacking;
}

static int sockets_open_path(const struct config_endpoint *endpoint, struct listen_sockets *sockets)
{
    int fd = listen_unix(endpoint->host, endpoint->socket_mode, BACKLOG, &sockets->file);
    if (fd < 0)
        return fd;
    sockets->fds[sockets->n++] = fd;
    return 0;
}

/* Opens a socket of one family. */
static int sockets_open_family(const struct config_endpoint *endpoint,
                               const struct listen_name *name, struct listen_sockets *sockets)
{
    bool v4 = endpoint->transport == CONFIG_TCP4;
    const char *host = endpoint->host;
    if (!strcmp(host, "localhost"))
        host = v4 ? "127.0.0.1" : "::1";
    else if (!*host || !strcmp(host, "::"))
        host = v4 ? "0.0.0.0" : "::";
    else if (name)
        return sockets_open_name(name->addresses, endpoint->port, v4 ? AF_INET : AF_INET6, sockets);
    return sockets_open_host(host, endpoint->port, v4 ? AF_INET : AF_INET6, false, sockets);
}

static int sockets_open_endpoint(const struct config_endpoint *endpoint,
                                 const struct listen_name *name, struct listen_sockets *sockets)
{
    const char *host = endpoint->host;
    if (name && name->error)
        return name->error;
    if (endpoint->transport == CONFIG_UNIX)
        return sockets_open_path(endpoint, sockets);
    if (endpoint->transport != CONFIG_TCP)
        return sockets_open_family(endpoint, name, sockets);
    if (!strcmp(host, "localhost")) {
        int v4 = sockets_open_host("127.0.0.1", endpoint->port, AF_UNSPEC, false, sockets);
        int v6 = error_is_tolerable(v4) || !v4
                     ? sockets_open_host("::1", endpoint->port, AF_UNSPEC, false, sockets)
                     : 0;
        return sockets->n && error_is_tolerable(v6) ? 0 : v4 && !sockets->n ? v4 : v6;
    }
    if (!*host || !strcmp(host, "::")) {
        int error = sockets_open_host("::", endpoint->port, AF_UNSPEC, true, sockets);
        return error_is_tolerable(error)
                   ? sockets_open_host("0.0.0.0", endpoint->port, AF_UNSPEC, false, sockets)
                   : error;
    }
    return name ? sockets_open_name(name->addresses, endpoint->port, AF_UNSPEC, sockets)
                : sockets_open_host(host, endpoint->port, AF_UNSPEC, false, sockets);
}

bool listen_has_name(const struct config_endpoint *endpoint)
{
    const char *host = endpoint->host;
    struct addrinfo *list;
    if (endpoint->transport == CONFIG_UNIX || !*host || !strcmp(host, "localhost"))
        return false;
    if (address_parse(host, AF_UNSPEC, &list))
        return true;
    freeaddrinfo(list);
    return false;
}

static void sockets_begin(const struct config_endpoint *endpoint, struct listen_sockets *sockets)
{
    *sockets = (struct listen_sockets){.endpoint = *endpoint};
    for (size_t i = 0; i < LISTEN_SOCKETS_MAX; i++)
        sockets->fds[i] = -1;
}

static bool endpoint_same(const struct config_endpoint *a, const struct config_endpoint *b)
{
    return a->port == b->port && a->transport == b->transport && a->socket_mode == b->socket_mode &&
           strcmp(a->host, b->host) == 0;
}

bool listen_share(const struct listen_sockets *in_use, const struct config_endpoint *endpoint,
                  struct listen_sockets *sockets)
{
    sockets_begin(endpoint, sockets);
    if (!in_use->n || !endpoint_same(&in_use->endpoint, endpoint))
        return false;
    sockets->port = in_use->port;
    sockets->file = in_use->file;
    while (sockets->n < in_use->n) {
        int fd = fcntl(in_use->fds[sockets->n], F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            listen_close(sockets);
            return false;
        }
        sockets->fds[sockets->n++] = fd;
    }
    return true;
}

int listen_open(const struct config_endpoint *endpoint, const char *config_path,
                struct listen_sockets *sockets, struct buf *error_text)
{
    return listen_open_name(endpoint, NULL, config_path, sockets, error_text);
}

int listen_open_name(const struct config_endpoint *endpoint, const struct listen_name *name,
                     const char *config_path, struct listen_sockets *sockets,
                     struct buf *error_text)
{
    sockets_begin(endpoint, sockets);
    int error = sockets_open_endpoint(endpoint, name, sockets);
    if (!error)
        return 0;
    listen_close(sockets);
    return listen_explain(error_text, config_path, endpoint, error);
}

bool listen_same(const struct listen_sockets *a, const struct listen_sockets *b)
{
    return a->n && b->n && endpoint_same(&a->endpoint, &b->endpoint) &&
           a->file.device == b->file.device && a->file.inode == b->file.inode;
}

void listen_remove(const struct listen_sockets *sockets)
{
    if (sockets->n && sockets->endpoint.transport == CONFIG_UNIX)
        listen_unix_remove(sockets->endpoint.host, &sockets->file);
}

void listen_close(struct listen_sockets *sockets)
{
    for (size_t i = 0; i < sockets->n; i++) {
        if (sockets->fds[i] >= 0)
            close(sockets->fds[i]);
        sockets->fds[i] = -1;
    }
    sockets->n = 0;
}
