/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/record.h"
#include "agent-bpf/runtimes/hotspot/hotspot_compiled.h"
#include "agent-bpf/runtimes/hotspot/hotspot_methods.h"
#include "base/hash.h"
#include <stdio.h>

#define SCRATCH_BYTES (UINT64_C(24) << 20)
#define METHODS_MAX   2048 /* of one call; of further ones the frames have no names */
#define SLOTS         4096 /* of the methods' hash table: a power of two above METHODS_MAX */
#define ADDRESS_MASK  ((UINT64_C(1) << 48) - 1)
#define NO_BCI        0xffff
#define STUB_NAME_MAX 64

static const char frozen_name[] = "[frozen frames of the virtual thread]";
static const char interpreter_name[] = "[interpreter]";

struct stub { /* its name */
    bool read, text_read;
    uint64_t name;
    char text[STUB_NAME_MAX + 1];
};

struct method_key {
    uint64_t address;
    uint64_t const_method; /* 0: of compiled code, which says nothing of it */
};

struct naming {
    const struct hotspot_process *process;
    struct hotspot_fetch fetch;
    const struct record_frame *frames;
    size_t n_frames;
    struct hotspot_compiled *places; /* of compiled frames, in their order */
    size_t n_places;
    struct method_key keys[METHODS_MAX];
    size_t n_methods;
    struct hotspot_method *methods;     /* of the keys */
    uint16_t slots[SLOTS];              /* index of a key + 1 */
    uint16_t index[HOTSPOT_FRAMES_MAX]; /* of a frame's place, stub or method */
    struct stub *stubs;
    size_t n_stubs;
};

static unsigned frame_kind(const struct record_frame *frame)
{
    return (unsigned)(frame->words[0] >> RECORD_FRAME_SHIFT);
}

static uint64_t frame_address(const struct record_frame *frame)
{
    return frame->words[0] & (RECORD_FRAME_EXACT - 1);
}

static uint64_t frame_const_method(const struct record_frame *frame)
{
    return frame->words[1] & ADDRESS_MASK;
}

/* ---- methods ---- */

/* Index of the method, or METHODS_MAX: there are too many. */
static uint16_t naming_method(struct naming *naming, uint64_t address, uint64_t const_method)
{
    uint64_t hash = (address ^ const_method << 17) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t slot = (uint32_t)(hash >> 40);; slot++) {
        uint16_t *at = &naming->slots[slot % SLOTS];
        if (!*at && naming->n_methods == METHODS_MAX)
            return METHODS_MAX;
        if (!*at) {
            naming->keys[naming->n_methods++] = (struct method_key){address, const_method};
            *at = (uint16_t)naming->n_methods;
        }
        const struct method_key *key = &naming->keys[*at - 1];
        if (key->address == address && key->const_method == const_method)
            return (uint16_t)(*at - 1);
    }
}

/* Those of interpreted frames and, once the places are known, those of compiled ones. */
static int naming_add_methods(struct naming *naming, struct arena *scratch)
{
    for (size_t i = 0; i < naming->n_frames; i++)
        if (frame_kind(&naming->frames[i]) == FRAME_JVM_INTERPRETED)
            naming->index[i] = naming_method(naming, frame_address(&naming->frames[i]),
                                             frame_const_method(&naming->frames[i]));
    for (size_t i = 0; i < naming->n_places; i++) {
        const struct hotspot_compiled *place = &naming->places[i];
        for (uint32_t j = 0; place->outcome == RUNTIME_FRAME_NAMED && j < place->n_functions; j++)
            naming_method(naming, place->functions[j].method, 0);
    }
    naming->methods = arena_zalloc(scratch, naming->n_methods * sizeof(*naming->methods));
    for (size_t i = 0; naming->methods && i < naming->n_methods; i++) {
        naming->methods[i].address = naming->keys[i].address;
        naming->methods[i].const_method = naming->keys[i].const_method;
    }
    return naming->methods ? 0 : -ENOMEM;
}

/* ---- frames ---- */

static void naming_sort(struct naming *naming)
{
    for (size_t i = 0; i < naming->n_frames; i++) {
        const struct record_frame *frame = &naming->frames[i];
        if (frame_kind(frame) == FRAME_JVM_COMPILED) {
            struct hotspot_compiled *place = &naming->places[naming->n_places];
            place->pc = frame_address(frame);
            place->blob = frame->words[1];
            place->compile_id = (uint32_t)frame->words[2];
            naming->index[i] = (uint16_t)naming->n_places++;
        } else if (frame_kind(frame) == FRAME_JVM_STUB) {
            naming->index[i] = (uint16_t)naming->n_stubs;
            naming->stubs[naming->n_stubs++].name = frame->words[1];
        }
    }
}

static int naming_read_stubs(struct naming *naming)
{
    for (size_t i = 0; i < naming->n_stubs; i++) {
        struct stub *stub = &naming->stubs[i];
        if (stub->name)
            hotspot_fetch_add(&naming->fetch, stub->name + naming->process->blob.name, &stub->name,
                              sizeof(stub->name), &stub->read);
    }
    int error = hotspot_fetch_run(&naming->fetch);
    for (size_t i = 0; i < naming->n_stubs; i++) {
        struct stub *stub = &naming->stubs[i];
        if (stub->read && stub->name)
            hotspot_fetch_add(&naming->fetch, stub->name, stub->text, STUB_NAME_MAX,
                              &stub->text_read);
    }
    return error ? error : hotspot_fetch_run(&naming->fetch);
}

