/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running Ruby programs in a real kernel. Each thread of the first spins at a place where it has
 * said its own frames (caller_locations): the frames of each sample must be these, with label, file
 * and line. Those of the second call and return all the time: each frame must be one that its
 * caller calls. Arguments: seconds for each (6), the interpreters (those of this machine).
 */
#define FREQUENCY 499
#include "sampler_fixture.h"
#include "runtime_fixture.h"
#include "agent-bpf/list_interleave.h"
#include "agent-bpf/runtimes/ruby/ruby_reader.h"
#include "test/support/runtimes/rubies.h"
#include <stdio.h>

#define SCRIPTS     SPANPROF_SOURCE_DIR "/test/support/runtimes/ruby/"
#define ARENA       ((size_t)4 << 20)
#define UNWIND_ROOM ((uint64_t)32 << 20)
#define RING_SIZE   (16 << 20)
#define SAID_MAX    512
#define THREADS_MAX 64
#define FEW         600 /* three samples, where there are not many */

static const struct runtime_reader reader = {
    RUNTIME_RUBY,      RUNTIME_SECTION_RUBY, 1u << FRAME_RUBY,  ruby_reader_open,
    ruby_reader_close, ruby_reader_attach,   ruby_reader_names, ruby_reader_version};

/* Names with the path of their class, which the labels of 3.3 and earlier do not have. */
static const char *const qualified[] = {"Shop#layout",
                                        "Shop#render",
                                        "Shop.open",
                                        "block in Shop#render",
                                        "Helper#helped",
                                        "Shop::Corner#<=>",
                                        "Array#each",
                                        "Array#sort",
                                        "Integer#times",
                                        "String#gsub",
                                        "Object#by_method",
                                        "Shop::Corner.built",
                                        "block (2 levels) in Object#by_times",
                                        "Shop::Corner#method_missing",
                                        "Enumerable#each_with_index",
                                        "BasicObject#instance_eval"};
#define QUALIFIED (sizeof(qualified) / sizeof(*qualified))

static const struct {
    const char *callee, *caller;
} calls[] = {
    {"Object#deeper", "Object#hot"},
    {"Object#hot", "block in Object#each_hot"},
    {"Object#hot", "Object#by_call"},
    {"block in Object#each_hot", "Array#each"},
    {"Array#each", "Object#each_hot"},
    {"Object#each_hot", "Object#by_block"},
    {"Object#by_block", "block (2 levels) in <main>"},
    {"Object#by_call", "block (2 levels) in <main>"},
};

struct said { /* a frame */
    char thread[16], label[128], path[256];
    unsigned line;
};

struct program {
    struct sampled_program sampled;
    struct arena arena;
    struct said said[SAID_MAX];
    size_t n_said, n_threads;
    char seen[THREADS_MAX][16];
    size_t n_seen;
    bool qualified[QUALIFIED];
    /* Samples of its threads: */
    size_t n, ended, listed, whole, appended, named, right, moving, leaf;
    size_t told;
};

static uint64_t look_ms = 6000;

static void program_listen(struct program *program)
{
    char line[1024];
    while (fgets(line, sizeof(line), program->sampled.runtime.out)) {
        struct said said = {.line = 0};
        if (sscanf(line, "ready\t%zu", &program->n_threads) == 1)
            break;
        if (sscanf(line, "%15[^\t]\t%127[^\t]\t%255[^\t\n]\t%u", said.thread, said.label, said.path,
                   &said.line) < 2 ||
            program->n_said == SAID_MAX)
            continue;
        program->said[program->n_said++] = said;
    }
}

/* A label with the path of its class, or without. */
static bool name_is(const char *name, const char *label)
{
    size_t most = strlen(label), n = strlen(name);
    size_t same = 0, end = 0;
    while (same < most && name[same] == label[same])
        same++;
    while (end < most && end < n && name[n - 1 - end] == label[most - 1 - end])
        end++;
    bool is_cut =
        n > most && same + end >= most && end &&
        (name[n - end - 1] == '#' || name[n - end - 1] == '.' || strchr(label, '#') != NULL);
    return !strcmp(name, label) || is_cut;
}

