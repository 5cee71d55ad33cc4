/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers about executables and names. Each request gets exactly one answer, also when nothing
 * could be found: the service repeats what stays unanswered. Names of inlined functions may need
 * more than one datagram, of which all but the last say so.
 */
#include "agent-bpf/analyst/analyst_parts.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "base/stats.h"
#include <errno.h>
#include <string.h>

STAT_LOSS(lines_late, "spanprof_lines_late_total", "",
          "Answers of names in which lines may be missing, because looking took too long.");

#define KALLSYMS_KEEP_NS (60 * NS_PER_SEC)
#define LINES_NS         (500 * NS_PER_MS) /* for those of one request: a tenth of the silence allowed */

static struct binary *seen_by(struct analyst *analyst, uint32_t pid,
                              const struct analyst_executable_ref *ref)
{
    if (analyst_skips(analyst, pid))
        return NULL;
    analyst_ledger_enter(analyst->settings.ledger, pid);
    struct binary *binary = binaries_get(&analyst->binaries, ref->identity, pid, &ref->mapping);
    analyst_ledger_leave(analyst->settings.ledger);
    return binary;
}

struct binary *analyst_binary(struct analyst *analyst, const struct analyst_executable_ref *ref)
{
    struct binary *binary = seen_by(analyst, ref->pid, ref);
    for (int i = 0; i < ANALYST_ANCESTORS_MAX && ref->ancestors[i]; i++)
        if (!binary || binary->fd < 0)
            binary = seen_by(analyst, ref->ancestors[i], ref);
    return binary;
}

void analyst_answer_executable(struct analyst *analyst, const struct analyst_executable_ref *ref)
{
    struct analyst_message message = {.kind = ANALYST_EXECUTABLE};
    struct analyst_executable *executable = &message.executable;
    memcpy(executable->identity, ref->identity, sizeof(executable->identity));
    const struct binary *binary = analyst_binary(analyst, ref);
    if (binary) {
        executable->found = 1;
        memcpy(executable->htlhash, binary->htlhash, sizeof(executable->htlhash));
        executable->build_id = BYTES(binary->ids.gnu, binary->ids.gnu_len);
        executable->go_build_id = BYTES(binary->ids.go, binary->ids.go_len);
        executable->n_segments = binary->n_segments;
        memcpy(executable->segments, binary->segments, sizeof(binary->segments));
    }
    analyst_say(analyst, &message);
}

_Static_assert(ANALYST_NAMES_MAX *(3 * ANALYST_NAME_BYTES + 24) + 21 <= ANALYST_MESSAGE_MAX,
               "an answer of names fits one datagram whatever the names");
_Static_assert(FUNCTION_NAME_MAX <= ANALYST_NAME_BYTES + 1, "each text fits the message");

struct names_answer {
    uint32_t n;
    struct function_name found[ANALYST_NAMES_MAX];
    struct analyst_name names[ANALYST_NAMES_MAX];
};

/* found: NULL: it has no name. */
static void add(struct names_answer *answer, uint64_t address, const struct function_name *found)
{
    struct function_name *own = &answer->found[answer->n];
    struct analyst_name *name = &answer->names[answer->n++];
    *name = (struct analyst_name){.address = address};
    if (!found)
        return;
    *own = *found;
    name->function = BYTES_STR(own->function);
    name->system_name = BYTES_STR(own->system_name);
    name->file = BYTES_STR(own->file);
    name->line = own->line;
}

static void say_names(struct analyst *analyst, enum analyst_kind kind,
                      const struct analyst_names_wanted *wanted, struct names_answer *answer,
                      bool more)
{
    struct analyst_message message = {
        .kind = kind, .names = {.more = more, .n = answer->n, .names = answer->names}};
    memcpy(message.names.identity, wanted->executable.identity, sizeof(message.names.identity));
    analyst_say(analyst, &message);
    answer->n = 0;
}

_Static_assert(FUNCTION_NAMES_AT_MAX <= ANALYST_NAMES_MAX, "those of one address fit an answer");

void analyst_answer_names(struct analyst *analyst, const struct analyst_names_wanted *wanted)
{
    struct names_answer answer = {.n = 0};
    struct function_name found[FUNCTION_NAMES_AT_MAX];
    uint64_t deadline_ns = clock_monotonic_ns() + LINES_NS;
    struct binary *binary = analyst_binary(analyst, &wanted->executable);
    analyst_ledger_enter(analyst->settings.ledger, wanted->executable.pid);
    struct function_names *names =
        binary ? binaries_names(&analyst->binaries, binary, wanted->executable.pid) : NULL;
    for (uint32_t i = 0; i < wanted->n; i++) {
        uint64_t vaddr;
        size_t n = names && binary_address(binary, wanted->addresses[i], &vaddr)
                       ? function_names_all(names, vaddr, deadline_ns, found)
                       : 0;
        if (answer.n + (n ? n : 1) > ANALYST_NAMES_MAX)
            say_names(analyst, ANALYST_NAMES, wanted, &answer, true);
        for (size_t j = 0; j < n; j++)
            add(&answer, wanted->addresses[i], &found[j]);
        if (!n)
            add(&answer, wanted->addresses[i], NULL);
    }
    if (names)
        binaries_settle(&analyst->binaries, binary);
    stat_add(&lines_late, names && clock_monotonic_ns() > deadline_ns);
    analyst_ledger_leave(analyst->settings.ledger);
    say_names(analyst, ANALYST_NAMES, wanted, &answer, false);
}

static const struct kallsyms *kallsyms_of(struct analyst *analyst)
{
    if (!analyst->kallsyms && kallsyms_open(NULL, &analyst->kallsyms))
        analyst->kallsyms = NULL;
    analyst->kallsyms_used_ns = clock_monotonic_ns();
    return analyst->kallsyms;
}

void analyst_answer_kernel_names(struct analyst *analyst, const struct analyst_names_wanted *wanted)
{
    struct names_answer answer = {.n = 0};
    const struct kallsyms *kallsyms = kallsyms_of(analyst);
    for (uint32_t i = 0; i < wanted->n; i++) {
        struct function_name found = {.line = 0};
        const char *function =
            kallsyms ? kallsyms_find(kallsyms, analyst->text_start + wanted->addresses[i]) : NULL;
        if (function)
            bytes_sanitize(BYTES_STR(function), found.function, sizeof(found.function));
        add(&answer, wanted->addresses[i], function ? &found : NULL);
    }
    say_names(analyst, ANALYST_KERNEL_NAMES, wanted, &answer, false);
}

void analyst_tell_kernel(struct analyst *analyst)
{
    uint8_t build_id[20];
    size_t len = kallsyms_build_id(NULL, build_id);
    const struct kallsyms *kallsyms = kallsyms_of(analyst);
    struct analyst_message message = {.kind = ANALYST_KERNEL,
                                      .kernel = {.build_id = BYTES(build_id, len)}};
    if (kallsyms) {
        message.kernel.text_start = kallsyms_text_start(kallsyms);
        message.kernel.text_end = kallsyms_text_end(kallsyms);
    }
    analyst->text_start = message.kernel.text_start;
    analyst_say(analyst, &message);
}

void analyst_rest_kernel(struct analyst *analyst, uint64_t now_ns)
{
    if (!analyst->kallsyms || now_ns - analyst->kallsyms_used_ns < KALLSYMS_KEEP_NS)
        return;
    kallsyms_close(analyst->kallsyms);
    analyst->kallsyms = NULL;
}
