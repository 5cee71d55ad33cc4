/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/tls/tls_accept.h"
#include "base/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEER_TEXT = INET6_ADDRSTRLEN + 8 };

struct entering {
    struct list link;
    struct tls_accept *accept;
    struct tls_handshake handshake;
};

void tls_accept_init(struct tls_accept *accept)
{
    list_init(&accept->entering);
    accept->n_entering = 0;
}

static void entering_free(struct entering *entering)
{
    list_remove(&entering->link);
    entering->accept->n_entering--;
    tls_handshake_stop(&entering->handshake);
    free(entering);
}

static void peer_text(int fd, char text[PEER_TEXT])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer = {.v6 = {0}};
    socklen_t size = sizeof(peer);
    char host[INET6_ADDRSTRLEN];
    snprintf(text, PEER_TEXT, "a client");
    if (getpeername(fd, &peer.any, &size))
        return;
    bool is_v4 = peer.any.sa_family == AF_INET;
    const void *address = is_v4 ? (void *)&peer.v4.sin_addr : (void *)&peer.v6.sin6_addr;
    if ((is_v4 || peer.any.sa_family == AF_INET6) &&
        inet_ntop(peer.any.sa_family, address, host, sizeof(host)))
        snprintf(text, PEER_TEXT, "%s", host);
}

static void on_done(struct tls_handshake *handshake, enum tls_outcome outcome, const char *why)
{
    struct entering *entering = container_of(handshake, struct entering, handshake);
    struct tls_accept *accept = entering->accept;
    struct tls *tls = handshake->tls;
    int fd = handshake->fd;
    if (outcome == TLS_OK) {
        handshake->tls = NULL;
        handshake->fd = -1;
        entering_free(entering);
        accept->passed(accept, tls, fd);
        return;
    }
    char peer[PEER_TEXT];
    peer_text(fd, peer);
    log_info(accept->area, "TLS with %s failed: %s", peer, why);
    entering_free(entering);
}

static void accept_make_room(struct tls_accept *accept)
{
    if (accept->n_entering < TLS_ACCEPT_MAX)
        return;
    tls_count(true, TLS_CROWDED_OUT);
    entering_free(container_of(list_first(&accept->entering), struct entering, link));
}

void tls_accept_enter(struct tls_accept *accept, int fd)
{
    LOOP_THREAD(accept->loop);
    accept_make_room(accept);
    struct entering *entering = calloc(1, sizeof(*entering));
    int error = entering ? 0 : -ENOMEM;
    if (error)
        close(fd);
    else
        entering->handshake.done = on_done;
    if (!error)
        error = tls_handshake_start(&entering->handshake, accept->loop, accept->context, fd,
                                    TLS_ACCEPT_TIMEOUT_NS);
    if (error) {
        log_warn(accept->area, "cannot serve a connection: %s", strerror(-error));
        free(entering);
        return;
    }
    entering->accept = accept;
    list_append(&accept->entering, &entering->link);
    accept->n_entering++;
}

void tls_accept_close(struct tls_accept *accept)
{
    struct list *link;
    while (accept->n_entering && (link = list_first(&accept->entering)))
        entering_free(container_of(link, struct entering, link));
}