static int naming_find(struct naming *naming, struct arena *scratch, struct arena *arena)
{
    const struct hotspot_process *process = naming->process;
    int error =
        hotspot_compiled_find(process, &naming->fetch, naming->places, naming->n_places, scratch);
    if (!error)
        error = naming_add_methods(naming, scratch);
    if (!error)
        error = naming_read_stubs(naming);
    if (!error)
        error = hotspot_methods_find(process, &naming->fetch, naming->methods, naming->n_methods,
                                     arena);
    if (!error)
        error = hotspot_compiled_check(process, &naming->fetch, naming->places, naming->n_places);
    return error
               ? error
               : hotspot_methods_check(process, &naming->fetch, naming->methods, naming->n_methods);
}

/* ---- answers ---- */

static int named_set_text(struct runtime_name *named, struct arena *arena, struct bytes text)
{
    char clean[RUNTIME_NAME_MAX + 1];
    size_t n = bytes_sanitize(text, clean, sizeof(clean));
    char *copy = arena_dup(arena, clean, n + 1);
    named->lines = arena_zalloc(arena, sizeof(*named->lines));
    if (!copy || !named->lines)
        return -ENOMEM;
    named->lines[0].function = named->lines[0].system_name = BYTES(copy, n);
    named->lines[0].file = BYTES("", 0);
    named->outcome = RUNTIME_FRAME_NAMED;
    named->n_lines = 1;
    return 0;
}

static int named_set_stub(struct runtime_name *named, struct arena *arena,
                          const struct record_frame *frame, const struct stub *stub)
{
    char text[STUB_NAME_MAX + 16];
    if (!frame->words[1])
        return named_set_text(named, arena, BYTES_STR(interpreter_name));
    named->outcome = RUNTIME_FRAME_UNREADABLE;
    if (!stub->text_read || !*stub->text)
        return 0;
    int n = snprintf(text, sizeof(text), "[%s]", stub->text);
    return named_set_text(named, arena, BYTES(text, (size_t)n));
}

static void line_set(struct runtime_line *line, const struct hotspot_process *process,
                     const struct hotspot_method *method, bool has_bci, uint16_t bci)
{
    unsigned excluded = process->names.unsigned5_excluded;
    *line = method->line;
    line->start_line = hotspot_line_of(method->line_table, excluded, 0);
    if (has_bci && bci < method->code_size)
        line->line = hotspot_line_of(method->line_table, excluded, bci);
}

static int named_set_functions(struct runtime_name *named, struct naming *naming,
                               struct arena *arena, const struct hotspot_function *functions,
                               const uint16_t *methods, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        named->outcome =
            methods[i] == METHODS_MAX ? RUNTIME_FRAME_UNKNOWN : naming->methods[methods[i]].outcome;
        if (named->outcome != RUNTIME_FRAME_NAMED)
            return 0;
    }
    named->lines = arena_zalloc(arena, n * sizeof(*named->lines));
    if (!named->lines)
        return -ENOMEM;
    named->n_lines = n;
    for (uint32_t i = 0; i < n; i++)
        line_set(&named->lines[i], naming->process, &naming->methods[methods[i]],
                 functions[i].has_bci, functions[i].bci);
    return 0;
}

static int named_set_compiled(struct runtime_name *named, struct naming *naming,
                              struct arena *arena, const struct hotspot_compiled *place)
{
    uint16_t methods[RUNTIME_LINES_MAX];
    named->outcome = place->outcome;
    if (place->outcome != RUNTIME_FRAME_NAMED)
        return 0;
    for (uint32_t i = 0; i < place->n_functions; i++)
        methods[i] = naming_method(naming, place->functions[i].method, 0);
    return named_set_functions(named, naming, arena, place->functions, methods, place->n_functions);
}

static int naming_answer(struct naming *naming, struct arena *arena, size_t i,
                         struct runtime_name *named)
{
    const struct record_frame *frame = &naming->frames[i];
    uint16_t bci = (uint16_t)(frame->words[1] >> 48);
    const struct hotspot_function function = {.bci = bci, .has_bci = bci != NO_BCI};
    *named = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
    if (runtime_memory_is_late(naming->fetch.memory))
        return 0;
    switch (frame_kind(frame)) {
    case FRAME_JVM_COMPILED:
        return named_set_compiled(named, naming, arena, &naming->places[naming->index[i]]);
    case FRAME_JVM_INTERPRETED:
        return named_set_functions(named, naming, arena, &function, &naming->index[i], 1);
    case FRAME_JVM_STUB:
        return named_set_stub(named, arena, frame, &naming->stubs[naming->index[i]]);
    case FRAME_JVM_FROZEN:
        return named_set_text(named, arena, BYTES_STR(frozen_name));
    default:
        return 0;
    }
}

int hotspot_names(const struct hotspot_process *process, struct runtime_memory *memory,
                  const struct record_frame *frames, size_t n, struct runtime_names *names)
{
    struct arena scratch;
    if (n > HOTSPOT_FRAMES_MAX)
        return -E2BIG;
    arena_init(&scratch, SCRATCH_BYTES);
    struct naming *naming = arena_zalloc(&scratch, sizeof(*naming));
    int error = naming ? 0 : -ENOMEM;
    if (naming) {
        *naming = (struct naming){.process = process, .frames = frames, .n_frames = n};
        naming->fetch.memory = memory;
        naming->places = arena_zalloc(&scratch, n * sizeof(*naming->places));
        naming->stubs = arena_zalloc(&scratch, n * sizeof(*naming->stubs));
        if (!naming->places || !naming->stubs)
            error = -ENOMEM;
    }
    if (!error) {
        naming_sort(naming);
        error = naming_find(naming, &scratch, names->arena);
    }
    for (size_t i = 0; !error && i < n; i++)
        error = naming_answer(naming, names->arena, i, &names->names[i]);
    arena_close(&scratch);
    return error;
}
