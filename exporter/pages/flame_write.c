/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/flame_write.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

const char *flame_type_name(unsigned type)
{
    return type == FLAME_OTHERS         ? "others"
           : type < HISTORY_FRAME_TYPES ? history_frame_type_name((enum history_frame_type)type)
                                        : "native";
}

/* ---- JSON in columns ---- */

/* A string's number is its index in the written list; "" is number 0. The list has the function,
 * file and module of each frame in the tree. Files and modules repeat, so they are deduplicated. */
struct strings {
    struct json_writer *json;
    uint32_t *slots; /* frame * 3 + field + 1: the field whose text it is */
    uint32_t *numbers;
    size_t cap;
    const struct flame *flame;
    uint32_t n;
    uint8_t key[16];
};

static struct bytes text_of(const struct flame *flame, uint32_t which)
{
    const struct history_frame *frame = &flame->frames[which / 3];
    return which % 3 == 0 ? frame->function : which % 3 == 1 ? frame->file : frame->module;
}

static uint32_t string_number(struct strings *strings, uint32_t which)
{
    struct bytes text = text_of(strings->flame, which);
    if (!text.len)
        return 0;
    size_t slot = (size_t)bytes_siphash(text, strings->key) & (strings->cap - 1);
    while (strings->slots[slot] &&
           !bytes_equal(text, text_of(strings->flame, strings->slots[slot] - 1)))
        slot = (slot + 1) & (strings->cap - 1);
    if (!strings->slots[slot]) {
        strings->slots[slot] = which + 1;
        strings->numbers[slot] = ++strings->n;
        json_put_text(strings->json, NULL, text);
    }
    return strings->numbers[slot];
}

static void write_frames(const struct flame *flame, const uint32_t *used, size_t n,
                         const uint32_t *numbers, struct json_writer *json)
{
    json_begin_array(json, "frames");
    for (size_t i = 0; i < n; i++) {
        const struct history_frame *frame = &flame->frames[used[i]];
        json_begin_object(json, NULL);
        json_put_uint(json, "function", numbers[3 * i]);
        json_put_uint(json, "file", numbers[3 * i + 1]);
        json_put_int(json, "line", frame->line);
        json_put_uint(json, "module", numbers[3 * i + 2]);
        json_put_string(json, "type", flame_type_name(frame->type));
        json_put_bool(json, "inlined", frame->inlined);
        json_put_bool(json, "unnamed", frame->unnamed);
        json_end_object(json);
    }
    json_end_array(json);
}

struct column {
    const char *name;
    uint64_t (*value)(const struct flame_node *node);
    bool base;
};

static uint64_t self_ns(const struct flame_node *node)
{
    return node->weights.self.ns;
}

static uint64_t total_ns(const struct flame_node *node)
{
    return node->weights.total.ns;
}

static uint64_t flame_node_samples(const struct flame_node *node)
{
    return node->weights.total.samples;
}

static uint64_t base_self_ns(const struct flame_node *node)
{
    return node->base.self.ns;
}

static uint64_t base_total_ns(const struct flame_node *node)
{
    return node->base.total.ns;
}

static void write_nodes(const struct flame *flame, const uint32_t *frame_numbers, bool with_base,
                        struct json_writer *json)
{
    static const struct column columns[] = {{"self_ns", self_ns, false},
                                            {"total_ns", total_ns, false},
                                            {"samples", flame_node_samples, false},
                                            {"base_self_ns", base_self_ns, true},
                                            {"base_total_ns", base_total_ns, true}};
    json_begin_object(json, "nodes");
    json_begin_array(json, "parent");
    for (size_t i = 0; i < flame->n_nodes; i++)
        json_put_int(json, NULL,
                     flame->nodes[i].parent == FLAME_NONE ? -1 : (int64_t)flame->nodes[i].parent);
    json_end_array(json);
    json_begin_array(json, "frame");
    for (size_t i = 0; i < flame->n_nodes; i++)
        json_put_uint(json, NULL, frame_numbers[flame->nodes[i].frame] - 1);
    json_end_array(json);
    for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++) {
        if (columns[c].base && !with_base)
            continue;
        json_begin_array(json, columns[c].name);
        for (size_t i = 0; i < flame->n_nodes; i++)
            json_put_uint(json, NULL, columns[c].value(&flame->nodes[i]));
        json_end_array(json);
    }
    json_end_object(json);
}

/* Numbers the frames that the tree uses; pruning may leave frames without a node. */
static size_t used_frames(const struct flame *flame, uint32_t *used, uint32_t *frame_numbers)
{
    size_t n = 0;
    for (size_t i = 0; i < flame->n_nodes; i++) {
        uint32_t frame = flame->nodes[i].frame;
        if (frame_numbers[frame])
            continue;
        used[n++] = frame;
        frame_numbers[frame] = (uint32_t)n;
    }
    return n;
}

static void write_strings(struct strings *strings, const uint32_t *used, size_t n,
                          uint32_t *numbers)
{
    json_begin_array(strings->json, "strings");
    json_put_string(strings->json, NULL, "");
    for (size_t i = 0; i < n; i++)
        for (uint32_t field = 0; field < 3; field++)
            numbers[3 * i + field] = string_number(strings, 3 * used[i] + field);
    json_end_array(strings->json);
}

static size_t table_size(size_t n)
{
    size_t cap = 16;
    while (cap < 2 * n)
        cap *= 2;
    return cap;
}

