/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What tls.c (credentials), tls_session.c (bytes) and tls_handshake.c share. Thread: loop.
 */
#include "proto/tls/tls.h"
#include <gnutls/gnutls.h>

/* Sessions point into their credentials, so credentials live until their last session has ended. */
struct tls_credentials {
    gnutls_certificate_credentials_t x509;
    bool demands_certificate; /* of clients */
    size_t users;
};

struct tls_context {
    struct tls_settings settings; /* its texts are the context's */
    gnutls_priority_t priority;
    struct tls_credentials *credentials;
    char *name, *server_name;
    char alpn[TLS_ALPN_MAX];
    size_t users; /* sessions, and the owner */
};

struct tls {
    gnutls_session_t session;
    struct tls_context *context;
    struct tls_credentials *credentials;
    const char *server_name;
    gnutls_typed_vdata_st demands[2]; /* GnuTLS keeps a pointer to them */
    bool unsent;                      /* a record waits within GnuTLS */
    bool open;                        /* handshake done, not failed */
};

void tls_context_release(struct tls_context *context);
void tls_credentials_release(struct tls_credentials *credentials);

/* server_name: NULL: the context's. 0 or negative errno. */
int tls_open(struct tls_context *context, const char *server_name, int fd, struct tls **tls);
/* TLS_OK; -EAGAIN (tls_waits_to_write()); else an outcome with its sentence in why. */
int tls_step(struct tls *tls, char why[TLS_WHY_MAX]);
bool tls_waits_to_write(const struct tls *tls);
