/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tick gets the ids of cgroups from the kernel. The id is the inode number of the cgroup's
 * directory, so a path that is created again has another one. The directories are therefore checked
 * from time to time, and changes are put into the map.
 */
#include "agent-bpf/sampler/filter.h"
#include "agent-bpf/files/container.h"
#include "base/cgroup.h"
#include "base/log.h"
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cgroup_rule { /* a cgroup that rules are about now */
    uint64_t id;
    struct filter_verdict verdict;
};

struct cgroup_rules {
    size_t n;
    struct cgroup_rule items[FILTER_IDS_MAX];
};

struct filter {
    struct filter_settings settings;
    int map_fd;
    char root[256];            /* where the unified hierarchy is mounted */
    struct cgroup_rules *now;  /* in the map; sorted by id */
    struct cgroup_rules *next; /* found by the present poll */
    size_t n_walked;
    bool exceeded; /* a limit; logged once */
};

static const struct filter_verdict included = {.included = 1};
static const struct filter_verdict excluded[FILTER_KINDS] = {
    [FILTER_PIDS] = {.excluded_by = SAMPLER_FILTERED_PID},
    [FILTER_COMMS] = {.excluded_by = SAMPLER_FILTERED_COMM},
    [FILTER_EXECUTABLES] = {.excluded_by = SAMPLER_FILTERED_EXECUTABLE},
    [FILTER_CGROUPS] = {.excluded_by = SAMPLER_FILTERED_CGROUP},
    [FILTER_CONTAINERS] = {.excluded_by = SAMPLER_FILTERED_CONTAINER},
};

static size_t count_values(const char *const *values)
{
    size_t n = 0;
    while (values && values[n])
        n++;
    return n;
}

static size_t count_rules(const struct filter_settings *settings, enum filter_kind kind)
{
    return count_values(settings->include.values[kind]) +
           count_values(settings->exclude.values[kind]);
}

unsigned filter_kinds(const struct filter_settings *settings)
{
    unsigned kinds = 0;
    for (enum filter_kind kind = 0; kind < FILTER_KINDS; kind++)
        if (count_rules(settings, kind) > 0)
            kinds |= FILTER_BIT(kind);
    return kinds;
}

bool filter_includes(const struct filter_settings *settings)
{
    for (enum filter_kind kind = 0; kind < FILTER_KINDS; kind++)
        if (count_values(settings->include.values[kind]) > 0)
            return true;
    return false;
}

static bool has_cgroup_rules(const struct filter_settings *settings)
{
    return count_rules(settings, FILTER_CGROUPS) + count_rules(settings, FILTER_CONTAINERS) > 0;
}

uint32_t filter_entries_max(const struct filter_settings *settings)
{
    size_t n = has_cgroup_rules(settings) ? FILTER_IDS_MAX : 1;
    for (enum filter_kind kind = 0; kind < FILTER_CGROUPS; kind++)
        n += count_rules(settings, kind);
    return (uint32_t)n;
}

/* ---- rules that stay ---- */

static int parse_pid(const char *text, __u64 *pid)
{
    char *end;
    errno = 0;
    *pid = strtoul(text, &end, 10);
    bool good = *text >= '0' && *text <= '9' && !*end && !errno && *pid > 0 && *pid <= INT_MAX;
    return good ? 0 : -EINVAL;
}

static int make_key(enum filter_kind kind, const char *value, struct filter_key *key)
{
    *key = (struct filter_key){.kind = kind};
    if (kind == FILTER_PIDS)
        return parse_pid(value, &key->id);
    size_t size = kind == FILTER_COMMS ? RECORD_COMM : FILTER_NAME_MAX, len = strlen(value);
    if (len == 0 || len >= size)
        return -EINVAL;
    memcpy(key->name, value, len);
    return 0;
}

