/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that does not read delays only itself. Messages that its socket does not accept wait,
 * and are sent when epoll reports room (by default the kernel queues ten datagrams per socket;
 * agents read every 20 ms). A send error, or the process's exit in the process stream, shows that
 * an agent is gone.
 */
#include "receiver/intake/correlation.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/stats.h"
#include "receiver/intake/correlation_counts.h"
#include "store/store.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

STAT_GAUGE(sockets_open, "spanprof_elastic_sockets",
           "Elastic agents that receive the samples of their process.");
STAT_COUNTER(sockets_evicted, "spanprof_elastic_sockets_evicted_total",
             "Sockets of Elastic agents closed because there were too many.");
STAT_COUNTER(registrations, "spanprof_elastic_registrations_total",
             "Registration messages sent to Elastic agents.");
STAT_COUNTER(messages_sent, "spanprof_elastic_messages_total",
             "Messages about samples sent to Elastic agents.");
STAT_COUNTER(samples_sent, "spanprof_elastic_samples_total",
             "Samples reported to their process's Elastic agent.");

#define WAITING_KEPT 4096 /* bytes of an agent's buffer that are kept when it is empty */
#define MARGIN_NS    (150 * NS_PER_MS) /* for the commit, and for other work of loop and writer */

struct agent {
    uint32_t pid;
    uint64_t time_ns; /* when its socket was found */
    bool registered;
    struct watch watch; /* watched only while messages wait */
    struct buf waiting; /* struct elastic_correlation */
    struct list used;   /* in the correlation's list, most recently used last */
    struct correlation *correlation;
};

struct correlation {
    struct correlation_settings settings;
    struct correlation_counts *counts; /* writer's */
    atomic_bool wanted;                /* there are agents: samples are counted */
    struct map agents;                 /* by pid */
    struct list used;
    size_t agents_max;
    size_t n_waiting;
    size_t n_flushing;  /* jobs at the writer */
    struct timer timer; /* the next flush; once stopping, the end of the wait for slow agents */
    void (*stopped)(void *context); /* from correlation_stop() until it is called */
    void *context;
};

struct flush {
    struct job job;
    struct correlation *correlation;
    uint64_t now_ns;
    struct buf messages; /* struct correlation_message */
};

/* ---- agents ---- */

static size_t n_waiting(const struct agent *agent)
{
    return agent->waiting.len / sizeof(struct elastic_correlation);
}

static int64_t samples_waiting(const struct agent *agent)
{
    const struct elastic_correlation *messages = (const void *)agent->waiting.data;
    int64_t n = 0;
    for (size_t i = 0; i < n_waiting(agent); i++)
        n += messages[i].count;
    return n;
}

static void count_agents(struct correlation *correlation)
{
    stat_set(&sockets_open, (int64_t)correlation->agents.count);
    atomic_store_explicit(&correlation->wanted, correlation->agents.count > 0,
                          memory_order_relaxed);
}

static void agent_drop(struct agent *agent)
{
    struct correlation *correlation = agent->correlation;
    correlation_count_lost(CORRELATION_LOST_AGENT_GONE, samples_waiting(agent));
    correlation->n_waiting -= n_waiting(agent);
    watch_stop(&agent->watch);
    close(agent->watch.fd);
    buf_close(&agent->waiting);
    list_remove(&agent->used);
    map_remove(&correlation->agents, &agent->pid);
    free(agent);
    count_agents(correlation);
}

enum send_outcome { SEND_DONE, SEND_WAIT, SEND_FAILED, SEND_GONE };

