/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers made of stacks: flame graphs in all forms, differences, functions.
 */
#include "exporter/pages/flame_write.h"
#include "base/limits.h"
#include "exporter/pages/pages_describe.h"
#include "exporter/pages/pages_route.h"
#include "exporter/pages/pages_status.h"
#include <errno.h>
#include <stdio.h>

#define FLAME_BYTES      ((size_t)38 << 20)
#define FLAME_NODES_MAX  20000
#define FUNCTIONS_MAX    100 /* by default */
#define YEAR_S           31536000.0
#define NS_PER_CORE_HOUR 3600e9

/* A pprof takes its place: scrape.c. */
LIMIT(flame, LIMIT_SERVICE, "pages: a flame graph", .of = "pages", .bytes = FLAME_BYTES);

/* ---- from stacks to a tree ---- */

static int add_stacks(struct pages_facts *facts, const struct history_profile *profile,
                      bool baseline, struct flame *flame)
{
    const struct history_frame *const *frames;
    size_t n;
    int error = 0;
    for (size_t i = 0; !error && i < profile->n; i++) {
        const struct history_stack *stack = &profile->stacks[i];
        error = history_frames(facts->history, stack->id, &frames, &n);
        if (!error)
            error = flame_add(flame, frames, n,
                              (struct flame_weight){stack->cpu_ns, stack->samples}, baseline);
    }
    if (!error && profile->others.samples)
        error = flame_add(flame, NULL, 0,
                          (struct flame_weight){profile->others.cpu_ns, profile->others.samples},
                          baseline);
    return error;
}

/* Of samples that have frames of the type that is shown, if one is. */
static int add_profile(struct pages_facts *facts, struct history_profile *profile, bool baseline,
                       struct flame *flame)
{
    int error = add_stacks(facts, profile, baseline, flame);
    const struct flame_weight *shown = baseline ? &flame->base_all : &flame->all;
    profile->cpu_ns = shown->ns;
    profile->samples = shown->samples;
    return error;
}

/* The one of both filters that matched nothing; else NULL. */
static const struct history_filter *empty_of(const struct pages_query *query, bool with_base,
                                             const struct history_profile *profile,
                                             const struct history_profile *base)
{
    if (!profile->samples)
        return &query->filter;
    return with_base && !base->samples ? &query->base : NULL;
}

static int flame_of_request(struct pages_facts *facts, struct pages_request *request,
                            enum flame_view view, bool with_base, struct flame *flame,
                            struct history_profile *profile, struct history_profile *base)
{
    *base = (struct history_profile){.complete = true};
    int error = history_profile(facts->history, &request->query.filter, &request->arena, profile);
    if (!error && with_base)
        error = history_profile(facts->history, &request->query.base, &request->arena, base);
    if (!error)
        error = flame_open(flame, view, FLAME_BYTES);
    if (error)
        return error;
    if (request->query.has_frames)
        flame_only(flame, request->query.frames);
    error = add_profile(facts, profile, false, flame);
    if (!error && with_base)
        error = add_profile(facts, base, true, flame);
    request->empty = empty_of(&request->query, with_base, profile, base);
    if (!error && view != FLAME_FUNCTIONS)
        error = flame_finish(flame, FLAME_NODES_MAX);
    if (error)
        flame_close(flame);
    return error;
}

/* ---- JSON ---- */

static void put_sums(struct json_writer *json, const struct history_profile *profile)
{
    json_put_ms(json, "from_ms", profile->from_unix_ns);
    json_put_ms(json, "to_ms", profile->to_unix_ns);
    json_put_uint(json, "cpu_ns", profile->cpu_ns);
    json_put_uint(json, "samples", profile->samples);
    json_put_uint(json, "period_ns", profile->period_ns);
    pages_status_waiting(json);
}

static void put_base_sums(struct json_writer *json, const struct history_profile *base)
{
    json_put_ms(json, "base_from_ms", base->from_unix_ns);
    json_put_ms(json, "base_to_ms", base->to_unix_ns);
    json_put_uint(json, "base_cpu_ns", base->cpu_ns);
    json_put_uint(json, "base_samples", base->samples);
}

/* The types of frames that there are, shown or not. */
static void put_types(struct json_writer *json, const struct flame *flame)
{
    json_begin_array(json, "types");
    for (int type = 0; type < HISTORY_FRAME_TYPES; type++)
        if (flame->types >> type & 1)
            json_put_string(json, NULL, history_frame_type_name((enum history_frame_type)type));
    json_end_array(json);
}

