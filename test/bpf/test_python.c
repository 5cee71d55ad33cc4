/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running Python programs in a real kernel: each sample's list of Python frames must be whole, be
 * one that the program can have, and lie between the native frames that execute it; also while the
 * thread has released the GIL. And a sample has the name of the task that its thread runs, where
 * the version tells it. Arguments: seconds for each (3), the interpreters (those of this machine).
 */
#define FREQUENCY 499
#include "sampler_fixture.h"
#include "runtime_fixture.h"
#include "agent-bpf/list_interleave.h"
#include "agent-bpf/drain/task_name.h"
#include "agent-bpf/runtimes/python/python_reader.h"
#include "test/support/runtimes/pythons.h"
#include <stdio.h>

#define SCRIPTS     SPANPROF_SOURCE_DIR "/test/support/runtimes/python/"
#define ARENA       ((size_t)4 << 20)
#define UNWIND_ROOM ((uint64_t)32 << 20)
#define RING_SIZE   (16 << 20)
#define PATIENCE    6 /* on a machine that is busy */
/* Numbers of functions of tasks.py. */
#define NO_TASK    0
#define NOT_A_TASK 1

/* Callee, caller; whether C lies between them in all versions, and whether from 3.11 on in none. */
static const struct {
    const char *callee, *caller;
    bool through_c, inlined;
} calls[] = {
    {"_bootstrap_inner", "_bootstrap", false, true},
    {"run", "_bootstrap_inner", false, false},
    {"work", "run", false, false},
    {"compress", "run", false, false},
    {"by_sort", "work", false, true},
    {"__lt__", "by_sort", true, false},
    {"spin", "__lt__", false, true},
    {"by_sub", "work", false, true},
    {"replace", "by_sub", true, false},
    {"spin", "replace", false, true},
    {"by_map", "work", false, true},
    {"mapped", "by_map", true, false},
    {"spin", "mapped", false, true},
    {"by_generator", "work", false, true},
    {"produced", "by_generator", false, false},
    {"spin", "produced", false, true},
    {"by_await", "work", false, true},
    {"outer", "by_await", false, false},
    {"inner", "outer", false, false},
    {"spin", "inner", false, true},
    {"descend", "work", false, true},
    {"descend", "descend", false, true},
    {"spin", "descend", false, true},
    {"by_exec", "work", false, true},
    {"<module>", "by_exec", true, false},
    {"executed", "<module>", false, true},
    {"spin", "executed", false, true},
};

static const struct runtime_reader reader = {
    .runtime = RUNTIME_PYTHON,
    .section = RUNTIME_SECTION_PYTHON,
    .kinds = 1u << FRAME_PYTHON,
    .open = python_reader_open,
    .close = python_reader_close,
    .attach = python_reader_attach,
    .names = python_reader_names,
};

struct program {
    struct sampled_program sampled;
    struct arena arena;
    /* Samples: */
    size_t n, listed, whole, ended, appended, named, right, released, native_leaf;
    size_t stale, wrong;
    size_t in_task, nameless, in_none, in_other;
    size_t told;
    /* It is watched until that many samples are in tasks, but not for ever. */
    size_t tasks_wanted;
    int rounds_left;
};

static uint64_t look_ms = 3000;

static const char *last_part(struct bytes name)
{
    const char *text = (const char *)name.data, *dot = strrchr(text, '.');
    return dot ? dot + 1 : text;
}

/* 0: there is no such call. */
static unsigned call_find(const char *callee, const char *caller)
{
    for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (!strcmp(calls[i].callee, callee) && !strcmp(calls[i].caller, caller))
            return i + 1;
    return 0;
}

/* Python frames from the leaf on, each with the number of native frames in front of it. */
struct merged {
    size_t n;
    struct record_frame frames[RECORD_MAX_USER_FRAMES];
    size_t natives[RECORD_MAX_USER_FRAMES];
    struct runtime_name names[RECORD_MAX_USER_FRAMES];
};

static void merged_fill(struct merged *merged, const uint64_t *words, size_t n)
{
    const uint64_t *end = words + n;
    struct record_frame frame;
    size_t natives = 0;
    merged->n = 0;
    while (record_frame_next(&words, end, &frame)) {
        if (record_frame_kind(frame.words[0]) != FRAME_PYTHON) {
            natives++;
            continue;
        }
        merged->frames[merged->n] = frame;
        merged->natives[merged->n++] = natives;
        natives = 0;
    }
    assert_true(words == end);
}

static bool merged_is_right(const struct program *program, const struct merged *merged)
{
    bool inlined = program->sampled.runtime.entry.python.activations != PYTHON_ONE_FRAME_EACH;
    if (strcmp(last_part(merged->names[merged->n - 1].lines->function), "_bootstrap"))
        return false;
    for (size_t i = 0; i + 1 < merged->n; i++) {
        const char *callee = last_part(merged->names[i].lines->function);
        unsigned call = call_find(callee, last_part(merged->names[i + 1].lines->function));
        bool natives = merged->natives[i + 1] > 0;
        if (!call || (calls[call - 1].through_c && !natives) ||
            (inlined && natives && calls[call - 1].inlined))
            return false;
    }
    return true;
}