static enum send_outcome send_datagram(struct agent *agent, const uint8_t *data, size_t size)
{
    ssize_t n;
    do
        n = send(agent->watch.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return SEND_DONE;
    if (errno == EAGAIN)
        return SEND_WAIT;
    return errno == ENOBUFS || errno == ENOMEM ? SEND_FAILED : SEND_GONE;
}

/* Most samples are reported within this time. */
static uint32_t samples_delay_ms(const struct correlation *correlation)
{
    uint64_t ns = correlation->settings.drain_interval_ns + CORRELATION_FLUSH_NS +
                  CORRELATION_HOLD_NS + MARGIN_NS;
    return ns / NS_PER_MS < UINT32_MAX ? (uint32_t)(ns / NS_PER_MS) : UINT32_MAX;
}

/* Sends no host id: other data has no host id that it could match. */
static enum send_outcome send_registration(struct agent *agent)
{
    uint8_t out[ELASTIC_MESSAGE_MAX];
    size_t size = elastic_registration(out, samples_delay_ms(agent->correlation), BYTES(NULL, 0));
    enum send_outcome outcome = send_datagram(agent, out, size);
    agent->registered = outcome == SEND_DONE;
    stat_add(&registrations, agent->registered);
    return outcome;
}

static enum send_outcome send_first(struct agent *agent)
{
    uint8_t out[ELASTIC_MESSAGE_MAX];
    struct elastic_correlation message;
    memcpy(&message, agent->waiting.data, sizeof(message));
    enum send_outcome outcome = send_datagram(agent, out, elastic_correlation(out, &message));
    if (outcome == SEND_WAIT || outcome == SEND_GONE)
        return outcome;
    if (outcome == SEND_DONE)
        stat_add(&samples_sent, message.count);
    else
        correlation_count_lost(CORRELATION_LOST_SEND, message.count);
    stat_add(&messages_sent, outcome == SEND_DONE);
    buf_consume(&agent->waiting, sizeof(message));
    agent->correlation->n_waiting--;
    return SEND_DONE;
}

static enum send_outcome send_waiting(struct agent *agent)
{
    enum send_outcome outcome = agent->registered ? SEND_DONE : send_registration(agent);
    while (outcome == SEND_DONE && agent->waiting.len > 0)
        outcome = send_first(agent);
    return outcome;
}

/* The agent may be gone afterwards. */
static void agent_flush(struct agent *agent)
{
    enum send_outcome outcome = send_waiting(agent);
    if (outcome == SEND_DONE && agent->waiting.cap > WAITING_KEPT)
        buf_close(&agent->waiting);
    bool gone = outcome == SEND_GONE;
    if (outcome == SEND_WAIT && !agent->watch.loop)
        gone = watch_start(agent->correlation->settings.loop, &agent->watch) != 0;
    if (gone)
        agent_drop(agent);
    else if (outcome != SEND_WAIT)
        watch_stop(&agent->watch); /* a failed message is retried with the next one */
}

static void correlation_end_stop(struct correlation *correlation)
{
    void (*stopped)(void *context) = correlation->stopped;
    correlation->stopped = NULL;
    timer_stop(&correlation->timer);
    stopped(correlation->context);
}

/* Is all said that was to be said before the end? */
static void correlation_check_stop(struct correlation *correlation)
{
    if (correlation->stopped && correlation->n_flushing == 0 && correlation->n_waiting == 0)
        correlation_end_stop(correlation);
}

static void agent_ready(struct watch *watch, uint32_t events)
{
    (void)events; /* errors show at the next send */
    struct agent *agent = container_of(watch, struct agent, watch);
    struct correlation *correlation = agent->correlation;
    agent_flush(agent);
    correlation_check_stop(correlation);
}

static void agent_use(struct agent *agent)
{
    list_remove(&agent->used);
    list_append(&agent->correlation->used, &agent->used);
}

static struct agent *agent_new(struct correlation *correlation, uint32_t pid)
{
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent)
        return NULL;
    *agent = (struct agent){
        .pid = pid,
        .watch = {.fd = -1, .events = EPOLLOUT, .ready = agent_ready},
        .waiting = BUF_INIT(CORRELATION_WAITING_MAX * sizeof(struct elastic_correlation)),
        .correlation = correlation};
    if (map_put(&correlation->agents, agent, NULL)) {
        free(agent);
        return NULL;
    }
    list_append(&correlation->used, &agent->used);
    return agent;
}

static struct agent *agent_of(struct correlation *correlation, uint32_t pid)
{
    return map_get(&correlation->agents, &pid);
}

static void correlation_evict(struct correlation *correlation)
{
    stat_add(&sockets_evicted, 1);
    agent_drop(container_of(list_first(&correlation->used), struct agent, used));
}

/* ---- messages ---- */

static void correlation_deliver(struct correlation *correlation,
                                const struct correlation_message *message)
{
    struct agent *agent = agent_of(correlation, message->pid);
    if (!agent) {
        correlation_count_lost(CORRELATION_LOST_NO_SOCKET, message->said.count);
        return;
    }
    if (correlation->n_waiting >= CORRELATION_TOTAL_MAX ||
        buf_append(&agent->waiting, &message->said, sizeof(message->said)) != 0) {
        correlation_count_lost(CORRELATION_LOST_AGENT_SLOW, message->said.count);
        return;
    }
    correlation->n_waiting++;
    agent_use(agent);
    if (!agent->watch.loop)
        agent_flush(agent);
}

static int flush_run(struct job *job)
{
    struct flush *flush = container_of(job, struct flush, job);
    struct correlation *correlation = flush->correlation;
    int error = correlation_counts_take(correlation->counts, flush->now_ns, &flush->messages);
    if (error)
        store_fail(correlation->settings.store, error);
    return error;
}