static int filter_map_put(int map_fd, const struct filter_key *key,
                          const struct filter_verdict *verdict)
{
    struct filter_verdict merged = *verdict, before;
    if (bpf_map_lookup_elem(map_fd, key, &before) == 0) { /* the same in include and exclude */
        merged.included |= before.included;
        merged.excluded_by = merged.excluded_by ? merged.excluded_by : before.excluded_by;
    }
    return bpf_map_update_elem(map_fd, key, &merged, BPF_ANY);
}

static int put_values(const struct filter *filter, enum filter_kind kind, const char *const *values,
                      const struct filter_verdict *verdict)
{
    struct filter_key key;
    int error = count_values(values) > FILTER_RULES_MAX ? -E2BIG : 0;
    for (size_t i = 0; !error && values && values[i]; i++) {
        error = make_key(kind, values[i], &key);
        error = error ? error : filter_map_put(filter->map_fd, &key, verdict);
    }
    return error;
}

static int put_rules(const struct filter *filter)
{
    const struct filter_settings *settings = &filter->settings;
    int error = 0;
    for (enum filter_kind kind = 0; !error && kind < FILTER_CGROUPS; kind++) {
        error = put_values(filter, kind, settings->include.values[kind], &included);
        error = error ? error
                      : put_values(filter, kind, settings->exclude.values[kind], &excluded[kind]);
    }
    return error;
}

/* ---- cgroups ---- */

static void note_limit(struct filter *filter, const char *what)
{
    if (!filter->exceeded)
        log_warn("sampler",
                 "include and exclude: %s; the rest is sampled as if they did not "
                 "name it",
                 what);
    filter->exceeded = true;
}

static void filter_found(struct filter *filter, uint64_t id, const struct filter_verdict *verdict)
{
    struct cgroup_rules *next = filter->next;
    if (next->n == FILTER_IDS_MAX)
        note_limit(filter, "too many cgroups match the rules");
    else
        next->items[next->n++] = (struct cgroup_rule){.id = id, .verdict = *verdict};
}

static void find_paths(struct filter *filter, const char *const *paths,
                       const struct filter_verdict *verdict)
{
    char path[PATH_MAX];
    struct stat stat_now;
    for (size_t i = 0; paths && paths[i]; i++) {
        int n = snprintf(path, sizeof(path), "%s%s", filter->root, paths[i]);
        if (n < (int)sizeof(path) && stat(path, &stat_now) == 0 && S_ISDIR(stat_now.st_mode))
            filter_found(filter, stat_now.st_ino, verdict);
    }
}

static bool names_container(const char *const *values, struct bytes id)
{
    for (size_t i = 0; values && values[i]; i++) {
        size_t len = strlen(values[i]);
        if (len > 0 && len <= id.len && memcmp(values[i], id.data, len) == 0)
            return true;
    }
    return false;
}

static void judge_directory(struct filter *filter, const struct dirent *entry)
{
    const struct filter_settings *settings = &filter->settings;
    struct bytes id = container_id_from_path(BYTES_STR(entry->d_name));
    if (id.len == 0)
        return;
    if (names_container(settings->include.values[FILTER_CONTAINERS], id))
        filter_found(filter, entry->d_ino, &included);
    if (names_container(settings->exclude.values[FILTER_CONTAINERS], id))
        filter_found(filter, entry->d_ino, &excluded[FILTER_CONTAINERS]);
}

/* Takes over fd. */
static void filter_walk_cgroups(struct filter *filter, int fd, unsigned depth)
{
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while (filter->n_walked < FILTER_WALK_MAX && (entry = readdir(directory))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        filter->n_walked++;
        judge_directory(filter, entry);
        if (depth < FILTER_WALK_DEPTH)
            filter_walk_cgroups(
                filter, openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                depth + 1);
    }
    closedir(directory);
}

