/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the symbolizer enters into the sampler's map must lead to the variable that the process
 * uses: here children compute the place of their own otel_thread_ctx_v1 and compare. In the
 * executable, in a library loaded at start or later; entered, withdrawn, and not entered for what
 * is gone.
 */
#include "agent-bpf/record.h"
#include "context/spanprof_context.h"
#include "test/bpf/bpf_test.h"
#include "test/support/rigs/symbolizer_rig.h"
#include "test/support/fixtures/context_fixture.h"
#include <bpf/bpf.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern _Thread_local void *otel_thread_ctx_v1;

struct expected {      /* shared with the child */
    uint64_t variable; /* address of the variable in the child's main thread */
    uint64_t thread_pointer;
    volatile int go;
    volatile int done;
};

static struct rig rig;
static struct expected *expected;
static pid_t child;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    rig.contexts_map_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "contexts", sizeof(__u32),
                                         sizeof(struct context_process), 64, NULL);
    assert_true(rig.contexts_map_fd >= 0);
    expected = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(expected != MAP_FAILED);
    memset(expected, 0, sizeof(*expected));
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    if (child)
        fixture_kill(child);
    child = 0;
    close(rig.contexts_map_fd);
    rig_close(&rig);
    munmap(expected, 4096);
    return 0;
}

static bool entry_of(struct context_process *entry)
{
    __u32 pid = (__u32)child;
    return !bpf_map_lookup_elem(rig.contexts_map_fd, &pid, entry);
}

static bool entered(struct rig *with)
{
    (void)with;
    struct context_process entry;
    return entry_of(&entry) && entry.count > 0;
}

static bool not_entered(struct rig *with)
{
    return !entered(with);
}

static bool entered_and_told(struct rig *with)
{
    struct process_details details;
    return entered(with) &&
           !process_table_details(with->table, (uint32_t)child, clock_monotonic_ns(), &details) &&
           details.publishes;
}

static uint64_t word(uint64_t address)
{
    uint64_t value = 0;
    FILE *memory;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", child);
    memory = fopen(path, "re");
    assert_non_null(memory);
    setvbuf(memory, NULL, _IONBF, 0);
    assert_int_equal(fseek(memory, (long)address, SEEK_SET), 0);
    assert_int_equal(fread(&value, 8, 1, memory), 1);
    fclose(memory);
    return value;
}

/* As the sampler does it. */
static uint64_t address_by(const struct context_variable *variable)
{
    if (variable->thread_local_model == THREAD_LOCAL_STATIC)
        return expected->thread_pointer + (uint64_t)variable->offset;
    uint64_t dtv = word(expected->thread_pointer + (uint64_t)variable->dtv_offset);
    return word(dtv + variable->module * variable->dtv_entry_size) + (uint64_t)variable->offset;
}

static void expect_right(void)
{
    struct context_process entry;
    assert_true(entry_of(&entry));
    assert_int_equal(entry.count, 1);
    assert_int_equal(entry.variables[0].source, CONTEXT_OTEL_THREAD);
    assert_int_equal(address_by(&entry.variables[0]), expected->variable);
    assert_true(entry.process_start_ns != 0);
    assert_int_equal(entry.process_start_ns % CONTEXT_START_TICK_NS, 0);
    struct process_details details;
    assert_int_equal(
        process_table_details(rig.table, (uint32_t)child, clock_monotonic_ns(), &details), 0);
    assert_int_equal(details.publishes, CONTEXT_BIT(CONTEXT_OTEL_THREAD));
    assert_true(details.sets_trace_flags); /* our own library does */
}

static const struct spanprof_attribute attributes[] = {{"service.name", "shop"}};

static void note_place(void *variable)
{
    expected->variable = (uintptr_t)variable;
    expected->thread_pointer = (uintptr_t)__builtin_thread_pointer();
}

static void publish_in_executable(void *context)
{
    (void)context;
    note_place(&otel_thread_ctx_v1);
    if (spanprof_context_publish(attributes, 1))
        _exit(1);
}

static void in_the_executable(void **state)
{
    (void)state;
    child = fixture_child(publish_in_executable, NULL);
    rig_start(&rig);
    assert_true(rig_until(&rig, entered_and_told, 20000));
    expect_right();
}

static bool said_executable(struct rig *with)
{
    return with->context != NULL;
}

static void note_executable(struct rig *with, const struct symbolizer_message *message)
{
    if (message->kind == SYMBOLIZER_EXECUTABLE && message->executable.found)
        with->context = with;
}

