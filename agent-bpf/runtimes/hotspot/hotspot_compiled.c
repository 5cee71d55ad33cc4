/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PcDesc describes the code up to its pc_offset: of a place the one with the smallest pc_offset
 * that is not below it counts, as in HotSpot. It leads to a scope, that to the scope of the
 * function it was inlined into, and so on. All places take each step together.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_compiled.h"
#include <stdlib.h>

#define PCS_MAX         (1u << 16)
#define SCOPES_MAX      (1u << 22) /* bytes */
#define METADATA_MAX    (1u << 16)
#define CHUNK_BYTES     4096 /* PcDescs or scopes, read at once for a place */
#define CHUNK_BYTES_FEW 1024 /* the same if there are many places */
#define MANY            64
#define SCOPE_BYTES     15 /* at most */
#define CHUNKS_MAX      64 /* of scopes */

/* ---- the nmethod ---- */

static uint64_t field_word(const struct hotspot_compiled *place, uint16_t at)
{
    uint64_t word = 0;
    if (at <= sizeof(place->bytes) - sizeof(word))
        memcpy(&word, place->bytes + at, sizeof(word));
    return word;
}

static uint32_t field_int(const struct hotspot_compiled *place, uint16_t at)
{
    return (uint32_t)field_word(place, at);
}

static uint64_t base_of(const struct hotspot_compiled *place, uint16_t at)
{
    return at == HOTSPOT_NONE ? place->blob : field_word(place, at);
}

static bool place_set_pcs(struct hotspot_compiled *place, const struct hotspot_names_layout *names)
{
    uint32_t begin = field_int(place, names->scopes_pcs);
    uint32_t end = field_int(place, names->scopes_pcs_end);
    uint64_t base = base_of(place, names->scopes_pcs_base);
    uint32_t n = end > begin ? (end - begin) / names->pc_desc_bytes : 0;
    place->pcs = base + begin;
    place->n_pcs = place->high = n < PCS_MAX ? n : PCS_MAX;
    return base && n;
}

static bool place_set_scopes(struct hotspot_compiled *place,
                             const struct hotspot_names_layout *names)
{
    uint64_t base = base_of(place, names->scopes_data_base), end = place->pcs;
    place->scopes = base;
    if (names->scopes_data != HOTSPOT_NONE)
        place->scopes += field_int(place, names->scopes_data);
    if (names->scopes_data_end != HOTSPOT_NONE)
        end = base + field_int(place, names->scopes_data_end);
    if (end <= place->scopes || end - place->scopes > SCOPES_MAX)
        return false;
    place->scopes_size = (uint32_t)(end - place->scopes);
    return true;
}

static void place_set_metadata(struct hotspot_compiled *place,
                               const struct hotspot_names_layout *names)
{
    uint32_t offset = field_int(place, names->metadata);
    if (names->metadata_bytes == 2)
        offset &= 0xffff;
    place->metadata = base_of(place, names->metadata_base) + offset;
    if (names->metadata_more != HOTSPOT_NONE)
        place->metadata += field_int(place, names->metadata_more);
}

static bool is_nmethod(const struct hotspot_compiled *place,
                       const struct hotspot_blob_layout *layout)
{
    uint32_t bytes = field_int(place, layout->header_size);
    if (layout->header_size_bytes == 2)
        bytes &= 0xffff;
    return bytes == layout->nmethod_bytes &&
           field_int(place, layout->compile_id) == place->compile_id;
}

/* Without debug information of the place the method is known. */
static void place_set_method(struct hotspot_compiled *place, const struct hotspot_process *process)
{
    place->functions[0] =
        (struct hotspot_function){.method = field_word(place, process->names.method)};
    place->n_functions = 1;
}

static void place_start(struct hotspot_compiled *place, const struct hotspot_process *process)
{
    const struct hotspot_blob_layout *layout = &process->blob;
    place->outcome = RUNTIME_FRAME_UNREADABLE;
    if (!place->read)
        return;
    place->outcome = RUNTIME_FRAME_STALE;
    if (!is_nmethod(place, layout))
        return;
    place->outcome = RUNTIME_FRAME_NAMED;
    place_set_method(place, process);
    uint64_t begin = layout->has_offsets ? place->blob + field_int(place, layout->code_begin)
                                         : field_word(place, layout->code_begin);
    place->target = (uint32_t)(place->pc - begin);
    place_set_metadata(place, &process->names);
    if (place->pc - begin > INT32_MAX || !place_set_pcs(place, &process->names) ||
        !place_set_scopes(place, &process->names))
        place->n_pcs = 0;
}

