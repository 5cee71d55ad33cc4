/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/fake_intake.h"

static void answer_all(struct intake *intake)
{
    struct list *link;
    while ((link = list_pop(&intake->waiting))) {
        struct job *job = container_of(link, struct job, link);
        struct intake_request *request = container_of(job, struct intake_request, job);
        intake->n_waiting--;
        request->outcome = intake->outcome;
        request->message = intake->message;
        request->done(request);
    }
}

static void on_answer(struct timer *timer)
{
    answer_all(container_of(timer, struct intake, answer));
}

void fake_intake_open(struct intake *intake, struct loop *loop)
{
    *intake = (struct intake){.loop = loop,
                              .pipelines = 1u << SIGNAL_TRACES,
                              .last_body = BUF_INIT(0),
                              .answer = {.fire = on_answer}};
    list_init(&intake->waiting);
    admission_init(&intake->admission, loop, 32 << 20, 1000);
}

void fake_intake_close(struct intake *intake)
{
    timer_stop(&intake->answer);
    answer_all(intake);
    buf_close(&intake->last_body);
    admission_close(&intake->admission);
}

void fake_intake_release(struct intake *intake)
{
    intake->hold = false;
    timer_start(intake->loop, &intake->answer, 0);
}

void intake_submit(struct intake *intake, struct intake_request *request)
{
    request->intake = intake;
    intake->n_requests++;
    intake->n_bytes += request->body.len;
    intake->last_encoding = request->encoding;
    intake->last_json = request->json;
    intake->last_signal = request->signal;
    buf_close(&intake->last_body);
    intake->last_body = request->body;
    request->body = (struct buf){0};
    request->job.link = (struct list){NULL, NULL};
    list_append(&intake->waiting, &request->job.link);
    intake->n_waiting++;
    if (!intake->hold)
        timer_start(intake->loop, &intake->answer, 0);
}

struct admission *intake_admission(struct intake *intake)
{
    return &intake->admission;
}

bool intake_has_pipeline(const struct intake *intake, enum signal signal)
{
    return intake->pipelines & 1u << signal;
}
