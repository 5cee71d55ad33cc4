/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that no destination will get. A request without a body, or one that waits only for slots
 * that do not exist, is not seen by any reader. It is found once it is the oldest.
 */
#include "base/stats.h"
#include "store/outbox/outbox_state.h"
#include <errno.h>

#define DAMAGED_ROWS 100 /* per step */

static const char *const loss_names[] = {[OUTBOX_LOST_FULL] = "full",
                                         [OUTBOX_LOST_NO_DESTINATION] = "no_destination",
                                         [OUTBOX_LOST_DAMAGED] = "damaged",
                                         [OUTBOX_LOST_CORRUPT] = "corrupt"};
STAT_LOSSES(lost, "spanprof_outbox_dropped_items_total",
            "Items of waiting requests that were dropped, by reason.",
            STAT_LABELS("signal", signal_names, SIGNAL_COUNT, "reason", loss_names, OUTBOX_LOSSES));

void outbox_count_lost(enum signal signal, enum outbox_loss reason, int64_t items)
{
    stat_add_of2(&lost, signal, reason, items);
}

/* 1 = the request was damaged and is dropped. */
static int drop_if_damaged(struct outbox *outbox, int signal)
{
    struct outbox_oldest oldest;
    struct request_row request;
    int outcome = outbox_find_oldest(outbox, signal, &oldest);
    if (outcome != 1)
        return outcome;
    if (oldest.has_body && oldest.waiting & outbox->known)
        return 0;
    int error = outbox_get_row(outbox, oldest.seq, &request);
    error = error ? error : outbox_remove_row(outbox, &request);
    if (error)
        return error == -ENOENT ? 0 : error;
    outbox_handoffs_dropped(&outbox->handoffs, request.signal, oldest.seq);
    outbox_count_lost(request.signal, OUTBOX_LOST_DAMAGED, request.items);
    return 1;
}

int outbox_drop_damaged(struct outbox *outbox, int signal)
{
    int outcome = 1;
    for (unsigned n = 0; n < DAMAGED_ROWS && outcome == 1; n++)
        outcome = drop_if_damaged(outbox, signal);
    return outcome < 0 ? outcome : 0;
}

void outbox_file_lost(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    for (int signal = 0; signal < SIGNAL_COUNT; signal++) {
        struct outbox_sum *sum = &outbox->sums.committed[signal];
        outbox_count_lost((enum signal)signal, OUTBOX_LOST_CORRUPT, sum->items);
        *sum = (struct outbox_sum){0};
    }
}
