/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Series with equal values of the requested property form a group, identified by its text ids. A
 * timeline of whole minutes adds up minutes; only a short timeline uses the time of each sample.
 */
#include "store/query/history_reader_state.h"
#include "proto/otlp/otlp_spans.h"
#include <errno.h>
#include <stdlib.h>

#define GROUPS_APART_MAX  ((size_t)1 << 16) /* groups while summing up */
#define EXACT_SAMPLES_MAX 1000000           /* limit of samples with their own time, about 100 ms */
#define EXAMPLES_COST_MAX 200000            /* spans and samples read to find examples */

struct group_key {
    int64_t text, service;
    uint64_t pid;
};

struct group {
    struct group_key key;
    struct history_series sums;
    uint64_t example_ns; /* CPU time of its example */
    bool route_known;
};

struct grouping {
    struct reader_scan *scan;
    enum history_group by;
    struct history_groups *answer;
    struct arena *arena; /* of the answer */
    struct map groups;
    const struct reader_series *latest_series;
    struct group *latest;
    struct group others;
};

static struct group_key key_of(enum history_group by, const struct reader_series *series)
{
    const struct history_series_facts *facts = &series->facts;
    switch (by) {
    case HISTORY_BY_SPAN:
        return (struct group_key){facts->span_name, facts->service, 0};
    case HISTORY_BY_SPAN_NAME:
        return (struct group_key){.text = facts->span_name};
    case HISTORY_BY_THREAD:
        return (struct group_key){.text = facts->thread};
    case HISTORY_BY_CONTAINER:
        return (struct group_key){.text = facts->container};
    case HISTORY_BY_PROCESS:
        return (struct group_key){.text = facts->executable, .pid = facts->pid};
    case HISTORY_BY_HOST:
        return (struct group_key){0};
    default:
        return (struct group_key){.text = facts->service};
    }
}

static struct bytes name_of(const struct grouping *grouping, const struct reader_series *series)
{
    switch (grouping->by) {
    case HISTORY_BY_SPAN:
    case HISTORY_BY_SPAN_NAME:
        return series->span_name;
    case HISTORY_BY_THREAD:
        return series->thread;
    case HISTORY_BY_CONTAINER:
        return series->container;
    case HISTORY_BY_PROCESS:
        return series->executable;
    case HISTORY_BY_HOST:
        return grouping->scan->reader->host;
    default:
        return series->service;
    }
}

static int make_group(struct grouping *grouping, const struct group_key *key,
                      const struct reader_series *series, struct group **result)
{
    struct group *group = arena_zalloc(&grouping->scan->reader->scratch, sizeof(*group));
    uint64_t *buckets = arena_zalloc(&grouping->scan->reader->scratch,
                                     grouping->answer->n_buckets * sizeof(*buckets));
    if (!group || !buckets)
        return -ENOMEM;
    group->key = *key;
    group->sums = (struct history_series){
        .service = grouping->by == HISTORY_BY_SPAN ? series->service : BYTES(NULL, 0),
        .name = name_of(grouping, series),
        .pid = (uint32_t)key->pid,
        .buckets = buckets,
    };
    *result = group;
    return map_put(&grouping->groups, group, NULL);
}

static int find_group(struct grouping *grouping, const struct reader_series *series)
{
    if (series == grouping->latest_series)
        return 0;
    struct group_key key = key_of(grouping->by, series);
    struct group *group = map_get(&grouping->groups, &key);
    int error = 0;
    if (!group && grouping->groups.count >= GROUPS_APART_MAX)
        group = &grouping->others;
    else if (!group)
        error = make_group(grouping, &key, series, &group);
    grouping->latest = group;
    grouping->latest_series = error ? NULL : series;
    return error;
}

static void note_bucket(struct grouping *grouping, struct history_series *sums,
                        const struct reader_weight *weight)
{
    struct history_groups *answer = grouping->answer;
    if (!answer->n_buckets || weight->time_unix_ns < answer->from_unix_ns)
        return;
    uint64_t bucket = (weight->time_unix_ns - answer->from_unix_ns) / answer->bucket_ns;
    sums->buckets[bucket < answer->n_buckets ? bucket : answer->n_buckets - 1] += weight->value_ns;
}

static int groups_add(void *context, const struct reader_weight *weight)
{
    struct grouping *grouping = context;
    int error = find_group(grouping, weight->series);
    if (error)
        return error;
    struct history_series *sums = &grouping->latest->sums;
    sums->samples += weight->samples;
    sums->cpu_ns += weight->value_ns;
    sums->self_ns += weight->self ? weight->value_ns : 0;
    sums->in_context += weight->series->facts.context_source ? weight->samples : 0;
    sums->in_span += weight->series->facts.span_name ? weight->samples : 0;
    if (grouping->by == HISTORY_BY_PROCESS && !sums->service.len)
        sums->service = weight->series->service;
    grouping->answer->samples += weight->samples;
    grouping->answer->cpu_ns += weight->value_ns;
    note_bucket(grouping, sums, weight);
    return 0;
}

