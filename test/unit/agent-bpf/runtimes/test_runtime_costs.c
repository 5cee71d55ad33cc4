/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is forged to cost as much as can be: 512 frames, of which each has the longest tables
 * that its reader takes. A request must end in its time, whatever there is to decode; what was not
 * decoded then is unknown.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "agent-bpf/runtimes/v8/v8_names.h"
#include "agent-bpf/runtimes/v8/v8_script.h"
#include "test/support/fixtures/memory_image.h"
#include "test/support/runtimes/python_image.h"
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <cmocka.h>

#define FRAMES_N   512
#define REQUEST    ((size_t)1 << 20)
#define REQUEST_NS (50 * NS_PER_MS)
#define ARENA      ((size_t)8 << 20)

static struct memory_image image;
static struct record_frame frames[FRAMES_N];
static struct runtime_name names[FRAMES_N];
static size_t n_frames;
static struct arena arena;

static uint64_t processor_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static void frames_fill(struct record_frame frame)
{
    for (size_t i = 0; i < FRAMES_N; i++)
        frames[i] = frame;
}

typedef int name_frames(struct runtime_memory *memory, struct runtime_names *out);

/* Of how many frames it is the outcome. */
static size_t count(name_frames *name, struct runtime_memory memory, size_t n, uint64_t until_ns,
                    enum runtime_outcome outcome)
{
    struct runtime_names out = {&arena, names};
    size_t found = 0;
    n_frames = n;
    memory.bytes_left = REQUEST;
    memory.until_ns = until_ns;
    arena_init(&arena, ARENA);
    assert_int_equal(name(&memory, &out), 0);
    arena_close(&arena);
    for (size_t i = 0; i < n; i++)
        found += names[i].outcome == outcome;
    return found;
}

/* The time of a request is looked at between frames: that of one frame may come on top. */
static void check(name_frames *name, struct runtime_memory memory)
{
    uint64_t start_ns = processor_ns();
    assert_int_equal(count(name, memory, 1, 0, RUNTIME_FRAME_NAMED), 1);
    uint64_t frame_ns = processor_ns() - start_ns;
    assert_int_equal(count(name, memory, FRAMES_N, 1, RUNTIME_FRAME_UNKNOWN), FRAMES_N);
    uint64_t until_ns = clock_monotonic_ns() + REQUEST_NS;
    start_ns = processor_ns();
    count(name, memory, FRAMES_N, until_ns, RUNTIME_FRAME_NAMED);
    uint64_t request_ns = processor_ns() - start_ns;
    print_message("one frame %" PRIu64 " us, a request %" PRIu64 " us\n", frame_ns / 1000,
                  request_ns / 1000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_in_range(frame_ns, 0, REQUEST_NS);
#endif
    assert_in_range(request_ns, 0, REQUEST_NS + 2 * frame_ns);
}

/* ---- Python: one code object's table of lines ---- */

#define TABLE_AT    UINT64_C(0x10000000)
#define TABLE_BYTES ((size_t)900 << 10)

static struct python_image python;
static struct python_process python_process;
static uint8_t table[TABLE_BYTES + 64];

static int python_read(void *context, struct reader_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t at = ranges[i].address - TABLE_AT;
        if (at < sizeof(table) && ranges[i].size <= sizeof(table) - at) {
            memcpy(ranges[i].out, table + at, ranges[i].size);
            ranges[i].error = 0;
        } else {
            struct runtime_memory *memory = python.memory;
            memory->bytes_left += ranges[i].size; /* which the image counts */
            python_image_read(context, &ranges[i], 1);
        }
    }
    return 0;
}

static int python_name(struct runtime_memory *memory, struct runtime_names *out)
{
    python.memory = memory;
    return python_names(&python.constants, &python_process, memory, frames, n_frames, out);
}

