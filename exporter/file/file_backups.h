/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What became of a file when it was full: backups beside it, named as the Collector's file exporter
 * names them, data.json becoming data-2026-11-21T15-04-05.678.json. Thread: any one; blocks on
 * disk.
 */
#include "config/config.h"

/* The file gets the name of that time, or of the next millisecond that is free, which is then in
 * *unix_ns. 0 or negative errno. */
int file_backups_rotate(const struct config_exporter_file *config, uint64_t *unix_ns);
/* Removes backups beyond rotation.max_backups and older than rotation.max_days; other files stay,
 * whatever they are. The number removed, or negative errno. */
int file_backups_prune(const struct config_exporter_file *config, uint64_t now_unix_ns);
