/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks share most of their frames, and frames share their texts, so each is stored once: a stack
 * is an array of pointers to locations. The frames of a location may change when its name arrives,
 * so the returned array is built on each call.
 */
#include "store/query/history_frames.h"
#include "base/clock.h"
#include "base/limits.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define AGAIN_NS NS_PER_SEC

LIMIT(frames, LIMIT_SERVICE, "pages: frames and their names", .of = "pages",
      .bytes = HISTORY_FRAMES_BYTES);

struct text {
    uint8_t hash[16];
    struct bytes text;
};

struct module {
    int64_t id;
    uint64_t looked_ns;
    struct executable_facts facts;
    struct bytes path; /* for display */
};

struct location_key {
    int64_t executable;
    uint64_t address, kind;
};

struct location {
    struct location_key key;
    uint64_t looked_ns; /* 0: never */
    bool named;
    size_t n;
    struct history_frame *frames; /* innermost first */
};

struct stack {
    int64_t id;
    size_t n;
    struct location *locations[];
};

int history_frames_open(struct history_frames *frames, struct db *db)
{
    arena_init(&frames->arena, HISTORY_FRAMES_BYTES);
    MAP_INIT(&frames->stacks_seen, struct stack, id);
    MAP_INIT(&frames->locations, struct location, key);
    MAP_INIT(&frames->executables, struct module, id);
    MAP_INIT(&frames->texts, struct text, hash);
    if (getrandom(frames->key, sizeof(frames->key), 0) != sizeof(frames->key))
        return -errno;
    return stacks_reader_open(&frames->stacks, db);
}

void history_frames_forget(struct history_frames *frames)
{
    map_close(&frames->stacks_seen);
    map_close(&frames->locations);
    map_close(&frames->executables);
    map_close(&frames->texts);
    arena_reset(&frames->arena);
}

void history_frames_close(struct history_frames *frames)
{
    history_frames_forget(frames);
    arena_close(&frames->arena);
    free(frames->shown);
    frames->shown = NULL;
    stacks_reader_close(&frames->stacks);
}

/* Types */

#define TYPE_NAME_ROW(symbol, text) [HISTORY_FRAME_##symbol] = text,
static const char *const type_names[HISTORY_FRAME_TYPES] = {HISTORY_FRAME_ROWS(TYPE_NAME_ROW)};

const char *history_frame_type_name(enum history_frame_type type)
{
    assert(type < HISTORY_FRAME_TYPES);
    return type_names[type];
}

/* Of a named frame: one that is not known here was made at run time, too. */
static enum history_frame_type type_of(struct bytes name)
{
    for (enum history_frame_type type = HISTORY_FRAME_JIT; type < HISTORY_FRAME_TRUNCATED; type++)
        if (bytes_is(name, type_names[type]))
            return type;
    return HISTORY_FRAME_JIT;
}

/* Texts */

/* Stores a text for display: valid UTF-8, each text once. -ENOMEM. */
static int intern_text(struct history_frames *frames, struct bytes raw, struct bytes *text)
{
    char clean[STACKS_NAME_MAX + 1];
    uint8_t hash[16];
    *text = BYTES(NULL, 0);
    if (!raw.len)
        return 0;
    size_t len = bytes_sanitize(raw, clean, sizeof(clean));
    bytes_siphash128(BYTES(clean, len), frames->key, hash);
    struct text *known = map_get(&frames->texts, hash);
    if (!known) {
        known = arena_alloc(&frames->arena, sizeof(*known) + len);
        if (!known)
            return -ENOMEM;
        memcpy(known->hash, hash, sizeof(hash));
        memcpy(known + 1, clean, len);
        known->text = BYTES(known + 1, len);
        if (map_put(&frames->texts, known, NULL))
            return -ENOMEM;
    }
    *text = known->text;
    return 0;
}

static struct bytes base_name(struct bytes path)
{
    size_t at = path.len;
    while (at && path.data[at - 1] != '/')
        at--;
    return BYTES(path.data + at, path.len - at);
}

