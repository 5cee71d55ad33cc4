/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Backups of a file that is full. They lie in the file's directory, with the names that the
 * Collector's file exporter gives them: data.json becomes data-2026-11-21T15-04-05.678.json.
 * Thread: one at a time; blocks on disk.
 */
#include "config/config.h"

/* Renames the file to its backup name for time *unix_ns. If that name is taken, the next free
 * millisecond is used, and *unix_ns is set to it. 0 or negative errno. */
int file_backups_rotate(const struct config_exporter_file *config, uint64_t *unix_ns);
/* Removes backups beyond rotation.max_backups and backups older than rotation.max_days. Files with
 * other names stay. Returns the number removed, or negative errno. */
int file_backups_prune(const struct config_exporter_file *config, uint64_t now_unix_ns);
