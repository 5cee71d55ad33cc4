/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers about executables and names. Each request gets exactly one answer, also when nothing
 * could be found: the service repeats what stays unanswered.
 */
#include "agent-bpf/analyst_parts.h"
#include "agent-bpf/analyst_stats.h"
#include "agent-bpf/kallsyms.h"
#include <errno.h>
#include <string.h>

#define KALLSYMS_KEEP_NS (60 * NS_PER_SEC)

struct binary *analyst_binary(struct analyst *analyst, const struct analyst_executable_ref *ref)
{
    if (analyst_is_banned(analyst, ref->pid)) {
        analyst_count(COUNT_BANNED, 1);
        return NULL;
    }
    analyst_ledger_enter(analyst->settings.ledger, ref->pid);
    struct binary *binary =
        binaries_get(&analyst->binaries, ref->identity, ref->pid, &ref->mapping);
    analyst_ledger_leave(analyst->settings.ledger);
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
    struct function_name found[ANALYST_NAMES_MAX];
    struct analyst_name names[ANALYST_NAMES_MAX];
};

static void fill(struct names_answer *answer, uint32_t i, uint64_t address, bool named)
{
    const struct function_name *found = &answer->found[i];
    answer->names[i] = (struct analyst_name){.address = address};
    if (named)
        answer->names[i] = (struct analyst_name){.address = address,
                                                 .function = BYTES_STR(found->function),
                                                 .system_name = BYTES_STR(found->system_name),
                                                 .file = BYTES_STR(found->file),
                                                 .line = found->line};
}

static void say_names(struct analyst *analyst, enum analyst_kind kind,
                      const struct analyst_names_wanted *wanted, struct names_answer *answer)
{
    struct analyst_message message = {.kind = kind,
                                      .names = {.n = wanted->n, .names = answer->names}};
    memcpy(message.names.identity, wanted->executable.identity, sizeof(message.names.identity));
    analyst_say(analyst, &message);
}

void analyst_answer_names(struct analyst *analyst, const struct analyst_names_wanted *wanted)
{
    struct names_answer answer;
    struct binary *binary = analyst_binary(analyst, &wanted->executable);
    analyst_ledger_enter(analyst->settings.ledger, wanted->executable.pid);
    const struct function_names *names =
        binary ? binaries_names(&analyst->binaries, binary, wanted->executable.pid) : NULL;
    for (uint32_t i = 0; i < wanted->n; i++) {
        uint64_t vaddr;
        bool named = names && binary_address(binary, wanted->addresses[i], &vaddr) &&
                     !function_names_find(names, vaddr, &answer.found[i]);
        fill(&answer, i, wanted->addresses[i], named);
    }
    analyst_ledger_leave(analyst->settings.ledger);
    say_names(analyst, ANALYST_NAMES, wanted, &answer);
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
    struct names_answer answer;
    const struct kallsyms *kallsyms = kallsyms_of(analyst);
    for (uint32_t i = 0; i < wanted->n; i++) {
        struct function_name *found = &answer.found[i];
        const char *function =
            kallsyms ? kallsyms_find(kallsyms, analyst->text_start + wanted->addresses[i]) : NULL;
        memset(found, 0, sizeof(*found));
        if (function)
            bytes_sanitize(BYTES_STR(function), found->function, sizeof(found->function));
        fill(&answer, i, wanted->addresses[i], function);
    }
    say_names(analyst, ANALYST_KERNEL_NAMES, wanted, &answer);
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