/* Executables */

static int dup_bytes(struct history_frames *frames, struct bytes *bytes)
{
    const void *copy = arena_dup(&frames->arena, bytes->data, bytes->len);
    bytes->data = copy;
    return copy ? 0 : -ENOMEM;
}

static int read_module(struct history_frames *frames, struct module *module)
{
    const struct executable_facts *facts;
    int error = stacks_reader_executable(&frames->stacks, module->id, &facts);
    if (error)
        return error == -ENOENT ? 0 : error;
    module->facts = *facts;
    error = intern_text(frames, facts->path, &module->path);
    error = error ? error : dup_bytes(frames, &module->facts.build_id);
    return error ? error : dup_bytes(frames, &module->facts.go_build_id);
}

/* More facts of an executable may arrive later, so they are read again after AGAIN_NS. */
static int find_module(struct history_frames *frames, int64_t id, const struct module **result)
{
    uint64_t now = clock_monotonic_ns();
    struct module *known = map_get(&frames->executables, &id);
    *result = known;
    if (known && now - known->looked_ns < AGAIN_NS)
        return 0;
    struct module *module = arena_zalloc(&frames->arena, sizeof(*module));
    if (!module)
        return -ENOMEM;
    module->id = id;
    module->looked_ns = now;
    int error = read_module(frames, module);
    *result = module;
    return error ? error : map_put(&frames->executables, module, NULL);
}

/* Locations */

/* With cgo, a Go executable has code of other languages, too. */
static bool is_go(const struct executable_facts *facts, struct bytes file)
{
    static const char *const endings[] = {".go", ".s", "<autogenerated>"};
    if (!facts->go_build_id.len)
        return false;
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t len = strlen(endings[i]);
        if (file.len >= len && !memcmp(file.data + file.len - len, endings[i], len))
            return true;
    }
    return !file.len;
}

static void take_module(struct history_frame *shown, const struct module *module,
                        const struct location_key *key)
{
    const struct executable_facts *facts = &module->facts;
    const struct executable_segment *segment = executable_segment_of(facts, key->address);
    if (segment)
        shown->address = key->address - segment->file_offset + segment->vaddr;
    shown->module = module->path;
    if (facts->build_id.len && facts->build_id.len <= sizeof(shown->build_id)) {
        shown->build_id_size = (uint8_t)facts->build_id.len;
        memcpy(shown->build_id, facts->build_id.data, facts->build_id.len);
    }
    if (key->kind == STACK_FRAME_NATIVE && is_go(facts, shown->file))
        shown->type = HISTORY_FRAME_GO;
}

/* All unnamed code of a module is one frame, as in other profilers: addresses tell a reader
 * nothing, and separate frames would hide their sum. The same of code in no file. */
static int name_by_module(struct history_frames *frames, struct history_frame *shown,
                          const struct location_key *key)
{
    char text[256 + 32];
    struct bytes module = base_name(shown->module);
    if (!module.len && !key->executable)
        module = key->kind == STACK_FRAME_KERNEL ? BYTES_LIT("kernel") : BYTES_LIT("unknown");
    int len = module.len
                  ? snprintf(text, sizeof(text), "[%.*s]",
                             (int)(module.len < 256 ? module.len : 256), (const char *)module.data)
                  : snprintf(text, sizeof(text), "0x%llx", (unsigned long long)shown->address);
    shown->unnamed = true;
    return intern_text(frames, BYTES(text, (size_t)len), &shown->function);
}

static uint64_t hash_of(struct bytes interned)
{
    uint64_t hash = 0;
    if (interned.len)
        memcpy(&hash, ((const struct text *)(const void *)interned.data - 1)->hash, sizeof(hash));
    return hash;
}

static void set_key(const struct history_frames *frames, struct history_frame *shown)
{
    const uint64_t parts[] = {hash_of(shown->function), hash_of(shown->file),
                              hash_of(shown->module), shown->type};
    shown->key = bytes_siphash(BYTES(parts, sizeof(parts)), frames->key);
}

