/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each reload makes new credentials; sessions hold references to theirs. A connection keeps the
 * credentials it began with, later connections get the new ones, and a reload that fails changes
 * nothing.
 */
#include "proto/tls/tls.h"
#include "base/log.h"
#include "base/stats.h"
#include "proto/tls/tls_session.h"
#include <errno.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHAIN_MAX 16 /* certificates of a chain that are looked at */

enum reload { RELOAD_LOADED, RELOAD_FAILED, RELOADS };

static const char *const reload_names[] = {[RELOAD_LOADED] = "loaded", [RELOAD_FAILED] = "failed"};
STAT_COUNTERS(reloads, "spanprof_tls_reloads_total", "Reloads of changed certificates, by outcome.",
              STAT_LABEL("outcome", reload_names, RELOADS), .losses = STAT_BIT(RELOAD_FAILED));

static gnutls_datum_t tls_datum(struct bytes bytes)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)bytes.data, (unsigned)bytes.len};
}

static int error_of(int gnutls_error)
{
    return gnutls_error == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
}

/* ---- loading ---- */

static int load_cas(gnutls_certificate_credentials_t x509, const struct tls_pem *cas,
                    char why[TLS_WHY_MAX])
{
    gnutls_datum_t text = tls_datum(cas->text);
    int n = gnutls_certificate_set_x509_trust_mem(x509, &text, GNUTLS_X509_FMT_PEM);
    if (n > 0)
        return 0;
    snprintf(why, TLS_WHY_MAX, "%s holds no certificate of a CA%s%s; write them in PEM form",
             cas->name, n < 0 ? ": " : "", n < 0 ? gnutls_strerror(n) : "");
    return n < 0 ? error_of(n) : -EINVAL;
}

static const char *key_problem(int error)
{
    switch (error) {
    case GNUTLS_E_CERTIFICATE_KEY_MISMATCH:
        return "do not belong together: the key is of another certificate";
    case GNUTLS_E_DECRYPTION_FAILED:
        return "cannot be used: the key is encrypted; write it without a password";
    case GNUTLS_E_BASE64_DECODING_ERROR:
    case GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR:
    case GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE:
    case GNUTLS_E_NO_CERTIFICATE_FOUND:
        return "are not PEM: a certificate and a private key are expected";
    default:
        return NULL;
    }
}

/* Warns when credentials are loaded; otherwise the first failing client would show the problem. */
static void warn_of_dates(const struct tls_context *context, const struct tls_pem *certificate)
{
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned n = CHAIN_MAX;
    gnutls_datum_t text = tls_datum(certificate->text);
    if (gnutls_x509_crt_list_import(chain, &n, &text, GNUTLS_X509_FMT_PEM, 0) < 0)
        return;
    time_t now = time(NULL);
    for (unsigned i = 0; i < n; i++) {
        if (i == 0 && gnutls_x509_crt_get_expiration_time(chain[i]) < now)
            log_warn("tls", "%s: %s has expired: peers will refuse it; renew it",
                     context->settings.name, certificate->name);
        if (i == 0 && gnutls_x509_crt_get_activation_time(chain[i]) > now)
            log_warn("tls", "%s: %s is not valid yet: is the clock right?", context->settings.name,
                     certificate->name);
        gnutls_x509_crt_deinit(chain[i]);
    }
}

static int load_pair(const struct tls_context *context, gnutls_certificate_credentials_t x509,
                     const struct tls_material *material, char why[TLS_WHY_MAX])
{
    const struct tls_pem *certificate = &material->certificate, *key = &material->key;
    gnutls_datum_t certificate_text = tls_datum(certificate->text), key_text = tls_datum(key->text);
    int r = gnutls_certificate_set_x509_key_mem2(x509, &certificate_text, &key_text,
                                                 GNUTLS_X509_FMT_PEM, NULL, 0);
    if (r >= 0) {
        warn_of_dates(context, certificate);
        return 0;
    }
    const char *problem = key_problem(r);
    snprintf(why, TLS_WHY_MAX, "%s and %s %s%s", certificate->name, key->name,
             problem ? problem : "cannot be used: ", problem ? "" : gnutls_strerror(r));
    return error_of(r);
}

