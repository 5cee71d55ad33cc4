/* SPDX-License-Identifier: Apache-2.0 */
/* What the symbolizer tells of real programs: their runtime, and how far they publish. */
#include "base/clock.h"
#include "base/stats.h"
#include "context/context_layout.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/symbolizer_rig.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

#define RUBY RUNTIMES_FOLDER "/libruntime_lib_ruby.so"

static struct rig rig;
static pid_t looked_at;
static enum runtime expected_runtime;
static enum publisher_state expected_state;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* As sampled; returns when it has execed. */
static pid_t start(char *const command[], char *const environment[])
{
    int done[2];
    char byte;
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execve(command[0], command, environment);
        _exit(1);
    }
    close(done[1]);
    assert_int_equal(read(done[0], &byte, 1), 0);
    close(done[0]);
    return pid;
}

static pid_t start_python(char *const environment[])
{
    char *command[] = {"/usr/bin/python3", "-c", "import time; time.sleep(1000)", NULL};
    return start(command, environment);
}

static bool is_as_expected(struct rig *with)
{
    struct process_details details;
    return !process_table_details(with->table, (uint32_t)looked_at, clock_monotonic_ns(),
                                  &details) &&
           details.runtime == expected_runtime && details.publisher == expected_state;
}

static void assert_told(enum runtime runtime, enum publisher_state state)
{
    expected_runtime = runtime;
    expected_state = state;
    struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = (uint32_t)looked_at, .time_ns = clock_monotonic_ns()};
    process_table_apply(rig.table, &exec);
    process_table_sampled(rig.table, (uint32_t)looked_at, 1, clock_monotonic_ns());
    if (!rig_until(&rig, is_as_expected, 30000))
        fail_msg("it was not told that it is %s, %s", runtime_row(runtime)->id,
                 publisher_state_names[state]);
    fixture_kill(looked_at);
}

/* The schema of thread contexts is published, and no file has the variable. */
static void publish(void *context)
{
    static uint8_t payload[1024];
    size_t size = fixture_payload(payload, sizeof(payload), OTEL_THREAD_SCHEMA_DEV);
    (void)context;
    if (!fixture_publish(payload, size))
        _exit(1);
}

static void native(void **state)
{
    (void)state;
    looked_at = fixture_child(publish, NULL);
    assert_told(RUNTIME_NATIVE, PUBLISHER_UNREADABLE);
}

static bool has_mapped(pid_t pid, const char *file)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, file) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* The program, which has loaded the library. */
static pid_t start_with_ruby(char *program)
{
    char *command[] = {program, RUBY, NULL}, *nothing[] = {NULL};
    pid_t pid = start(command, nothing);
    for (int i = 0; !has_mapped(pid, RUBY); i++) {
        assert_true(i < 10000);
        usleep(1000);
    }
    return pid;
}

/* The executable counts, and if that is nothing, the library. */
static void executable_before_library(void **state)
{
    (void)state;
    looked_at = start_with_ruby(RUNTIMES_FOLDER "/runtime_rust_paths");
    assert_told(RUNTIME_RUST, PUBLISHER_NONE);
    looked_at = start_with_ruby(RUNTIMES_FOLDER "/runtime_no_rust");
    assert_told(RUNTIME_RUBY, PUBLISHER_NONE);
}

static void python(void **state)
{
    char *plain[] = {"PATH=/bin", NULL};
    char *off[] = {"SPANPROF_CONTEXT=off", "PYTHONPATH=/nonexistent/publishers/python", NULL};
    char *started[] = {"PYTHONPATH=/nonexistent/publishers/python", NULL};
    char *of_java[] = {"OTEL_JAVAAGENT_EXTENSIONS=/nonexistent/publishers/java/x.jar", NULL};
    (void)state;
    if (access("/usr/bin/python3", X_OK))
        skip_because("there is no /usr/bin/python3");
    looked_at = start_python(plain);
    assert_told(RUNTIME_PYTHON, PUBLISHER_NONE);
    looked_at = start_python(off);
    assert_told(RUNTIME_PYTHON, PUBLISHER_OFF);
    looked_at = start_python(started);
    assert_told(RUNTIME_PYTHON, PUBLISHER_STARTED);
    looked_at = start_python(of_java);
    assert_told(RUNTIME_PYTHON, PUBLISHER_NONE);
}

int main(void)
{
    if (stats_share()) /* what the symbolizer counts */
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(native, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(executable_before_library, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(python, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
