/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rowids are remembered beside what they stand for (the tags of the process table), so that a
 * sample of a known stack in a known process costs no SQL but its own. Names are asked for when a
 * stack is new, not when it is exported: by then the process may be gone.
 */
#include "receiver/intake_samples.h"
#include "agent-bpf/ring.h"
#include "base/stats.h"
#include "receiver/correlation.h"
#include "receiver/intake_context.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

STAT_COUNTER(
    frames_cut, "spanprof_frames_cut_total", "",
    "User frames left out at the far end of a stack because they lie in no known mapping.");

#define ASKED_SLOTS 65536 /* names asked for lately; a collision asks twice, which is harmless */

struct wanted {
    uint8_t identity[16];
    uint64_t address;
};

struct samples {
    struct store *store;
    struct process_table *table;
    struct frame frames[RECORD_MAX_FRAME_WORDS];
    const uint8_t *identities[RECORD_MAX_FRAME_WORDS]; /* of frames[i]'s executable, else NULL */
    struct buf wanted;                                 /* struct wanted */
    struct sample_context *context;
    uint64_t asked[ASKED_SLOTS];
    struct correlation *correlation; /* NULL: nobody */
};

int samples_open(struct store *store, struct process_table *table, const struct label_names *names,
                 struct samples **samplesp)
{
    struct samples *samples = calloc(1, sizeof(*samples));
    if (!samples)
        return -ENOMEM;
    samples->store = store;
    samples->table = table;
    samples->wanted = BUF_INIT(1 << 20);
    int error = sample_context_open(names, &samples->context);
    if (error) {
        samples_close(samples);
        return error;
    }
    *samplesp = samples;
    return 0;
}

void samples_close(struct samples *samples)
{
    if (!samples)
        return;
    buf_close(&samples->wanted);
    sample_context_close(samples->context);
    free(samples);
}

void samples_correlate(struct samples *samples, struct correlation *correlation)
{
    samples->correlation = correlation;
}

void samples_forget(struct samples *samples)
{
    process_table_forget_tags(samples->table);
    memset(samples->asked, 0, sizeof(samples->asked)); /* names may have been rolled back too */
}

/* The file as the kernel and the process see it; more is known once the analyst has opened it,
 * perhaps already: its answer may come before the first sample that is kept. */
static int executable_row(struct samples *samples, const uint8_t identity[16], const char *path,
                          int64_t *tag)
{
    if (*tag)
        return 0;
    struct stacks *stacks = store_stacks(samples->store);
    int error = stacks_executable(stacks, identity, tag);
    if (error)
        return error;
    const struct executable_facts *known;
    struct executable_facts facts = {0};
    if (path && stacks_executable_get(stacks, *tag, &known) == 0)
        facts = *known;
    if (!path || facts.path.len > 0)
        return 0;
    char clean[1024];
    facts.path = BYTES(clean, bytes_sanitize(BYTES_STR(path), clean, sizeof(clean)));
    return stacks_executable_facts(stacks, *tag, &facts);
}

/* The kernel's mapping has no file to hash: as other profilers have it, its file id is the FNV-128a
 * of the build id's hex text. */
static int kernel_row(struct samples *samples, const struct process_kernel *kernel)
{
    if (*kernel->tag)
        return 0;
    int error = executable_row(samples, kernel->identity, NULL, kernel->tag);
    if (error)
        return error;
    struct executable_facts facts = {.path = BYTES_LIT("vmlinux"), .build_id = kernel->build_id};
    char hex[2 * PROCESS_BUILD_ID_MAX + 1];
    if (kernel->build_id.len > 0 && kernel->build_id.len <= PROCESS_BUILD_ID_MAX) {
        struct fnv128 fnv;
        bytes_to_hex(kernel->build_id, hex);
        fnv128_init(&fnv);
        fnv128_add(&fnv, hex, strlen(hex));
        fnv128_finish(&fnv, facts.htlhash);
        facts.htlhash_known = true;
    }
    return stacks_executable_facts(store_stacks(samples->store), *kernel->tag, &facts);
}

static int kernel_frame(struct samples *samples, uint64_t address, size_t i)
{
    struct frame *frame = &samples->frames[i];
    *frame = (struct frame){.kind = STACK_FRAME_KERNEL, .address = address};
    samples->identities[i] = NULL;
    struct process_kernel kernel;
    if (process_table_kernel(samples->table, &kernel) != 0 || kernel.text_start == 0 ||
        address < kernel.text_start)
        return 0; /* an absolute address, which no executable's name belongs to */
    int error = kernel_row(samples, &kernel);
    if (error)
        return error;
    frame->executable = *kernel.tag;
    frame->address = address - kernel.text_start;
    return 0;
}

