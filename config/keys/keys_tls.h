/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys of a tls section and the hints about it, the same wherever there is one. Private to
 * keys.c. `tls` is the section's path, and AT_ gives offset and size of a field of config_tls.
 */
#include "config/keys/keys.h"

#define NOWHERE .offset = 0, .size = 0
#define SECOND  1e9
#define MINUTE  (60 * SECOND)
#define HOUR    (60 * MINUTE)
#define MS      1e6

static const struct key_choice tls_versions[] = {
    {"1.2", CONFIG_TLS_1_2}, {"1.3", CONFIG_TLS_1_3}, {NULL, 0}};

#define TLS_SECTION(owner, path, field, sentence)                                                  \
    {                                                                                              \
        owner, path, KEY_SECTION, 0, field, NULL, 0, 0, NULL, sentence                             \
    }
#define TLS_BOOL(owner, path, field, sentence)                                                     \
    {                                                                                              \
        owner, path, KEY_BOOL, 0, field, "false", 0, 0, NULL, sentence                             \
    }
#define TLS_VERSION(owner, path, field, initial, sentence)                                         \
    {                                                                                              \
        owner, path, KEY_CHOICE, KEY_NUMBERS_TOO, field, initial, 0, 0, tls_versions, sentence     \
    }
#define TLS_TEXT(owner, path, flags, max_, field, sentence)                                        \
    {                                                                                              \
        owner, path, KEY_TEXT, KEY_MAY_BE_EMPTY | (flags), field, "", 0, max_, NULL, sentence      \
    }
#define TLS_INTERVAL(owner, path, field, sentence)                                                 \
    {                                                                                              \
        owner, path, KEY_DURATION, KEY_ZERO_ALLOWED, field, "0s", SECOND, 24 * HOUR, NULL,         \
            sentence                                                                               \
    }

#define TLS_KEYS(owner, tls, AT_)                                                                  \
    TLS_TEXT(owner, tls ".cert_file", 0, 4000, AT_(cert_file),                                     \
             "File with spanprof's certificate and its chain, PEM."),                              \
        TLS_TEXT(owner, tls ".cert_pem", KEY_LINES, 65536, AT_(cert_pem),                          \
                 "The same as text instead of a file."),                                           \
        TLS_TEXT(owner, tls ".key_file", 0, 4000, AT_(key_file),                                   \
                 "File with its private key, PEM, without a password. It is read with the "        \
                 "rights of the user that starts spanprof; service.user needs no access."),        \
        TLS_TEXT(owner, tls ".key_pem", KEY_LINES | KEY_SECRET, 65536, AT_(key_pem),               \
                 "The same as text instead of a file. Never printed."),                            \
        TLS_VERSION(owner, tls ".min_version", AT_(min_version), "1.2",                            \
                    "Oldest TLS version. 1.0 and 1.1 are insecure and not available."),            \
        TLS_VERSION(owner, tls ".max_version", AT_(max_version), "1.3", "Newest TLS version."),    \
        TLS_INTERVAL(owner, tls ".reload_interval", AT_(reload_interval_ns),                       \
                     "How often the files are checked for changes; 0: only on SIGHUP. New "        \
                     "connections use the changed files; a certificate that does not fit its "     \
                     "key is not used.")

#define TLS_SERVER_KEYS(owner, tls, AT_)                                                           \
    TLS_SECTION(owner, tls, AT_(enabled),                                                          \
                "TLS on this port, with a certificate and its key. Absent: plain text."),          \
        TLS_KEYS(owner, tls, AT_),                                                                 \
        TLS_TEXT(owner, tls ".client_ca_file", 0, 4000, AT_(client_ca_file),                       \
                 "File with the CAs, PEM, that may sign clients' certificates (mutual TLS). "      \
                 "Without it clients need no certificate."),                                       \
        TLS_BOOL(owner, tls ".client_ca_file_reload", AT_(client_ca_file_reload),                  \
                 "Check client_ca_file for changes every second.")

#define TLS_CLIENT_KEYS(owner, tls, AT_)                                                           \
    TLS_SECTION(owner, tls, NOWHERE, "TLS to the backend; on by default."),                        \
        TLS_BOOL(owner, tls ".insecure", AT_(insecure),                                            \
                 "true: plain text, as with an endpoint that begins with http://."),               \
        TLS_BOOL(owner, tls ".insecure_skip_verify", AT_(insecure_skip_verify),                    \
                 "true: the backend's certificate is not verified, so a man in the middle "        \
                 "can read everything."),                                                          \
        TLS_TEXT(owner, tls ".ca_file", 0, 4000, AT_(ca_file),                                     \
                 "File with the CAs, PEM, that may sign the backend's certificate. Without "       \
                 "it the system's CAs."),                                                          \
        TLS_TEXT(owner, tls ".ca_pem", KEY_LINES, 65536, AT_(ca_pem),                              \
                 "The same as text instead of a file."),                                           \
        TLS_BOOL(owner, tls ".include_system_ca_certs_pool", AT_(include_system_ca_certs_pool),    \
                 "true: the system's CAs too, in addition to ca_file."),                           \
        TLS_TEXT(owner, tls ".server_name_override", 0, 255, AT_(server_name_override),            \
                 "The name that the backend's certificate must have, if not the endpoint's "       \
                 "host."),                                                                         \
        TLS_KEYS(owner, tls, AT_)

#define NOT_CA_FILE "clients are checked against client_ca_file"
#define AEAD_ONLY                                                                                  \
    "only suites with forward secrecy and authenticated encryption are used; leave it out"
#define TLS_HINT(owner, path, text)                                                                \
    {                                                                                              \
        owner, path, text                                                                          \
    }
#define TLS_HINTS(owner, tls)                                                                      \
    TLS_HINT(owner, tls ".cipher_suites", AEAD_ONLY),                                              \
        TLS_HINT(owner, tls ".curve_preferences", AEAD_ONLY),                                      \
        TLS_HINT(owner, tls ".include_insecure_cipher_suites", AEAD_ONLY),                         \
        TLS_HINT(owner, tls ".tpm", "keys in a TPM are not available; write key_file")
