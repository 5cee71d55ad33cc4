/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged database file: opening, joining, exporting and collecting neither crash nor get stuck;
 * after at most a few failed transactions the store works, on what is left or on an empty file.
 *
 * The input are edits of a database that was made by use: each is a page (one byte), an offset (two
 * bytes, little-endian), a count (one byte) and the bytes that go there. Page 255 cuts the file
 * there (offset counts pages). An input that begins as a database does is taken as the whole file.
 */
#include "base/log.h"
#include "test/support/fixtures/outbox_next.h"
#include "store/store.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define T0        UINT64_C(1700000000000000000)
#define PAGE      4096
#define CUT       255
#define FILE_MAX  (1 << 20)
#define TRIES_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct peer forwarder = {.is_forwarder = true};

static char directory[] = "/dev/shm/spanprof-fuzz-XXXXXX";
static char db_path[sizeof(directory) + 16];
static uint8_t template[FILE_MAX];
static size_t template_size;
static const char *const destinations[] = {"one", "two"};

static int open_store(struct store **store)
{
    struct store_settings settings = {
        .db = {.directory = directory, .max_size_bytes = 64 << 20},
        .join = {.wait_ns = UINT64_C(60000000000),
                 .span_totals_ttl_ns = UINT64_C(3600000000000),
                 .max_pending_bytes = 1 << 20,
                 .max_span_totals_bytes = 1 << 20,
                 .max_recent_spans = 100,
                 .max_recent_bytes = 1 << 20,
                 .top_stacks = 4},
        .destinations = destinations,
        .n_destinations = 2,
    };
    return store_open(&settings, store);
}

static int put_samples(struct store *store, unsigned step)
{
    static const uint8_t identity[16] = {1};
    struct executable_facts facts = {
        .path = BYTES_LIT("/bin/x"), .n_segments = 1, .segments = {{0, 0x10000, 0x400000}}};
    struct process_facts process_facts = {
        .start_ns = 1, .pid = 10 + step % 2, .executable_name = BYTES_LIT("x")};
    struct frame_name name = {
        .address = 16, .function = BYTES_LIT("f"), .file = BYTES_LIT("f.c"), .line = 3};
    struct stacks *stacks = store_stacks(store);
    struct join *join = store_join(store);
    int64_t executable, stack, process;
    bool is_new;
    int error = stacks_executable(stacks, identity, &executable);
    if (!error)
        error = stacks_executable_facts(stacks, executable, &facts);
    if (!error)
        error = stacks_set_names(stacks, executable, &name, 1);
    struct frame frames[] = {{STACK_FRAME_NATIVE, error ? 0 : executable, 16 * step},
                             {STACK_FRAME_KERNEL, 0, 77}};
    if (!error)
        error = stacks_intern(stacks, frames, 2, &stack, &is_new);
    if (!error)
        error = processes_put(store_processes(store), &process_facts, &process);
    if (error)
        return error;
    join_batch_begin(join);
    for (unsigned i = 0; i < 4 && !error; i++) {
        struct sample sample = {.time_unix_ns = T0 + step,
                                .value_ns = 1,
                                .period_ns = 1,
                                .stack = stack,
                                .process = process,
                                .kind = SAMPLE_CPU,
                                .context_source = i > 0,
                                .tid = i,
                                .comm = "x"};
        sample.trace_id[3] = i > 0 && i < 3 ? 1 : 0;
        sample.span_id[3] = i > 1 ? (uint8_t)(1 + step % 4) : 0;
        error = join_add_sample(join, &sample);
    }
    return error ? error : join_batch_commit(join);
}

static int join_one(struct store *store, uint8_t n)
{
    uint8_t trace_id[16] = {0, 0, 0, 1}, span_id[8] = {0, 0, 0, n};
    struct otlp_span span = {.trace_id = BYTES(trace_id, 16),
                             .span_id = BYTES(span_id, 8),
                             .name = BYTES_LIT("span"),
                             .kind = SPAN_SERVER,
                             .start_unix_ns = T0,
                             .end_unix_ns = T0 + 100};
    struct join_result result;
    int outcome = join_span(store_join(store), &span, &forwarder, &result);
    return outcome < 0 ? outcome : 0;
}