static void python_table(void **state)
{
    struct runtime_memory memory;
    enum runtime_refusal why;
    uint64_t words[64], size = TABLE_BYTES;
    int outcome;
    (void)state;
    assert_true(python_image_make(&python, 11, false, IMAGE_SLOT_DIRECT));
    const struct python_layout *layout = &python.constants.layout;
    python_image_word(&python, IMAGE_CODES + layout->code_table, TABLE_AT);
    python_image_word(&python, IMAGE_CODES + layout->code_units, 1 << 24);
    memset(table, 0xf8, sizeof(table)); /* entries of a byte: no line */
    memcpy(table + layout->bytes_length, &size, sizeof(size));
    python_image_memory(&python, &memory, REQUEST);
    assert_int_equal(python_attach(&python.constants, 0, &memory, &python_process, &why), 0);
    python_image_list(&python, &python_process, IMAGE_DESCRIPTORS, words, 64, &outcome);
    frames_fill((struct record_frame){{words[0], TABLE_BYTES + 1, words[2]}});
    memory.read = python_read;
    check(python_name, memory);
}

/* ---- V8: one function's table of positions ---- */

enum { STRING = 8, NO_STRING = 64, SHARED, SCRIPT, BYTECODES, BYTES_ARRAY };

#define V8_MAP(type) (UINT64_C(0x10001) + 0x40 * (uint64_t)(type))
#define V8_SHARED    UINT64_C(0x20001)
#define V8_SCRIPT    UINT64_C(0x30001)
#define V8_BYTECODES UINT64_C(0x40001)
#define V8_POSITIONS UINT64_C(0x50001)
#define V8_SOURCE    UINT64_C(0x80001)
#define V8_LENGTH    ((uint64_t)128 << 10)

static const struct v8_file v8_file = {.types = {.shared_function_info = SHARED,
                                                 .script = SCRIPT,
                                                 .bytecode_array = BYTECODES,
                                                 .byte_array = BYTES_ARRAY,
                                                 .scope_info = 100,
                                                 .fixed_array = 101,
                                                 .code = 102,
                                                 .first_nonstring = NO_STRING},
                                       .map_type = 8,
                                       .shared_name = 16,
                                       .shared_data = 8,
                                       .shared_end = 40,
                                       .process = {.shared_script = 24, .shared_literal = 36}};

static int v8_take(void *context, size_t frame, enum v8_names_outcome outcome,
                   const struct v8_name *of, size_t n)
{
    (void)context, (void)of, (void)n;
    names[frame].outcome = outcome == V8_NAMED     ? RUNTIME_FRAME_NAMED
                           : outcome == V8_UNKNOWN ? RUNTIME_FRAME_UNKNOWN
                                                   : RUNTIME_FRAME_STALE;
    return 0;
}

static int v8_name(struct runtime_memory *memory, struct runtime_names *out)
{
    static uint64_t words[FRAMES_N][RECORD_FRAME_WORDS_MAX];
    (void)out;
    for (size_t i = 0; i < FRAMES_N; i++)
        memcpy(words[i], frames[i].words, sizeof(words[i]));
    const struct v8_names_request request = {.file = &v8_file,
                                             .process = &v8_file.process,
                                             .memory = memory,
                                             .frames = words,
                                             .n = n_frames};
    return v8_names_find(&request, v8_take, NULL);
}

static void v8_put_maps(void)
{
    static uint64_t maps[1024];
    for (unsigned type = STRING; type <= BYTES_ARRAY; type++)
        maps[8 * type + 1] = type;
    image.n = 0;
    memory_image_put(&image, V8_MAP(0) - 1, maps, sizeof(maps));
}

static void v8_positions(void **state)
{
    static uint64_t positions[(V8_LENGTH + 512) / 8], script[64], shared[64];
    static uint64_t bytecodes[64];
    (void)state;
    v8_put_maps();
    shared[0] = V8_MAP(SHARED);
    shared[1] = V8_BYTECODES;
    shared[3] = V8_SCRIPT;
    shared[4] = UINT64_C(1) << 32;
    script[0] = V8_MAP(SCRIPT);
    bytecodes[0] = V8_MAP(BYTECODES);
    bytecodes[1] = UINT64_C(1) << 32 << 20;
    bytecodes[3] = V8_POSITIONS;
    positions[0] = V8_MAP(BYTES_ARRAY);
    positions[1] = V8_LENGTH << 32; /* of zeros: as many entries as can be */
    memory_image_put(&image, V8_SHARED - 1, shared, sizeof(shared));
    memory_image_put(&image, V8_SCRIPT - 1, script, sizeof(script));
    memory_image_put(&image, V8_BYTECODES - 1, bytecodes, sizeof(bytecodes));
    memory_image_put(&image, V8_POSITIONS - 1, positions, sizeof(positions));
    frames_fill(
        (struct record_frame){{(uint64_t)FRAME_V8 << RECORD_FRAME_SHIFT,
                               (V8_SHARED - 1) | V8_FRAME_INTERPRETED |
                                   (uint64_t)V8_SCRIPT_HASH(V8_SCRIPT) << V8_FRAME_SCRIPT_SHIFT,
                               UINT64_C(1) << 32 | 1000}});
    check(v8_name, memory_image_memory(&image));
}

