/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys of authentication: the extension bearertokenauth, and its use by receivers. Private to
 * keys.c, whose AT() they use.
 */
#define BEARER(field) AT(config_bearer_token_auth, field)

/* clang-format off */
#define AUTH_KEYS(protocol, AT_)                                                                   \
    {CONFIG_RECEIVER_OTLP, protocol ".auth", KEY_SECTION, .help = "Who may send. Absent: everyone who can reach the port."}, \
    {CONFIG_RECEIVER_OTLP, protocol ".auth.authenticator", KEY_TEXT, .flags = KEY_MAY_BE_EMPTY, AT_(authenticator), .initial = "", .max = CONFIG_NAME_MAX - 1, .help = "Id of an extension bearertokenauth, which says which tokens clients must send. Others get " "UNAUTHENTICATED or 401. Health checks need no token."}

#define BEARER_KEYS                                                                                \
    {CONFIG_EXTENSION_BEARER_TOKEN_AUTH, "scheme", KEY_TEXT, BEARER(scheme), .initial = "Bearer", .min = 1, .max = 32, .help = "What stands before the token in the header Authorization."}, \
    {CONFIG_EXTENSION_BEARER_TOKEN_AUTH, "token", KEY_TEXT, .flags = KEY_MAY_BE_EMPTY | KEY_SECRET, BEARER(token), .initial = "", .max = 512, .help = "The token that clients must send. Never printed."}, \
    {CONFIG_EXTENSION_BEARER_TOKEN_AUTH, "tokens", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY | KEY_SECRET, BEARER(tokens), .initial = "", .help = "Several tokens, of which clients send one; instead of token. Never printed."}, \
    {CONFIG_EXTENSION_BEARER_TOKEN_AUTH, "filename", KEY_TEXT, .flags = KEY_MAY_BE_EMPTY, BEARER(filename), .initial = "", .max = 4000, .help = "File with a token on each line, instead of token and tokens. Read by the supervisor at the " "start, once a minute and on SIGHUP."}
/* clang-format on */