/* Methods in C have the file and line of their caller in Ruby's own lists. */
static bool frame_is(const struct runtime_name *name, const struct said *said)
{
    bool is_c = !name->lines->file.len;
    return name_is((const char *)name->lines->function.data, said->label) &&
           (is_c || (!strcmp((const char *)name->lines->file.data, said->path) &&
                     name->lines->line == said->line));
}

struct merged {
    size_t n, n_leaf; /* native frames in front of the first */
    struct record_frame frames[RECORD_MAX_USER_FRAMES];
    struct runtime_name names[RECORD_MAX_USER_FRAMES];
};

static void merged_fill(struct merged *merged, const uint64_t *words, size_t n)
{
    const uint64_t *end = words + n;
    struct record_frame frame;
    merged->n = merged->n_leaf = 0;
    while (record_frame_next(&words, end, &frame)) {
        if (record_frame_kind(frame.words[0]) == FRAME_RUBY)
            merged->frames[merged->n++] = frame;
        else
            merged->n_leaf += !merged->n;
    }
    assert_true(words == end);
}

static void merged_print(const struct merged *merged, const char *comm, unsigned remarks)
{
    print_message("  %s: not right (remarks %u):", comm, remarks);
    for (size_t i = 0; i < merged->n; i++)
        print_message(" %s:%u",
                      merged->names[i].n_lines ? (const char *)merged->names[i].lines->function.data
                                               : "?",
                      merged->names[i].n_lines ? merged->names[i].lines->line : 0);
    print_message("\n");
}

static const struct said *said_of(const struct program *program, const char *comm, size_t *n)
{
    size_t first = 0;
    while (first < program->n_said && strcmp(program->said[first].thread, comm))
        first++;
    for (*n = 0; first + *n < program->n_said; ++*n)
        if (strcmp(program->said[first + *n].thread, comm))
            break;
    return &program->said[first];
}

static bool merged_is_right(const struct merged *merged, const struct said *said, size_t n)
{
    if (merged->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!merged->names[i].n_lines || !frame_is(&merged->names[i], &said[i]))
            return false;
    return true;
}

static bool is_call(const char *callee, const char *caller)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (!strcmp(calls[i].callee, callee) && !strcmp(calls[i].caller, caller))
            return true;
    return false;
}

/* Of the second program; methods in C may be the innermost. */
static bool merged_is_possible(const struct merged *merged)
{
    size_t first = 0;
    while (first + 1 < merged->n && !merged->names[first].lines->file.len &&
           strcmp((const char *)merged->names[first].lines->function.data, "Array#each"))
        first++;
    for (size_t i = first; i + 1 < merged->n; i++)
        if (!is_call((const char *)merged->names[i].lines->function.data,
                     (const char *)merged->names[i + 1].lines->function.data))
            return false;
    return !strcmp((const char *)merged->names[merged->n - 1].lines->function.data,
                   "block (2 levels) in <main>");
}

static void note_seen(struct program *program, const struct merged *merged, const char *comm)
{
    size_t i = 0;
    while (i < program->n_seen && strcmp(program->seen[i], comm))
        i++;
    if (i == program->n_seen && i < THREADS_MAX)
        snprintf(program->seen[program->n_seen++], 16, "%s", comm);
    for (size_t f = 0; f < merged->n; f++)
        for (size_t q = 0; q < QUALIFIED; q++)
            if (!strcmp((const char *)merged->names[f].lines->function.data, qualified[q]))
                program->qualified[q] = true;
}