/* ---- V8: scripts of a million lines each, counted before ---- */

#define LINES_N 1000000

static bool lines_get(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes *value)
{
    static uint8_t kept[8 + LINES_N];
    const uint32_t counted = LINES_N;
    (void)context, (void)kind, (void)key;
    memset(kept, 1, sizeof(kept)); /* lines of one character */
    memcpy(kept, &counted, sizeof(counted));
    *value = BYTES(kept, sizeof(kept));
    return true;
}

static void lines_put(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes value)
{
    (void)context, (void)kind, (void)key, (void)value;
}

/* All of a request together are bounded. */
static void v8_lines(void **state)
{
    static uint64_t script[64], source[64];
    const struct v8_store store = {lines_get, lines_put, NULL};
    struct runtime_memory memory = memory_image_memory(&image);
    struct v8_scripts scripts = {.store = &store};
    struct v8_heap heap;
    uint32_t line, column;
    unsigned known = 0;
    (void)state;
    v8_put_maps();
    script[0] = V8_MAP(SCRIPT);
    script[1] = V8_SOURCE;
    source[0] = V8_MAP(STRING);
    source[1] = UINT64_C(4000000) << 32;
    memory_image_put(&image, V8_SOURCE - 1, source, sizeof(source));
    for (unsigned i = 0; i < V8_SCRIPTS_MAX; i++)
        memory_image_put(&image, V8_SCRIPT - 1 + 0x200 * i, script, sizeof(script));
    memory.bytes_left = REQUEST;
    assert_int_equal(v8_heap_open(&heap, &v8_file, &memory), 0);
    for (unsigned i = 0; i < V8_SCRIPTS_MAX; i++) {
        int error;
        while ((error = v8_script_place(&scripts, &heap, V8_SCRIPT + 0x200 * i, LINES_N / 2, &line,
                                        &column)) == -EAGAIN)
            assert_int_equal(v8_heap_fetch(&heap), 0);
        known += !error;
    }
    assert_in_range(known, 1, V8_SCRIPTS_MAX - 1);
    uint64_t room = 0;
    for (size_t i = 0; i < scripts.n; i++)
        room += scripts.lines[i].ends_room;
    assert_in_range(room, LINES_N, V8_ENDS_MAX);
    v8_scripts_close(&scripts);
    v8_heap_close(&heap);
}

/* ---- HotSpot: 32 functions inlined, each with the longest table of lines ---- */

#define BLOB      UINT64_C(0x100000)
#define METHOD    UINT64_C(0x200000)
#define CONSTANT  UINT64_C(0x300000) /* ConstMethod */
#define POOL      UINT64_C(0x400000)
#define KLASS     UINT64_C(0x500000)
#define SYMBOLS   UINT64_C(0x600000)
#define METADATA  1000 /* behind BLOB, as the two below */
#define SCOPES    1200
#define PC_DESCS  2000
#define LINES_END 20000 /* behind CONSTANT */

