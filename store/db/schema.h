/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The tables of the database file. schema_steps[n - 1] turns version n - 1 into version n;
 * user_version holds the version of a file.
 */
#include <stddef.h>

#define SCHEMA_VERSION        11
#define SCHEMA_APPLICATION_ID 0x73706e66 /* "spnf" */

extern const char *const schema_steps[SCHEMA_VERSION];
