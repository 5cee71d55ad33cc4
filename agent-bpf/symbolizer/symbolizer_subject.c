/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting subjects stand in one list for each distance. All of a list wait equally long, so each
 * list is in the order of time by itself, and only heads need to be looked at.
 *
 * Every touch of a process is between ledger_enter and ledger_leave (see look() and
 * subject_details()).
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/container.h"
#include "agent-bpf/files/proc_pid.h"
#include <errno.h>
#include <stdlib.h>

static void wait_for(struct symbolizer *symbolizer, struct subject *subject, uint64_t now_ns,
                     uint8_t distance)
{
    subject->distance = distance < SYMBOLIZER_DISTANCES ? distance : SYMBOLIZER_DISTANCES - 1;
    subject->due_ns = now_ns + (SYMBOLIZER_POLL_NS << subject->distance);
    list_remove(&subject->waiting);
    list_append(&symbolizer->waiting[subject->distance], &subject->waiting);
}

struct subject *subject_get(struct symbolizer *symbolizer, uint32_t pid)
{
    struct subject *subject = map_get(&symbolizer->subjects, &pid);
    if (subject)
        return subject;
    if (symbolizer->subjects.count >= SYMBOLIZER_SUBJECTS_MAX) {
        symbolizer_count_full(SYMBOLIZER_LIMIT_PROCESSES);
        return NULL;
    }
    subject = calloc(1, sizeof(*subject));
    if (!subject)
        return NULL;
    subject->pid = pid;
    if (map_put(&symbolizer->subjects, subject, NULL)) {
        free(subject);
        return NULL;
    }
    return subject;
}

static void free_subject(struct symbolizer *symbolizer, struct subject *subject)
{
    attach_forget(subject);
    resource_forget(symbolizer, subject);
    free(subject->elastic);
    free(subject);
}

static void remove_subject(struct symbolizer *symbolizer, struct subject *subject)
{
    uint32_t pid = subject->pid;
    map_remove(&symbolizer->subjects, &pid);
    list_remove(&subject->waiting);
    free_subject(symbolizer, subject);
}

void subject_forget(struct symbolizer *symbolizer, uint32_t pid)
{
    struct subject *subject = map_get(&symbolizer->subjects, &pid);
    if (subject)
        remove_subject(symbolizer, subject);
}

void subjects_close(struct symbolizer *symbolizer)
{
    struct subject *subject;
    for (size_t i = 0; (subject = map_next(&symbolizer->subjects, &i));)
        free_subject(symbolizer, subject);
    map_close(&symbolizer->subjects);
}

static bool is_gone(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

static void say_gone(struct symbolizer *symbolizer, struct subject *subject, uint64_t time_ns)
{
    symbolizer_say(symbolizer, &(struct symbolizer_message){
                                   .kind = SYMBOLIZER_GONE,
                                   .process = {.pid = subject->pid, .time_ns = time_ns}});
    remove_subject(symbolizer, subject);
}

struct detail_texts {
    char exe[SYMBOLIZER_PATH_MAX];
    struct container container;
};

static int read_details(struct symbolizer *symbolizer, struct symbolizer_details *details,
                        struct detail_texts *texts)
{
    size_t exe_len = 0;
    int error = proc_pid_start_ns(details->pid, &details->start_ns);
    error = error ? error : proc_pid_own(details->pid, &details->own_pid);
    if (error)
        return error;
    if (!proc_pid_link(details->pid, "exe", texts->exe, sizeof(texts->exe),
                       &exe_len)) /* kernel threads: none */
        details->exe = BYTES(texts->exe, exe_len);
    symbolizer->text.limit_bytes = 64 * 1024;
    if (proc_pid_read(details->pid, "cgroup", &symbolizer->text))
        return 0;
    container_from_cgroup(buf_bytes(&symbolizer->text), &texts->container);
    details->container_id = texts->container.id;
    details->pod_uid = BYTES_STR(texts->container.pod_uid);
    return 0;
}

void subject_details(struct symbolizer *symbolizer, struct subject *subject)
{
    struct detail_texts texts;
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_DETAILS,
        .details = {.pid = subject->pid, .time_ns = clock_monotonic_ns()},
    };
    int error = read_details(symbolizer, &message.details, &texts);
    if (error)
        return;
    subject->start_ns = message.details.start_ns;
    symbolizer_say(symbolizer, &message);
}