/* ---- its PcDescs ---- */

static int32_t desc_int(const uint8_t *desc, uint16_t at)
{
    int32_t value;
    memcpy(&value, desc + at, sizeof(value));
    return value;
}

/* Halves the range until it is a chunk. */
static int places_narrow(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                         struct hotspot_compiled *places, size_t n, uint32_t chunk)
{
    const struct hotspot_names_layout *names = &process->names;
    uint32_t fit = chunk / names->pc_desc_bytes;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            struct hotspot_compiled *place = &places[i];
            place->read = false;
            if (!place->n_pcs || place->high - place->low < fit)
                continue;
            uint32_t middle = place->low + (place->high - place->low) / 2;
            more = true;
            hotspot_fetch_add(fetch, place->pcs + (uint64_t)middle * names->pc_desc_bytes,
                              place->chunk, names->pc_desc_bytes, &place->read);
        }
        int error = more ? hotspot_fetch_run(fetch) : 0;
        if (error)
            return error;
        for (size_t i = 0; i < n; i++) {
            struct hotspot_compiled *place = &places[i];
            if (!place->n_pcs || place->high - place->low < fit)
                continue;
            uint32_t middle = place->low + (place->high - place->low) / 2;
            if (!place->read)
                place->n_pcs = 0;
            else if (desc_int(place->chunk, names->pc_desc_pc) >= (int32_t)place->target)
                place->high = middle;
            else
                place->low = middle + 1;
        }
    }
    return 0;
}

/* The range and one behind it, which may be the wanted one. */
static int places_read_descs(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                             struct hotspot_compiled *places, size_t n)
{
    const struct hotspot_names_layout *names = &process->names;
    for (size_t i = 0; i < n; i++) {
        struct hotspot_compiled *place = &places[i];
        place->read = false;
        if (!place->n_pcs)
            continue;
        if (place->high < place->n_pcs)
            place->high++;
        hotspot_fetch_add(fetch, place->pcs + (uint64_t)place->low * names->pc_desc_bytes,
                          place->chunk, (place->high - place->low) * names->pc_desc_bytes,
                          &place->read);
    }
    return hotspot_fetch_run(fetch);
}

static void place_take_scope(struct hotspot_compiled *place,
                             const struct hotspot_names_layout *names)
{
    place->scope = 0;
    for (uint32_t i = 0; place->read && i < place->high - place->low; i++) {
        const uint8_t *desc = place->chunk + (size_t)i * names->pc_desc_bytes;
        if (desc_int(desc, names->pc_desc_pc) < (int32_t)place->target)
            continue;
        uint32_t scope = (uint32_t)desc_int(desc, names->pc_desc_scope);
        place->scope = scope < place->scopes_size ? scope : 0;
        break;
    }
    if (place->scope)
        place->n_functions = 0;
}

/* ---- its scopes ---- */

/* Scopes of callers lie in front, so what is in front is read too. */
static void place_fetch_scopes(struct hotspot_compiled *place, struct hotspot_fetch *fetch,
                               uint32_t chunk)
{
    uint32_t end = place->scope + SCOPE_BYTES;
    if (end > place->scopes_size)
        end = place->scopes_size;
    place->chunk_at = end > chunk ? end - chunk : 0;
    place->chunk_size = end - place->chunk_at;
    hotspot_fetch_add(fetch, place->scopes + place->chunk_at, place->chunk, place->chunk_size,
                      &place->read);
}

/* As far as the chunk goes. What makes no sense ends the list. */
static void place_take_scopes(struct hotspot_compiled *place, unsigned excluded)
{
    while (place->scope && place->scope >= place->chunk_at) {
        struct hotspot_scope scope;
        struct bytes bytes = BYTES(place->chunk, place->chunk_size);
        if (place->scope - place->chunk_at >= bytes.len ||
            !hotspot_scope_read(bytes_skip(bytes, place->scope - place->chunk_at), excluded,
                                &scope) ||
            !scope.metadata || scope.metadata > METADATA_MAX) {
            place->scope = 0;
            return;
        }
        place->functions[place->n_functions++] = (struct hotspot_function){
            /* read below */
            .method = place->metadata + (uint64_t)(scope.metadata - 1) * sizeof(uint64_t),
            .has_bci = true,
            .bci = scope.bci,
        };
        place->scope = scope.sender < place->scope ? scope.sender : 0;
        if (place->n_functions == RUNTIME_LINES_MAX)
            place->scope = 0;
    }
}