static void merged_print(const struct merged *merged, unsigned remarks)
{
    print_message("  not right (remarks %u):", remarks);
    for (size_t i = 0; i < merged->n; i++)
        print_message(" %zu:%s", merged->natives[i],
                      merged->names[i].n_lines ? last_part(merged->names[i].lines->function) : "?");
    print_message("\n");
}

/* The sample's frames of both kinds; false: it is not of the program's threads, or has no list. */
static bool merged_take(struct program *program, const struct record_header *record,
                        struct merged *merged, unsigned *remarks)
{
    static uint64_t words[RECORD_MAX_USER_WORDS];
    const uint64_t *user = record_frames(record) + record->kernel_words;
    struct list_interleave stack = {user, record->user_words, user + record->user_words,
                                    record->list_words, record->end == UNWIND_END_OF_STACK};
    struct runtime_memory memory;
    memory_open(&memory, RUNTIME_REQUEST);
    struct runtime_names out = {.arena = &program->arena, .names = merged->names};
    if (record->pid != (uint32_t)program->sampled.runtime.pid || record->tid == record->pid)
        return false;
    program->n++;
    program->ended += record->end == UNWIND_END_OF_STACK;
    program->listed += record->list_words > 0;
    if (!record->list_words)
        return false;
    size_t n = list_interleave(&stack, words, remarks);
    merged_fill(merged, words, n);
    arena_reset(&program->arena);
    assert_int_equal(reader.names(program->sampled.runtime.constants,
                                  &program->sampled.runtime.entry, NULL, &memory, merged->frames,
                                  merged->n, &out),
                     0);
    program->whole += !(*remarks & LIST_INTERLEAVE_CUT);
    program->appended += (*remarks & LIST_INTERLEAVE_APPENDED) != 0;
    return true;
}

static void judge_running(void *context, const struct record_header *record)
{
    static struct merged merged;
    struct program *program = context;
    unsigned remarks;
    if (!merged_take(program, record, &merged, &remarks))
        return;
    program->released += (merged.frames[0].words[1] & PYTHON_FRAME_GIL_RELEASED) != 0;
    program->native_leaf += merged.natives[0] > 0;
    for (size_t i = 0; i < merged.n; i++)
        if (merged.names[i].outcome != RUNTIME_FRAME_NAMED)
            return;
    program->named++;
    bool right = record->end != UNWIND_END_OF_STACK || remarks & LIST_INTERLEAVE_CUT ||
                 merged_is_right(program, &merged);
    program->right += right;
    if (!right && program->told++ < 5)
        merged_print(&merged, remarks);
}

/* The number in the name of a function or file that was made; 0: it was not. */
static unsigned number_of(struct bytes text, char before)
{
    const char *last = strrchr((const char *)text.data, before);
    return last ? (unsigned)strtoul(last + 1, NULL, 10) : 0;
}

/* Of two frames of one stack both have the same number, in function, file and first line. */
static void judge_churning(void *context, const struct record_header *record)
{
    static struct merged merged;
    struct program *program = context;
    unsigned remarks, number = 0, lost = 0, wrong = 0;
    if (!merged_take(program, record, &merged, &remarks))
        return;
    for (size_t i = 0; i < merged.n; i++) {
        const struct runtime_name *name = &merged.names[i];
        lost += name->outcome != RUNTIME_FRAME_NAMED;
        if (name->outcome != RUNTIME_FRAME_NAMED ||
            strncmp((const char *)name->lines->file.data, "/made/", 6))
            continue;
        unsigned file = number_of(name->lines->file, '/');
        unsigned function = number_of(name->lines->function, '_');
        uint32_t start = file % 1000 + (name->lines->function.data[0] == 'l' ? 2 : 9);
        bool module = name->lines->function.data[0] == '<';
        wrong += (number && number != file) || (!module && function != file) ||
                 (!module && name->lines->start_line != start);
        number = file;
    }
    program->stale += lost > 0;
    program->named += !lost;
    program->wrong += wrong > 0;
    if (wrong && program->told++ < 5)
        merged_print(&merged, remarks);
}

/* The number of the function that says what runs; false: it is not among the frames. */
static bool spinning_number(const struct merged *merged, unsigned *number)
{
    for (size_t i = 0; i < merged->n; i++)
        if (merged->names[i].outcome == RUNTIME_FRAME_NAMED &&
            sscanf((const char *)merged->names[i].lines->function.data, "spin_%u", number) == 1)
            return true;
    return false;
}

/* tasks.py says which function is of which name. */
static void judge_tasks(void *context, const struct record_header *record)
{
    static struct merged merged;
    struct program *program = context;
    char name[TASK_NAME_SIZE] = "";
    unsigned remarks, number;
    if (!merged_take(program, record, &merged, &remarks) || !spinning_number(&merged, &number))
        return;
    size_t len = record->task_size ? task_name(record_task(record), record->task_size, name) : 0;
    bool in_none = number == NO_TASK, in_task = !in_none && number != NOT_A_TASK;
    program->in_none += in_none;
    program->in_task += in_task;
    program->in_other += number == NOT_A_TASK;
    program->nameless += in_task && !len;
    bool right = in_none   ? !record->task_size
                 : in_task ? !len || number_of(BYTES(name, len), '-') == number
                           : record->task_size == RECORD_TASK_HEAD && !len;
    program->wrong += !right;
    if (!right && program->wrong < 5)
        print_message("  spin_%u in \"%s\" (%u)\n", number, name, record->task_size);
}

