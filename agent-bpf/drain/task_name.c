/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/drain/task_name.h"
#include <inttypes.h>
#include <stdio.h>

static size_t task_text(const struct record_task *task, size_t bytes, char out[TASK_NAME_SIZE])
{
    uint8_t utf8[RECORD_TASK_TEXT_MAX * UTF8_CHARACTER_MAX];
    size_t width = task->form, used = 0;
    for (size_t at = 0; at + width <= bytes; at += width) {
        uint32_t character = 0;
        memcpy(&character, task->text + at, width);
        used += utf8_put(character, utf8 + used);
    }
    return bytes_sanitize(BYTES(utf8, used), out, TASK_NAME_SIZE);
}

size_t task_name(const struct record_task *task, size_t size, char out[TASK_NAME_SIZE])
{
    size_t bytes = size > RECORD_TASK_HEAD ? size - RECORD_TASK_HEAD : 0;
    out[0] = '\0';
    if (size < RECORD_TASK_HEAD || task->size > bytes)
        return 0;
    switch (task->form) {
    case RECORD_TASK_LATIN1:
    case RECORD_TASK_UCS2:
    case RECORD_TASK_UCS4:
        return task_text(task, task->size, out);
    case RECORD_TASK_NUMBER:
        if (task->size != sizeof(*task->words))
            return 0;
        return (size_t)snprintf(out, TASK_NAME_SIZE, "Task-%" PRIu64, (uint64_t)task->words[0]);
    default:
        return 0;
    }
}
