/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame of a running Python program is named by the symbolizer as long as the program's entry is
 * in the sampler's map. exec deletes it there: what the process has in its memory then is nobody's
 * business.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/runtime_process.h"
#include "base/clock.h"
#include "test/bpf/bpf_test.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/rigs/symbolizer_rig.h"
#include <bpf/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define PYTHON "/usr/bin/python3"

static struct rig rig;
static pid_t child;
static struct runtime_process entry;
static char told[64];

static void answered(struct rig *with, const struct symbolizer_message *message)
{
    (void)with;
    if (message->kind != SYMBOLIZER_CODE || message->code.n_frames != 1)
        return;
    struct bytes name = message->code.frames[0].lines[0].function;
    snprintf(told, sizeof(told), "%.*s", (int)name.len, (const char *)name.data);
}

/* The address of its function's code object. */
static uint64_t start_python(void)
{
    static char script[] = "import time\n"
                           "def named(): pass\n"
                           "print(id(named.__code__), flush=True)\n"
                           "time.sleep(1000)\n";
    int out[2];
    char line[32] = "";
    assert_int_equal(pipe(out), 0);
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        execl(PYTHON, PYTHON, "-c", script, (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    assert_true(read(out[0], line, sizeof(line) - 1) > 0);
    close(out[0]);
    return strtoull(line, NULL, 10);
}

static uint64_t read_word(uint64_t address)
{
    uint64_t word;
    struct iovec here = {&word, sizeof(word)}, there = {(void *)(uintptr_t)address, sizeof(word)};
    assert_int_equal(process_vm_readv(child, &here, 1, &there, 1, 0), sizeof(word));
    return word;
}

/* As the tick would have it. */
static struct record_frame frame_of(uint64_t code)
{
    const struct python_process *python = &entry.python;
    __u64 words[PYTHON_IDENTITY_WORDS_MAX], hash = 0;
    for (uint32_t i = 0; i < python->identity_words; i++)
        words[i] = read_word(code + python->code_identity + 8 * i);
    if (python->text_hash)
        hash = read_word(words[python->identity_name / 8] + python->text_hash);
    return (struct record_frame){{code | (uint64_t)FRAME_PYTHON << RECORD_FRAME_SHIFT, 0,
                                  python_identity(words, python->identity_words, hash)}};
}

static bool is_entered(struct rig *with)
{
    __u32 pid = (__u32)child;
    return !bpf_map_lookup_elem(with->runtimes_map_fd, &pid, &entry);
}

static void assert_told(struct record_frame frame, const char *name)
{
    unsigned before = rig.answers[SYMBOLIZER_CODE];
    rig_send(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CODE_WANTED,
                                                .code_wanted = {.ticket = before + 1,
                                                                .pid = (uint32_t)child,
                                                                .n = 1,
                                                                .frames = &frame}});
    assert_true(rig_wait(&rig, SYMBOLIZER_CODE, before + 1, 10000));
    assert_string_equal(told, name);
}

static void entry_is_deleted(void **state)
{
    __u32 pid;
    (void)state;
    rig_open(&rig);
    rig.answered = answered;
    rig.runtimes_map_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "runtimes", sizeof(pid),
                                         sizeof(struct runtime_process), 64, NULL);
    assert_true(rig.runtimes_map_fd >= 0);
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    uint64_t code = start_python();
    pid = (__u32)child;
    const struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = pid, .time_ns = clock_monotonic_ns()};
    process_table_apply(rig.table, &exec);
    process_table_sampled(rig.table, pid, 1, clock_monotonic_ns());
    assert_true(rig_until(&rig, is_entered, 30000));
    struct record_frame frame = frame_of(code);
    assert_told(frame, "named");
    assert_int_equal(bpf_map_delete_elem(rig.runtimes_map_fd, &pid), 0);
    assert_told(frame, RECORD_FRAME_UNREADABLE);
    fixture_kill(child);
    close(rig.runtimes_map_fd);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entry_is_deleted)};
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (access(PYTHON, X_OK)) {
        puts("skipped: there is no " PYTHON);
        return BPF_TEST_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
