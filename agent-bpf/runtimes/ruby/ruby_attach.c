/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of methods in C are in a table that no symbol tells in a stripped file. It is looked for
 * among the initialised variables: an Array of Arrays, in which the number of `+` has the name "+".
 * A class's path is among its variables up to 3.1, under an identifier that is learned from the
 * class String, whose path is known.
 */
#include "agent-bpf/runtimes/ruby/ruby_attach.h"
#include "agent-bpf/runtimes/ruby/ruby_objects.h"
#include <errno.h>
#include <stdlib.h>

#define IDENTIFIERS_MIN 500 /* that an interpreter has */
#define IDENTIFIERS_MAX (1u << 24)
#define VARIABLES_MAX   16 /* of a class, that are looked at */
#define KLASS           8  /* of an object: its class */

struct attach {
    const struct ruby_constants *constants;
    uint64_t bias;
    struct runtime_memory *memory;
    struct ruby_process *process;
    unsigned n_reads;
};

static int attach_read(struct attach *attach, uint64_t address, void *out, size_t size)
{
    struct reader_range range = {.address = address, .out = out, .size = (uint32_t)size};
    if (attach->n_reads++ >= RUBY_ATTACH_READS)
        return -E2BIG;
    int error = attach->memory->read(attach->memory->context, &range, 1);
    return error ? error : range.error;
}

/* 0: there is none, or it cannot be read. */
static uint64_t element_read(struct attach *attach, uint64_t array, uint64_t index)
{
    uint64_t words[RUBY_ARRAY_HEAD / 8], value = 0;
    if (!ruby_is_object(array) || attach_read(attach, array, words, sizeof(words)))
        return 0;
    uint64_t at = ruby_array_element(words, array, index);
    return at && !attach_read(attach, at, &value, sizeof(value)) ? value : 0;
}

static bool string_is(struct attach *attach, uint64_t value, const char *expected)
{
    uint64_t words[RUBY_ARRAY_HEAD / 8];
    struct ruby_string string;
    return ruby_is_object(value) && !attach_read(attach, value, words, sizeof(words)) &&
           ruby_string_open(&attach->constants->layout, words, &string) && string.embedded &&
           string.length == strlen(expected) &&
           !memcmp((const uint8_t *)words + string.address, expected, string.length);
}

static bool is_symbols(struct attach *attach, const uint64_t *words)
{
    uint64_t last = words[0];
    if (last < IDENTIFIERS_MIN || last > IDENTIFIERS_MAX || !ruby_is_object(words[1]) ||
        !ruby_is_object(words[2]) || !ruby_is_object(words[3]))
        return false;
    uint64_t names = element_read(attach, words[2], 0);
    return names && string_is(attach, element_read(attach, names, 2 * '+'), "+");
}

static void symbols_find(struct attach *attach)
{
    const struct ruby_constants *constants = attach->constants;
    size_t size = (size_t)(constants->writable_end - constants->writable);
    uint64_t *words = size ? malloc(size) : NULL;
    if (words && !attach_read(attach, constants->writable + attach->bias, words, size))
        for (size_t i = 0; i + 4 <= size / 8 && !attach->process->symbols; i++)
            if (is_symbols(attach, words + i))
                attach->process->symbols = words[i + 2];
    free(words);
}

/* The variables of a class up to 3.1; their number. */
static size_t variables_read(struct attach *attach, uint64_t class,
                             uint64_t entries[VARIABLES_MAX][RUBY_TABLE_ENTRY / 8])
{
    const struct ruby_layout *layout = &attach->constants->layout;
    uint64_t fields = 0, table = 0, words[RUBY_TABLE_HEAD / 8];
    if (attach_read(attach, class + layout->class_fields, &fields, 8) ||
        attach_read(attach, fields + layout->class_variables, &table, 8) ||
        attach_read(attach, table, words, sizeof(words)))
        return 0;
    size_t n = words[5] < VARIABLES_MAX ? (size_t)words[5] : VARIABLES_MAX;
    return attach_read(attach, words[6], entries, n * RUBY_TABLE_ENTRY) ? 0 : n;
}

static void variables_learn(struct attach *attach, uint64_t string_class)
{
    uint64_t entries[VARIABLES_MAX][RUBY_TABLE_ENTRY / 8], singleton = 0;
    size_t n = variables_read(attach, string_class, entries);
    for (size_t i = 0; i < n && !attach->process->class_path; i++)
        if (string_is(attach, entries[i][2], "String"))
            attach->process->class_path = (uint32_t)entries[i][1];
    if (attach_read(attach, string_class + KLASS, &singleton, 8))
        return;
    n = variables_read(attach, singleton, entries);
    for (size_t i = 0; i < n; i++)
        if (entries[i][2] == string_class)
            attach->process->attached = (uint32_t)entries[i][1];
}

static int current_locate(struct attach *attach)
{
    const struct ruby_constants *constants = attach->constants;
    struct context_variable *current = &attach->process->current;
    uint64_t words[2] = {0}, at = constants->current_at + attach->bias;
    int64_t offset = constants->current_offset;
    size_t size = constants->current == RUBY_CURRENT_MODULE ? 16 : 8;
    if (constants->current == RUBY_CURRENT_GLOBAL) {
        attach->process->holder = at;
        return 0;
    }
    if (constants->current != RUBY_CURRENT_FIXED && attach_read(attach, at, words, size))
        return -EAGAIN;
    if (constants->current == RUBY_CURRENT_FIXED || constants->current == RUBY_CURRENT_OFFSET) {
        offset = constants->current == RUBY_CURRENT_FIXED ? offset : (int64_t)words[0];
        *current =
            (struct context_variable){.thread_local_model = THREAD_LOCAL_STATIC, .offset = offset};
        return offset ? 0 : -EAGAIN;
    }
    if (!words[0] || words[0] > 1u << 20 || words[1] > 1u << 30)
        return -EAGAIN;
    *current = (struct context_variable){
        .thread_local_model = THREAD_LOCAL_DYNAMIC,
        .dtv_entry_size = 16,
        .dtv_offset = 8,
        .module = words[0],
        .offset = constants->current == RUBY_CURRENT_MODULE ? (int64_t)words[1] : offset};
    return 0;
}

static void ranges_place(const struct runtime_range *ranges, uint64_t bias,
                         struct runtime_range *out)
{
    for (int i = 0; i < RUNTIME_EVALUATION_MAX; i++)
        if (ranges[i].end > ranges[i].start)
            out[i] = (struct runtime_range){ranges[i].start + bias, ranges[i].end + bias};
}

int ruby_attach(const struct ruby_constants *constants, uint64_t bias,
                struct runtime_memory *memory, struct ruby_process *process,
                enum runtime_refusal *why)
{
    struct attach attach = {
        .constants = constants, .bias = bias, .memory = memory, .process = process};
    uint64_t string_class = 0;
    *process = constants->layout.process;
    *why = RUNTIME_REFUSAL_NOT_READY;
    int error = current_locate(&attach);
    if (!error && constants->string_class)
        error = attach_read(&attach, constants->string_class + bias, &string_class, 8);
    if (error || !string_class)
        return -EAGAIN;
    symbols_find(&attach);
    if (constants->layout.class_variables)
        variables_learn(&attach, string_class);
    ranges_place(constants->evaluation, bias, process->evaluation);
    ranges_place(constants->inner, bias, process->inner);
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}