static const struct hotspot_process hotspot_process = {
    .blob = {.block_bytes = 16,
             .header_size = 0,
             .header_size_bytes = 4,
             .nmethod_bytes = 200,
             .compile_id = 4,
             .code_begin = 8},
    .method = {.const_method = 8, .code_size = 16, .bytecodes = 40},
    .names = {.method = 16,
              .metadata = 24,
              .metadata_bytes = 4,
              .metadata_base = HOTSPOT_NONE,
              .metadata_more = HOTSPOT_NONE,
              .scopes_data_base = 32,
              .scopes_data = HOTSPOT_NONE,
              .scopes_data_end = HOTSPOT_NONE,
              .scopes_pcs_base = HOTSPOT_NONE,
              .scopes_pcs = 40,
              .scopes_pcs_end = 44,
              .pc_desc_bytes = 8,
              .pc_desc_pc = 0,
              .pc_desc_scope = 4,
              .const_method_constants = 8,
              .const_method_size = 20,
              .const_method_flags = 24,
              .const_method_name = 26,
              .const_method_signature = 28,
              .pool_holder = 8,
              .pool_bytes = 64,
              .pool_source_file = HOTSPOT_NONE,
              .klass_source_file = HOTSPOT_NONE,
              .klass_name = 8,
              .klass_constants = 16,
              .symbol_length = 0,
              .symbol_body = 2,
              .symbol_references = HOTSPOT_NONE,
              .loader_kind = HOTSPOT_NONE},
};

static uint64_t *word_of(void *bytes, size_t at)
{
    return (uint64_t *)(void *)((uint8_t *)bytes + at);
}

static int hotspot_name(struct runtime_memory *memory, struct runtime_names *out)
{
    return hotspot_names(&hotspot_process, NULL, memory, frames, n_frames, out);
}

static void hotspot_put_blob(void)
{
    static uint64_t blob[512];
    uint8_t *scopes = (uint8_t *)blob + SCOPES;
    uint32_t *ints = (uint32_t *)(void *)blob;
    ints[0] = 200;
    ints[1] = 7; /* compile id */
    *word_of(blob, 8) = BLOB;
    *word_of(blob, 16) = METHOD;
    ints[6] = METADATA;
    *word_of(blob, 32) = BLOB + SCOPES;
    ints[10] = PC_DESCS;
    ints[11] = PC_DESCS + 8;
    *word_of(blob, METADATA) = METHOD;
    for (unsigned i = 1; i <= RUNTIME_LINES_MAX; i++) {
        scopes[3 * i] = (uint8_t)(3 * (i - 1)); /* inlined in */
        scopes[3 * i + 1] = scopes[3 * i + 2] = 1;
    }
    ints[PC_DESCS / 4] = 1000;
    ints[PC_DESCS / 4 + 1] = 3 * RUNTIME_LINES_MAX;
    memory_image_put(&image, BLOB, blob, sizeof(blob));
}

static void hotspot_inlined(void **state)
{
    static uint64_t method[8], constant[(LINES_END + 64) / 8], pool[16], klass[8], symbols[64];
    uint16_t *fields = (uint16_t *)(void *)constant;
    (void)state;
    image.n = 0;
    hotspot_put_blob();
    method[1] = CONSTANT;
    memset(constant, 1, sizeof(constant)); /* each byte of the table is a line further */
    constant[1] = POOL;
    fields[8] = 10; /* bytes of code */
    fields[10] = LINES_END / 8;
    fields[11] = 0;
    fields[12] = 1; /* has lines */
    fields[13] = 1;
    fields[14] = 2;
    pool[1] = KLASS;
    pool[9] = SYMBOLS;
    pool[10] = SYMBOLS + 32;
    klass[1] = SYMBOLS + 64;
    klass[2] = POOL;
    memcpy(symbols, "\3\0run", 5);
    memcpy(symbols + 4, "\3\0()V", 5);
    memcpy(symbols + 8, "\3\0Foo", 5);
    memory_image_put(&image, METHOD, method, sizeof(method));
    memory_image_put(&image, CONSTANT, constant, sizeof(constant));
    memory_image_put(&image, POOL, pool, sizeof(pool));
    memory_image_put(&image, KLASS, klass, sizeof(klass));
    memory_image_put(&image, SYMBOLS, symbols, sizeof(symbols));
    frames_fill((struct record_frame){
        {(uint64_t)FRAME_JVM_COMPILED << RECORD_FRAME_SHIFT | (BLOB + 1), BLOB, 7}});
    check(hotspot_name, memory_image_memory(&image));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(python_table),
                                       cmocka_unit_test(v8_positions), cmocka_unit_test(v8_lines),
                                       cmocka_unit_test(hotspot_inlined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