static int places_read_scopes(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_compiled *places, size_t n, uint32_t chunk)
{
    for (unsigned round = 0; round < CHUNKS_MAX; round++) {
        bool more = false;
        for (size_t i = 0; i < n; i++) {
            if (!places[i].scope)
                continue;
            place_fetch_scopes(&places[i], fetch, chunk);
            more = true;
        }
        if (!more)
            return 0;
        int error = hotspot_fetch_run(fetch);
        if (error)
            return error;
        for (size_t i = 0; i < n; i++) {
            if (places[i].scope && !places[i].read)
                places[i].scope = 0;
            place_take_scopes(&places[i], process->names.unsigned5_excluded);
        }
    }
    return 0;
}

static bool place_is_complete(const struct hotspot_compiled *place)
{
    for (uint32_t i = 0; i < place->n_functions; i++)
        if (!place->functions[i].has_bci)
            return false;
    return place->n_functions;
}

/* From places in the metadata to what they hold. */
static int places_read_methods(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                               struct hotspot_compiled *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < places[i].n_functions; j++) {
            struct hotspot_function *function = &places[i].functions[j];
            if (function->has_bci)
                hotspot_fetch_add(fetch, function->method, &function->method,
                                  sizeof(function->method), &function->has_bci);
        }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (places[i].outcome == RUNTIME_FRAME_NAMED && !place_is_complete(&places[i]))
            place_set_method(&places[i], process);
    return error;
}

/* ---- public ---- */

int hotspot_compiled_find(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                          struct hotspot_compiled *places, size_t n, struct arena *arena)
{
    uint32_t chunk = n > MANY ? CHUNK_BYTES_FEW : CHUNK_BYTES;
    for (size_t i = 0; i < n; i++) {
        places[i].chunk = arena_alloc(arena, chunk + 64);
        if (!places[i].chunk)
            return -ENOMEM;
        hotspot_fetch_add(fetch, places[i].blob, places[i].bytes,
                          HOTSPOT_BLOB_BYTES - process->blob.block_bytes, &places[i].read);
    }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        place_start(&places[i], process);
    if (!error)
        error = places_narrow(process, fetch, places, n, chunk);
    if (!error)
        error = places_read_descs(process, fetch, places, n);
    for (size_t i = 0; i < n; i++)
        place_take_scope(&places[i], &process->names);
    if (!error)
        error = places_read_scopes(process, fetch, places, n, chunk);
    return error ? error : places_read_methods(process, fetch, places, n);
}

static void place_fetch_again(struct hotspot_compiled *place, const struct hotspot_process *process,
                              struct hotspot_fetch *fetch)
{
    const struct hotspot_blob_layout *layout = &process->blob;
    hotspot_fetch_add(fetch, place->blob + layout->compile_id, place->bytes + layout->compile_id,
                      sizeof(uint32_t), &place->read);
    hotspot_fetch_add(fetch, place->blob - layout->block_bytes + layout->block_used, &place->used,
                      sizeof(place->used), &place->used_read);
    hotspot_fetch_add(fetch, place->blob + process->names.method, &place->method,
                      sizeof(place->method), &place->method_read);
}

/* The Method is what HotSpot clears first of an nmethod that goes. */
static bool place_lives(const struct hotspot_compiled *place, const struct hotspot_process *process)
{
    return place->used_read && place->used == 1 && place->method_read && place->method &&
           place->method == field_word(place, process->names.method);
}

int hotspot_compiled_check(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                           struct hotspot_compiled *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].outcome == RUNTIME_FRAME_NAMED)
            place_fetch_again(&places[i], process, fetch);
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++) {
        struct hotspot_compiled *place = &places[i];
        if (place->outcome != RUNTIME_FRAME_NAMED)
            continue;
        if (!place->read || !is_nmethod(place, &process->blob))
            place->outcome = RUNTIME_FRAME_STALE;
        place->lives = place->outcome == RUNTIME_FRAME_NAMED && place_lives(place, process);
    }
    return error;
}
