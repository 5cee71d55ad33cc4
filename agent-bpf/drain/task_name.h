/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The name of the task that a sample's thread runs, from what the record has of it. Pure; any
 * thread. */
#include "agent-bpf/record.h"
#include "base/bytes.h"
#include "base/utf8.h"

#define TASK_NAME_SIZE (RECORD_TASK_TEXT_MAX * 2 + 1) /* Latin-1 grows most */

/* As the task's get_name() returns it, cut at RECORD_TASK_TEXT_MAX bytes of its own form: UTF-8
 * without control characters. task: size bytes of it. 0: it could not be read. */
size_t task_name(const struct record_task *task, size_t size, char out[TASK_NAME_SIZE]);
