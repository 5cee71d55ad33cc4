/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only mappings of files, and the vdso, are kept. One of anything else (JIT code) cuts a hole into
 * what was there, for the kernel tells of mapping but not of unmapping. What was there is
 * remembered for samples from before, which come later: a library may lie where another one was a
 * moment ago. An executable is kept for a while after its last mapping is gone, since its names are
 * asked for when the samples leave.
 */
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/process/process_table.h"
#include <assert.h>
#include <errno.h>

static void free_executable(struct process_table *table, struct process_executable *executable)
{
    process_free(table, executable, executable->bytes);
}

bool process_executable_forget(struct process_table *table)
{
    struct list *link = list_pop(&table->idle);
    if (!link)
        return false;
    struct process_executable *oldest = container_of(link, struct process_executable, idle);
    table->n_idle--;
    map_remove(&table->executables, oldest->identity);
    free_executable(table, oldest);
    return true;
}

static void release_executable(struct process_table *table, struct process_executable *executable)
{
    assert(executable->refs > 0);
    if (--executable->refs)
        return;
    list_append(&table->idle, &executable->idle);
    if (++table->n_idle > PROCESS_IDLE_EXECUTABLES_MAX)
        process_executable_forget(table);
}

static void hold_executable(struct process_table *table, struct process_executable *executable)
{
    if (!executable->refs++ && list_linked(&executable->idle)) {
        list_remove(&executable->idle);
        table->n_idle--;
    }
}

static struct process_executable *new_executable(struct process_table *table,
                                                 const uint8_t identity[16],
                                                 const struct process_mapping *mapping)
{
    size_t path_len = executable_path_length(mapping->path);
    size_t bytes = sizeof(struct process_executable) + path_len + 1;
    struct process_executable *executable = process_alloc(table, bytes);
    if (!executable)
        return NULL;
    char *path = (char *)(executable + 1);
    memcpy(path, mapping->path, path_len);
    path[path_len] = 0;
    executable->bytes = bytes;
    memcpy(executable->identity, identity, 16);
    executable->mapping.path = path;
    if (map_put(&table->executables, executable, NULL)) {
        free_executable(table, executable);
        return NULL;
    }
    return executable;
}

/* One that maps ever new files shall not keep the symbolizer from the others. Names of what was
 * sampled are asked for all the same. */
static void ask_within_budget(struct process_table *table, struct process *process,
                              const struct process_executable *executable)
{
    if (process->n_asked >= PROCESS_EXECUTABLES_ASKED_MAX) {
        symbolizer_queue_count_dropped(SYMBOLIZER_QUEUE_OVER_BUDGET);
        return;
    }
    process->n_asked++;
    process_want_executable(table, process->tenant, executable);
}

/* The executable of a mapping, held once more; asked for when it is new. */
static struct process_executable *take_executable(struct process_table *table,
                                                  struct process *process,
                                                  const uint8_t identity[16],
                                                  const struct process_event *event)
{
    struct process_executable *executable = map_get(&table->executables, identity);
    bool fresh = !executable;
    if (fresh)
        executable = new_executable(table, identity, &event->mapping);
    if (!executable)
        return NULL;
    const char *path = executable->mapping.path;
    executable->mapping = event->mapping;
    executable->mapping.path = path;
    executable->last_pid = event->pid;
    executable->last_parent_pid = process->parent_pid;
    hold_executable(table, executable);
    if (fresh)
        ask_within_budget(table, process, executable);
    return executable;
}

static size_t image_bytes(size_t cap)
{
    return sizeof(struct process_image) + cap * sizeof(struct image_mapping);
}

size_t process_image_bytes(const struct process_image *image)
{
    return image ? image_bytes(image->cap) : 0;
}

void process_image_release(struct process_table *table, struct process_image *image)
{
    if (!image || --image->refs)
        return;
    for (size_t i = 0; i < image->n; i++)
        release_executable(table, image->mappings[i].executable);
    process_free(table, image, image_bytes(image->cap));
}

struct process_image *process_image_share(struct process_image *image)
{
    if (image)
        image->refs++;
    return image;
}