/* As the supervisor starts it: another account, and no more capabilities than these. */
static void with_few_rights(void **state)
{
    (void)state;
    struct privileges rights = {.uid = 65534,
                                .gid = 65534,
                                .keep = PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH) |
                                        PRIVILEGE(CAP_CHECKPOINT_RESTORE)};
    rig.rights = &rights;
    rig.answered = note_executable;
    child = fixture_child(publish_in_executable, NULL);
    rig_start(&rig);
    assert_true(rig_until(&rig, entered_and_told, 20000));
    expect_right();
    assert_true(rig_until(&rig, said_executable, 20000));
    struct process_kernel kernel;
    assert_int_equal(process_table_kernel(rig.table, &kernel), 0);
    assert_true(kernel.text_start != 0);
}

static void exec_plugin_host(void *context)
{
    /* Another program, without a definition of its own. */
    char memory[32], *path = context;
    snprintf(memory, sizeof(memory), "%d", *(int *)(void *)(path + 256));
    execl(CONTEXT_HOST, CONTEXT_HOST, path, memory, NULL);
    _exit(1);
}

static void start_host(const char *library)
{
    int fd = memfd_create("expected", 0); /* inherited */
    assert_int_equal(ftruncate(fd, 4096), 0);
    munmap(expected, 4096);
    expected = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct {
        char path[256];
        int fd;
    } argument = {.fd = fd};
    snprintf(argument.path, sizeof(argument.path), "%s", library);
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_plugin_host(&argument);
    }
    close(fd);
    assert_true(WAIT_FOR(expected->done == 1, 5000));
}

static bool known(struct rig *with)
{
    struct process_details details;
    return !process_table_details(with->table, (uint32_t)child, clock_monotonic_ns(), &details);
}

static void in_a_library_loaded_later(void **state)
{
    (void)state;
    const char *libraries[] = {CONTEXT_USER_A, CONTEXT_USER_SHARED, CONTEXT_USER_DYNAMIC};
    for (int i = 0; i < 3; i++) {
        start_host(libraries[i]);
        if (!rig.symbolizer)
            rig_start(&rig);
        rig_send(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED});
        assert_true(rig_until(&rig, known, 20000));
        assert_true(not_entered(&rig));
        expected->go = 1; /* dlopen() and publish */
        assert_true(WAIT_FOR(expected->done == 2, 5000));
        rig_send(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CONTEXT_WANTED,
                                                    .process = {.pid = (uint32_t)child}});
        assert_true(rig_until(&rig, entered_and_told, 5000));
        expect_right();
        struct context_process entry;
        if (i == 2 && entry_of(&entry))
            assert_int_equal(entry.variables[0].thread_local_model, THREAD_LOCAL_DYNAMIC);
        fixture_kill(child);
        child = 0;
    }
}

static bool details_without_context(struct rig *with)
{
    struct process_details details;
    return !process_table_details(with->table, (uint32_t)child, clock_monotonic_ns(), &details) &&
           !details.publishes;
}

static void withdrawn(void **state)
{
    (void)state;
    start_host(CONTEXT_USER_SHARED);
    expected->go = 1;
    assert_true(WAIT_FOR(expected->done == 2, 5000));
    rig_start(&rig);
    assert_true(rig_until(&rig, entered_and_told, 20000));
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    expected->go = 2;
    assert_true(WAIT_FOR(expected->done == 3, 5000));
    assert_true(rig_until(&rig, not_entered, 5000)); /* by polling */
    assert_true(rig_until(&rig, details_without_context, 5000));
    expected->go = 3; /* and again, at another time */
    assert_true(WAIT_FOR(expected->done == 4, 5000));
    rig_send(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CONTEXT_WANTED,
                                                .process = {.pid = (uint32_t)child}});
    assert_true(rig_until(&rig, entered_and_told, 5000));
}

/* An entry that an earlier symbolizer left, of a process that has no context any more. */
static void stale_entries_go(void **state)
{
    (void)state;
    start_host(CONTEXT_USER_SHARED);
    struct context_process entry = {.count = 1, .variables = {{.source = CONTEXT_OTEL_THREAD}}};
    __u32 pid = (__u32)child;
    assert_int_equal(bpf_map_update_elem(rig.contexts_map_fd, &pid, &entry, BPF_ANY), 0);
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    assert_true(not_entered(&rig));
}

int main(void)
{
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
#define R(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        R(in_the_executable), R(with_few_rights),  R(in_a_library_loaded_later),
        R(withdrawn),         R(stale_entries_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
