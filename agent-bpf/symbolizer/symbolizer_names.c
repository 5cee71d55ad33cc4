/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers about executables and names. Each request is answered, even if nothing was found, because
 * the service repeats unanswered requests. Names of inlined functions may need several datagrams;
 * all but the last have `more` set.
 */
#include "agent-bpf/symbolizer/symbolizer_state.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "base/stats.h"
#include <assert.h>
#include <string.h>

STAT_LOSS(lines_late, "spanprof_lines_late_total",
          "Answers in which source lines may be missing, because the search took too long.");

#define KALLSYMS_KEEP_NS (60 * NS_PER_SEC)
#define LINES_NS         (500 * NS_PER_MS) /* for one request: a tenth of the heartbeat timeout */

static struct binary *binary_seen_by(struct symbolizer *symbolizer, uint32_t pid,
                                     const struct symbolizer_executable_ref *ref)
{
    if (symbolizer_skips(symbolizer, pid))
        return NULL;
    symbolizer_enter(symbolizer, pid);
    struct binary *binary = binaries_get(&symbolizer->binaries, ref->identity,
                                         symbolizer_user(symbolizer, pid, true), &ref->mapping);
    symbolizer_leave(symbolizer);
    return binary;
}

struct binary *symbolizer_binary(struct symbolizer *symbolizer,
                                 const struct symbolizer_executable_ref *ref)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct binary *binary = binary_seen_by(symbolizer, ref->pid, ref);
    for (int i = 0; i < SYMBOLIZER_ANCESTORS_MAX && ref->ancestors[i]; i++)
        if (!binary || binary->fd < 0)
            binary = binary_seen_by(symbolizer, ref->ancestors[i], ref);
    return binary;
}

void symbolizer_answer_executable(struct symbolizer *symbolizer,
                                  const struct symbolizer_executable_ref *ref)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct symbolizer_message message = {.kind = SYMBOLIZER_EXECUTABLE};
    struct symbolizer_executable *executable = &message.executable;
    memcpy(executable->identity, ref->identity, sizeof(executable->identity));
    struct binary *binary = symbolizer_binary(symbolizer, ref);
    if (symbolizer_repeats(symbolizer))
        return;
    if (binary && binary_hash(binary)) {
        executable->found = 1;
        memcpy(executable->htlhash, binary->htlhash, sizeof(executable->htlhash));
        executable->build_id = BYTES(binary->ids.gnu, binary->ids.gnu_len);
        executable->go_build_id = BYTES(binary->ids.go, binary->ids.go_len);
        executable->n_segments = binary->n_segments;
        memcpy(executable->segments, binary->segments, sizeof(binary->segments));
    }
    symbolizer_send(&symbolizer->out, &message);
}

_Static_assert(SYMBOLIZER_NAMES_MAX *(3 * SYMBOLIZER_NAME_BYTES + 24) + 21 <=
                   SYMBOLIZER_MESSAGE_MAX,
               "an answer of names fits one datagram whatever the names");
_Static_assert(FUNCTION_NAME_MAX <= SYMBOLIZER_NAME_BYTES + 1, "each text fits the message");

struct names_answer {
    uint32_t n;
    struct function_name found[SYMBOLIZER_NAMES_MAX];
    struct symbolizer_name names[SYMBOLIZER_NAMES_MAX];
};

/* found: NULL = the address has no name. */
static void names_answer_add(struct names_answer *answer, uint64_t address,
                             const struct function_name *found)
{
    assert(answer->n < SYMBOLIZER_NAMES_MAX);
    struct function_name *own = &answer->found[answer->n];
    struct symbolizer_name *name = &answer->names[answer->n++];
    *name = (struct symbolizer_name){.address = address};
    if (!found)
        return;
    *own = *found;
    name->function = BYTES_STR(own->function);
    name->system_name = BYTES_STR(own->system_name);
    name->file = BYTES_STR(own->file);
    name->line = own->line;
}

static void names_answer_send(struct symbolizer *symbolizer, enum symbolizer_kind kind,
                              const struct symbolizer_names_wanted *wanted,
                              struct names_answer *answer, bool more)
{
    struct symbolizer_message message = {
        .kind = kind, .names = {.more = more, .n = answer->n, .names = answer->names}};
    memcpy(message.names.identity, wanted->executable.identity, sizeof(message.names.identity));
    symbolizer_send(&symbolizer->out, &message);
    answer->n = 0;
}

