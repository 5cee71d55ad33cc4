/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/hotspot/hotspot_compiled.h"
#include "agent-bpf/runtimes/hotspot/hotspot_methods.h"
#include "agent-bpf/runtimes/hotspot/hotspot_stubs.h"
#include "agent-bpf/runtimes/runtime_name.h"
#include <stdio.h>

#define SCRATCH_BYTES (UINT64_C(24) << 20)
#define METHODS_MAX   2048 /* of one call; of further ones the frames have no names */
#define SLOTS         4096 /* of the methods' hash table: a power of two above METHODS_MAX */
#define ADDRESS_MASK  ((UINT64_C(1) << 48) - 1)
#define NO_BCI        0xffff

static const char *const gap_names[] = {
    [HOTSPOT_GAP_FROZEN] = "[frozen frames of the virtual thread]",
    [HOTSPOT_GAP_NATIVE] = "[native frames without unwind information]",
};
static const char interpreter_name[] = "[interpreter]";

struct method_key {
    uint64_t address;
    uint64_t const_method; /* 0: of compiled code, which says nothing of it */
};

struct naming {
    const struct hotspot_process *process;
    struct runtime_cache *cache;
    struct hotspot_fetch fetch;
    struct hotspot_ahead ahead;
    const struct record_frame *frames;
    struct runtime_name *names;
    size_t n_frames;
    bool known[HOTSPOT_FRAMES_MAX];  /* its name was in the cache */
    struct hotspot_compiled *places; /* of compiled frames, in their order */
    size_t n_places;
    struct method_key keys[METHODS_MAX];
    size_t n_methods;
    struct hotspot_method *methods;     /* of the keys */
    uint16_t slots[SLOTS];              /* index of a key + 1 */
    uint16_t index[HOTSPOT_FRAMES_MAX]; /* of a frame's place, stub or method */
    struct hotspot_stub *stubs;
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

static bool frame_is_leaf(const struct record_frame *frame)
{
    return frame->words[0] & RECORD_FRAME_EXACT;
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

/* False: a place in code without a number. */
static bool place_key(const struct naming *naming, const struct record_frame *frame,
                      struct runtime_cache_key *key)
{
    *key = (struct runtime_cache_key){
        .words = {frame_address(frame), frame->words[1], frame->words[2]},
        .program = naming->fetch.memory->program,
        .runtime = RUNTIME_JAVA,
        .kind = HOTSPOT_KEPT_NAME};
    return record_frame_is_unique(frame);
}

static bool naming_knows(struct naming *naming, struct arena *arena, size_t i)
{
    struct runtime_cache_key key;
    struct bytes name;
    return place_key(naming, &naming->frames[i], &key) &&
           runtime_cache_get(naming->cache, &key, &name) &&
           !runtime_name_unpack(name, arena, &naming->names[i]);
}

static void naming_sort(struct naming *naming, struct arena *arena)
{
    for (size_t i = 0; i < naming->n_frames; i++) {
        const struct record_frame *frame = &naming->frames[i];
        if (frame_kind(frame) == FRAME_JVM_COMPILED) {
            naming->known[i] = naming_knows(naming, arena, i);
            if (naming->known[i])
                continue;
            struct hotspot_compiled *place = &naming->places[naming->n_places];
            place->pc = frame_address(frame);
            place->blob = frame->words[1];
            place->compile_id = (uint32_t)frame->words[2];
            naming->index[i] = (uint16_t)naming->n_places++;
        } else if (frame_kind(frame) == FRAME_JVM_STUB) {
            naming->index[i] = (uint16_t)naming->n_stubs;
            naming->stubs[naming->n_stubs++] = (struct hotspot_stub){
                .pc = frame_address(frame) - !frame_is_leaf(frame), .blob = frame->words[1]};
        }
    }
}

/* What was read of methods and stubs the last time is read before they are looked at. */
static int naming_read_ahead(struct naming *naming, struct arena *scratch)
{
    int error = 0;
    naming->ahead.arena = scratch;
    for (size_t i = 0; i < naming->n_methods && !error; i++)
        error = hotspot_trail_follow(&naming->ahead, &naming->fetch, naming->cache,
                                     HOTSPOT_KEPT_METHOD, naming->methods[i].address);
    for (size_t i = 0; i < naming->n_stubs && !error; i++)
        error = hotspot_trail_follow(&naming->ahead, &naming->fetch, naming->cache,
                                     HOTSPOT_KEPT_STUB, naming->stubs[i].blob);
    return error ? error : hotspot_fetch_run(&naming->fetch);
}

static int naming_find(struct naming *naming, struct arena *scratch, struct arena *arena)
{
    const struct hotspot_process *process = naming->process;
    struct hotspot_fetch *fetch = &naming->fetch;
    int error = hotspot_compiled_find(process, fetch, naming->places, naming->n_places, scratch);
    if (!error)
        error = naming_add_methods(naming, scratch);
    if (!error)
        error = naming_read_ahead(naming, scratch);
    fetch->ahead = &naming->ahead;
    if (!error)
        error = hotspot_stubs_find(process, naming->cache, fetch, naming->stubs, naming->n_stubs);
    if (!error)
        error = hotspot_methods_find(process, fetch, naming->methods, naming->n_methods, arena);
    fetch->ahead = NULL;
    if (!error)
        error = hotspot_compiled_check(process, fetch, naming->places, naming->n_places);
    return error ? error
                 : hotspot_methods_check(process, fetch, naming->methods, naming->n_methods);
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
                          const struct record_frame *frame, const struct hotspot_stub *stub)
{
    char text[HOTSPOT_STUB_NAME_MAX + 16];
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
    case FRAME_JVM_GAP:
        return named_set_text(named, arena, BYTES_STR(gap_names[frame->words[0] & 1]));
    default:
        return 0;
    }
}

/* ---- keeping ---- */

/* The name of a place in code that is in use is true for ever: a JVM never gives the code's number
 * to another one. */
static void naming_keep_place(const struct naming *naming, size_t i)
{
    const struct runtime_name *name = &naming->names[i];
    struct runtime_cache_key key;
    _cleanup_buf_ struct buf value = {0};
    if (name->outcome != RUNTIME_FRAME_NAMED || !naming->places[naming->index[i]].lives)
        return;
    if (place_key(naming, &naming->frames[i], &key) && !runtime_name_pack(name, &value))
        runtime_cache_put(naming->cache, naming->fetch.memory->tenant, &key, buf_bytes(&value));
}

static void naming_keep_places(const struct naming *naming)
{
    for (size_t i = 0; i < naming->n_frames; i++)
        if (frame_kind(&naming->frames[i]) == FRAME_JVM_COMPILED && !naming->known[i])
            naming_keep_place(naming, i);
}

/* Also of a request that has failed, as for want of time: the next one will get further. */
static void naming_keep_trails(const struct naming *naming, bool complete)
{
    for (size_t i = 0; i < naming->n_methods; i++)
        if (naming->methods[i].outcome == RUNTIME_FRAME_NAMED)
            hotspot_trail_put(&naming->methods[i].trail, complete, naming->cache,
                              naming->fetch.memory, HOTSPOT_KEPT_METHOD,
                              naming->methods[i].address);
    for (size_t i = 0; i < naming->n_stubs; i++)
        if (naming->stubs[i].read)
            hotspot_trail_put(&naming->stubs[i].trail, complete, naming->cache,
                              naming->fetch.memory, HOTSPOT_KEPT_STUB, naming->stubs[i].blob);
}

/* ---- all ---- */

static int naming_run(struct naming *naming, struct arena *scratch, struct arena *arena)
{
    size_t n = naming->n_frames;
    naming->places = arena_zalloc(scratch, n * sizeof(*naming->places));
    naming->stubs = arena_zalloc(scratch, n * sizeof(*naming->stubs));
    if (!naming->places || !naming->stubs)
        return -ENOMEM;
    naming_sort(naming, arena);
    int error = naming_find(naming, scratch, arena);
    for (size_t i = 0; !error && i < n; i++)
        if (!naming->known[i])
            error = naming_answer(naming, arena, i, &naming->names[i]);
    if (!error && naming->cache)
        naming_keep_places(naming);
    if (naming->methods)
        naming_keep_trails(naming, !error);
    return error;
}

int hotspot_names(const struct hotspot_process *process, struct runtime_cache *cache,
                  struct runtime_memory *memory, const struct record_frame *frames, size_t n,
                  struct runtime_names *names)
{
    struct arena scratch;
    if (n > HOTSPOT_FRAMES_MAX)
        return -E2BIG;
    arena_init(&scratch, SCRATCH_BYTES);
    struct naming *naming = arena_zalloc(&scratch, sizeof(*naming));
    int error = -ENOMEM;
    if (naming) {
        naming->process = process;
        naming->cache = cache;
        naming->fetch.memory = memory;
        naming->frames = frames;
        naming->names = names->names;
        naming->n_frames = n;
        error = naming_run(naming, &scratch, names->arena);
    }
    arena_close(&scratch);
    return error;
}
