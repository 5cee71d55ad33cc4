/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An SQLite VFS named "power" on top of the default one, which can forget what was not synced, as a
 * disk does that loses power: each write and truncation since a file's last sync may be undone, by
 * a die, so in any order; the index of the log (-shm) is memory and goes too.
 * Limit: POWER_VFS_CHANGES unsynced ones of all files; older ones count as synced. Thread: one.
 */
#include <stdbool.h>
#include <stddef.h>

#define POWER_VFS_NAME    "power"
#define POWER_VFS_CHANGES 4096

void power_vfs_register(void);
/* From now on every write, truncation and sync fails, until power_vfs_back(). */
void power_vfs_cut(void);
/* Undoes by the die (all: all of it), and works again. All files must be closed. Returns how many
 * were undone. */
size_t power_vfs_back(unsigned *seed, bool all);