static int answer_flame(struct pages_facts *facts, struct pages_request *request, bool with_base)
{
    struct flame flame;
    struct history_profile profile, base;
    struct json_writer json = {.out = &request->body};
    int error =
        flame_of_request(facts, request, request->query.view, with_base, &flame, &profile, &base);
    if (error)
        return error;
    json_begin_object(&json, NULL);
    put_sums(&json, &profile);
    json_put_string(&json, "view", request->query.view == FLAME_CALLERS ? "callers" : "callees");
    put_types(&json, &flame);
    if (with_base)
        put_base_sums(&json, &base);
    error = flame_write_json(&flame, with_base, &json);
    json_put_bool(&json, "complete", profile.complete && base.complete);
    json_end_object(&json);
    flame_close(&flame);
    return error ? error : json.error;
}

int pages_flame_json(struct pages_facts *facts, struct pages_request *request)
{
    return answer_flame(facts, request, false);
}

int pages_diff(struct pages_facts *facts, struct pages_request *request)
{
    return answer_flame(facts, request, true);
}

/* ---- to take away ---- */

struct sides { /* before: only for a difference */
    struct history_profile after, before;
};

/* A downloaded file has no page around it that could say that data is missing. */
static int flame_to_take(struct pages_facts *facts, struct pages_request *request,
                         enum flame_view view, struct flame *flame, struct sides *sides)
{
    int error = flame_of_request(facts, request, view, request->query.has_base, flame,
                                 &sides->after, &sides->before);
    if (!error && !(sides->after.complete && sides->before.complete))
        pages_say_more(request);
    return error;
}

static int pages_query_describe(const struct pages_query *query, const struct sides *sides,
                                struct buf *text)
{
    int error = pages_describe(&query->filter, &sides->after, text);
    if (!error && query->has_base)
        error = buf_printf(text, "; before: ");
    if (!error && query->has_base)
        error = pages_describe(&query->base, &sides->before, text);
    if (!error && query->has_frames)
        error = buf_printf(text, "; %s frames alone", history_frame_type_name(query->frames));
    return error ? error : buf_append(text, "", 1);
}

static int write_svg(const struct pages_query *query, const struct flame *flame, const char *about,
                     struct buf *out)
{
    bool callers = query->view == FLAME_CALLERS;
    return flame_write_svg(flame,
                           &(struct flame_picture){callers ? "CPU time by function and its callers"
                                                           : "CPU time by call stack",
                                                   about},
                           out);
}

static int write_svg_difference(const struct pages_query *query, const struct flame *flame,
                                const struct flame_ranges *ranges, const char *about,
                                struct buf *out)
{
    bool callers = query->view == FLAME_CALLERS;
    return flame_write_svg_difference(
        flame,
        &(struct flame_picture){
            callers ? "CPU time by function and its callers: red is more than before, blue is less"
                    : "CPU time by call stack: red is more than before, blue is less",
            about},
        ranges, out);
}

int pages_flame_svg(struct pages_facts *facts, struct pages_request *request)
{
    const struct pages_query *query = &request->query;
    struct flame flame;
    struct sides sides;
    _cleanup_buf_ struct buf about = BUF_INIT(16 * PAGES_VALUE_MAX);
    int error = flame_to_take(facts, request, query->view, &flame, &sides);
    if (error)
        return error;
    const struct flame_ranges ranges = {sides.after.to_unix_ns - sides.after.from_unix_ns,
                                        sides.before.to_unix_ns - sides.before.from_unix_ns};
    error = pages_query_describe(query, &sides, &about);
    const char *text = (const char *)about.data;
    if (!error)
        error = query->has_base ? write_svg_difference(query, &flame, &ranges, text, &request->body)
                                : write_svg(query, &flame, text, &request->body);
    flame_close(&flame);
    return error;
}

int pages_flame_folded(struct pages_facts *facts, struct pages_request *request)
{
    const struct pages_query *query = &request->query;
    struct flame flame;
    struct sides sides;
    int error = flame_to_take(facts, request, query->view, &flame, &sides);
    if (error)
        return error;
    error = flame_write_folded(&flame, query->has_base, &request->body);
    flame_close(&flame);
    return error;
}

int pages_flame_speedscope(struct pages_facts *facts, struct pages_request *request)
{
    struct flame flame;
    struct sides sides;
    _cleanup_buf_ struct buf about = BUF_INIT(8 * PAGES_VALUE_MAX);
    int error = flame_to_take(facts, request, FLAME_CALLEES, &flame, &sides);
    if (error)
        return error;
    error = pages_query_describe(&request->query, &sides, &about);
    if (!error)
        error = flame_write_speedscope(&flame, (const char *)about.data, &request->body);
    flame_close(&flame);
    return error;
}

/* ---- functions ---- */

struct costs {
    double watt_per_core, pue, co2_t_per_kwh, usd_per_core_hour;
    double years; /* length of the range; 0: no range */
};

