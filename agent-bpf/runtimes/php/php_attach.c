/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/php/php_attach.h"
#include <errno.h>

#define TABLE_BUCKETS    16 /* in a HashTable: of the array of its entries */
#define MODULE_BYTES     40
#define MODULE_API       4 /* in a zend_module_entry */
#define MODULE_DEBUG     8
#define MODULE_THREADS   9
#define MODULE_NAME      32
#define STACK_PAGE_BYTES (256u << 10)
#define STACKS_BEHIND    24 /* executor_globals has vm_stack_top, _end, vm_stack in front of it */
#define CORE             "Core"

struct attach {
    struct runtime_memory *memory;
    uint64_t bias;
    struct php_layout layout;
};

static int attach_read(const struct attach *attach, uint64_t address, void *out, size_t size)
{
    struct reader_range range = {.address = address, .out = out, .size = (uint32_t)size};
    int error = attach->memory->read(attach->memory->context, &range, 1);
    return error == -E2BIG ? -EAGAIN : error ? error : range.error;
}

/* The first module is the engine's own. */
static int layout_find(struct attach *attach, uint64_t modules, enum runtime_refusal *why)
{
    uint64_t buckets = 0, module = 0, name;
    uint8_t bytes[MODULE_BYTES] = {0};
    char text[sizeof(CORE)] = {0};
    uint32_t api;
    int error = attach_read(attach, modules + TABLE_BUCKETS, &buckets, sizeof(buckets));
    if (!error && !buckets)
        return -EAGAIN;
    error = error ? error : attach_read(attach, buckets, &module, sizeof(module));
    error = error ? error : attach_read(attach, module, bytes, sizeof(bytes));
    memcpy(&name, bytes + MODULE_NAME, sizeof(name));
    error = error ? error : attach_read(attach, name, text, sizeof(text));
    if (error)
        return error;
    memcpy(&api, bytes + MODULE_API, sizeof(api));
    *why = bytes[MODULE_THREADS] ? RUNTIME_REFUSAL_THREAD_SAFE : RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    if (memcmp(text, CORE, sizeof(text)) || bytes[MODULE_THREADS] || bytes[MODULE_DEBUG] ||
        !php_layout(api, &attach->layout))
        return -ENOTSUP;
    return 0;
}

/* What lies in front of current_execute_data: the stack of PHP's frames, of pages of one size. */
static int globals_check(const struct attach *attach, uint64_t globals)
{
    struct {
        uint64_t top, end, page, page_size;
    } stack;
    int error = attach_read(attach, globals + attach->layout.stack_page_size - STACKS_BEHIND,
                            &stack, sizeof(stack));
    if (error)
        return error;
    if (!stack.page_size && !stack.page)
        return -EAGAIN; /* before the first request */
    bool is_stack = stack.page_size == STACK_PAGE_BYTES && stack.page % 8 == 0 && stack.page &&
                    stack.top > stack.page && stack.top <= stack.end &&
                    stack.end - stack.page >= STACK_PAGE_BYTES;
    return is_stack ? 0 : -ENOTSUP;
}

int php_attach(const struct php_constants *constants, uint64_t bias, struct runtime_memory *memory,
               struct php_process *process, enum runtime_refusal *why)
{
    struct attach attach = {.memory = memory, .bias = bias};
    *why = RUNTIME_REFUSAL_NOT_READY;
    int error = layout_find(&attach, constants->modules + bias, why);
    if (!error) {
        *why = RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
        error = globals_check(&attach, constants->globals + bias);
    }
    if (error)
        return error == -EFAULT ? -EAGAIN : error;
    *process = attach.layout.process;
    process->current = constants->globals + bias + attach.layout.stack_page_size + 8;
    if (constants->generator &&
        attach_read(&attach, constants->generator + bias, &process->generator, 8))
        process->generator = 0;
    for (int i = 0; i < RUNTIME_EVALUATION_MAX; i++)
        if (constants->evaluation[i].end > constants->evaluation[i].start)
            process->evaluation[i] = (struct runtime_range){constants->evaluation[i].start + bias,
                                                            constants->evaluation[i].end + bias};
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}
