/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads blocks in order of writing, each from its first to its last sample. A cursor is a position
 * in that order: the next block, and the number of its samples already read, whether they match the
 * filter or not. profile_request.h builds the request, as in the export.
 */
#include "store/query/history_reader_state.h"
#include "store/window/profile_request.h"
#include <errno.h>

#define CURSOR_SAMPLE_BITS 17 /* HISTORY_BLOCK_SAMPLES_MAX fits */

enum { SCRAPE_FULL = 1 };

struct scraping {
    struct reader_scan *scan;
    struct history_scrape *scrape;
    struct profile_request request;
    uint64_t skip;       /* samples of the current block that earlier calls have read */
    uint64_t gone;       /* samples of the current block read so far */
    uint64_t to_unix_ns; /* written_unix_ns of the latest block */
};

static struct join_span_facts span_of(const struct scraping *scraping,
                                      const struct reader_weight *weight)
{
    const struct history_context *context = &weight->group->context;
    const struct reader_scan *scan = scraping->scan;
    struct join_span_facts facts = {.kind = weight->series->facts.span_kind,
                                    .name = weight->series->span_name};
    memcpy(facts.trace_id, context->trace_id, 16);
    memcpy(facts.span_id, context->span_id, 8);
    if (context->span < scan->spans.n)
        facts.attributes = history_span_attributes(&scan->spans.spans[context->span],
                                                   buf_bytes(&scan->spans_body));
    return facts;
}

static struct sample sample_of(const struct reader_weight *weight)
{
    const struct history_sample_group *group = weight->group;
    const struct reader_series *series = weight->series;
    struct sample sample = {
        .period_ns = group->period_ns,
        .stack = group->stack,
        .cpu = SAMPLE_NO_CPU,
        .tid = group->tid,
        .kind = series->facts.sample_kind,
        .context_source = series->facts.context_source,
        .attributes = group->attributes,
    };
    size_t len = series->thread.len < SAMPLE_COMM ? series->thread.len : SAMPLE_COMM;
    if (len)
        memcpy(sample.comm, series->thread.data, len);
    memcpy(sample.trace_id, group->context.trace_id, 16);
    memcpy(sample.span_id, group->context.span_id, 8);
    memcpy(sample.local_root_id, group->context.local_root_id, 8);
    return sample;
}

static bool is_asked_for(const struct scraping *scraping, uint64_t time)
{
    const struct reader_range *asked = &scraping->scan->asked;
    return time >= asked->from && time < asked->to;
}

/* A sample that does not fit even into an empty request is left out. */
static int put_sample(struct scraping *scraping, const struct reader_weight *weight,
                      const struct sample *sample)
{
    const struct join_span_facts span = span_of(scraping, weight);
    struct bytes resource;
    int error = reader_text(scraping->scan->reader, weight->series->facts.resource, &resource);
    if (!error)
        error = profile_request_put(&scraping->request, weight->series->facts.resource, resource,
                                    sample, weight->group->context.matched ? &span : NULL);
    if (error == -EMSGSIZE)
        return otlp_profiles_samples(scraping->request.profiles) ? SCRAPE_FULL : 0;
    return error;
}

static int put_group(void *context, const struct history_samples *samples,
                     const struct history_sample_group *group)
{
    struct scraping *scraping = context;
    struct reader_weight weight = {.stack = group->stack, .group = group};
    int outcome = scraping->gone + group->n > scraping->skip
                      ? reader_match_group(scraping->scan, group, &weight)
                      : 0;
    if (outcome < 0)
        return outcome;
    if (!outcome) {
        scraping->gone += group->n;
        return 0;
    }
    struct sample sample = sample_of(&weight);
    struct history_group_times times = history_times_of(samples, group);
    int error = 0;
    while (!error && history_times_next(&times, &sample.time_unix_ns, &sample.value_ns)) {
        if (scraping->gone >= scraping->skip && is_asked_for(scraping, sample.time_unix_ns))
            error = put_sample(scraping, &weight, &sample);
        scraping->gone += !error;
    }
    return error;
}

static int put_block(struct scraping *scraping, size_t at)
{
    struct reader_scan *scan = scraping->scan;
    const struct reader_block *block = &scan->blocks[at];
    bool is_asked_for = block->samples && block->samples_to_unix_ns >= scan->asked.from &&
                        block->samples_from_unix_ns < scan->asked.to;
    int outcome = is_asked_for ? reader_match_block(scan, block) : 0;
    if (outcome <= 0)
        return outcome;
    int error = reader_match_as_left(scan, at);
    error = error ? error : reader_scan_spans(scan, block);
    return error ? error : reader_scan_groups(scan, block, put_group, scraping);
}

