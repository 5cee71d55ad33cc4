/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TLS 1.2 and 1.3 over connected non-blocking sockets, either role. GnuTLS does the cryptography
 * (RFC 8446, RFC 5246, ALPN RFC 7301). Only suites with forward secrecy and authenticated
 * encryption are offered, which is what HTTP/2 asks for (RFC 9113, 9.2.2); no session is resumed,
 * no renegotiation answered.
 *
 * Thread: loop. What fails is counted in spanprof_tls_handshakes_total{role=...,outcome=...}.
 */
#include "base/buf.h"
#include "base/loop.h"
#include <sys/types.h>

struct tls_context; /* settings, and the current credentials */
struct tls;         /* one session */

enum tls_version { TLS_1_2, TLS_1_3 };
enum { TLS_WHY_MAX = 320, TLS_ALPN_MAX = 16 };

struct tls_settings {
    bool server;
    const char *name; /* in messages: "receivers::otlp::protocols::grpc::tls" */
    enum tls_version min_version, max_version;
    const char *alpn;          /* "h2" or "http/1.1" */
    bool alpn_required;        /* a peer that does not speak it is refused */
    bool insecure_skip_verify; /* client: any certificate will do */
    bool system_cas;           /* client: the system's CAs are trusted, besides those given */
    const char *server_name;   /* client: the expected certificate name: a host or an address */
};

struct tls_pem {
    const char *name; /* in messages: "cert_file /etc/tls.crt" */
    struct bytes text;
    bool given;
};

struct tls_material {
    struct tls_pem certificate; /* with its chain, leaf first. Client: NULL for none */
    struct tls_pem key;         /* not encrypted */
    struct tls_pem cas; /* trusted CAs for the peer's certificate. Server: if given, clients must
                           have a certificate */
};

/* Copies settings and material. 0; -EINVAL with a sentence in why; -ENOMEM. */
int tls_context_open(const struct tls_settings *settings, const struct tls_material *material,
                     struct tls_context **context, char why[TLS_WHY_MAX]);
/* For sessions from now on. On failure the current ones stay. */
int tls_context_reload(struct tls_context *context, const struct tls_material *material,
                       char why[TLS_WHY_MAX]);
void tls_context_close(struct tls_context *context); /* its sessions live on. NULL is fine */

/* ---- a session whose handshake is done ---- */

/* Bytes, 0 at the end, -EAGAIN, or negative errno (-EPROTO: not TLS as it should be). With room for
 * a record (16 KiB) nothing is left behind that epoll does not see. */
ssize_t tls_read(struct tls *tls, void *out, size_t size);
/* Bytes taken. After -EAGAIN the same bytes come first again. */
ssize_t tls_write(struct tls *tls, const void *data, size_t size);
/* Sends close_notify if that is possible at once; the caller keeps the socket. NULL is fine. */
void tls_close(struct tls *tls);

/* ---- a handshake on the loop ---- */

enum tls_outcome {
    TLS_OK,
    TLS_TIMEOUT,
    TLS_LOST,            /* the peer hung up */
    TLS_NOT_TLS,         /* the peer speaks something else */
    TLS_NO_COMMON_WAYS,  /* no version, suite or group in common */
    TLS_NO_ALPN,         /* the peer does not speak the protocol of settings.alpn */
    TLS_NO_CERTIFICATE,  /* a client without one */
    TLS_UNTRUSTED,       /* the peer's certificate comes from no trusted CA */
    TLS_EXPIRED,         /* or is not valid yet */
    TLS_WRONG_NAME,      /* or names another host */
    TLS_REFUSED_BY_PEER, /* alert */
    TLS_CROWDED_OUT,     /* by newer handshakes, tls_count() of their owner */
    TLS_FAILED,
    TLS_OUTCOMES
};

/* Embedded. done() is called once, from the loop. TLS_OK: `tls` and `fd` are the owner's, who sets
 * them to NULL and -1 when taking them. Else why is a sentence, and the owner stops it. */
struct tls_handshake {
    void (*done)(struct tls_handshake *handshake, enum tls_outcome outcome, const char *why);
    struct tls *tls;
    int fd;
    /* private */
    struct loop *loop;
    struct watch watch;
    struct timer deadline;
};

/* Takes fd over, also on failure (then done() is not called). 0 or negative errno. */
int tls_handshake_start(struct tls_handshake *handshake, struct loop *loop,
                        struct tls_context *context, int fd, uint64_t timeout_ns);
/* The same for a client, with another expected name; name must outlive the handshake. NULL: the
 * context's server_name. */
int tls_handshake_start_to(struct tls_handshake *handshake, struct loop *loop,
                           struct tls_context *context, const char *name, int fd,
                           uint64_t timeout_ns);
/* Allowed repeatedly and after done(). Closes a session and socket that the owner has not taken. */
void tls_handshake_stop(struct tls_handshake *handshake);
void tls_count(bool server, enum tls_outcome outcome);