static int user_frame(struct samples *samples, const struct record_header *record, uint64_t address,
                      size_t i)
{
    struct frame *frame = &samples->frames[i];
    *frame = (struct frame){.kind = STACK_FRAME_NATIVE, .address = address};
    samples->identities[i] = NULL;
    struct process_place place;
    if (process_table_resolve(samples->table, record->pid, record->time_ns, address, &place) != 0)
        return 0;
    int error = executable_row(samples, place.identity, place.path, place.tag);
    if (error)
        return error;
    frame->executable = *place.tag;
    frame->address = place.file_offset;
    samples->identities[i] = place.identity;
    return 0;
}

/* A return address points behind its call, perhaps into the next function or line: the call itself
 * is what ran. The leaf is where the tick struck. */
static uint64_t call_address(uint64_t address, bool leaf)
{
    return leaf || address == 0 ? address : address - 1;
}

/* Where code keeps no frame pointers the walk ends in numbers that are no addresses: what lies in
 * no mapping at the far end is left out, so that it does not make each such stack a new one. */
static size_t without_strays(const struct samples *samples, size_t n_kernel, size_t n)
{
    size_t kept = n;
    while (kept > n_kernel + 1 && samples->frames[kept - 1].executable == 0)
        kept--;
    stat_add(&frames_cut, (int64_t)(n - kept));
    return kept;
}

static int fill_frames(struct samples *samples, const struct record_header *record, size_t *n)
{
    const uint64_t *words = record_frames(record);
    size_t n_words = (size_t)record->kernel_words + record->user_words;
    for (size_t i = 0; i < n_words; i++) {
        bool user = i >= record->kernel_words;
        /* The first user frame below kernel frames is the instruction behind the system call or the
         * one that was interrupted: exact, like a leaf. */
        bool leaf = i == 0 || i == record->kernel_words;
        uint64_t address = call_address(record_frame_address(words[i]), leaf);
        int error =
            user ? user_frame(samples, record, address, i) : kernel_frame(samples, address, i);
        if (error)
            return error;
    }
    *n = without_strays(samples, record->kernel_words, n_words);
    return 0;
}

static uint64_t mix(const uint8_t identity[16], uint64_t address)
{
    uint64_t words[2];
    memcpy(words, identity, sizeof(words));
    uint64_t hash = (words[0] ^ address) * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ (hash >> 29) ^ words[1]) | 1; /* 0 marks an empty slot */
}

static void want_name(struct samples *samples, const uint8_t identity[16],
                      const struct frame *frame)
{
    uint64_t hash = mix(identity, frame->address);
    uint64_t *slot = &samples->asked[hash % ASKED_SLOTS];
    struct frame_name name;
    if (*slot == hash || stacks_name(store_stacks(samples->store), frame, &name) == 0)
        return;
    struct wanted wanted = {.address = frame->address};
    memcpy(wanted.identity, identity, sizeof(wanted.identity));
    if (buf_append(&samples->wanted, &wanted, sizeof(wanted)) == 0)
        *slot = hash;
}

static void want_names_of_stack(struct samples *samples, const struct record_header *record,
                                size_t n)
{
    struct process_kernel kernel;
    bool kernel_known =
        process_table_kernel(samples->table, &kernel) == 0 && kernel.text_start != 0;
    for (size_t i = 0; i < n; i++) {
        const struct frame *frame = &samples->frames[i];
        if (i < record->kernel_words && kernel_known && frame->executable)
            want_name(samples, kernel.identity, frame);
        else if (samples->identities[i])
            want_name(samples, samples->identities[i], frame);
    }
}

static int compare_wanted(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct wanted));
}

void samples_want_names(struct samples *samples)
{
    struct wanted *wanted = (void *)samples->wanted.data;
    size_t n = samples->wanted.len / sizeof(*wanted);
    if (n == 0)
        return;
    qsort(wanted, n, sizeof(*wanted), compare_wanted);
    uint64_t addresses[ANALYST_NAMES_MAX];
    for (size_t i = 0; i < n;) {
        const uint8_t *identity = wanted[i].identity;
        size_t count = 0;
        while (i + count < n && count < ANALYST_NAMES_MAX &&
               memcmp(wanted[i + count].identity, identity, 16) == 0) {
            addresses[count] = wanted[i + count].address;
            count++;
        }
        process_table_want_names(samples->table, identity, addresses, count);
        i += count;
    }
    buf_clear(&samples->wanted);
}

static int process_row(struct samples *samples, const struct record_header *record,
                       const struct process_details *details, int64_t *id)
{
    if (details->tag && *details->tag) {
        *id = *details->tag;
        return 0;
    }
    char name[256], path[1024], comm[SAMPLE_COMM + 1] = {0};
    memcpy(comm, record->comm, sizeof(record->comm));
    struct bytes shown = details->executable_name.len ? details->executable_name : BYTES_STR(comm);
    size_t name_len = bytes_sanitize(shown, name, sizeof(name));
    size_t path_len = bytes_sanitize(details->executable_path, path, sizeof(path));
    struct process_facts facts = {
        .start_ns = details->start_ns ? details->start_ns : record->process_start_ns,
        .pid = record->pid ? record->pid : record->root_pid,
        .own_pid = record->own_pid,
        .executable_name = BYTES(name, name_len),
        .executable_path = BYTES(path, path_len),
        .container_id = details->container_id,
        .pod_uid = details->pod_uid,
        .resource = details->resource,
        .sets_trace_flags = details->sets_trace_flags,
    };
    int error = processes_put(store_processes(samples->store), &facts, id);
    if (!error && details->tag)
        *details->tag = *id;
    return error;
}