static uint64_t cursor_of(uint64_t seq, uint64_t gone)
{
    return seq << CURSOR_SAMPLE_BITS | gone;
}

/* The block to continue with. A cursor beyond the last block is from another file: start at the
 * beginning. */
static uint64_t first_seq(struct scraping *scraping)
{
    const struct reader_scan *scan = scraping->scan;
    struct history_scrape *scrape = scraping->scrape;
    uint64_t wanted = scrape->since >> CURSOR_SAMPLE_BITS;
    uint64_t oldest = scan->n_blocks ? (uint64_t)scan->blocks[0].seq : 0;
    uint64_t newest = scan->n_blocks ? (uint64_t)scan->blocks[scan->n_blocks - 1].seq : 0;
    scraping->skip = scrape->since & ((1 << CURSOR_SAMPLE_BITS) - 1);
    if (wanted > newest + 1 || wanted < oldest)
        scraping->skip = 0;
    if (wanted > newest + 1)
        wanted = 0;
    if (wanted && wanted < oldest)
        scrape->missed = oldest - wanted;
    return wanted;
}

static int put_blocks(struct scraping *scraping)
{
    struct reader_scan *scan = scraping->scan;
    struct history_scrape *scrape = scraping->scrape;
    uint64_t first = first_seq(scraping);
    int error = 0;
    scrape->next = scan->n_blocks ? cursor_of(first, scraping->skip) : scrape->since;
    for (size_t i = 0; i < scan->n_blocks; i++) {
        const struct reader_block *block = &scan->blocks[i];
        if ((uint64_t)block->seq < first)
            continue;
        scraping->gone = 0;
        scrape->more = !reader_scan_goes_on(scan);
        if (scrape->more)
            return 0;
        error = put_block(scraping, i);
        scraping->to_unix_ns = block->written_unix_ns;
        if (error == SCRAPE_FULL || error == -ENOMEM) {
            scrape->next = cursor_of((uint64_t)block->seq, scraping->gone);
            scrape->more = true;
            return error == SCRAPE_FULL || otlp_profiles_samples(scraping->request.profiles)
                       ? 0
                       : error;
        }
        error = reader_scan_left_out(scan, error);
        if (error)
            return error;
        scrape->next = cursor_of((uint64_t)block->seq + 1, 0);
        scraping->skip = 0;
    }
    return 0;
}

static int scraping_answer(struct scraping *scraping, struct buf *out)
{
    struct history_scrape *scrape = scraping->scrape;
    struct reader_scan *scan = scraping->scan;
    scan->by_minutes = false; /* minutes have no single samples */
    int error = profile_request_begin(&scraping->request, scrape->max_bytes);
    error = error ? error : put_blocks(scraping);
    if (error)
        return error;
    scrape->samples = otlp_profiles_samples(scraping->request.profiles);
    if (!scrape->samples)
        return 0;
    uint64_t from_unix_ns = scraping->request.first_unix_ns, to_unix_ns = scraping->to_unix_ns;
    error = otlp_profiles_finish(scraping->request.profiles, from_unix_ns,
                                 to_unix_ns > from_unix_ns ? to_unix_ns : from_unix_ns, /* clocks */
                                 scrape->scope_version, out);
    return error > 0 ? -EMSGSIZE : error;
}

int history_scrape(struct history_reader *reader, const struct history_filter *filter,
                   struct history_scrape *scrape, struct buf *out)
{
    DB_THREAD(reader->db);
    const struct stack_dictionary stacks = stacks_reader_dictionary(&reader->frames.stacks);
    struct history_filter as_left = *filter;
    struct reader_scan scan;
    struct scraping scraping = {.scan = &scan, .scrape = scrape};
    scrape->next = scrape->since;
    scrape->samples = scrape->missed = 0;
    scrape->more = false;
    int error = reader_begin(reader);
    if (!error) {
        profile_request_open(&scraping.request, &stacks, NULL);
        as_left.as_left = true;
        error = reader_scan_open(&scan, reader, &as_left);
        error = error ? error : scraping_answer(&scraping, out);
        reader_scan_close(&scan);
        profile_request_close(&scraping.request);
    }
    reader_end(reader);
    return error;
}
