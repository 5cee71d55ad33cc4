/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The tokens of receivers: one struct bearer for each extension bearertokenauth, made from the
 * configuration or from a file that the supervisor has opened. Thread: loop.
 */
#include "config/config.h"

struct bearer;
struct service_files;

struct service_auth {
    const struct config *config;
    const struct service_files *files;
    struct bearer *bearers[CONFIG_COMPONENTS_MAX]; /* by extension */
};

/* 0, or negative errno, said in a sentence; service_auth_close() is due in any case. */
int service_auth_open(struct service_auth *auth, const struct config *config,
                      const struct service_files *files);
void service_auth_close(struct service_auth *auth);
/* A file has changed. Tokens that cannot be read leave the earlier ones in force. */
void service_auth_file_changed(struct service_auth *auth);
/* authenticator: an extension's id; "": NULL. */
const struct bearer *service_auth_find(const struct service_auth *auth, const char *authenticator);
