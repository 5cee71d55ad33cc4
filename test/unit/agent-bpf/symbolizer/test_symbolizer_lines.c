/* SPDX-License-Identifier: Apache-2.0 */
/* A real symbolizer names what was inlined in a process; where that is much, in several answers. */
#include "agent-bpf/files/elf_symtab.h"
#include "base/clock.h"
#include "test/support/rigs/symbolizer_rig.h"
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PROGRAM     LINES_PROGRAMS "/gcc5"
#define N_ADDRESSES 3

static struct rig rig;
static pid_t program;

static struct {
    unsigned n_more;
    unsigned n_last;
    size_t names[N_ADDRESSES]; /* of each address, in order */
    char innermost[N_ADDRESSES][32];
    uint32_t line[N_ADDRESSES];
} heard;

static uint64_t offsets[N_ADDRESSES];

static void hear_name(const struct symbolizer_name *name)
{
    for (size_t i = 0; i < N_ADDRESSES; i++) {
        if (name->address != offsets[i])
            continue;
        if (!heard.names[i]++) {
            snprintf(heard.innermost[i], sizeof(heard.innermost[i]), "%.*s",
                     (int)name->function.len, (const char *)name->function.data);
            heard.line[i] = name->line;
        }
    }
}

static void hear(struct rig *with, const struct symbolizer_message *message)
{
    (void)with;
    if (message->kind != SYMBOLIZER_NAMES)
        return;
    heard.n_more += message->names.more;
    heard.n_last += !message->names.more;
    for (uint32_t i = 0; i < message->names.n; i++)
        hear_name(&message->names.names[i]);
}

static uint64_t vaddr_of(const char *symbol)
{
    struct elf elf;
    struct elf_symbol found;
    int fd = open(PROGRAM, O_RDONLY | O_CLOEXEC);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(elf_symtab_find(&elf, symbol, STT_NOTYPE, &found), 0);
    close(fd);
    return found.symbol.st_value;
}

static uint64_t base_of_program(void)
{
    char path[64], line[512];
    uint64_t base = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", program);
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    while (!base && fgets(line, sizeof(line), maps))
        if (strstr(line, PROGRAM))
            base = strtoull(line, NULL, 16);
    fclose(maps);
    return base;
}

static void start_program(void)
{
    program = fork();
    assert_true(program >= 0);
    if (!program) {
        execl(PROGRAM, PROGRAM, "60", NULL);
        _exit(1);
    }
    for (int i = 0; i < 500 && !base_of_program(); i++)
        usleep(10000);
}

/* At lines_deep_marker, and before it, are 36 functions, of which 32 are told; a message holds 40
 * names. */
static void in_parts(void **state)
{
    struct process_place place;
    uint8_t identity[16];
    (void)state;
    uint64_t deep = vaddr_of("lines_deep_marker"), base = base_of_program();
    const uint64_t at[N_ADDRESSES] = {deep, deep - 1, vaddr_of("lines_marker")};
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    for (size_t i = 0; i < N_ADDRESSES; i++) {
        assert_int_equal(process_table_resolve(rig.table, (uint32_t)program, clock_monotonic_ns(),
                                               base + at[i], &place),
                         0);
        offsets[i] = place.file_offset;
    }
    memcpy(identity, place.identity, sizeof(identity));
    assert_int_equal(process_table_want_names(rig.table, 0, identity, offsets, N_ADDRESSES), 0);
    assert_true(rig_wait(&rig, SYMBOLIZER_NAMES, 2, 20000));
    assert_int_equal(heard.n_more, 1);
    assert_int_equal(heard.n_last, 1);
    assert_int_equal(heard.names[0], 32);
    assert_string_equal(heard.innermost[0], "deep4"); /* the others had no room */
    assert_int_equal(heard.line[0], 504);
    assert_int_equal(heard.names[2], 3);
    assert_string_equal(heard.innermost[2], "innermost");
    assert_int_equal(heard.line[2], 103);
    rig_stop(&rig);
    rig_start(&rig); /* what was not answered would be asked again */
    assert_false(rig_wait(&rig, SYMBOLIZER_NAMES, 3, 500));
}

static int set_up(void **state)
{
    (void)state;
    rig.contexts_map_fd = -1;
    start_program();
    rig_open(&rig);
    rig.answered = hear;
    rig_start(&rig);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kill(program, SIGKILL);
    waitpid(program, NULL, 0);
    rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_parts)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
