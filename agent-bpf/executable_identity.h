/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The identity of an executable file, computed from a mapping of it: device, inode and generation,
 * which the kernel says and no process can choose, and its path. The service and the symbolizer
 * compute the same identity independently. Pure functions; any thread.
 */
#include "agent-bpf/process_event.h"

/* False: the mapping is not of an executable file (anonymous memory, a device, shared memory). */
bool executable_identity(const struct process_mapping *mapping, uint8_t identity[16]);
/* Without the " (deleted)" that the kernel appends to the path of a removed file. */
size_t executable_path_length(const char *path);
