/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_items.h"
#include "base/stats.h"
#include "proto/otlp/otlp_items.h"
#include "receiver/intake/intake_body.h"
#include <errno.h>

STAT_COUNTER(points_received, "spanprof_metric_points_received_total",
             "Data points in accepted requests.");
STAT_COUNTER(records_received, "spanprof_log_records_received_total",
             "Log records in accepted requests.");

struct putting {
    struct outbox *outbox;
    enum signal signal;
    uint32_t destinations;
};

static int put_body(void *context, struct bytes body, uint64_t n_items)
{
    const struct putting *putting = context;
    return outbox_put(putting->outbox, putting->signal, n_items, putting->destinations, body);
}

static int make_room(void *context, uint64_t bytes)
{
    const struct putting *putting = context;
    return outbox_reserve(putting->outbox, putting->signal, putting->destinations, bytes);
}

int intake_items_run(struct intake_request *request, struct store *store,
                     const struct intake_signal_settings *settings)
{
    _cleanup_buf_ struct buf inflated = BUF_INIT(0);
    struct bytes body;
    int outcome = intake_body_read(request, &inflated, &body);
    if (outcome)
        return outcome < 0 ? outcome : 0;
    uint64_t n_items = otlp_items_count(request->signal, body);
    request->outcome = INTAKE_ACCEPTED;
    if (n_items == 0)
        return 0;
    struct putting putting = {store_outbox(store), request->signal, settings->destinations};
    struct otlp_split split = {put_body, &putting, settings->max_body_bytes, make_room};
    outcome = make_room(&putting, intake_room_for(request, body));
    if (!outcome)
        outcome = otlp_items_split(request->signal, body, &split);
    outbox_release(putting.outbox);
    if (outcome == OTLP_TOO_BIG)
        return intake_refuse_entry(request);
    if (outcome == -EFBIG)
        return intake_refuse_large(request);
    if (outcome != OTLP_OK)
        return outcome == OTLP_MALFORMED ? -EPROTO : outcome;
    stat_add(request->signal == SIGNAL_METRICS ? &points_received : &records_received,
             (int64_t)n_items);
    return 0;
}
