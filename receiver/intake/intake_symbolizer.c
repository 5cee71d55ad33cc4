/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the symbolizer's answers to the writer, and the writer's requests to the symbolizer.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "base/log.h"
#include "base/stats.h"
#include "receiver/intake/intake_state.h"
#include <stdlib.h>
#include <string.h>

STAT_LOSS(answers_dropped, "spanprof_symbolizer_answers_dropped_total",
          "Answers of the symbolizer dropped because the writer's queue was full.");

struct answer_job {
    struct job job;
    struct intake *intake;
    struct symbolizer_answer *answer;
    struct list requests;
};

void intake_take_requests(struct intake *intake, struct list *requests)
{
    process_table_request_changed(intake->table);
    symbolizer_queue_take(&intake->requests, requests);
}

static int answer_run(struct job *job)
{
    struct answer_job *answered = container_of(job, struct answer_job, job);
    intake_follow_store(answered->intake);
    int error = intake_samples_answer(answered->intake->samples, &answered->answer->message);
    intake_take_requests(answered->intake, &answered->requests);
    return intake_broken(answered->intake, error);
}

static void answer_done(struct job *job, int error)
{
    struct answer_job *answered = container_of(job, struct answer_job, job);
    struct intake *intake = answered->intake;
    intake->pending_bytes -= answered->answer->size;
    bool scanned = answered->answer->message.kind == SYMBOLIZER_SCAN_DONE;
    (void)error; /* logged by the store; a later scan repeats it */
    symbolizer_client_submit(intake->symbolizer, &answered->requests);
    symbolizer_requests_free(&answered->requests);
    symbolizer_answer_free(answered->answer);
    free(answered);
    if (scanned)
        intake_begin_draining(intake);
}

static void follow_gone(struct intake *intake, const struct symbolizer_message *message)
{
    if (message->kind == SYMBOLIZER_GONE)
        correlation_event(intake->correlation,
                          &(struct process_event){.kind = PROCESS_EXITED,
                                                  .pid = message->process.pid,
                                                  .time_ns = message->process.time_ns});
}

static void symbolizer_answered(void *context, struct symbolizer_answer *answer)
{
    struct intake *intake = context;
    follow_gone(intake, &answer->message);
    struct answer_job *answered = calloc(1, sizeof(*answered));
    if (answered) {
        *answered = (struct answer_job){
            .job = {.run = answer_run, .done = answer_done}, .intake = intake, .answer = answer};
        list_init(&answered->requests);
        if (intake_has_room(intake) &&
            worker_submit(intake->settings.writer, &answered->job) == 0) {
            intake->pending_bytes += answer->size;
            return;
        }
    }
    stat_add(&answers_dropped, 1);
    free(answered);
    symbolizer_answer_free(answer);
}

static void symbolizer_correlated(void *context, const struct symbolizer_process *process, int fd)
{
    struct intake *intake = context;
    correlation_attach(intake->correlation, process, fd);
}

int intake_symbolizer_open(struct intake *intake)
{
    return symbolizer_client_open(
        &(struct symbolizer_client_settings){.loop = intake->settings.loop,
                                             .answered = symbolizer_answered,
                                             .correlated = symbolizer_correlated,
                                             .context = intake},
        &intake->symbolizer);
}

void intake_symbolizer(struct intake *intake, int fd)
{
    int error = symbolizer_client_attach(intake->symbolizer, fd);
    if (error)
        log_warn("intake", "no socket to the symbolizer: %s", strerror(-error));
}