static void flush_done(struct job *job, int error)
{
    struct flush *flush = container_of(job, struct flush, job);
    const struct correlation_message *messages = (const void *)flush->messages.data;
    size_t n = flush->messages.len / sizeof(*messages);
    for (size_t i = 0; i < n; i++)
        if (error)
            correlation_count_lost(CORRELATION_LOST_STORE, messages[i].said.count);
        else
            correlation_deliver(flush->correlation, &messages[i]);
    flush->correlation->n_flushing--;
    correlation_check_stop(flush->correlation);
    buf_close(&flush->messages);
    free(flush);
}

/* now_ns: of the flush; UINT64_MAX holds no count back. */
static void submit_flush(struct correlation *correlation, uint64_t now_ns)
{
    struct flush *flush = calloc(1, sizeof(*flush));
    if (!flush)
        return;
    *flush = (struct flush){.job = {.run = flush_run, .done = flush_done},
                            .correlation = correlation,
                            .now_ns = now_ns,
                            .messages = BUF_INIT(0)};
    if (worker_submit(correlation->settings.writer, &flush->job) == 0)
        correlation->n_flushing++;
    else
        free(flush); /* the next flush does this one's work */
}

static void on_timer(struct timer *timer)
{
    struct correlation *correlation = container_of(timer, struct correlation, timer);
    if (correlation->stopped)
        return correlation_end_stop(correlation);
    if (correlation->n_flushing == 0)
        submit_flush(correlation, clock_monotonic_ns());
    if (correlation->agents.count > 0)
        timer_start(correlation->settings.loop, timer, CORRELATION_FLUSH_NS);
}

/* ---- verbs ---- */

static size_t agents_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 4 >= CORRELATION_SOCKETS_MAX)
        return CORRELATION_SOCKETS_MAX;
    return (size_t)limit.rlim_cur / 4 + 1;
}

int correlation_open(const struct correlation_settings *settings, struct correlation **correlationp)
{
    struct correlation *correlation = calloc(1, sizeof(*correlation));
    if (!correlation)
        return -ENOMEM;
    correlation->settings = *settings;
    correlation->agents_max = agents_max();
    correlation->timer.fire = on_timer;
    list_init(&correlation->used);
    MAP_INIT(&correlation->agents, struct agent, pid);
    int error = correlation_counts_open(settings->store, &correlation->counts);
    if (error) {
        correlation_close(correlation);
        return error;
    }
    *correlationp = correlation;
    return 0;
}

void correlation_close(struct correlation *correlation)
{
    if (!correlation)
        return;
    timer_stop(&correlation->timer);
    struct list *link;
    while ((link = list_first(&correlation->used)))
        agent_drop(container_of(link, struct agent, used));
    map_close(&correlation->agents);
    correlation_counts_close(correlation->counts);
    free(correlation);
}

void correlation_attach(struct correlation *correlation, const struct symbolizer_process *process,
                        int fd)
{
    struct agent *agent = agent_of(correlation, process->pid);
    if (!agent && correlation->agents.count >= correlation->agents_max)
        correlation_evict(correlation);
    if (!agent)
        agent = agent_new(correlation, process->pid);
    if (!agent) {
        close(fd);
        return;
    }
    watch_stop(&agent->watch);
    if (agent->watch.fd >= 0)
        close(agent->watch.fd);
    agent->watch.fd = fd;
    agent->time_ns = process->time_ns;
    agent->registered = false;
    agent_use(agent);
    count_agents(correlation);
    if (!correlation->timer.due_ns && !correlation->stopped)
        timer_start(correlation->settings.loop, &correlation->timer, CORRELATION_FLUSH_NS);
    agent_flush(agent);
}

void correlation_event(struct correlation *correlation, const struct process_event *event)
{
    bool ends = event->kind == PROCESS_FORKED || event->kind == PROCESS_EXECED ||
                event->kind == PROCESS_EXITED;
    struct agent *agent = ends ? agent_of(correlation, event->pid) : NULL;
    if (agent && event->time_ns > agent->time_ns)
        agent_drop(agent);
}

void correlation_stop(struct correlation *correlation, void (*stopped)(void *context),
                      void *context)
{
    correlation->stopped = stopped;
    correlation->context = context;
    timer_start(correlation->settings.loop, &correlation->timer, CORRELATION_STOP_NS);
    submit_flush(correlation, UINT64_MAX);
    correlation_check_stop(correlation);
}

void correlation_add(struct correlation *correlation, const struct record_header *record,
                     int64_t stack)
{
    if (atomic_load_explicit(&correlation->wanted, memory_order_relaxed))
        correlation_counts_add(correlation->counts, record, stack);
}
