/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of parameters. With a baseline, filter parameters are read twice: into the filter, and,
 * with the prefix base_, into a copy of the filter.
 */
#include "exporter/pages/pages_query.h"
#include "base/clock.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define RANGE_NS     (900 * NS_PER_SEC)
#define BEFORE_MAX_S 3.2e9 /* 100 years */
#define SECONDS_MAX  600

struct reading {
    struct arena *arena;
    struct pages_query *query;
    struct history_filter *filter; /* the filter being read */
    bool *has_range;
    uint64_t now_unix_ns;
    const char *right; /* after a failure: what would be valid */
};

typedef int read_value(struct reading *reading, struct bytes value);

/* ---- values ---- */

static int reading_wrong(struct reading *reading, const char *right)
{
    reading->right = right;
    return -EINVAL;
}

/* An empty value is allowed only for a baseline: any value matches. */
static int reading_copy(struct reading *reading, struct bytes value, struct bytes *text)
{
    *text = (struct bytes){0};
    if (!value.len)
        return reading->filter == &reading->query->base
                   ? 0
                   : reading_wrong(reading, "more than nothing");
    text->data = arena_dup(reading->arena, value.data, value.len);
    text->len = value.len;
    return text->data ? 0 : -ENOMEM;
}

/* Digits only; at most max. */
static bool parse_count(struct bytes value, uint64_t max, uint64_t *count)
{
    *count = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!isdigit(value.data[i]) || *count > (max - (uint64_t)(value.data[i] - '0')) / 10)
            return false;
        *count = *count * 10 + (uint64_t)(value.data[i] - '0');
    }
    return value.len > 0;
}

/* Digits with an optional fraction; no sign, no exponent. */
static bool parse_decimal(struct bytes value, double *number)
{
    double scale = 1;
    bool point = false, digits = false;
    *number = 0;
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.data[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!isdigit(c) || i > 40)
            return false;
        digits = true;
        scale *= point ? 10 : 1;
        *number = *number * 10 + (c - '0');
    }
    *number /= scale;
    return digits;
}

/* 250ms, 1.5s, 2h */
static bool parse_duration(struct bytes value, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
                 {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
    struct bytes number = value;
    double amount;
    while (number.len && isalpha(number.data[number.len - 1]))
        number.len--;
    struct bytes unit = BYTES(number.data + number.len, value.len - number.len);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!bytes_is(unit, units[i].name))
            continue;
        if (!parse_decimal(number, &amount) || amount * units[i].ns > BEFORE_MAX_S * 1e9)
            return false;
        *ns = (uint64_t)(amount * units[i].ns);
        return true;
    }
    return false;
}

static int read_time(struct reading *reading, struct bytes value, uint64_t *unix_ns)
{
    uint64_t before_ns, ms;
    struct bytes whole = value;
    *reading->has_range = true;
    if (value.len > 1 && value.data[0] == '-' &&
        parse_duration(BYTES(value.data + 1, value.len - 1), &before_ns)) {
        *unix_ns = before_ns < reading->now_unix_ns ? reading->now_unix_ns - before_ns : 1;
        return 0;
    }
    for (size_t i = 0; i < whole.len; i++) /* fractions of a millisecond are ignored */
        if (whole.data[i] == '.')
            whole.len = i;
    double number;
    if (!parse_decimal(value, &number) || !parse_count(whole, INT64_MAX / NS_PER_MS, &ms))
        return reading_wrong(reading, "a time in Unix milliseconds, or before now, like -1h");
    *unix_ns = ms ? ms * NS_PER_MS : 1;
    return 0;
}

static int read_hex(struct reading *reading, struct bytes value, uint8_t *id, size_t size)
{
    bool good = value.len == 2 * size && bytes_from_hex(value, id, size) && !bytes_zero(id, size);
    return good ? 0 : reading_wrong(reading, size == 16 ? "32 hex digits" : "16 hex digits");
}

struct word {
    const char *name;
    int value;
};

static int read_word(struct reading *reading, struct bytes value, const struct word *words,
                     const char *right, int *result)
{
    for (; words->name; words++)
        if (bytes_is(value, words->name)) {
            *result = words->value;
            return 0;
        }
    return reading_wrong(reading, right);
}

/* ---- filters ---- */

static int read_from(struct reading *reading, struct bytes value)
{
    return read_time(reading, value, &reading->filter->from_unix_ns);
}

