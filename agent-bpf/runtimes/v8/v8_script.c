/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/v8/v8_script.h"
#include "base/buf.h"
#include <errno.h>
#include <stdlib.h>

#define SCRIPT_SOURCE        8
#define SCRIPT_NAME          16
#define SCRIPT_LINE_OFFSET   24
#define SCRIPT_COLUMN_OFFSET 32
#define SCRIPT_LINE_ENDS     56
#define SCRIPT_ID            64
#define PIECE_BYTES          (64u << 10)

enum { LINE_FEED = 0x0a, CARRIAGE_RETURN = 0x0d, LINE_SEPARATOR = 0x2028, PARAGRAPH = 0x2029 };

static int lines_add(struct v8_lines *lines, uint32_t end)
{
    if (lines->n_ends == lines->ends_room) {
        uint32_t more = lines->ends_room ? lines->ends_room : 256, room = lines->ends_room + more;
        if (more > V8_ENDS_MAX - lines->scripts->ends_room)
            return -ENOMEM;
        uint32_t *ends = realloc(lines->ends, room * sizeof(*ends));
        if (!ends)
            return -ENOMEM;
        lines->ends = ends;
        lines->ends_room = room;
        lines->scripts->ends_room += more;
    }
    lines->ends[lines->n_ends++] = end;
    return 0;
}

/* In the store: characters that are counted, whether the last is a carriage return, then for each
 * line its length, 7 bits a byte, lowest first, bit 7: it goes on. */
struct kept_head {
    uint32_t counted;
    uint32_t after_cr;
};

static void lines_key(const struct v8_lines *lines, uint64_t key[3])
{
    key[0] = lines->script;
    key[1] = (uint32_t)lines->id;
    key[2] = (uint64_t)lines->source.length << 1 | lines->source.wide;
}

static int kept_put(struct buf *out, uint32_t number)
{
    uint8_t bytes[5];
    size_t n = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[n++] = (uint8_t)(number | 0x80);
    bytes[n++] = (uint8_t)number;
    return buf_append(out, bytes, n);
}

static void lines_keep(const struct v8_store *store, const struct v8_lines *lines)
{
    _cleanup_buf_ struct buf out = {0};
    struct kept_head head = {lines->counted, lines->after_cr};
    uint64_t key[3];
    uint32_t before = 0;
    int error = buf_append(&out, &head, sizeof(head));
    for (uint32_t i = 0; !error && i < lines->n_ends; i++) {
        error = kept_put(&out, lines->ends[i] - before);
        before = lines->ends[i];
    }
    lines_key(lines, key);
    if (!error)
        store->put(store->context, V8_KEPT_LINES, key, buf_bytes(&out));
}

static void lines_load(const struct v8_store *store, struct v8_lines *lines)
{
    struct bytes kept;
    struct kept_head head;
    uint64_t key[3];
    uint32_t end = 0;
    lines_key(lines, key);
    if (!store->get(store->context, V8_KEPT_LINES, key, &kept) || kept.len < sizeof(head))
        return;
    memcpy(&head, kept.data, sizeof(head));
    for (size_t at = sizeof(head); at < kept.len && !lines->failed;) {
        unsigned shift = 0;
        uint32_t length = 0;
        do {
            length |= (uint32_t)(kept.data[at] & 0x7f) << shift;
            shift += 7;
        } while (kept.data[at++] & 0x80 && at < kept.len && shift < 32);
        end += length;
        lines->failed = lines_add(lines, end) != 0;
    }
    lines->counted = lines->kept = head.counted;
    lines->after_cr = head.after_cr;
}

void v8_scripts_close(struct v8_scripts *scripts)
{
    for (size_t i = 0; i < scripts->n; i++) {
        struct v8_lines *lines = &scripts->lines[i];
        if (scripts->store && !lines->failed && lines->counted > lines->kept)
            lines_keep(scripts->store, lines);
        free(lines->ends);
    }
    scripts->n = 0;
}

/* A carriage return ends a line unless a line feed follows. */
static int lines_count_unit(struct v8_lines *lines, uint32_t unit)
{
    int error = 0;
    if (lines->after_cr && unit != LINE_FEED)
        error = lines_add(lines, lines->counted - 1);
    if (!error && (unit == LINE_FEED || unit == LINE_SEPARATOR || unit == PARAGRAPH))
        error = lines_add(lines, lines->counted);
    lines->after_cr = unit == CARRIAGE_RETURN;
    lines->counted++;
    return error;
}

static void lines_count(struct v8_lines *lines, const uint8_t *bytes, size_t units)
{
    for (size_t i = 0; i < units && !lines->failed; i++) {
        uint32_t unit =
            lines->source.wide ? bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8 : bytes[i];
        lines->failed = lines_count_unit(lines, unit) != 0;
    }
    if (!lines->failed && lines->counted == lines->source.length)
        lines->failed = lines_add(lines, lines->source.length) != 0;
}

static bool lines_reach(const struct v8_lines *lines, uint32_t position)
{
    return lines->n_ends && lines->ends[lines->n_ends - 1] >= position;
}

/* Characters of the next piece of a source, in at most `bytes`; 0: none is wanted. */
static uint32_t lines_wanted(const struct v8_lines *lines, size_t bytes)
{
    uint32_t left = lines->source.length - lines->counted;
    size_t units = bytes >> lines->source.wide;
    if (lines->failed || lines_reach(lines, lines->wanted))
        return 0;
    return left < units ? left : (uint32_t)units;
}

