/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From an endpoint to a connected socket: resolves the endpoint's name (or takes the path of a Unix
 * socket), connects, asks who listens if it is a Unix socket (exporter/otlp/listener.h), and does
 * the TLS handshake if tls is set. Thread: loop; names are resolved on the dialer's own thread.
 * Limit: the first DIALER_ADDRESSES_MAX addresses of a name are tried.
 */
#include "base/worker.h"
#include "config/config.h"
#include "proto/tls/tls.h"
#include <sys/socket.h>

enum { DIALER_ADDRESSES_MAX = 8 };

struct dialer_settings {
    struct loop *loop;
    const struct config_endpoint *endpoint;  /* outlives the dialer */
    const struct config_users *socket_users; /* who may listen at its path; outlives the dialer */
    uint64_t connect_timeout_ns; /* of each address; again for its TLS handshake; 0: 20 s */
    struct tls_context *tls;     /* outlives the dialer; NULL: plain text */
    const char *server_name;     /* expected in the certificate; outlives it; NULL: tls's */
};

struct resolve_job;

/* Embedded. */
struct dialer {
    struct dialer_settings settings;
    /* Called once for each dialer_start() that is not stopped. The owner owns fd and tls (NULL:
     * plain text). fd -1: connecting failed, and why holds the reason (valid during the call). */
    void (*done)(struct dialer *dialer, int fd, struct tls *tls, const char *why);
    /* private */
    struct worker *resolver; /* NULL until a name needs it */
    struct resolve_job *resolving;
    size_t n_addresses;
    size_t next_address;
    struct dialer_address {
        struct sockaddr_storage socket;
        socklen_t size;
    } addresses[DIALER_ADDRESSES_MAX];
    struct watch connecting;       /* fd -1: not connecting */
    struct timer deadline;         /* for the current address */
    struct tls_handshake securing; /* on the connected socket; fd -1: none */
    char why[512];
};

void dialer_init(struct dialer *dialer, const struct dialer_settings *settings,
                 void (*done)(struct dialer *dialer, int fd, struct tls *tls, const char *why));
void dialer_start(struct dialer *dialer); /* may call done(); no-op while it runs */
bool dialer_busy(const struct dialer *dialer);
void dialer_stop(struct dialer *dialer);  /* no done(); may be started again */
void dialer_close(struct dialer *dialer); /* may be called twice */