static int load_system(const struct tls_context *context, gnutls_certificate_credentials_t x509,
                       char why[TLS_WHY_MAX])
{
    int n = gnutls_certificate_set_x509_system_trust(x509);
    if (n > 0)
        return 0;
    snprintf(why, TLS_WHY_MAX,
             "%s: this system has no CA certificates; install the package ca-certificates, or "
             "name the backend's CA in ca_file",
             context->settings.name);
    return -EINVAL;
}

static int material_load(const struct tls_context *context, const struct tls_material *material,
                         gnutls_certificate_credentials_t x509, char why[TLS_WHY_MAX])
{
    const struct tls_settings *settings = &context->settings;
    bool verifies = !settings->server && !settings->insecure_skip_verify;
    int error = 0;
    if (material->cas.given)
        error = load_cas(x509, &material->cas, why);
    if (!error && verifies && settings->system_cas)
        error = load_system(context, x509, why);
    if (!error && material->certificate.given)
        error = load_pair(context, x509, material, why);
    return error;
}

static int credentials_new(const struct tls_context *context, const struct tls_material *material,
                           struct tls_credentials **result, char why[TLS_WHY_MAX])
{
    snprintf(why, TLS_WHY_MAX, "no memory for certificates");
    struct tls_credentials *credentials = calloc(1, sizeof(*credentials));
    if (!credentials)
        return -ENOMEM;
    credentials->users = 1;
    credentials->demands_certificate = context->settings.server && material->cas.given;
    int error = gnutls_certificate_allocate_credentials(&credentials->x509) ? -ENOMEM : 0;
    if (!error)
        error = material_load(context, material, credentials->x509, why);
    if (error) {
        tls_credentials_release(credentials);
        return error;
    }
    *result = credentials;
    return 0;
}

void tls_credentials_release(struct tls_credentials *credentials)
{
    if (!credentials || --credentials->users)
        return;
    if (credentials->x509)
        gnutls_certificate_free_credentials(credentials->x509);
    free(credentials);
}

/* ---- the context ---- */

static int open_priority(struct tls_context *context)
{
    const struct tls_settings *settings = &context->settings;
    char text[512];
    snprintf(text, sizeof(text),
             "NONE:%s%s+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+AEAD:+ECDHE-ECDSA:+ECDHE-RSA:"
             "+SIGN-ALL:-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1:"
             "+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-SECP521R1:+CTYPE-X509:"
             "+COMP-NULL:%%SAFE_RENEGOTIATION:%%PROFILE_MEDIUM",
             settings->max_version >= TLS_1_3 ? "+VERS-TLS1.3:" : "",
             settings->min_version <= TLS_1_2 ? "+VERS-TLS1.2:" : "");
    return gnutls_priority_init(&context->priority, text, NULL) ? -ENOMEM : 0;
}

static char *text_copy(const char *text)
{
    return strdup(text ? text : "");
}

int tls_context_open(const struct tls_settings *settings, const struct tls_material *material,
                     struct tls_context **result, char why[TLS_WHY_MAX])
{
    snprintf(why, TLS_WHY_MAX, "no memory for TLS");
    struct tls_context *context = calloc(1, sizeof(*context));
    if (!context)
        return -ENOMEM;
    context->users = 1;
    context->settings = *settings;
    context->name = text_copy(settings->name);
    context->server_name = text_copy(settings->server_name);
    snprintf(context->alpn, sizeof(context->alpn), "%s", settings->alpn ? settings->alpn : "");
    int error = context->name && context->server_name ? open_priority(context) : -ENOMEM;
    context->settings.name = context->name;
    context->settings.server_name = context->server_name;
    context->settings.alpn = context->alpn;
    if (!error)
        error = credentials_new(context, material, &context->credentials, why);
    if (error) {
        tls_context_close(context);
        return error;
    }
    *result = context;
    return 0;
}

int tls_context_reload(struct tls_context *context, const struct tls_material *material,
                       char why[TLS_WHY_MAX])
{
    struct tls_credentials *credentials;
    int error = credentials_new(context, material, &credentials, why);
    stat_add_of(&reloads, error ? RELOAD_FAILED : RELOAD_LOADED, 1);
    if (error)
        return error;
    tls_credentials_release(context->credentials);
    context->credentials = credentials;
    return 0;
}

void tls_context_release(struct tls_context *context)
{
    if (!context || --context->users)
        return;
    tls_credentials_release(context->credentials);
    if (context->priority)
        gnutls_priority_deinit(context->priority);
    free(context->name);
    free(context->server_name);
    free(context);
}

void tls_context_close(struct tls_context *context)
{
    tls_context_release(context);
}