static int read_to(struct reading *reading, struct bytes value)
{
    return read_time(reading, value, &reading->filter->to_unix_ns);
}

static int read_service(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->service);
}

static int read_span(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->span_name);
}

static int read_thread(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->thread);
}

static int read_container(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->container);
}

static int read_host(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->host);
}

static int read_function(struct reading *reading, struct bytes value)
{
    return reading_copy(reading, value, &reading->filter->function);
}

static int read_pid(struct reading *reading, struct bytes value)
{
    uint64_t pid;
    if (!parse_count(value, INT32_MAX, &pid) || !pid)
        return reading_wrong(reading, "the number of a process");
    reading->filter->pid = (uint32_t)pid;
    return 0;
}

static int read_attribute(struct reading *reading, struct bytes value)
{
    struct history_filter *filter = reading->filter;
    const uint8_t *equals = value.len ? memchr(value.data, '=', value.len) : NULL;
    if (!equals || equals == value.data)
        return reading_wrong(reading, "KEY=VALUE");
    if (filter->n_attributes == HISTORY_ATTRIBUTES_MAX)
        return reading_wrong(reading, "of any use more than 8 times");
    struct history_pair *pair = &filter->attributes[filter->n_attributes];
    size_t key = (size_t)(equals - value.data);
    const uint8_t *own = arena_dup(reading->arena, value.data, value.len);
    if (!own)
        return -ENOMEM;
    *pair = (struct history_pair){BYTES(own, key), BYTES(own + key + 1, value.len - key - 1)};
    filter->n_attributes++;
    return 0;
}

static int read_length(struct reading *reading, struct bytes value, uint64_t *ns)
{
    return parse_duration(value, ns) ? 0 : reading_wrong(reading, "a duration, like 250ms");
}

static int read_min_duration(struct reading *reading, struct bytes value)
{
    return read_length(reading, value, &reading->filter->min_duration_ns);
}

static int read_max_duration(struct reading *reading, struct bytes value)
{
    return read_length(reading, value, &reading->filter->max_duration_ns);
}

static int read_trace_id(struct reading *reading, struct bytes value)
{
    reading->filter->by_trace = true;
    return read_hex(reading, value, reading->filter->trace_id, 16);
}

static int read_span_id(struct reading *reading, struct bytes value)
{
    reading->filter->by_span = true;
    return read_hex(reading, value, reading->filter->span_id, 8);
}

static int read_children(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {{"true", 0}, {"false", 1}, {NULL, 0}};
    int alone = 0;
    int error = read_word(reading, value, words, "true or false", &alone);
    reading->filter->alone = alone;
    return error;
}

/* ---- the rest ---- */

static int read_trace_order(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {
        {"slowest", HISTORY_SLOWEST}, {"latest", HISTORY_LATEST}, {"cpu", HISTORY_MOST_CPU}, {0}};
    int order = 0;
    int error = read_word(reading, value, words, "slowest, latest or cpu", &order);
    reading->query->order = (enum history_order)order;
    return error;
}

static int read_function_order(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {{"self", 0}, {"total", 1}, {0}};
    int total = 0;
    int error = read_word(reading, value, words, "self or total", &total);
    reading->query->by_total = total;
    return error;
}

static int read_limit(struct reading *reading, struct bytes value)
{
    uint64_t limit;
    if (!parse_count(value, 10000, &limit) || !limit)
        return reading_wrong(reading, "a number from 1 to 10000");
    reading->query->limit = (size_t)limit;
    return 0;
}

static int read_view(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {
        {"callees", FLAME_CALLEES}, {"callers", FLAME_CALLERS}, {0}};
    int view = 0;
    int error = read_word(reading, value, words, "callees or callers", &view);
    reading->query->view = (enum flame_view)view;
    return error;
}

static int read_frames(struct reading *reading, struct bytes value)
{
    for (int type = 0; type < HISTORY_FRAME_TRUNCATED; type++)
        if (bytes_is(value, history_frame_type_name((enum history_frame_type)type))) {
            reading->query->has_frames = true;
            reading->query->frames = (enum history_frame_type)type;
            return 0;
        }
    return reading_wrong(reading, "a type of frames: native, kernel, go, cpython, jvm, v8js, ...");
}