static void program_observe(struct program *program, struct fixture *fixture,
                            ring_record_fn judge_one)
{
    struct program dropped = {.sampled.runtime.pid = -1};
    struct ring_counts counts;
    ring_drain(fixture->ring, ring_position(fixture->ring), judge_one, &dropped, NULL);
    for (uint64_t waited = 0; waited < look_ms; waited += 50) {
        sleep_ms(50);
        ring_drain(fixture->ring, ring_position(fixture->ring), judge_one, program, &counts);
        assert_int_equal(counts.malformed, 0);
    }
}

static void setup_python(struct fixture *fixture)
{
    setup_with(fixture, &(struct sampler_settings){.frequency_hz = FREQUENCY,
                                                   .ring_size_bytes = RING_SIZE,
                                                   .unwind_bytes = UNWIND_ROOM,
                                                   .ticks_timed = true});
}

/* False: not a version that is read. */
static bool program_look(struct program *program, const char *python, const char *script,
                         ring_record_fn judge_one)
{
    struct fixture fixture = {0};
    enum runtime_refusal why;
    setup_python(&fixture);
    arena_init(&program->arena, ARENA);
    program->sampled.runtime.reader = &reader;
    program_start(&program->sampled.runtime, python, script);
    program_await(&program->sampled.runtime);
    sleep_ms(300);
    int error = program_attach(&program->sampled, fixture.sampler, &why);
    assert_true(!error || error == -ENOENT);
    while (!error && program->rounds_left-- > 0 && program->in_task <= program->tasks_wanted)
        program_observe(program, &fixture, judge_one);
    program_stop(&program->sampled);
    arena_close(&program->arena);
    teardown(&fixture);
    return !error;
}

static void check_running(const char *python)
{
    struct program program = {.rounds_left = 1};
    if (!program_look(&program, python, SCRIPTS "busy.py", judge_running))
        return;
    print_message("%s: %zu samples, %zu to the stack's end, %zu with a list, %zu whole, %zu "
                  "appended, %zu named, %zu right, %zu released, %zu in C\n",
                  python, program.n, program.ended, program.listed, program.whole, program.appended,
                  program.named, program.right, program.released, program.native_leaf);
    assert_true(program.n > 100);
    assert_true(program.ended * 1000 >= program.n * 995);
    assert_true(program.listed * 1000 >= program.n * 995);
    /* A generator that is about to be left, or entered, has no caller for an instruction or two. */
    assert_true(program.whole * 1000 >= program.listed * 995);
    /* 3.11 enters a _PyCFrame in the thread's state some instructions before it fills it in: what
     * earlier calls have left there may look like a list. */
    assert_true(program.named * 100 >= program.listed * 99);
    assert_int_equal(program.right, program.named);
    assert_true(program.appended * 200 <= program.n);
    assert_true(program.native_leaf * 10 > program.n);
}

static void check_churning(const char *python)
{
    struct program program = {.rounds_left = 1};
    if (!program_look(&program, python, SCRIPTS "churning.py", judge_churning))
        return;
    print_message("%s: %zu samples, %zu named, %zu with a frame that was gone, %zu wrong\n", python,
                  program.n, program.named, program.stale, program.wrong);
    assert_true(program.named > 10);
    assert_int_equal(program.wrong, 0);
}

/* Before 3.14 no version tells tasks. */
static void check_tasks(const char *python)
{
    const bool has_tasks = strstr(python, "3.14");
    struct program program = {.rounds_left = has_tasks ? PATIENCE : 0,
                              .tasks_wanted = look_ms / 20};
    if (!program_look(&program, python, SCRIPTS "tasks.py", judge_tasks))
        return;
    assert_int_equal(program.sampled.runtime.entry.python_tasks.thread_task != 0, has_tasks);
    if (!has_tasks)
        return;
    print_message("%s: %zu samples in tasks, %zu of them without a name, %zu in none, %zu in what "
                  "is none, %zu wrong\n",
                  python, program.in_task, program.nameless, program.in_none, program.in_other,
                  program.wrong);
    assert_int_equal(program.wrong, 0);
    assert_true(program.in_task >= program.tasks_wanted);
    assert_true(program.in_none && program.in_other);
    assert_true(program.nameless * 100 <= program.in_task);
}

static void running(void **state)
{
    (void)state;
    each_python(check_running);
}

static void churning(void **state)
{
    (void)state;
    each_python(check_churning);
}

static void tasks(void **state)
{
    (void)state;
    each_python(check_tasks);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(running), cmocka_unit_test(churning),
                                       cmocka_unit_test(tasks)};
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (argc > 1)
        look_ms = strtoull(argv[1], NULL, 10) * 1000;
    pythons = argv + 2;
    n_pythons = argc > 2 ? argc - 2 : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
