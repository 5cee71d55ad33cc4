/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the database file holds, declared once. Version n is reached from version n - 1 by
 * schema_steps[n - 1]; a file keeps its version in user_version.
 */
#include <stddef.h>

#define SCHEMA_VERSION        10
#define SCHEMA_APPLICATION_ID 0x73706e66 /* "spnf" */

extern const char *const schema_steps[SCHEMA_VERSION];