static int read_buckets(struct reading *reading, struct bytes value)
{
    uint64_t buckets;
    if (!parse_count(value, HISTORY_BUCKETS_MAX, &buckets) || !buckets)
        return reading_wrong(reading, "a number from 1 to 1000");
    reading->query->n_buckets = (size_t)buckets;
    return 0;
}

static int read_by(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {{"service", HISTORY_BY_SERVICE},
                                        {"span", HISTORY_BY_SPAN},
                                        {"thread", HISTORY_BY_THREAD},
                                        {"container", HISTORY_BY_CONTAINER},
                                        {"process", HISTORY_BY_PROCESS},
                                        {"host", HISTORY_BY_HOST},
                                        {0}};
    int by = 0;
    int error =
        read_word(reading, value, words, "service, span, thread, container, host or process", &by);
    reading->query->by = (enum history_group)by;
    return error;
}

static int read_of(struct reading *reading, struct bytes value)
{
    static const struct word words[] = {
        {"service", HISTORY_SERVICES}, {"span", HISTORY_SPAN_NAMES},
        {"thread", HISTORY_THREADS},   {"container", HISTORY_CONTAINERS},
        {"host", HISTORY_HOSTS},       {0}};
    int of = 0;
    int error = read_word(reading, value, words, "service, span, thread, container or host", &of);
    reading->query->of = (enum history_text)of;
    return error;
}

static int read_seconds(struct reading *reading, struct bytes value)
{
    uint64_t seconds;
    if (!parse_count(value, SECONDS_MAX, &seconds))
        return reading_wrong(reading, "a number from 0 to 600");
    reading->query->seconds = (uint32_t)seconds;
    reading->query->has_seconds = true;
    return 0;
}

static int read_since(struct reading *reading, struct bytes value)
{
    if (!parse_count(value, INT64_MAX, &reading->query->since))
        return reading_wrong(reading, "a cursor that an answer gave");
    reading->query->has_since = true;
    return 0;
}

/* ---- the table ---- */

#define FILTER 0

static const struct parameter {
    const char *name;
    read_value *read;
    unsigned takes; /* FILTER, or the flag that the route must have */
    bool many;
} table[] = {
    {"from", read_from, FILTER, false},
    {"to", read_to, FILTER, false},
    {"service", read_service, FILTER, false},
    {"span", read_span, FILTER, false},
    {"thread", read_thread, FILTER, false},
    {"container", read_container, FILTER, false},
    {"host", read_host, FILTER, false},
    {"pid", read_pid, FILTER, false},
    {"function", read_function, FILTER, false},
    {"attribute", read_attribute, FILTER, true},
    {"min_duration", read_min_duration, FILTER, false},
    {"max_duration", read_max_duration, FILTER, false},
    {"trace_id", read_trace_id, FILTER, false},
    {"span_id", read_span_id, FILTER, false},
    {"children", read_children, FILTER, false},
    {"order", read_trace_order, PAGES_TAKES_TRACE_ORDER, false},
    {"order", read_function_order, PAGES_TAKES_FUNCTION_ORDER, false},
    {"limit", read_limit, PAGES_TAKES_LIMIT, false},
    {"view", read_view, PAGES_TAKES_VIEW, false},
    {"frames", read_frames, PAGES_TAKES_FRAMES, false},
    {"buckets", read_buckets, PAGES_TAKES_BUCKETS, false},
    {"by", read_by, PAGES_TAKES_BUCKETS, false},
    {"of", read_of, PAGES_TAKES_OF, false},
    {"seconds", read_seconds, PAGES_TAKES_SECONDS, false},
    {"since", read_since, PAGES_TAKES_SINCE, false},
};

#define TABLE_SIZE (sizeof(table) / sizeof(table[0]))

static const struct parameter *query_find(struct bytes name, unsigned takes)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        bool taken = table[i].takes == FILTER ? !(takes & PAGES_TAKES_NOTHING)
                                              : (table[i].takes & takes) != 0;
        if (taken && bytes_is(name, table[i].name))
            return &table[i];
    }
    return NULL;
}

static bool is_base(struct bytes *name, unsigned takes)
{
    if (!(takes & PAGES_TAKES_BASE) || name->len < 5 || memcmp(name->data, "base_", 5) != 0)
        return false;
    *name = BYTES(name->data + 5, name->len - 5);
    return true;
}