static int run_step(struct store *store, unsigned step)
{
    static const struct window_settings window = {
        .max_request_bytes = 1 << 16, .destinations = 3, .scope_version = "0"};
    size_t n;
    int error = 0;
    switch (step % 6) {
    case 0:
    case 1:
        return put_samples(store, step);
    case 2:
        for (uint8_t i = 1; i < 4 && !error; i++)
            error = join_one(store, i);
        return error;
    case 3:
        return store_window(store, &window, T0 + step * UINT64_C(30000000000), &n);
    case 4:
        for (int64_t seq = 1; seq < 4 && !error; seq++)
            error = outbox_done(store_outbox(store), step / 6 % 2, seq);
        return error;
    default:
        for (uint64_t i = 0; i < 3 && !error; i++)
            error = store_collect(store, T0 + (step + i) * STACKS_GENERATION_NS);
        return error;
    }
}

static int run(struct store *store, unsigned step)
{
    int error = store_begin(store);
    if (error)
        return error;
    error = run_step(store, step);
    if (error)
        store_fail(store, error);
    int end = store_end(store);
    assert(!error || end);
    return end;
}

static void read_all(void)
{
    struct db_settings settings = {.directory = directory};
    struct db *db;
    struct outbox_reader *reader;
    struct outbox_item item = {0};
    if (db_open_reader(&settings, &db))
        return;
    if (!outbox_reader_open(db, &reader)) {
        for (int i = 0; i < 20 && !outbox_next(reader, "one", item.seq, &item); i++)
            buf_close(&item.body);
        outbox_reader_close(reader);
    }
    db_close(db);
}

static void write_file(const uint8_t *data, size_t size)
{
    FILE *file = fopen(db_path, "wb");
    assert(file);
    size_t n = fwrite(data, 1, size, file);
    assert(n == size);
    fclose(file);
}

static void remove_files(void)
{
    static const char *const endings[] = {"",
                                          "-wal",
                                          "-shm",
                                          ".corrupt",
                                          ".corrupt-wal",
                                          ".corrupt.1",
                                          ".corrupt.1-wal",
                                          ".newer",
                                          ".newer-wal",
                                          ".newer.1",
                                          ".newer.1-wal"};
    char path[sizeof(db_path) + 16];
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        snprintf(path, sizeof(path), "%s%s", db_path, endings[i]);
        unlink(path);
    }
}

static void clean_up(void)
{
    char path[sizeof(db_path) + 16];
    remove_files();
    snprintf(path, sizeof(path), "%s/lock", directory);
    unlink(path);
    rmdir(directory);
}

static void make_template(void)
{
    struct store *store;
    char *made = mkdtemp(directory);
    assert(made);
    atexit(clean_up);
    log_set_level(LOG_LEVEL_ERROR + 1);
    snprintf(db_path, sizeof(db_path), "%s/spanprof.db", directory);
    int error = open_store(&store);
    assert(!error);
    for (unsigned step = 0; step < 16; step++) {
        error = step % 6 < 4 ? run(store, step) : 0;
        assert(!error);
    }
    store_close(store);
    FILE *file = fopen(db_path, "rb");
    assert(file);
    template_size = fread(template, 1, sizeof(template), file);
    fclose(file);
    assert(template_size > 10 * PAGE && template_size < sizeof(template));
}

static size_t edit(uint8_t *file, const uint8_t *data, size_t size)
{
    size_t length = template_size;
    memcpy(file, template, template_size);
    while (size >= 4) {
        size_t page = data[0], offset = data[1] | (size_t)data[2] << 8, count = data[3];
        data += 4;
        size -= 4;
        if (page == CUT) {
            length = offset % (template_size / PAGE) * PAGE + count;
            continue;
        }
        count = count > size ? size : count;
        size_t at = page % (template_size / PAGE) * PAGE + offset % PAGE;
        if (at + count <= template_size)
            memcpy(file + at, data, count);
        data += count;
        size -= count;
    }
    return length < template_size ? length : template_size;
}

static void work(struct store *store)
{
    for (unsigned step = 0; step < 18; step++) {
        int error = -1;
        for (int i = 0; i < TRIES_MAX && error; i++)
            error = run(store, step);
        assert(!error);
        store_maintain(store);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[FILE_MAX];
    struct store *store;
    if (!template_size)
        make_template();
    remove_files();
    if (size >= 16 && !memcmp(data, "SQLite format 3", 16))
        write_file(data, size);
    else
        write_file(file, edit(file, data, size));
    int error = open_store(&store);
    if (error) {
        assert(error == -ENOTSUP); /* another program's: left alone */
        return 0;
    }
    work(store);
    read_all();
    store_close(store);
    return 0;
}