static int stack_row(struct samples *samples, const struct record_header *record, int64_t *id)
{
    size_t n_frames = 0;
    bool is_new = false;
    int error = fill_frames(samples, record, &n_frames);
    if (!error)
        error = stacks_intern(store_stacks(samples->store), samples->frames, n_frames, id, &is_new);
    if (!error && is_new)
        want_names_of_stack(samples, record, n_frames);
    return error;
}

int samples_add(struct samples *samples, const struct record_header *record, int64_t unix_offset_ns)
{
    struct process_details details = {0};
    if (record->pid && !(record->flags & RECORD_FLAG_KERNEL_THREAD)) {
        process_table_sampled(samples->table, record->pid, record->time_ns);
        process_table_details(samples->table, record->pid, record->time_ns, &details);
    }
    struct sample sample = {
        .time_unix_ns = (uint64_t)((int64_t)record->time_ns + unix_offset_ns),
        .value_ns = record->value_ns,
        .period_ns = record->period_ns,
        .cpu = record->cpu,
        .tid = record->own_tid,
        .kind = record->kind,
        .state = (uint8_t)record->state,
    };
    memcpy(sample.comm, record->comm, sizeof(sample.comm));
    if (sample_context_fill(samples->context, record, &details, &sample) == SAMPLE_CONTEXT_CHANGED)
        process_table_context_changed(samples->table, record->pid, record->time_ns);

    int error = process_row(samples, record, &details, &sample.process);
    if (!error)
        error = stack_row(samples, record, &sample.stack);
    if (error ==
        -ESTALE) { /* an executable was not used for so long that the dictionary let it go */
        samples_forget(samples);
        error = stack_row(samples, record, &sample.stack);
    }
    if (!error && samples->correlation)
        correlation_add(samples->correlation, record, sample.stack);
    return error ? error : join_add_sample(store_join(samples->store), &sample);
}

static int put_executable(struct samples *samples, const struct analyst_executable *executable)
{
    struct stacks *stacks = store_stacks(samples->store);
    int64_t id;
    int error = stacks_executable(stacks, executable->identity, &id);
    if (error || !executable->found)
        return error;
    const struct executable_facts *known;
    struct executable_facts facts = {
        .build_id = executable->build_id,
        .go_build_id = executable->go_build_id,
        .htlhash_known = true,
        .n_segments = executable->n_segments,
    };
    char path[1024];
    if (stacks_executable_get(stacks, id, &known) == 0 && known->path.len < sizeof(path)) {
        memcpy(path, known->path.data, known->path.len);
        facts.path = BYTES(path, known->path.len);
    }
    memcpy(facts.htlhash, executable->htlhash, sizeof(facts.htlhash));
    for (size_t i = 0; i < facts.n_segments && i < EXECUTABLE_SEGMENTS_MAX; i++)
        facts.segments[i] =
            (struct executable_segment){.file_offset = executable->segments[i].file_offset,
                                        .size = executable->segments[i].size,
                                        .vaddr = executable->segments[i].vaddr};
    return stacks_executable_facts(stacks, id, &facts);
}

static int put_names(struct samples *samples, const uint8_t identity[16],
                     const struct analyst_names *names)
{
    struct stacks *stacks = store_stacks(samples->store);
    int64_t id;
    int error = stacks_executable(stacks, identity, &id);
    struct frame_name found[ANALYST_NAMES_MAX];
    size_t n = 0;
    for (size_t i = 0; !error && i < names->n && i < ANALYST_NAMES_MAX; i++)
        found[n++] = (struct frame_name){.address = names->names[i].address,
                                         .function = names->names[i].function,
                                         .file = names->names[i].file,
                                         .line = names->names[i].line,
                                         .system_name = names->names[i].system_name};
    return error ? error : stacks_set_names(stacks, id, found, n);
}

int samples_answer(struct samples *samples, const struct analyst_message *message)
{
    struct process_kernel kernel;
    switch (message->kind) {
    case ANALYST_EXECUTABLE:
        return put_executable(samples, &message->executable);
    case ANALYST_NAMES:
        return put_names(samples, message->names.identity, &message->names);
    case ANALYST_KERNEL_NAMES:
        if (process_table_kernel(samples->table, &kernel) != 0)
            return 0;
        return put_names(samples, kernel.identity, &message->names);
    case ANALYST_KERNEL:
        process_table_answer(samples->table, message);
        return process_table_kernel(samples->table, &kernel) ? 0 : kernel_row(samples, &kernel);
    default:
        process_table_answer(samples->table, message); /* without memory: a later scan repairs */
        return 0;
    }
}
