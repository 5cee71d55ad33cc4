/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans are matched with processes by service: few spans name their process in a way that can be
 * trusted on this node, but nearly all name their service. If a process does not publish its
 * service, spans that name its pid give it.
 */
#include "store/window/coverage.h"
#include "base/map.h"
#include "store/join/owner.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define LOOK_AGAIN 256 /* samples after which a process's Resource is read again */

struct service {
    char name[COVERAGE_NAME_MAX]; /* the key: padded with zeros */
    uint64_t spans, seen_ns;
};

struct coverage {
    pthread_mutex_t lock;
    struct map by_pid, by_name;
    size_t n_processes, n_services;
    struct coverage_process processes[COVERAGE_PROCESSES_MAX];
    struct service services[COVERAGE_SERVICES_MAX];
};

int coverage_open(struct coverage **result)
{
    struct coverage *coverage = calloc(1, sizeof(*coverage));
    if (!coverage)
        return -ENOMEM;
    pthread_mutex_init(&coverage->lock, NULL);
    MAP_INIT(&coverage->by_pid, struct coverage_process, pid);
    MAP_INIT(&coverage->by_name, struct service, name);
    *result = coverage;
    return 0;
}

void coverage_close(struct coverage *coverage)
{
    if (!coverage)
        return;
    map_close(&coverage->by_pid);
    map_close(&coverage->by_name);
    pthread_mutex_destroy(&coverage->lock);
    free(coverage);
}

static void copy_name(struct bytes name, char out[COVERAGE_NAME_MAX])
{
    memset(out, 0, COVERAGE_NAME_MAX);
    bytes_sanitize(name, out, COVERAGE_NAME_MAX);
}

/* ---- room ---- */

static struct coverage_process *oldest_process(struct coverage *coverage)
{
    struct coverage_process *oldest = &coverage->processes[0];
    for (size_t i = 1; i < coverage->n_processes; i++)
        if (coverage->processes[i].seen_ns < oldest->seen_ns)
            oldest = &coverage->processes[i];
    map_remove(&coverage->by_pid, &oldest->pid);
    return oldest;
}

static struct service *oldest_service(struct coverage *coverage)
{
    struct service *oldest = &coverage->services[0];
    for (size_t i = 1; i < coverage->n_services; i++)
        if (coverage->services[i].seen_ns < oldest->seen_ns)
            oldest = &coverage->services[i];
    map_remove(&coverage->by_name, oldest->name);
    return oldest;
}

/* NULL: no memory, and the process is not added. */
static struct coverage_process *find_process(struct coverage *coverage,
                                             const struct coverage_sample *sample)
{
    struct coverage_process *process = map_get(&coverage->by_pid, &sample->pid);
    bool is_new = !process;
    if (process && process->start_ns == sample->start_ns)
        return process;
    if (is_new)
        process = coverage->n_processes < COVERAGE_PROCESSES_MAX
                      ? &coverage->processes[coverage->n_processes++]
                      : oldest_process(coverage);
    *process = (struct coverage_process){.pid = sample->pid, .start_ns = sample->start_ns};
    if (is_new && map_put(&coverage->by_pid, process, NULL)) {
        *process = (struct coverage_process){.pid = 0}; /* free entry, reused first */
        return NULL;
    }
    return process;
}

static struct service *find_service(struct coverage *coverage, const char *name)
{
    struct service *service = map_get(&coverage->by_name, name);
    if (service)
        return service;
    service = coverage->n_services < COVERAGE_SERVICES_MAX
                  ? &coverage->services[coverage->n_services++]
                  : oldest_service(coverage);
    *service = (struct service){.spans = 0};
    memcpy(service->name, name, COVERAGE_NAME_MAX);
    if (map_put(&coverage->by_name, service, NULL) == 0)
        return service;
    *service = (struct service){.spans = 0};
    return NULL;
}

/* ---- notes ---- */

