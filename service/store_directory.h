/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The directory of the store, made by the supervisor and given to the user whom the service runs
 * as. Thread: main of the supervisor.
 */
#include "agent-bpf/supervisor/privileges.h"

/*
 * Makes the directory and its parents, as far as they are missing. One that belongs to root, and
 * that nobody else may write to, is given to the owner if it holds nothing but files of the store;
 * else it stays, and that is logged.
 */
void store_directory_prepare(const char *directory, const struct privileges *owner);