static void judge_spinning(void *context, const struct record_header *record)
{
    static struct merged merged;
    static uint64_t words[RECORD_MAX_USER_WORDS];
    struct program *program = context;
    const uint64_t *user = record_frames(record) + record->kernel_words;
    struct list_interleave stack = {user, record->user_words, user + record->user_words,
                                    record->list_words, record->end == UNWIND_END_OF_STACK};
    unsigned remarks;
    size_t n_said;
    struct runtime_memory memory;
    struct runtime_names out = {.arena = &program->arena, .names = merged.names};
    if (record->pid != (uint32_t)program->sampled.runtime.pid || strncmp(record->comm, "by_", 3))
        return;
    const struct said *said = said_of(program, record->comm, &n_said);
    program->n++;
    program->ended += record->end == UNWIND_END_OF_STACK;
    program->listed += record->list_words > 0;
    if (!record->list_words)
        return;
    merged_fill(&merged, words, list_interleave(&stack, words, &remarks));
    program->whole += !(remarks & LIST_INTERLEAVE_CUT);
    program->appended += (remarks & LIST_INTERLEAVE_APPENDED) != 0;
    program->leaf += !merged.n_leaf;
    arena_reset(&program->arena);
    memory_open(&memory, RUNTIME_REQUEST);
    assert_int_equal(reader.names(program->sampled.runtime.constants,
                                  &program->sampled.runtime.entry, NULL, &memory, merged.frames,
                                  merged.n, &out),
                     0);
    for (size_t i = 0; i < merged.n; i++)
        if (merged.names[i].outcome != RUNTIME_FRAME_NAMED)
            return;
    program->named++;
    note_seen(program, &merged, record->comm);
    bool right =
        program->n_said ? merged_is_right(&merged, said, n_said) : merged_is_possible(&merged);
    program->right += right;
    if (!right && program->told++ < 8)
        merged_print(&merged, record->comm, remarks);
}

static void drop(void *context, const struct record_header *record)
{
    (void)context;
    (void)record;
}

static void program_observe(struct program *program, struct fixture *fixture)
{
    struct ring_counts counts;
    ring_drain(fixture->ring, ring_position(fixture->ring), drop, NULL, NULL);
    for (uint64_t waited = 0; waited < look_ms; waited += 50) {
        sleep_ms(50);
        ring_drain(fixture->ring, ring_position(fixture->ring), judge_spinning, program, &counts);
        assert_int_equal(counts.malformed, 0);
    }
}

/* False: not a version that is read. */
static bool program_look(struct program *program, const char *ruby, const char *script)
{
    struct fixture fixture = {0};
    enum runtime_refusal why = RUNTIME_REFUSAL_NONE;
    setup_with(&fixture, &(struct sampler_settings){.frequency_hz = FREQUENCY,
                                                    .ring_size_bytes = RING_SIZE,
                                                    .unwind_bytes = UNWIND_ROOM,
                                                    .ticks_timed = true});
    arena_init(&program->arena, ARENA);
    program->sampled.runtime.reader = &reader;
    program_start(&program->sampled.runtime, ruby, script);
    program_listen(program);
    int error = program_attach(&program->sampled, fixture.sampler, &why);
    if (!error)
        program_observe(program, &fixture);
    else
        print_message("%s: not attached: %d, reason %d\n", ruby, error, (int)why);
    program_stop(&program->sampled);
    arena_close(&program->arena);
    teardown(&fixture);
    return !error;
}

static struct program program;

static void check(const char *ruby, const char *script)
{
    program = (struct program){.n = 0};
    assert_true(program_look(&program, ruby, script));
    print_message("%s: %zu samples of %zu threads, %zu to the stack's end, %zu with a list, %zu "
                  "whole, %zu appended, %zu named, %zu right, %zu with a leaf in Ruby\n",
                  ruby, program.n, program.n_seen, program.ended, program.listed, program.whole,
                  program.appended, program.named, program.right, program.leaf);
    assert_true(program.n > 100);
    assert_true((program.n - program.ended) * 200 <= program.n + FEW);
    assert_true(program.listed * 1000 >= program.n * 995);
    assert_true(program.whole * 1000 >= program.listed * 995);
    assert_true(program.named * 1000 >= program.listed * 995);
    assert_int_equal(program.right, program.named);
    assert_true(program.appended * 200 <= program.n + FEW);
    assert_true(program.leaf * 10 > program.n);
}

static void check_spinning(const char *ruby)
{
    check(ruby, SCRIPTS "spinning.rb");
    for (size_t i = 0; i < QUALIFIED; i++)
        if (!program.qualified[i])
            print_message("  never: %s\n", qualified[i]);
}

static void check_busy(const char *ruby)
{
    check(ruby, SCRIPTS "busy.rb");
}

static void spinning(void **state)
{
    (void)state;
    each_ruby(check_spinning);
}

static void busy(void **state)
{
    (void)state;
    each_ruby(check_busy);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spinning), cmocka_unit_test(busy)};
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (argc > 1)
        look_ms = strtoull(argv[1], NULL, 10) * 1000;
    rubies = argv + 2;
    n_rubies = argc > 2 ? argc - 2 : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