/* False: the subject is gone, and freed. */
static bool look(struct symbolizer *symbolizer, struct subject *subject, bool details)
{
    uint64_t time_ns = clock_monotonic_ns();
    if (symbolizer_skips(symbolizer, subject->pid))
        return true;
    symbolizer_ledger_enter(symbolizer->settings.ledger, subject->pid);
    if (details || !subject->start_ns)
        subject_details(symbolizer, subject);
    int error = 0;
    if (!subject_unchanged(symbolizer, subject)) {
        error = proc_maps_read(subject->pid, &symbolizer->maps);
        if (!error)
            subject_look(symbolizer, subject);
        if (!error && !symbolizer->maps.len)
            subject->asked_ns = 0; /* a kernel thread, or a zombie: nothing will come */
    }
    symbolizer_ledger_leave(symbolizer->settings.ledger);
    if (!is_gone(error))
        return true;
    say_gone(symbolizer, subject, time_ns);
    return false;
}

/* Nothing better is to come: OpenTelemetry's context before all others, where that is read. */
static bool is_settled(const struct symbolizer *symbolizer, const struct subject *subject)
{
    unsigned best = symbolizer->settings.sources & CONTEXT_BIT(CONTEXT_OTEL_THREAD);
    bool waits_for_storage = subject->elastic && !subject->elastic->storage;
    return subject->sources && (subject->sources & best) == best && !waits_for_storage;
}

static bool is_of_interest(const struct subject *subject, uint64_t now_ns)
{
    return now_ns - subject->asked_ns < SYMBOLIZER_INTEREST_NS;
}

static void wait_again(struct symbolizer *symbolizer, struct subject *subject, uint64_t now_ns)
{
    bool interest = is_of_interest(subject, now_ns);
    if (subject->sources && (!interest || is_settled(symbolizer, subject)))
        wait_for(symbolizer, subject, now_ns, SYMBOLIZER_SETTLED_DISTANCE);
    else if (interest || subject->address || subject->publishes)
        wait_for(symbolizer, subject, now_ns, (uint8_t)(subject->distance + 1));
    else
        list_remove(&subject->waiting); /* until it is asked for again */
}

bool subject_is_sampled(const struct symbolizer *symbolizer, uint32_t pid)
{
    const struct subject *subject = map_get(&symbolizer->subjects, &pid);
    return subject && subject->sampled;
}

static void begin_again(struct symbolizer *symbolizer, struct subject *subject)
{
    resource_forget(symbolizer, subject);
    free(subject->elastic);
    subject->elastic = NULL;
    subject->address = subject->published_ns = 0;
    subject->publishes = 0;
    subject->sampled = false;
    subject->reported = false; /* the service has forgotten it by the exec */
}

void subject_asked(struct symbolizer *symbolizer, uint32_t pid, bool details, bool sampled)
{
    struct subject *subject = subject_get(symbolizer, pid);
    if (!subject)
        return;
    uint64_t now_ns = clock_monotonic_ns();
    subject->asked_ns = now_ns;
    subject->looked_ns = 0;
    if (details)
        begin_again(symbolizer, subject);
    subject->sampled |= sampled;
    if (!look(symbolizer, subject, details))
        return;
    bool waiting = list_linked(&subject->waiting);
    bool settled = is_settled(symbolizer, subject);
    if (subject->asked_ns && (details || !waiting || settled))
        wait_for(symbolizer, subject, now_ns, settled ? SYMBOLIZER_SETTLED_DISTANCE : 0);
}

uint64_t subjects_due(const struct symbolizer *symbolizer)
{
    uint64_t due_ns = UINT64_MAX;
    for (int i = 0; i < SYMBOLIZER_DISTANCES; i++) {
        const struct list *first = list_first(&symbolizer->waiting[i]);
        if (first && container_of(first, struct subject, waiting)->due_ns < due_ns)
            due_ns = container_of(first, struct subject, waiting)->due_ns;
    }
    return due_ns;
}

static void poll_list(struct symbolizer *symbolizer, struct list *head, uint64_t until_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    while (!list_empty(head) && now_ns < until_ns && !symbolizer_congested(symbolizer)) {
        struct subject *subject = container_of(list_first(head), struct subject, waiting);
        if (subject->due_ns > now_ns)
            return;
        if (!is_settled(symbolizer, subject) && is_of_interest(subject, now_ns))
            subject->looked_ns = 0; /* more may be there by now */
        if (look(symbolizer, subject, false))
            wait_again(symbolizer, subject, now_ns);
        heartbeat();
        now_ns = clock_monotonic_ns();
    }
}

void subjects_poll(struct symbolizer *symbolizer, uint64_t until_ns)
{
    for (int i = 0; i < SYMBOLIZER_DISTANCES; i++)
        poll_list(symbolizer, &symbolizer->waiting[i], until_ns);
}
