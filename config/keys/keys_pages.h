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
     0,                                                                                            \
     PAGES(endpoint),                                                                              \
     "localhost:9797",                                                                             \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     "Address of the pages, as host:port. One that other machines reach needs auth and tls."},     \
        PAGES_TEXT("socket", 0, socket, "", 0, 107,                                                \
                   "Path of a Unix socket that answers the same, for `spanprof top` and the like " \
                   "and for scripts; only whoever starts spanprof may connect. Empty: "            \
                   "spanprof.sock in the store's directory; none: no socket."),                    \
        {CONFIG_EXTENSION_PAGES,                                                                   \
         "allowed_hosts",                                                                          \
         KEY_TEXTS,                                                                                \
         KEY_MAY_BE_EMPTY,                                                                         \
         PAGES(allowed_hosts),                                                                     \
         "",                                                                                       \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "Further names that this node goes by in addresses of browsers, without port. What else " \
         "asks for a name is answered 421, so that no web page elsewhere can get in by a DNS "     \
         "entry of its own. localhost, addresses and the endpoint's own host are known."},         \
        {CONFIG_EXTENSION_PAGES,                                                                   \
         "auth",                                                                                   \
         KEY_SECTION,                                                                              \
         0,                                                                                        \
         NOWHERE,                                                                                  \
         NULL,                                                                                     \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "Who may ask by TCP. Absent: whoever reaches the port."},                                 \
        PAGES_TEXT(                                                                                \
            "auth.token", KEY_SECRET, auth.token, "", 0, 512,                                      \
            "What clients must send (Authorization: Bearer TOKEN), at least 16 letters and "       \
            "digits. Never printed."),                                                             \
        PAGES_TEXT("auth.token_file", 0, auth.token_file, "", 0, 4000,                             \
                   "File that holds the token, instead; read at the start and on SIGHUP."),        \
        TLS_SERVER_KEYS(CONFIG_EXTENSION_PAGES, "tls", PAGES_TLS),                                 \
        {CONFIG_EXTENSION_PAGES,                                                                   \
         "costs",                                                                                  \
         KEY_SECTION,                                                                              \
         0,                                                                                        \
         NOWHERE,                                                                                  \
         NULL,                                                                                     \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "What a year of a function costs is estimated with these, which are Elastic's."},         \
        PAGES_COST(watt_per_core, "0", 1000,                                                       \
                   "Power of a busy core in watts; 0: 7 on x86, 2.8 on ARM."),                     \
        PAGES_COST(pue, "1.7", 10, "Power of the whole data centre by that of its computers."),    \
        PAGES_COST(co2_t_per_kwh, "0.000379069", 1, "Tonnes of CO2 a kilowatt-hour."),             \
        PAGES_COST(usd_per_core_hour, "0.0425", 1000, "Price of a core for an hour, in dollars.")
