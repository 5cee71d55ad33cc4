/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The users that a configuration names, by the numbers that the kernel knows. Accounts are read
 * once, before a process gives up the right to read them; a reload starts a process that reads them
 * again. Thread: any. Errors: a name without an account is logged, and is no one's.
 */
#include "config/config.h"

void users_find(struct config *config);
bool users_have(const struct config_users *users, uint32_t uid);