int flame_write_json(const struct flame *flame, bool with_base, struct json_writer *json)
{
    size_t n_frames = flame->n_frames + 1, cap = table_size(3 * n_frames);
    uint32_t *memory = calloc(2 * cap + 5 * n_frames, sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    uint32_t *used = memory + 2 * cap, *frame_numbers = used + n_frames;
    uint32_t *numbers = frame_numbers + n_frames;
    struct strings strings = {
        .json = json, .slots = memory, .numbers = memory + cap, .cap = cap, .flame = flame};
    (void)!getrandom(strings.key, sizeof(strings.key),
                     GRND_NONBLOCK); /* other people choose the names: seed the hash */
    size_t n = used_frames(flame, used, frame_numbers);
    write_strings(&strings, used, n, numbers);
    write_frames(flame, used, n, numbers, json);
    write_nodes(flame, frame_numbers, with_base, json);
    free(memory);
    return json->error;
}

/* ---- folded ---- */

/* Replaces the format's separators and line ends within a name. */
static int put_folded_name(struct bytes name, struct buf *out)
{
    int error = 0;
    for (size_t i = 0; !error && i < name.len; i++) {
        uint8_t c = name.data[i] == ';' ? ':' : name.data[i] < ' ' ? ' ' : name.data[i];
        error = buf_append(out, &c, 1);
    }
    return error;
}

/* Fills path with the nodes from `node` up to its root; returns its length. */
static size_t path_to(const struct flame *flame, uint32_t node, uint32_t *path)
{
    size_t n = 0;
    for (; node != FLAME_NONE; node = flame->nodes[node].parent)
        path[n++] = node;
    return n;
}

static int put_folded_path(const struct flame *flame, uint32_t node, uint32_t *path,
                           struct buf *out)
{
    int error = 0;
    for (size_t i = path_to(flame, node, path); !error && i-- > 0;) {
        error = put_folded_name(flame->frames[flame->nodes[path[i]].frame].function, out);
        if (!error && i)
            error = buf_append(out, ";", 1);
    }
    return error;
}

static int put_folded(const struct flame *flame, uint32_t i, bool with_base, uint32_t *path,
                      struct buf *out)
{
    const struct flame_node *node = &flame->nodes[i];
    if (!node->weights.self.samples && !(with_base && node->base.self.samples))
        return 0;
    int error = put_folded_path(flame, i, path, out);
    if (!error && with_base)
        error = buf_printf(out, " %llu", (unsigned long long)node->base.self.samples);
    return error ? error
                 : buf_printf(out, " %llu\n", (unsigned long long)node->weights.self.samples);
}

int flame_write_folded(const struct flame *flame, bool with_base, struct buf *out)
{
    uint32_t *path = malloc((flame->n_nodes + 1) * sizeof(*path));
    int error = path ? 0 : -ENOMEM;
    for (uint32_t i = 0; !error && i < flame->n_nodes; i++)
        error = put_folded(flame, i, with_base, path, out);
    free(path);
    return error;
}

/* ---- speedscope ---- */

static void put_speedscope_frames(const struct flame *flame, struct json_writer *json)
{
    json_begin_object(json, "shared");
    json_begin_array(json, "frames");
    for (size_t i = 0; i < flame->n_frames; i++) {
        const struct history_frame *frame = &flame->frames[i];
        json_begin_object(json, NULL);
        json_put_text(json, "name", frame->function);
        if (frame->file.len || frame->module.len)
            json_put_text(json, "file", frame->file.len ? frame->file : frame->module);
        if (frame->line > 0)
            json_put_int(json, "line", frame->line);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void put_speedscope_samples(const struct flame *flame, uint32_t *path,
                                   struct json_writer *json)
{
    json_begin_array(json, "samples");
    for (uint32_t i = 0; !json->error && i < flame->n_nodes; i++) {
        if (!flame->nodes[i].weights.self.ns)
            continue;
        json_begin_array(json, NULL);
        for (size_t k = path_to(flame, i, path); k-- > 0;)
            json_put_uint(json, NULL, flame->nodes[path[k]].frame);
        json_end_array(json);
    }
    json_end_array(json);
    json_begin_array(json, "weights");
    for (size_t i = 0; i < flame->n_nodes; i++)
        if (flame->nodes[i].weights.self.ns)
            json_put_uint(json, NULL, flame->nodes[i].weights.self.ns);
    json_end_array(json);
}

int flame_write_speedscope(const struct flame *flame, const char *name, struct buf *out)
{
    struct json_writer json = {.out = out};
    uint32_t *path = malloc((flame->n_nodes + 1) * sizeof(*path));
    if (!path)
        return -ENOMEM;
    json_begin_object(&json, NULL);
    json_put_string(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_put_string(&json, "exporter", "spanprof");
    json_put_string(&json, "name", name);
    put_speedscope_frames(flame, &json);
    json_begin_array(&json, "profiles");
    json_begin_object(&json, NULL);
    json_put_string(&json, "type", "sampled");
    json_put_string(&json, "name", "CPU time");
    json_put_string(&json, "unit", "nanoseconds");
    json_put_uint(&json, "startValue", 0);
    json_put_uint(&json, "endValue", flame->all.ns);
    put_speedscope_samples(flame, path, &json);
    json_end_object(&json);
    json_end_array(&json);
    json_put_uint(&json, "activeProfileIndex", 0);
    json_end_object(&json);
    free(path);
    return json.error;
}
