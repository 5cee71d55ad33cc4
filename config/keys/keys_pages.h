/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys of the pages extension. Private to keys.c, whose AT() they use.
 */
#include "config/keys/keys_tls.h"

#define PAGES(field)     AT(config_pages, field)
#define PAGES_TLS(field) PAGES(tls.field)

#define PAGES_TEXT(path, flags, field, initial, min, max, sentence)                                \
    {                                                                                              \
        CONFIG_EXTENSION_PAGES, path, KEY_TEXT, KEY_MAY_BE_EMPTY | (flags), PAGES(field), initial, \
            min, max, NULL, sentence                                                               \
    }
#define PAGES_COST(name, initial, max, sentence)                                                   \
    {                                                                                              \
        CONFIG_EXTENSION_PAGES, "costs." #name, KEY_RATIO, 0, PAGES(costs.name), initial, 0, max,  \
            NULL, sentence                                                                         \
    }

#define PAGES_KEYS                                                                                 \
    {CONFIG_EXTENSION_PAGES,                                                                       \
     "endpoint",                                                                                   \
     KEY_LISTEN,                                                                                   \
     PAGES(endpoint),                                                                              \
     .initial = "localhost:9797",                                                                  \
     .help =                                                                                       \
         "Address of the pages, as host:port. An address that other machines can reach requires "  \
         "a token and tls."},                                                                      \
        PAGES_TEXT("socket", 0, socket, "", 0, 107,                                                \
                   "Path of a Unix socket with the same answers, for `spanprof top` and "          \
                   "other commands and for scripts; only root and the store's owner may "          \
                   "connect. Empty: spanprof.sock in the store's directory; none: no socket."),    \
        {CONFIG_EXTENSION_PAGES,                                                                   \
         "allowed_hosts",                                                                          \
         KEY_TEXTS,                                                                                \
         .flags = KEY_MAY_BE_EMPTY,                                                                \
         PAGES(allowed_hosts),                                                                     \
         .initial = "",                                                                            \
         .help =                                                                                   \
             "Additional host names of this node in browser addresses, without port. Requests "    \
             "for other names get 421, which prevents DNS rebinding by foreign web pages. "        \
             "localhost, addresses and the endpoint's own host are always accepted."},             \
        {CONFIG_EXTENSION_PAGES, "auth", KEY_SECTION,                                              \
         .help = "Who may connect by TCP: a client that sends the token."},                        \
        {CONFIG_EXTENSION_PAGES,                                                                   \
         "auth.required",                                                                          \
         KEY_BOOL,                                                                                 \
         PAGES(auth.required),                                                                     \
         .initial = "true",                                                                        \
         .help = "Whether clients must send a token. Without token and token_file spanprof makes " \
                 "one and keeps it in pages.token of the store's directory; `spanprof pages` "     \
                 "prints the address with it. false: everyone who can reach the port may read."},  \
        PAGES_TEXT("auth.token", KEY_SECRET, auth.token, "", 0, 512,                               \
                   "The token that clients must send (Authorization: Bearer TOKEN, or as the "     \
                   "password of HTTP's Basic), at least 16 letters and digits. Never printed."),   \
        PAGES_TEXT("auth.token_file", 0, auth.token_file, "", 0, 4000,                             \
                   "File that holds the token, instead of token; read at the start and on "        \
                   "SIGHUP."),                                                                     \
        TLS_SERVER_KEYS(CONFIG_EXTENSION_PAGES, "tls", PAGES_TLS),                                 \
        {CONFIG_EXTENSION_PAGES, "costs", KEY_SECTION,                                             \
         .help =                                                                                   \
             "Factors for estimating the yearly cost of a function; the defaults are Elastic's."}, \
        PAGES_COST(watt_per_core, "0", 1000,                                                       \
                   "Power of a busy core in watts; 0: 7 on x86, 2.8 on ARM."),                     \
        PAGES_COST(pue, "1.7", 10,                                                                 \
                   "Power of the whole data centre divided by that of its "                        \
                   "computers (PUE)."),                                                            \
        PAGES_COST(co2_t_per_kwh, "0.000379069", 1, "Tonnes of CO2 per kilowatt-hour."),           \
        PAGES_COST(usd_per_core_hour, "0.0425", 1000, "Price of a core per hour, in dollars.")