/* Buckets */

static uint64_t samples_in(const struct reader_scan *scan)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < scan->n_blocks; i++)
        if (scan->blocks[i].samples_to_unix_ns >= scan->answer.from &&
            scan->blocks[i].samples_from_unix_ns < scan->answer.to)
            samples += scan->blocks[i].samples;
    return samples;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* True: blocks cover the whole range, no minute is needed. */
static bool blocks_cover(const struct reader_scan *scan)
{
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < scan->n_blocks; i++)
        if (scan->blocks[i].samples && scan->blocks[i].samples_from_unix_ns < oldest)
            oldest = scan->blocks[i].samples_from_unix_ns;
    for (size_t i = 0; i < scan->n_minutes; i++)
        if (scan->minutes[i].minute_unix_ns >= scan->whole.from &&
            scan->minutes[i].minute_unix_ns < scan->whole.to &&
            scan->minutes[i].minute_unix_ns + HISTORY_MINUTE_NS <= oldest)
            return false;
    return true;
}

/* Buckets are whole minutes if the time of each sample would take too long to read; then only
 * minutes are added up. */
static void choose_buckets(struct reader_scan *scan, size_t n_buckets,
                           struct history_groups *answer)
{
    uint64_t range = scan->answer.to - scan->answer.from;
    answer->from_unix_ns = scan->answer.from;
    if (!n_buckets || !range)
        return;
    if (n_buckets > HISTORY_BUCKETS_MAX)
        n_buckets = HISTORY_BUCKETS_MAX;
    answer->bucket_ns = divide_up(range, n_buckets);
    bool exact = !scan->by_minutes || (samples_in(scan) <= EXACT_SAMPLES_MAX && blocks_cover(scan));
    if (exact) {
        scan->whole = (struct reader_range){0};
    } else {
        answer->from_unix_ns -= answer->from_unix_ns % HISTORY_MINUTE_NS;
        range = scan->answer.to - answer->from_unix_ns;
        answer->bucket_ns =
            divide_up(divide_up(range, n_buckets), HISTORY_MINUTE_NS) * HISTORY_MINUTE_NS;
    }
    answer->n_buckets = (size_t)divide_up(range, answer->bucket_ns);
}

/* Examples */

struct exemplifying {
    struct grouping *grouping;
    struct history_context latest;
    struct group *group;
    uint64_t cpu_ns; /* of `latest` in `group` */
};

static void take_example(struct exemplifying *exemplifying)
{
    struct group *group = exemplifying->group;
    if (group && exemplifying->cpu_ns > group->example_ns) {
        group->example_ns = exemplifying->cpu_ns;
        memcpy(group->sums.example_trace_id, exemplifying->latest.trace_id, 16);
    }
    exemplifying->cpu_ns = 0;
}

/* Takes the route that all spans of the group share; different routes give none. */
static int take_route(struct exemplifying *exemplifying, struct bytes attributes)
{
    static const char *const keys[] = {"http.route", "rpc.method"};
    struct group *group = exemplifying->group;
    struct bytes key_value, text = {0};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !text.len; i++)
        if (reader_attribute_find(attributes, BYTES_STR(keys[i]), &key_value))
            otlp_key_value_string(key_value, &text);
    if (!group->route_known) {
        group->route_known = true;
        group->sums.route = text;
        return reader_copy_text(&exemplifying->grouping->scan->reader->scratch, &group->sums.route);
    }
    if (!bytes_equal(text, group->sums.route))
        group->sums.route = BYTES(NULL, 0);
    return 0;
}

static int groups_exemplify(void *context, const struct history_samples *samples,
                            const struct history_sample_group *sample)
{
    (void)samples;
    struct exemplifying *exemplifying = context;
    struct reader_scan *scan = exemplifying->grouping->scan;
    struct reader_weight weight = {.stack = sample->stack};
    if (!sample->context.matched)
        return 0;
    int outcome = reader_match_group(scan, sample, &weight);
    if (outcome <= 0)
        return outcome;
    int error = find_group(exemplifying->grouping, weight.series);
    if (error)
        return error;
    struct group *group = exemplifying->grouping->latest;
    if (group != exemplifying->group ||
        memcmp(sample->context.trace_id, exemplifying->latest.trace_id, 16) != 0)
        take_example(exemplifying);
    exemplifying->group = group;
    exemplifying->latest = sample->context;
    exemplifying->cpu_ns += sample->value_ns;
    if (sample->context.span >= scan->spans.n)
        return 0;
    return take_route(exemplifying,
                      history_span_attributes(&scan->spans.spans[sample->context.span],
                                              buf_bytes(&scan->spans_body)));
}