int v8_scripts_fetch(struct v8_scripts *scripts, struct v8_heap *heap)
{
    struct runtime_memory *memory = heap->memory;
    static uint8_t bytes[PIECE_BYTES]; /* one thread */
    struct reader_range ranges[V8_SCRIPTS_MAX];
    struct v8_lines *of[V8_SCRIPTS_MAX];
    size_t n = 0, used = 0,
           room = memory->bytes_left < sizeof(bytes) ? memory->bytes_left : sizeof(bytes);
    for (size_t i = 0; i < scripts->n && used < room; i++) {
        struct v8_lines *lines = &scripts->lines[i];
        uint32_t units = lines_wanted(lines, room - used);
        uint32_t size = units << lines->source.wide;
        if (!units)
            continue;
        uint64_t address = lines->source.address + ((uint64_t)lines->counted << lines->source.wide);
        ranges[n] = (struct reader_range){address, bytes + used, size, 0};
        of[n++] = lines;
        used += size;
    }
    if (!n)
        return -ENODATA;
    int error = memory->read(memory->context, ranges, n);
    if (error)
        return error;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].error)
            of[i]->failed = true;
        else
            lines_count(of[i], ranges[i].out, ranges[i].size >> of[i]->source.wide);
    }
    return 0;
}

int v8_script_name(struct v8_heap *heap, uint64_t script, char name[V8_TEXT_MAX + 1])
{
    uint64_t word;
    bool is_string;
    *name = '\0';
    int error = v8_heap_word(heap, script, SCRIPT_NAME, &word);
    if (error || !v8_heap_is_object(word))
        return error;
    error = v8_text_is_string(heap, word, &is_string);
    return error || !is_string ? error : v8_text_copy(heap, word, name);
}

/* The end of line `index` in V8's own table. */
static int end_of_table(struct v8_heap *heap, uint64_t table, uint32_t index, uint32_t *end)
{
    return v8_heap_count(heap, table, V8_ARRAY_DATA + 8 * (size_t)index, end);
}

/* The first line that ends at the position or behind it, and where the line before ends. */
static int place_by_table(struct v8_heap *heap, uint64_t table, uint32_t n, uint32_t position,
                          uint32_t *line, uint32_t *before)
{
    uint32_t low = 0, high = n, end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int error = end_of_table(heap, table, middle, &end);
        if (error)
            return error;
        if (end >= position)
            high = middle;
        else
            low = middle + 1;
    }
    *line = low;
    *before = UINT32_MAX;
    if (low == n)
        return -ENOENT;
    return low ? end_of_table(heap, table, low - 1, before) : 0;
}

static int place_by_source(const struct v8_lines *lines, uint32_t position, uint32_t *line,
                           uint32_t *before)
{
    uint32_t low = 0, high = lines->n_ends;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lines->ends[middle] >= position)
            high = middle;
        else
            low = middle + 1;
    }
    *line = low;
    *before = low ? lines->ends[low - 1] : UINT32_MAX;
    return low < lines->n_ends ? 0 : -ENOENT;
}

/* Of a script whose source is counted; -ENOENT: it can not be. */
static int lines_find(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t script,
                      struct v8_lines **found)
{
    uint64_t source, id;
    struct v8_characters characters;
    for (size_t i = 0; i < scripts->n; i++) {
        *found = &scripts->lines[i];
        if (scripts->lines[i].script == script)
            return 0;
    }
    if (scripts->n == V8_SCRIPTS_MAX)
        return -ENOENT;
    int error = v8_heap_word(heap, script, SCRIPT_SOURCE, &source);
    if (!error)
        error = v8_heap_word(heap, script, SCRIPT_ID, &id);
    if (!error)
        error = v8_text_characters(heap, source, &characters);
    if (error)
        return error == -EFAULT ? -ENOENT : error;
    if (characters.length > V8_SOURCE_MAX)
        return -ENOENT;
    *found = &scripts->lines[scripts->n++];
    **found = (struct v8_lines){
        .scripts = scripts, .script = script, .id = v8_heap_smi(id), .source = characters};
    if (scripts->store)
        lines_load(scripts->store, *found);
    return 0;
}

static int place_find(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t script,
                      uint32_t position, uint32_t *line, uint32_t *before)
{
    uint64_t table;
    uint32_t n;
    struct v8_lines *lines;
    int error = v8_heap_word(heap, script, SCRIPT_LINE_ENDS, &table);
    if (error)
        return error;
    if (v8_heap_is_object(table)) {
        error = v8_heap_length(heap, table, &n);
        if (!error && n)
            return place_by_table(heap, table, n, position, line, before);
        if (error && error != -EFAULT)
            return error;
    }
    error = lines_find(scripts, heap, script, &lines);
    if (error)
        return error;
    if (position > lines->source.length || lines->failed)
        return -ENOENT;
    if (!lines_reach(lines, position)) {
        if (lines->wanted < position)
            lines->wanted = position;
        return heap->memory->bytes_left ? -EAGAIN : -ENOENT;
    }
    return place_by_source(lines, position, line, before);
}

int v8_script_place(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t script,
                    int32_t position, uint32_t *line, uint32_t *column)
{
    uint32_t index, before, first_line = 0, first_column = 0;
    if (position < 0)
        return -ENOENT;
    int error = place_find(scripts, heap, script, (uint32_t)position, &index, &before);
    if (error)
        return error;
    error = v8_heap_count(heap, script, SCRIPT_LINE_OFFSET, &first_line);
    if (error == -EAGAIN)
        return error;
    error = v8_heap_count(heap, script, SCRIPT_COLUMN_OFFSET, &first_column);
    if (error == -EAGAIN)
        return error;
    *line = index + 1 + first_line;
    *column = (uint32_t)position - before; /* before: -1 in the first line */
    if (!index)
        *column += first_column;
    return 0;
}