_Static_assert(FUNCTION_NAMES_AT_MAX <= SYMBOLIZER_NAMES_MAX, "those of one address fit an answer");

void symbolizer_answer_names(struct symbolizer *symbolizer,
                             const struct symbolizer_names_wanted *wanted)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct names_answer answer = {.n = 0};
    struct function_name found[FUNCTION_NAMES_AT_MAX];
    uint64_t deadline_ns = clock_monotonic_ns() + LINES_NS;
    struct binary *binary = symbolizer_binary(symbolizer, &wanted->executable);
    symbolizer_enter(symbolizer, wanted->executable.pid);
    struct function_names *names =
        binary ? binaries_names(&symbolizer->binaries, binary,
                                symbolizer_user(symbolizer, wanted->executable.pid, true))
               : NULL;
    for (uint32_t i = 0; i < wanted->n; i++) {
        uint64_t vaddr;
        size_t n = names && binary_address(binary, wanted->addresses[i], &vaddr)
                       ? function_names_all(names, vaddr, deadline_ns, found)
                       : 0;
        if (answer.n + (n ? n : 1) > SYMBOLIZER_NAMES_MAX)
            names_answer_send(symbolizer, SYMBOLIZER_NAMES, wanted, &answer, true);
        for (size_t j = 0; j < n; j++)
            names_answer_add(&answer, wanted->addresses[i], &found[j]);
        if (!n)
            names_answer_add(&answer, wanted->addresses[i], NULL);
    }
    if (names)
        binaries_update_size(&symbolizer->binaries, binary);
    stat_add(&lines_late, names && clock_monotonic_ns() > deadline_ns);
    symbolizer_leave(symbolizer);
    if (!symbolizer_repeats(symbolizer))
        names_answer_send(symbolizer, SYMBOLIZER_NAMES, wanted, &answer, false);
}

static const struct kallsyms *symbolizer_kallsyms(struct symbolizer *symbolizer)
{
    int fd = symbolizer->settings.kallsyms_fd;
    if (!symbolizer->kallsyms && kallsyms_read(fd, &symbolizer->kallsyms))
        symbolizer->kallsyms = NULL;
    symbolizer->kallsyms_used_ns = clock_monotonic_ns();
    return symbolizer->kallsyms;
}

void symbolizer_answer_kernel_names(struct symbolizer *symbolizer,
                                    const struct symbolizer_names_wanted *wanted)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct names_answer answer = {.n = 0};
    const struct kallsyms *kallsyms = symbolizer_kallsyms(symbolizer);
    for (uint32_t i = 0; i < wanted->n; i++) {
        struct function_name found = {.line = 0};
        const char *function =
            kallsyms ? kallsyms_find(kallsyms, symbolizer->text_start + wanted->addresses[i])
                     : NULL;
        if (function)
            bytes_sanitize(BYTES_STR(function), found.function, sizeof(found.function));
        names_answer_add(&answer, wanted->addresses[i], function ? &found : NULL);
    }
    names_answer_send(symbolizer, SYMBOLIZER_KERNEL_NAMES, wanted, &answer, false);
}

void symbolizer_send_kernel(struct symbolizer *symbolizer)
{
    LOOP_THREAD(symbolizer->settings.loop);
    uint8_t build_id[20];
    symbolizer->text.limit_bytes = 8192;
    size_t len = reader_proc_text(0, READER_KERNEL_NOTES, &symbolizer->text)
                     ? 0
                     : kallsyms_build_id(buf_bytes(&symbolizer->text), build_id);
    const struct kallsyms *kallsyms = symbolizer_kallsyms(symbolizer);
    struct symbolizer_message message = {.kind = SYMBOLIZER_KERNEL,
                                         .kernel = {.build_id = BYTES(build_id, len)}};
    if (kallsyms) {
        message.kernel.text_start = kallsyms_text_start(kallsyms);
        message.kernel.text_end = kallsyms_text_end(kallsyms);
    }
    symbolizer->text_start = message.kernel.text_start;
    symbolizer_send(&symbolizer->out, &message);
}

void symbolizer_unload_kernel(struct symbolizer *symbolizer, uint64_t now_ns)
{
    LOOP_THREAD(symbolizer->settings.loop);
    if (!symbolizer->kallsyms || now_ns - symbolizer->kallsyms_used_ns < KALLSYMS_KEEP_NS)
        return;
    kallsyms_close(symbolizer->kallsyms);
    symbolizer->kallsyms = NULL;
}