static void name_service(struct coverage_process *process, struct bytes resource)
{
    struct owner_evidence evidence;
    if (!resource.len || process->samples % LOOK_AGAIN)
        return;
    owner_evidence_of(resource, &evidence);
    if (evidence.service_name.len)
        copy_name(evidence.service_name, process->service);
}

void coverage_sample(struct coverage *coverage, const struct coverage_sample *sample,
                     uint64_t now_ns)
{
    if (!coverage || !sample->pid)
        return;
    pthread_mutex_lock(&coverage->lock);
    struct coverage_process *process = find_process(coverage, sample);
    if (process) {
        name_service(process, sample->resource);
        process->own_pid = sample->own_pid;
        process->cgroup_id = sample->cgroup_id;
        process->publishes = sample->publishes;
        process->attached = sample->attached;
        process->program = sample->program;
        process->source = sample->source ? sample->source : process->source;
        process->samples++;
        process->has_ids += sample->has_ids;
        process->unsampled += sample->unsampled;
        process->unreadable += sample->unreadable;
        process->seen_ns = now_ns;
    }
    pthread_mutex_unlock(&coverage->lock);
}

/* A process tells its number, and by what it sends its service. Other cgroups have the same
 * numbers.
 */
static void name_by_pid(struct coverage *coverage, uint64_t cgroup_id, int64_t pid,
                        const char *name)
{
    for (size_t i = 0; i < coverage->n_processes; i++) {
        struct coverage_process *process = &coverage->processes[i];
        if (process->cgroup_id != cgroup_id ||
            pid != (process->own_pid ? process->own_pid : process->pid))
            continue;
        process->sends_spans = true;
        if (!*process->service)
            memcpy(process->service, name, COVERAGE_NAME_MAX);
    }
}

void coverage_service_of(struct bytes resource, struct coverage_service *service)
{
    struct owner_evidence evidence;
    owner_evidence_of(resource, &evidence);
    copy_name(evidence.service_name, service->name);
    service->has_pid = evidence.has_pid;
    service->pid = evidence.pid;
}

void coverage_spans(struct coverage *coverage, const struct peer *sender,
                    const struct coverage_service *of, uint64_t n, uint64_t now_ns)
{
    if (!coverage || !*of->name)
        return;
    pthread_mutex_lock(&coverage->lock);
    struct service *service = find_service(coverage, of->name);
    if (service) {
        service->spans += n;
        service->seen_ns = now_ns;
    }
    if (of->has_pid && sender->cgroup_id)
        name_by_pid(coverage, sender->cgroup_id, of->pid, of->name);
    pthread_mutex_unlock(&coverage->lock);
}

void coverage_code(struct coverage *coverage, uint32_t pid, enum coverage_code_map map)
{
    if (!coverage)
        return;
    pthread_mutex_lock(&coverage->lock);
    struct coverage_process *process = map_get(&coverage->by_pid, &pid);
    if (process)
        process->code_map = (uint8_t)map;
    pthread_mutex_unlock(&coverage->lock);
}

void coverage_unproven(struct coverage *coverage, uint32_t pid)
{
    if (!coverage)
        return;
    pthread_mutex_lock(&coverage->lock);
    struct coverage_process *process = map_get(&coverage->by_pid, &pid);
    if (process)
        process->unproven++;
    pthread_mutex_unlock(&coverage->lock);
}

size_t coverage_list(struct coverage *coverage, struct coverage_process *processes, size_t max)
{
    pthread_mutex_lock(&coverage->lock);
    size_t n = 0;
    for (size_t i = 0; i < coverage->n_processes && n < max; i++) {
        const struct coverage_process *process = &coverage->processes[i];
        const struct service *service =
            *process->service ? map_get(&coverage->by_name, process->service) : NULL;
        if (!process->pid)
            continue;
        processes[n] = *process;
        processes[n++].spans = service ? service->spans : 0;
    }
    pthread_mutex_unlock(&coverage->lock);
    return n;
}
