/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which requests are allowed. Pure; thread: any.
 */
#include "config/config.h"

/* Guards against DNS rebinding: a foreign web page points its own host name at this node's address,
 * and the browser then treats that page as same-origin. So host names that are not configured are
 * refused. IP addresses are accepted: rebinding cannot produce them. host: the Host header; NULL:
 * absent. */
bool pages_access_knows_host(const struct config_pages *config, const char *host);
/* authorization: the header, or NULL. The time of the comparison does not depend on how much of the
 * token matches. */
bool pages_access_has_token(const char *token, const char *authorization);