static int query_append(char problem[256], struct bytes name, const char *what, const char *right)
{
    char shown[64];
    bytes_sanitize(name, shown, sizeof(shown));
    snprintf(problem, 256, "%s%s%s", shown, what, right);
    return -EINVAL;
}

static int read_one(struct reading *reading, const struct pages_parameter *parameter,
                    unsigned takes, uint32_t *seen, char problem[256])
{
    struct bytes name = parameter->name;
    bool base = reading->filter == &reading->query->base;
    if (is_base(&name, takes) != base)
        return 0; /* read in the other pass */
    const struct parameter *known = query_find(name, base ? 0 : takes);
    if (!known)
        return query_append(problem, parameter->name, " is not asked for here: see docs/api.md",
                            "");
    uint32_t bit = 1u << (known - table);
    if (*seen & bit && !known->many)
        return query_append(problem, parameter->name, " is there twice", "");
    if (base && !(*seen & bit) && known->many)
        reading->filter->n_attributes = 0;
    *seen |= bit;
    reading->query->has_base |= base;
    bool odd = parameter->value.len > PAGES_VALUE_MAX || !bytes_utf8_valid(parameter->value) ||
               (parameter->value.len && memchr(parameter->value.data, 0, parameter->value.len));
    int error = odd ? reading_wrong(reading, "text in UTF-8, of at most 16 KiB")
                    : known->read(reading, parameter->value);
    return error == -EINVAL ? query_append(problem, parameter->name, " is not ", reading->right)
                            : error;
}

/* A query for a trace, or since a cursor, without a time range covers all kept data. */
static int settle_range(struct history_filter *filter, bool has_range, unsigned takes,
                        uint64_t now_unix_ns, char problem[256])
{
    if (!has_range && (filter->by_trace || takes & PAGES_TAKES_SINCE))
        return 0;
    if (!filter->to_unix_ns)
        filter->to_unix_ns = now_unix_ns;
    if (!filter->from_unix_ns)
        filter->from_unix_ns = filter->to_unix_ns > RANGE_NS ? filter->to_unix_ns - RANGE_NS : 1;
    if (filter->from_unix_ns < filter->to_unix_ns)
        return 0;
    snprintf(problem, 256, "from is not before to");
    return -EINVAL;
}

static int check_ids(const struct history_filter *filter, unsigned takes, char problem[256])
{
    const char *what = NULL;
    if (filter->by_span && !filter->by_trace)
        what = "span_id is there without trace_id";
    else if (takes & PAGES_NEEDS_TRACE && !filter->by_trace)
        what = "trace_id is missing";
    if (what)
        snprintf(problem, 256, "%s", what);
    return what ? -EINVAL : 0;
}

static int read_filters(struct reading *reading, const struct pages_parameter *parameters, size_t n,
                        unsigned takes, char problem[256])
{
    uint32_t seen = 0;
    int error = 0;
    for (size_t i = 0; !error && i < n; i++)
        error = read_one(reading, &parameters[i], takes, &seen, problem);
    return error;
}

int pages_query_read(const struct pages_parameter *parameters, size_t n, unsigned takes,
                     uint64_t now_unix_ns, struct arena *arena, struct pages_query *query,
                     char problem[256])
{
    bool base_range = false;
    *query = (struct pages_query){0};
    struct reading reading = {.arena = arena,
                              .query = query,
                              .filter = &query->filter,
                              .has_range = &query->has_range,
                              .now_unix_ns = now_unix_ns};
    if (n > PAGES_PARAMETERS_MAX) {
        snprintf(problem, 256, "more than %d parameters", PAGES_PARAMETERS_MAX);
        return -EINVAL;
    }
    int error = read_filters(&reading, parameters, n, takes, problem);
    query->base = query->filter;
    reading.filter = &query->base;
    reading.has_range = &base_range;
    if (!error && takes & PAGES_TAKES_BASE)
        error = read_filters(&reading, parameters, n, takes, problem);
    if (!error)
        error = check_ids(&query->filter, takes, problem);
    if (!error)
        error = settle_range(&query->filter, query->has_range, takes, now_unix_ns, problem);
    if (!error)
        error = check_ids(&query->base, takes, problem);
    if (!error)
        error =
            settle_range(&query->base, query->has_range || base_range, takes, now_unix_ns, problem);
    return error;
}