/* Index of the first mapping that ends behind the address. */
static size_t first_behind(const struct process_image *image, uint64_t address)
{
    size_t low = 0, high = image ? image->n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct image_mapping *mapping = &image->mappings[middle];
        if (mapping->start + mapping->length <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct image_mapping *process_image_find(const struct process_image *image,
                                                      uint64_t address)
{
    size_t i = first_behind(image, address);
    if (!image || i == image->n || image->mappings[i].start > address)
        return NULL;
    return &image->mappings[i];
}

/* The process's own image with room for two more mappings. */
static struct process_image *writable_image(struct process_table *table, struct process *process)
{
    struct process_image *old = process->image;
    if (old && old->refs == 1 && old->n + 2 <= old->cap)
        return old;
    size_t n = old ? old->n : 0;
    size_t cap = n + 2 > 16 ? n + n / 2 + 2 : 16;
    struct process_image *image = process_alloc(table, image_bytes(cap));
    if (!image)
        return NULL;
    *image = (struct process_image){.refs = 1, .n = n, .cap = cap};
    for (size_t i = 0; i < n; i++) {
        image->mappings[i] = old->mappings[i];
        hold_executable(table, image->mappings[i].executable);
    }
    process_image_release(table, old);
    process->image = image;
    return image;
}

static bool newer_there(const struct process_image *image, uint64_t start, uint64_t end,
                        uint64_t time_ns)
{
    for (size_t i = first_behind(image, start); image && i < image->n; i++) {
        if (image->mappings[i].start >= end)
            return false;
        if (image->mappings[i].time_ns > time_ns)
            return true;
    }
    return false;
}

/* Frees [start, end) in the image, whose mappings are cut or dropped; index where it would stand.
 */
static size_t cut_hole(struct process_table *table, struct process_image *image, uint64_t start,
                       uint64_t end)
{
    size_t at = first_behind(image, start);
    if (at < image->n && image->mappings[at].start < start) {
        struct image_mapping left = image->mappings[at];
        uint64_t left_end = left.start + left.length;
        if (left_end > end) { /* in the middle: it becomes two */
            memmove(&image->mappings[at + 1], &image->mappings[at], (image->n - at) * sizeof(left));
            image->n++;
            hold_executable(table, left.executable);
        }
        image->mappings[at].length = start - left.start;
        at++;
    }
    size_t last = at;
    while (last < image->n && image->mappings[last].start + image->mappings[last].length <= end)
        release_executable(table, image->mappings[last++].executable);
    memmove(&image->mappings[at], &image->mappings[last],
            (image->n - last) * sizeof(*image->mappings));
    image->n -= last - at;
    if (at < image->n && image->mappings[at].start < end) {
        struct image_mapping *right = &image->mappings[at];
        uint64_t cut = end - right->start;
        right->start += cut;
        right->length -= cut;
        right->file_offset += cut;
    }
    return at;
}

/* ---- what was there before ---- */

static struct past_mapping *next_past(struct process_table *table, struct process *process)
{
    struct process_past *past = process->past;
    if (!past)
        process->past = past = process_alloc(table, sizeof(*past));
    if (!past)
        return NULL;
    struct past_mapping *oldest = &past->mappings[past->n++ % PROCESS_PAST_MAPPINGS];
    if (oldest->mapping.executable) {
        release_executable(table, oldest->mapping.executable);
        past->lost_ns = oldest->until_ns > past->lost_ns ? oldest->until_ns : past->lost_ns;
    }
    return oldest;
}

static bool is_same_again(const struct image_mapping *a, const struct image_mapping *b)
{
    return a->executable == b->executable && a->start - a->file_offset == b->start - b->file_offset;
}

/* Of what `by` is about to be mapped over. */
static void remember_past(struct process_table *table, struct process *process,
                          const struct image_mapping *by)
{
    const struct process_image *image = process->image;
    uint64_t by_end = by->start + by->length;
    for (size_t i = first_behind(image, by->start); image && i < image->n; i++) {
        const struct image_mapping *old = &image->mappings[i];
        uint64_t start = old->start > by->start ? old->start : by->start;
        uint64_t end = old->start + old->length;
        if (old->start >= by_end)
            return;
        struct past_mapping *past = is_same_again(old, by) ? NULL : next_past(table, process);
        if (!past)
            continue;
        *past = (struct past_mapping){.mapping = *old, .until_ns = by->time_ns};
        past->mapping.start = start;
        past->mapping.file_offset += start - old->start;
        past->mapping.length = (end < by_end ? end : by_end) - start;
        hold_executable(table, old->executable);
    }
}

void process_past_free(struct process_table *table, struct process *process)
{
    struct process_past *past = process->past;
    if (!past)
        return;
    for (size_t i = 0; i < past->n && i < PROCESS_PAST_MAPPINGS; i++)
        release_executable(table, past->mappings[i].mapping.executable);
    process_free(table, past, sizeof(*past));
    process->past = NULL;
}

const struct image_mapping *process_mapping_at(const struct process *process, uint64_t time_ns,
                                               uint64_t address)
{
    const struct image_mapping *mapping = process_image_find(process->image, address);
    const struct process_past *past = process->past;
    if (!past || (mapping && mapping->time_ns <= time_ns))
        return mapping;
    const struct past_mapping *found = NULL; /* the first that was still there */
    for (size_t i = 0; i < past->n && i < PROCESS_PAST_MAPPINGS; i++) {
        const struct past_mapping *one = &past->mappings[i];
        if (address - one->mapping.start < one->mapping.length && time_ns < one->until_ns &&
            (!found || one->until_ns < found->until_ns))
            found = one;
    }
    if (found)
        mapping = &found->mapping;
    bool is_sure = time_ns >= past->lost_ns || (mapping && mapping->time_ns <= time_ns);
    return is_sure ? mapping : NULL;
}

static void process_image_insert(struct process_image *image, size_t at,
                                 const struct image_mapping *mapping)
{
    assert(image->n < image->cap);
    memmove(&image->mappings[at + 1], &image->mappings[at], (image->n - at) * sizeof(*mapping));
    image->mappings[at] = *mapping;
    image->n++;
}

static int map_file(struct process_table *table, struct process *process,
                    const struct process_event *event, const uint8_t identity[16])
{
    const struct process_mapping *mapping = &event->mapping;
    struct process_executable *executable = take_executable(table, process, identity, event);
    struct process_image *image = executable ? writable_image(table, process) : NULL;
    if (!image) {
        if (executable)
            release_executable(table, executable);
        return -ENOMEM;
    }
    process->remapped = true;
    const struct image_mapping made = {.start = mapping->start,
                                       .length = mapping->length,
                                       .file_offset = mapping->file_offset,
                                       .time_ns = event->time_ns,
                                       .executable = executable};
    remember_past(table, process, &made);
    process_image_insert(image, cut_hole(table, image, made.start, made.start + made.length),
                         &made);
    return 0;
}

int process_image_map(struct process_table *table, struct process *process,
                      const struct process_event *event)
{
    const struct process_mapping *mapping = &event->mapping;
    uint64_t end;
    if (!mapping->length || __builtin_add_overflow(mapping->start, mapping->length, &end))
        return -EINVAL;
    if (newer_there(process->image, mapping->start, end, event->time_ns))
        return PROCESS_STALE;
    if (process->image && process->image->n >= PROCESS_MAPPINGS_MAX) {
        process_count_full(PROCESS_LIMIT_MAPPINGS);
        return -ENOSPC;
    }
    uint8_t identity[16];
    if (executable_identity(mapping, identity))
        return map_file(table, process, event, identity);
    size_t at = first_behind(process->image, mapping->start);
    if (!process->image || at == process->image->n || process->image->mappings[at].start >= end)
        return 0;
    struct process_image *image = writable_image(table, process);
    if (!image)
        return -ENOMEM;
    remember_past(table, process,
                  &(struct image_mapping){.start = mapping->start,
                                          .length = mapping->length,
                                          .time_ns = event->time_ns});
    cut_hole(table, image, mapping->start, end);
    return 0;
}

void process_executables_close(struct process_table *table)
{
    struct list *link, *tmp;
    list_each(link, tmp, &table->idle)
    {
        struct process_executable *executable = container_of(link, struct process_executable, idle);
        list_remove(link);
        free_executable(table, executable);
    }
    map_close(&table->executables);
}