/* Sets what all frames of a location share. */
static int history_frames_finish(struct history_frames *frames, struct location *location)
{
    const struct location_key *key = &location->key;
    const struct module *module = NULL;
    int error = 0;
    if (key->kind != STACK_FRAME_SPECIAL && key->executable)
        error = find_module(frames, key->executable, &module);
    for (size_t i = 0; i < location->n && !error; i++) {
        struct history_frame *shown = &location->frames[i];
        shown->inlined = i + 1 < location->n;
        if (module)
            take_module(shown, module, key);
        if (!shown->function.len)
            error = name_by_module(frames, shown, key);
        set_key(frames, shown);
    }
    return error;
}

static int make_frames(struct history_frames *frames, struct location *location, size_t n)
{
    const struct location_key *key = &location->key;
    const struct history_frame plain = {
        .address = key->address,
        .type = key->kind == STACK_FRAME_KERNEL ? HISTORY_FRAME_KERNEL : HISTORY_FRAME_NATIVE,
    };
    if (n > location->n) /* else reuses the array of the previous lookup */
        location->frames = arena_alloc(&frames->arena, n * sizeof(*location->frames));
    location->n = location->frames ? n : 0;
    for (size_t i = 0; i < location->n; i++)
        location->frames[i] = plain;
    return location->frames ? 0 : -ENOMEM;
}

static int look_up_names(struct history_frames *frames, struct location *location,
                         const struct frame *frame)
{
    struct frame_name names[STACKS_INLINED_MAX + 1], compiled;
    int error = stacks_reader_name(&frames->stacks, frame, &compiled);
    if (error && error != -ENOENT)
        return error;
    bool in_file = !frame_is_code(frame);
    size_t n = stacks_inlined(&compiled, names);
    names[n++] = compiled;
    location->named = compiled.function.len > 0 || !in_file;
    error = make_frames(frames, location, n);
    for (size_t i = 0; i < n && !error; i++) {
        struct history_frame *shown = &location->frames[i];
        shown->line = names[i].line;
        if (!in_file) {
            shown->type = (uint8_t)type_of(compiled.type);
            shown->address = 0;
        }
        error = intern_text(frames, names[i].function, &shown->function);
        error = error ? error : intern_text(frames, names[i].file, &shown->file);
    }
    return error;
}

static int show_truncation(struct history_frames *frames, struct location *location)
{
    char text[64];
    const char *why = stacks_truncation(location->key.address);
    int error = make_frames(frames, location, 1);
    if (error)
        return error;
    location->named = true;
    location->frames->type = HISTORY_FRAME_TRUNCATED;
    location->frames->address = 0;
    int len = snprintf(text, sizeof(text), "[truncated: %s]", why ? why : "unknown");
    return intern_text(frames, BYTES(text, (size_t)len), &location->frames->function);
}

static int history_frames_look(struct history_frames *frames, struct location *location)
{
    const struct frame frame = {(uint8_t)location->key.kind, location->key.executable,
                                location->key.address};
    int error = frame_is_truncation(&frame) ? show_truncation(frames, location)
                                            : look_up_names(frames, location, &frame);
    return error ? error : history_frames_finish(frames, location);
}

static bool is_looked_up(const struct location *location)
{
    return location->named ||
           (location->looked_ns && clock_monotonic_ns() - location->looked_ns < AGAIN_NS);
}

static int look_again(struct history_frames *frames, struct location *location)
{
    if (is_looked_up(location))
        return 0;
    location->looked_ns = clock_monotonic_ns();
    return history_frames_look(frames, location);
}

static int find_location(struct history_frames *frames, const struct frame *frame,
                         struct location **result)
{
    struct location_key key = {frame->executable, frame->address, frame->kind};
    struct location *location = map_get(&frames->locations, &key);
    *result = location;
    if (location)
        return 0;
    location = arena_zalloc(&frames->arena, sizeof(*location));
    if (!location)
        return -ENOMEM;
    location->key = key;
    int error = look_again(frames, location);
    *result = location;
    return error ? error : map_put(&frames->locations, location, NULL);
}

