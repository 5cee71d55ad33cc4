/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may ask. Pure; thread: any.
 */
#include "config/config.h"

/* A web page elsewhere can give its own name this node's address, and then counts as this node's
 * for the browser (DNS rebinding). So names that were not configured for this node are refused;
 * addresses cannot be had that way. host: the Host header, NULL: there is none. */
bool pages_access_knows_host(const struct config_pages *config, const char *host);
/* authorization: the header, or NULL. In a time that does not tell how much was right. */
bool pages_access_has_token(const char *token, const char *authorization);