/* Searches the latest blocks only: any example is good enough. */
static int find_examples(struct grouping *grouping)
{
    struct reader_scan *scan = grouping->scan;
    struct exemplifying exemplifying = {.grouping = grouping};
    uint64_t cost = 0;
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && cost < EXAMPLES_COST_MAX;) {
        const struct reader_block *block = &scan->blocks[i];
        if (!block->samples || block->samples_to_unix_ns < scan->answer.from ||
            block->samples_from_unix_ns >= scan->answer.to)
            continue;
        if (!reader_scan_goes_on(scan))
            break;
        cost += block->samples + block->spans;
        error = reader_match_block(scan, block);
        if (error > 0) {
            error = reader_scan_spans(scan, block);
            error =
                error ? error : reader_scan_groups(scan, block, groups_exemplify, &exemplifying);
            take_example(&exemplifying);
        }
        error = reader_scan_left_out(scan, error);
    }
    return error;
}

/* Answer */

static int groups_compare(const void *left, const void *right)
{
    const struct group *a = *(struct group *const *)left, *b = *(struct group *const *)right;
    if (a->sums.cpu_ns != b->sums.cpu_ns)
        return a->sums.cpu_ns < b->sums.cpu_ns ? 1 : -1;
    return memcmp(&a->key, &b->key, sizeof(a->key));
}

static void add_others(const struct grouping *grouping, struct group *others,
                       const struct history_series *more)
{
    others->sums.samples += more->samples;
    others->sums.cpu_ns += more->cpu_ns;
    others->sums.self_ns += more->self_ns;
    others->sums.in_context += more->in_context;
    others->sums.in_span += more->in_span;
    for (size_t i = 0; i < grouping->answer->n_buckets; i++)
        others->sums.buckets[i] += more->buckets[i];
}

static int copy_series(const struct grouping *grouping, const struct history_series *from,
                       struct history_series *to)
{
    *to = *from;
    int error = reader_copy_text(grouping->arena, &to->service);
    error = error ? error : reader_copy_text(grouping->arena, &to->name);
    error = error ? error : reader_copy_text(grouping->arena, &to->route);
    to->buckets = arena_dup(grouping->arena, from->buckets,
                            grouping->answer->n_buckets * sizeof(*from->buckets));
    return to->buckets ? error : -ENOMEM;
}

static int put_series(struct grouping *grouping, struct group **sorted, size_t n)
{
    struct history_groups *answer = grouping->answer;
    int error = 0;
    answer->series =
        arena_zalloc(grouping->arena, (HISTORY_GROUPS_MAX + 1) * sizeof(*answer->series));
    if (!answer->series)
        return -ENOMEM;
    for (size_t i = HISTORY_GROUPS_MAX; i < n; i++)
        add_others(grouping, &grouping->others, &sorted[i]->sums);
    for (size_t i = 0; i < n && i < HISTORY_GROUPS_MAX && !error; i++)
        error = copy_series(grouping, &sorted[i]->sums, &answer->series[answer->n++]);
    if (!error && grouping->others.sums.samples)
        error = copy_series(grouping, &grouping->others.sums, &answer->series[answer->n++]);
    return error;
}

static int grouping_finish(struct grouping *grouping)
{
    struct group **sorted = calloc(grouping->groups.count + 1, sizeof(struct group *));
    struct group *group;
    size_t n = 0;
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; (group = map_next(&grouping->groups, &i));)
        sorted[n++] = group;
    qsort(sorted, n, sizeof(struct group *), groups_compare);
    int error = put_series(grouping, sorted, n);
    free(sorted);
    return error;
}

static int grouping_answer(struct grouping *grouping, size_t n_buckets)
{
    struct reader_scan *scan = grouping->scan;
    struct history_groups *answer = grouping->answer;
    choose_buckets(scan, n_buckets, answer);
    MAP_INIT(&grouping->groups, struct group, key);
    grouping->others.sums.others = true;
    grouping->others.sums.buckets = arena_zalloc(
        &scan->reader->scratch, answer->n_buckets * sizeof(*grouping->others.sums.buckets));
    int error = grouping->others.sums.buckets ? 0 : -ENOMEM;
    error = error ? error : reader_scan_samples(scan, answer->n_buckets > 0, groups_add, grouping);
    if (!error && grouping->by == HISTORY_BY_SPAN)
        error = find_examples(grouping);
    error = error ? error : grouping_finish(grouping);
    map_close(&grouping->groups);
    answer->complete = scan->complete;
    return error;
}

int history_groups(struct history_reader *reader, const struct history_filter *filter,
                   enum history_group by, size_t n_buckets, struct arena *arena,
                   struct history_groups *groups)
{
    DB_THREAD(reader->db);
    struct reader_scan scan;
    struct grouping grouping = {.scan = &scan, .by = by, .answer = groups, .arena = arena};
    *groups = (struct history_groups){0};
    int error = reader_begin(reader);
    if (!error) {
        error = reader_scan_open(&scan, reader, filter);
        error = error ? error : grouping_answer(&grouping, n_buckets);
        reader_scan_close(&scan);
    }
    reader_end(reader);
    return error;
}