/* Stacks */

/* -ENOMEM: *result is the stack up to the limit; NULL if nothing fits. */
static int make_stack(struct history_frames *frames, int64_t id, struct stack **result)
{
    const struct frame *raw;
    size_t n;
    int error = stacks_reader_frames(&frames->stacks, id, &raw, &n);
    if (error == -ENOENT)
        n = 0; /* not known, or damaged: an empty stack, the answer goes on */
    else if (error)
        return error;
    struct stack *stack = arena_alloc(&frames->arena, sizeof(*stack) + n * sizeof(void *));
    *result = stack;
    if (!stack)
        return -ENOMEM;
    stack->id = id;
    for (stack->n = 0; stack->n < n; stack->n++) {
        error = find_location(frames, &raw[stack->n], &stack->locations[stack->n]);
        if (error)
            return error;
    }
    return n ? map_put(&frames->stacks_seen, stack, NULL) : 0; /* unknown: try again later */
}

static int find_stack(struct history_frames *frames, int64_t id, struct stack **result)
{
    *result = map_get(&frames->stacks_seen, &id);
    return *result ? 0 : make_stack(frames, id, result);
}

static int make_room(struct history_frames *frames, size_t n)
{
    if (n <= frames->cap_shown)
        return 0;
    const struct history_frame **shown =
        realloc(frames->shown, n * sizeof(*shown)); /* NOLINT(bugprone-sizeof-expression) */
    if (!shown)
        return -ENOMEM;
    frames->shown = shown;
    frames->cap_shown = n;
    return 0;
}

static int history_frames_show(struct history_frames *frames, const struct stack *stack, size_t *n)
{
    size_t room = 0;
    int error = 0;
    for (size_t i = 0; i < stack->n && !error; i++) {
        error = look_again(frames, stack->locations[i]);
        room += stack->locations[i]->n;
    }
    error = error ? error : make_room(frames, room);
    for (size_t i = 0; i < stack->n && !error; i++) {
        const struct location *location = stack->locations[i];
        for (size_t k = 0; k < location->n; k++)
            frames->shown[(*n)++] = &location->frames[k];
    }
    return error;
}

int history_frames_get(struct history_frames *frames, int64_t id,
                       const struct history_frame *const **shown, size_t *n)
{
    struct stack *stack = NULL;
    *n = 0;
    int error = find_stack(frames, id, &stack);
    error = error ? error : history_frames_show(frames, stack, n);
    if (error == -ENOMEM) { /* clear the cache and retry; cut a stack that is too large */
        history_frames_forget(frames);
        error = find_stack(frames, id, &stack);
        if (stack && (!error || error == -ENOMEM))
            error = history_frames_show(frames, stack, n);
    }
    *shown = frames->shown;
    return error;
}

bool history_frames_known(struct history_frames *frames, int64_t id,
                          const struct history_frame *const **shown, size_t *n)
{
    const struct stack *stack = map_get(&frames->stacks_seen, &id);
    for (size_t i = 0; stack && i < stack->n; i++)
        if (!is_looked_up(stack->locations[i]))
            return false;
    *n = 0;
    if (!stack || history_frames_show(frames, stack, n))
        return false;
    *shown = frames->shown;
    return true;
}

int history_frames_have(struct history_frames *frames, int64_t stack, struct bytes function,
                        bool *self)
{
    const struct history_frame *const *shown;
    uint8_t hash[16];
    size_t n;
    *self = false;
    int error = history_frames_get(frames, stack, &shown, &n);
    if (error)
        return error;
    bytes_siphash128(function, frames->key, hash);
    const struct text *text = map_get(&frames->texts, hash); /* each text exists once */
    for (size_t i = 0; text && i < n; i++) {
        if (shown[i]->function.data != text->text.data)
            continue;
        *self = i == 0;
        return 1;
    }
    return 0;
}