static void find_containers(struct filter *filter)
{
    filter->n_walked = 0;
    filter_walk_cgroups(filter, open(filter->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), 1);
    if (filter->n_walked == FILTER_WALK_MAX)
        note_limit(filter, "too many cgroups to look for containers in all");
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = ((const struct cgroup_rule *)a)->id,
             right = ((const struct cgroup_rule *)b)->id;
    return left < right ? -1 : left > right;
}

/* Sorted, one item an id. */
static void cgroup_rules_merge(struct cgroup_rules *rules)
{
    size_t n = 0;
    qsort(rules->items, rules->n, sizeof(rules->items[0]), compare_ids);
    for (size_t i = 0; i < rules->n; i++) {
        const struct cgroup_rule *item = &rules->items[i];
        if (n == 0 || rules->items[n - 1].id != item->id) {
            rules->items[n++] = *item;
            continue;
        }
        struct filter_verdict *verdict = &rules->items[n - 1].verdict;
        verdict->included |= item->verdict.included;
        if (item->verdict.excluded_by)
            verdict->excluded_by = item->verdict.excluded_by;
    }
    rules->n = n;
}

static const struct cgroup_rule *rule_of(const struct cgroup_rules *rules, uint64_t id)
{
    const struct cgroup_rule key = {.id = id};
    return bsearch(&key, rules->items, rules->n, sizeof(key), compare_ids);
}

static struct filter_key cgroup_key(uint64_t id)
{
    struct filter_key key = {.kind = FILTER_CGROUPS};
    key.id = id;
    return key;
}

static void update_map(struct filter *filter)
{
    struct cgroup_rules *now = filter->now, *next = filter->next;
    for (size_t i = 0; i < now->n; i++) {
        struct filter_key key = cgroup_key(now->items[i].id);
        if (!rule_of(next, key.id))
            bpf_map_delete_elem(filter->map_fd, &key);
    }
    for (size_t i = 0; i < next->n; i++) {
        const struct cgroup_rule *item = &next->items[i], *before = rule_of(now, item->id);
        struct filter_key key = cgroup_key(item->id);
        if (!before || memcmp(&before->verdict, &item->verdict, sizeof(item->verdict)) != 0)
            (void)bpf_map_update_elem(filter->map_fd, &key, &item->verdict, BPF_ANY);
    }
    filter->now = next;
    filter->next = now;
}

void filter_poll(struct filter *filter)
{
    const struct filter_settings *settings = &filter->settings;
    if (!filter->root[0])
        return;
    filter->next->n = 0;
    find_paths(filter, settings->include.values[FILTER_CGROUPS], &included);
    find_paths(filter, settings->exclude.values[FILTER_CGROUPS], &excluded[FILTER_CGROUPS]);
    if (count_rules(settings, FILTER_CONTAINERS) > 0)
        find_containers(filter);
    cgroup_rules_merge(filter->next);
    update_map(filter);
}

int filter_open(const struct filter_settings *settings, int map_fd, struct filter **filterp)
{
    struct filter *filter = calloc(1, sizeof(*filter));
    *filterp = filter;
    if (!filter)
        return -ENOMEM;
    filter->settings = *settings;
    filter->map_fd = map_fd;
    int error = put_rules(filter);
    if (!error && has_cgroup_rules(settings)) {
        filter->now = calloc(1, sizeof(*filter->now));
        filter->next = calloc(1, sizeof(*filter->next));
        if (!filter->now || !filter->next)
            error = -ENOMEM;
        else if (!cgroup_mount_find(filter->root, sizeof(filter->root)))
            log_warn("sampler", "no cgroup2 is mounted here: what include and exclude say of "
                                "cgroups and containers applies to nothing");
    }
    if (!error) {
        filter_poll(filter);
        return 0;
    }
    filter_close(filter);
    *filterp = NULL;
    return error;
}

void filter_follow(struct filter *filter, const struct filter_settings *settings)
{
    filter->settings = *settings;
}

void filter_close(struct filter *filter)
{
    if (!filter)
        return;
    free(filter->now);
    free(filter->next);
    free(filter);
}
