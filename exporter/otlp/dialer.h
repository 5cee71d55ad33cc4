/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From an endpoint to a connected socket: resolves its name, or takes the path of a Unix socket,
 * connects, by TLS if so set. Thread:
 * loop; names are resolved on a thread of the dialer's own. Limit: DIALER_ADDRESSES_MAX addresses
 * of a name are tried.
 */
#include "base/worker.h"
#include "config/config.h"
#include "proto/tls/tls.h"
#include <sys/socket.h>

enum { DIALER_ADDRESSES_MAX = 8 };

struct dialer_settings {
    struct loop *loop;
    const struct config_endpoint *endpoint; /* outlives the dialer */
    uint64_t connect_timeout_ns; /* of each address; again for its TLS handshake; 0: 20 s */
    struct tls_context *tls;     /* outlives the dialer; NULL: plain text */
    const char *server_name; /* outlives the dialer; whom the certificate has to name, instead of
                                the one that tls says; NULL: that */
};

struct resolve_job;

/* Embedded. */
struct dialer {
    struct dialer_settings settings;
    /* Once for each dialer_start() that is not stopped. fd and tls (NULL: plain text) are the
     * owner's; fd -1: it could not be had, and why says so (valid for the call). */
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
    struct timer deadline;         /* of the address at hand */
    struct tls_handshake securing; /* of a socket that is connected; fd -1: none */
    char why[512];
};

void dialer_init(struct dialer *dialer, const struct dialer_settings *settings,
                 void (*done)(struct dialer *dialer, int fd, struct tls *tls, const char *why));
void dialer_start(struct dialer *dialer); /* done() may come from within; no harm while it runs */
bool dialer_busy(const struct dialer *dialer);
void dialer_stop(struct dialer *dialer);  /* no done(); may be started again */
void dialer_close(struct dialer *dialer); /* may be called twice */