static struct costs costs_of(const struct config_pages *config,
                             const struct history_profile *profile)
{
#if defined(__aarch64__) || defined(__arm__)
    const double watt = 2.8;
#else
    const double watt = 7;
#endif
    double range_s = profile->to_unix_ns > profile->from_unix_ns
                         ? (double)(profile->to_unix_ns - profile->from_unix_ns) / 1e9
                         : 0;
    return (struct costs){.watt_per_core =
                              config->costs.watt_per_core > 0 ? config->costs.watt_per_core : watt,
                          .pue = config->costs.pue,
                          .co2_t_per_kwh = config->costs.co2_t_per_kwh,
                          .usd_per_core_hour = config->costs.usd_per_core_hour,
                          .years = range_s / YEAR_S};
}

static void put_annual(struct json_writer *json, const struct costs *costs, uint64_t self_ns,
                       uint64_t total_ns)
{
    const struct {
        const char *hours, *co2, *usd;
        uint64_t ns;
    } parts[] = {{"self_core_hours", "self_co2_kg", "self_usd", self_ns},
                 {"total_core_hours", "total_co2_kg", "total_usd", total_ns}};
    json_begin_object(json, "annual");
    for (size_t i = 0; i < 2; i++) {
        double hours = costs->years > 0 ? (double)parts[i].ns / NS_PER_CORE_HOUR / costs->years : 0;
        double kwh = hours * costs->watt_per_core / 1000;
        json_put_double(json, parts[i].hours, hours);
        json_put_double(json, parts[i].co2, kwh * costs->pue * costs->co2_t_per_kwh * 1000);
        json_put_double(json, parts[i].usd, hours * costs->usd_per_core_hour);
    }
    json_end_object(json);
}

static void put_function(struct json_writer *json, const struct flame *flame,
                         const struct flame_function *function, const struct costs *costs,
                         bool with_base)
{
    const struct history_frame *frame = &flame->frames[function->frame];
    json_begin_object(json, NULL);
    json_put_uint(json, "rank", function->rank);
    json_put_text(json, "function", frame->function);
    json_put_text(json, "file", frame->file);
    json_put_text(json, "module", frame->module);
    json_put_string(json, "type", flame_type_name(frame->type));
    json_put_uint(json, "self_ns", function->weights.self.ns);
    json_put_uint(json, "total_ns", function->weights.total.ns);
    json_put_uint(json, "self_samples", function->weights.self.samples);
    json_put_uint(json, "total_samples", function->weights.total.samples);
    if (with_base) {
        json_put_uint(json, "base_self_ns", function->base.self.ns);
        json_put_uint(json, "base_total_ns", function->base.total.ns);
        json_put_uint(json, "base_rank", function->base_rank);
    }
    put_annual(json, costs, function->weights.self.ns, function->weights.total.ns);
    json_end_object(json);
}

static void put_costs(struct json_writer *json, const struct costs *costs)
{
    json_begin_object(json, "costs");
    json_put_double(json, "watt_per_core", costs->watt_per_core);
    json_put_double(json, "pue", costs->pue);
    json_put_double(json, "co2_t_per_kwh", costs->co2_t_per_kwh);
    json_put_double(json, "usd_per_core_hour", costs->usd_per_core_hour);
    json_end_object(json);
}

/* With a baseline, also lists functions that ranked high in the baseline and are (nearly) gone now.
 */
static void put_functions(struct json_writer *json, const struct flame *flame,
                          const struct flame_function *functions, size_t n, size_t limit,
                          const struct costs *costs, bool with_base)
{
    json_begin_array(json, "functions");
    for (size_t i = 0; i < n && !json->error; i++)
        if (i < limit || (with_base && functions[i].base_rank && functions[i].base_rank <= limit))
            put_function(json, flame, &functions[i], costs, with_base);
    json_end_array(json);
}

int pages_functions(struct pages_facts *facts, struct pages_request *request)
{
    struct flame flame;
    struct history_profile profile, base;
    const struct flame_function *functions;
    size_t n;
    bool with_base = request->query.has_base;
    struct json_writer json = {.out = &request->body};
    int error =
        flame_of_request(facts, request, FLAME_FUNCTIONS, with_base, &flame, &profile, &base);
    if (error)
        return error;
    struct costs costs = costs_of(facts->pages, &profile);
    error = flame_functions(&flame, request->query.by_total, &functions, &n);
    if (!error) {
        json_begin_object(&json, NULL);
        json_put_string(&json, "host", facts->host);
        put_sums(&json, &profile);
        if (with_base)
            put_base_sums(&json, &base);
        put_types(&json, &flame);
        put_functions(&json, &flame, functions, n,
                      request->query.limit ? request->query.limit : FUNCTIONS_MAX, &costs,
                      with_base);
        put_costs(&json, &costs);
        json_put_bool(&json, "complete", profile.complete && base.complete);
        json_end_object(&json);
        error = json.error;
    }
    flame_close(&flame);
    return error;
}
