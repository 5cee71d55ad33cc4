/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening follows the way of the data backwards (store, exporters, intake, receivers), so that each
 * part finds the next one ready; stopping follows it forwards: receivers end, the ring is drained
 * and the last profile window closed, exporters finish what is in flight. What is left lies in the
 * store, with the samples of the meantime: a span that outlives the restart has them.
 */
#include "service/service.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/drain/ring.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/worker.h"
#include "exporter/exporter.h"
#include "exporter/pages/metrics_page.h"
#include "receiver/grpc/grpc_server.h"
#include "receiver/http/http_server.h"
#include "receiver/intake/intake.h"
#include "service/service_auth.h"
#include "service/service_health.h"
#include "service/service_pages.h"
#include "store/window/coverage.h"
#include "store/window/span_cpu.h"
#include "service/service_store.h"
#include <stdlib.h>
#include <unistd.h>

#define ADMITTED_BYTES    (32u << 20) /* of requests that are let in, but for one that is larger */
#define BEGINNINGS_BYTES  (16u << 20) /* of requests that are not */
#define RECEIVERS_STOP_NS (3 * NS_PER_SEC)
#define EXPORTERS_STOP_NS (4 * NS_PER_SEC)
#define MAINTAIN_NS       NS_PER_SEC

/* What a connection takes when nothing is received on it. */
#define GRPC_CONNECTION_BYTES (9u << 10)
#define HTTP_CONNECTION_BYTES (9u << 10)
/* What profiles of other profilers are decoded into, and written from. */
#define PROFILES_AT_WORK_BYTES (128u << 20)

struct service {
    const struct config *config;
    struct service_sockets *sockets;
    struct service_files *files;
    const struct service_handles *handles;
    struct loop *loop;
    struct worker *writer;
    struct worker *reader;
    struct service_store store;
    struct ring *ring;
    struct intake *intake;
    struct budget budget;
    struct peers *peers; /* of who started the service */
    struct service_tls tls;
    struct supervisor_client child;
    struct grpc_server *grpc[SERVICE_RECEIVERS_MAX];
    struct http_server *http[SERVICE_RECEIVERS_MAX];
    struct metrics_page *metrics;
    struct service_auth auth;
    struct service_health health;
    struct coverage *coverage;
    struct span_cpu *span_cpu;
    struct service_pages pages;
    size_t n_exporters;
    struct exporter *exporters[CONFIG_COMPONENTS_MAX]; /* by destination */
    uint64_t maintained_ns;                            /* writer's */
    size_t n_stopping; /* parts whose end the present step of stopping waits for */
    struct timer stop_timer;
    void (*next_step)(struct service *service);
    bool stopping;
    int exit_code;
};

/* ---- store and workers ---- */

static int writer_end(void *context)
{
    struct service *service = context;
    int error = store_end(service->store.store);
    uint64_t now_ns = clock_monotonic_ns();
    if (!error && now_ns - service->maintained_ns > MAINTAIN_NS) {
        service->maintained_ns = now_ns;
        store_maintain(service->store.store); /* what fails here was logged and is tried again */
    }
    service_health_batch(&service->health, false);
    return error;
}

static int writer_begin(void *context)
{
    struct service *service = context;
    service_health_batch(&service->health, true);
    int error = store_begin(service->store.store);
    if (error) /* no end follows */
        service_health_batch(&service->health, false);
    return error;
}

static int open_store(struct service *service)
{
    int error = service_store_open(&service->store, service->config);
    service->n_exporters = service->store.n_exporters;
    return error;
}

static int open_workers(struct service *service)
{
    int error = worker_open(&service->writer, service->loop,
                            &(struct worker_ops){.name = "writer",
                                                 .queue_limit = INTAKE_WRITER_QUEUE,
                                                 .batch_limit = 256,
                                                 .begin = writer_begin,
                                                 .end = writer_end,
                                                 .context = service});
    if (!error)
        error = worker_open(
            &service->reader, service->loop,
            &(struct worker_ops){.name = "reader", .queue_limit = 256, .batch_limit = 1});
    return error;
}

/* ---- exporters ---- */

static int open_exporter(struct service *service, size_t d)
{
    struct exporter_settings settings = {.loop = service->loop,
                                         .writer = service->writer,
                                         .reader = service->reader,
                                         .outbox = store_outbox(service->store.store),
                                         .outbox_reader = service->store.outbox_reader,
                                         .destination = d,
                                         .config = service->store.exporters[d],
                                         .version = SPANPROF_VERSION};
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        bool wanted = service_destinations(&service->store, signal) >> d & 1;
        bool may_wait = !outbox_is_empty(signal); /* since another configuration */
        settings.signals |= (unsigned)(wanted || may_wait) << signal;
    }
    int error = service_tls_exporter(&service->tls, settings.config, &settings.tls);
    return error ? error : exporter_open(&settings, &service->exporters[d]);
}

static int open_exporters(struct service *service)
{
    int error = 0;
    for (size_t d = 0; !error && d < service->n_exporters; d++)
        error = open_exporter(service, d);
    return error;
}

static void service_committed(void *context)
{
    struct service *service = context;
    for (size_t d = 0; d < service->n_exporters; d++)
        exporter_wake(service->exporters[d]);
}

/* ---- intake and receivers ---- */

static struct label_names label_names(const struct config_receiver *sampler)
{
    if (!sampler)
        return (struct label_names){0};
    return (struct label_names){.trace_id = sampler->sampler.contexts.trace_id_labels.items,
                                .span_id = sampler->sampler.contexts.span_id_labels.items};
}

/* Room for what is let in, also if that is one of the largest, and for what others began with: no
 * request that a receiver takes is refused each time that it comes. */
static size_t room_for_requests(const struct config *config)
{
    size_t largest = config_largest_request(config);
    return BEGINNINGS_BYTES + (largest > ADMITTED_BYTES ? largest : ADMITTED_BYTES);
}

static uint64_t limit_received(const struct config *config)
{
    return room_for_requests(config);
}

LIMIT(received, LIMIT_SERVICE, "requests being received and waiting for the writer",
      .count = limit_received);

static bool takes_profiles(const struct config *config)
{
    const struct config_pipeline *profiles = config_find_pipeline(config, CONFIG_PROFILES);
    for (size_t i = 0; profiles && i < profiles->n_receivers; i++)
        if (config->receivers[profiles->receivers[i]].type == CONFIG_RECEIVER_OTLP)
            return true;
    return false;
}

/* Inflated, converted from JSON, rewritten. */
static uint64_t limit_at_work(const struct config *config)
{
    uint64_t rewriting = UINT64_C(3) * config_largest_request(config);
    uint64_t decoding = takes_profiles(config) ? PROFILES_AT_WORK_BYTES : 0;
    return rewriting > decoding ? rewriting : decoding;
}

LIMIT(at_work, LIMIT_SERVICE, "the request at work", .count = limit_at_work);

static uint64_t limit_connections(const struct config *config)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver_otlp *otlp = &config->receivers[i].otlp;
        if (!config->receivers[i].used || config->receivers[i].type != CONFIG_RECEIVER_OTLP)
            continue;
        bytes += otlp->grpc.enabled ? otlp->grpc.max_connections * GRPC_CONNECTION_BYTES : 0;
        bytes += otlp->http.enabled ? otlp->http.max_connections * HTTP_CONNECTION_BYTES : 0;
    }
    return bytes;
}

LIMIT(connections, LIMIT_SERVICE, "connections to the receivers", .count = limit_connections);
LIMIT(service, LIMIT_SERVICE, "program, stacks of threads, small tables", .bytes = 12u << 20);

static int open_intake(struct service *service)
{
    const struct config_receiver *sampler =
        config_find_receiver(service->config, CONFIG_RECEIVER_SAMPLER);
    if (service->handles->sampling) {
        int error =
            ring_open(service->handles->ring_fd, service->handles->ring_size, &service->ring);
        if (error)
            return error;
    }
    service->coverage = service_pages_coverage(service->config);
    if (service->config->service.metrics_enabled && service->config->service.span_metrics) {
        int error = span_cpu_open(&service->span_cpu);
        if (error)
            return error;
    }
    return intake_open(
        &(struct intake_settings){
            .loop = service->loop,
            .writer = service->writer,
            .store = service->store.store,
            .ring = service->ring,
            .procstream = service->handles->procstream,
            .join = service_joins(service->config, SIGNAL_TRACES),
            .destinations = {[SIGNAL_TRACES] = service_destinations(&service->store, SIGNAL_TRACES),
                             [SIGNAL_PROFILES] =
                                 service_destinations(&service->store, SIGNAL_PROFILES),
                             [SIGNAL_METRICS] =
                                 service_destinations(&service->store, SIGNAL_METRICS),
                             [SIGNAL_LOGS] = service_destinations(&service->store, SIGNAL_LOGS)},
            .unsent = service_unsent(&service->store),
            .drain_interval_ns = sampler ? sampler->sampler.drain_interval_ns : NS_PER_SEC,
            .label_names = label_names(sampler),
            .max_queued_bytes = room_for_requests(service->config),
            .max_admitted_bytes = ADMITTED_BYTES,
            .max_request_bytes = service_max_request_bytes(&service->store),
            .version = SPANPROF_VERSION,
            .coverage = service->coverage,
            .span_cpu = service->span_cpu,
            .committed = service_committed,
            .context = service,
        },
        &service->intake);
}

static int open_grpc(struct service *service, size_t i)
{
    const struct config_receiver *receiver = &service->config->receivers[i];
    const struct config_otlp_grpc_server *config = &receiver->otlp.grpc;
    struct grpc_server_settings settings = {
        .loop = service->loop,
        .intake = service->intake,
        .budget = &service->budget,
        .peers = service->peers,
        .signals = service_signals_of(service->config, i),
        .health = &service->health.health,
        .bearer = service_auth_find(&service->auth, config->authenticator),
        .config = config};
    int error =
        service_tls_receiver(&service->tls, receiver, "grpc", &config->tls, "h2", &settings.tls);
    return error ? error
                 : grpc_server_open(&settings, &service->sockets->grpc[i], &service->grpc[i]);
}

static int open_http(struct service *service, size_t i)
{
    const struct config_receiver *receiver = &service->config->receivers[i];
    const struct config_otlp_http_server *config = &receiver->otlp.http;
    struct http_server_settings settings = {
        .loop = service->loop,
        .intake = service->intake,
        .budget = &service->budget,
        .peers = service->peers,
        .signals = service_signals_of(service->config, i),
        .bearer = service_auth_find(&service->auth, config->authenticator),
        .config = config};
    int error = service_tls_receiver(&service->tls, receiver, "http", &config->tls, "http/1.1",
                                     &settings.tls);
    return error ? error
                 : http_server_open(&settings, &service->sockets->http[i], &service->http[i]);
}

/* Each port takes both protocols, unless one asks for what the other does not: TLS, or a token. */
static void join_ports(struct service *service, size_t i)
{
    const struct config_receiver_otlp *otlp = &service->config->receivers[i].otlp;
    if (!otlp->grpc.enabled || !otlp->http.enabled || otlp->grpc.tls.enabled ||
        otlp->http.tls.enabled || strcmp(otlp->grpc.authenticator, otlp->http.authenticator) != 0)
        return;
    grpc_server_set_http1(service->grpc[i], http_server_take, service->http[i]);
    http_server_set_http2(service->http[i], grpc_server_take, service->grpc[i]);
}

static int open_receiver(struct service *service, size_t i)
{
    const struct config_receiver_otlp *otlp = &service->config->receivers[i].otlp;
    int error = otlp->grpc.enabled ? open_grpc(service, i) : 0;
    if (!error && otlp->http.enabled)
        error = open_http(service, i);
    if (!error)
        join_ports(service, i);
    return error;
}

/* What could be opened once may be so again: certificates in the midst of their renewal. */
static int exit_code_of_failure(const struct service *service)
{
    return service->handles->restarts ? EXIT_FAILURE : SERVICE_EXIT_FATAL;
}

static void service_fail(struct service *service, const char *what, int error)
{
    log_error("service", "%s: %s", what, strerror(-error));
    service->exit_code = exit_code_of_failure(service);
    loop_stop(service->loop);
}

/* The processes that run already are known: spans may come. */
static void open_receivers(void *context)
{
    struct service *service = context;
    service->budget.limit_bytes = room_for_requests(service->config);
    for (size_t i = 0; i < service->config->n_receivers && !service->stopping; i++) {
        const struct config_receiver *receiver = &service->config->receivers[i];
        int error = receiver->used && receiver->type == CONFIG_RECEIVER_OTLP
                        ? open_receiver(service, i)
                        : 0;
        if (error)
            return service_fail(service, receiver->id, error);
    }
    if (service->stopping)
        return;
    service->health.receiving = true;
    log_info("service", "ready%s",
             service->handles->sampling ? ": sampling this node, receiving spans"
                                        : ": receiving spans");
}

/* ---- stopping ---- */

static void service_step(struct service *service, uint64_t limit_ns,
                         void (*next)(struct service *service))
{
    service->next_step = next;
    service->n_stopping = 1; /* ours, given back by part_stopped() at the step's end */
    timer_start(service->loop, &service->stop_timer, limit_ns);
}

static void service_advance(struct service *service)
{
    void (*next)(struct service *) = service->next_step;
    timer_stop(&service->stop_timer);
    service->next_step = NULL;
    if (next)
        next(service);
}

static void part_stopped(void *context)
{
    struct service *service = context;
    if (service->n_stopping > 0 && --service->n_stopping == 0)
        service_advance(service);
}

static void stop_late(struct timer *timer)
{
    struct service *service = container_of(timer, struct service, stop_timer);
    service->n_stopping = 0;
    service_advance(service);
}

static void end_loop(struct service *service)
{
    loop_stop(service->loop);
}

static void stop_exporters(struct service *service)
{
    uint64_t deadline_ns = clock_monotonic_ns() + EXPORTERS_STOP_NS;
    service_step(service, EXPORTERS_STOP_NS, end_loop);
    for (size_t d = 0; d < service->n_exporters; d++) {
        service->n_stopping++;
        exporter_drain(service->exporters[d], deadline_ns, part_stopped, service);
    }
    part_stopped(service);
}

/* A window that is late must not count for the next step. */
static void intake_stopped(void *context)
{
    struct service *service = context;
    if (service->next_step == stop_exporters)
        part_stopped(service);
}

static void stop_intake(struct service *service)
{
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        grpc_server_close(service->grpc[i]);
        http_server_close(service->http[i]);
        service->grpc[i] = NULL;
        service->http[i] = NULL;
    }
    service_step(service, RECEIVERS_STOP_NS, stop_exporters);
    intake_stop(service->intake, intake_stopped);
}

static void stop_receivers(struct service *service)
{
    service_step(service, RECEIVERS_STOP_NS, stop_intake);
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        if (service->grpc[i]) {
            service->n_stopping++;
            grpc_server_drain(service->grpc[i], part_stopped, service);
        }
        if (service->http[i]) {
            service->n_stopping++;
            http_server_drain(service->http[i], part_stopped, service);
        }
    }
    part_stopped(service);
}

/* ---- the supervisor ---- */

static void asked_to_stop(struct supervisor_client *child)
{
    struct service *service = container_of(child, struct service, child);
    if (service->stopping)
        return;
    service->stopping = true;
    service->health.stopping = true;
    log_info("service", "stopping");
    stop_receivers(service);
}

static void symbolizer_came(struct supervisor_client *child, int fd)
{
    struct service *service = container_of(child, struct service, child);
    intake_symbolizer(service->intake, fd);
}

static void cpu_came(struct supervisor_client *child, uint32_t cpu, int fd, size_t buffer_size)
{
    struct service *service = container_of(child, struct service, child);
    int error = procstream_add(service->handles->procstream, cpu, fd, buffer_size);
    if (error)
        log_warn("service", "process events of CPU %u are not seen: %s", cpu, strerror(-error));
    close(fd);
}

static void cpu_went(struct supervisor_client *child, uint32_t cpu)
{
    struct service *service = container_of(child, struct service, child);
    procstream_remove(service->handles->procstream, cpu);
}

static void file_changed(struct supervisor_client *child, uint32_t file, int fd)
{
    struct service *service = container_of(child, struct service, child);
    service_tls_file_changed(&service->tls, file, fd);
    service_pages_file_changed(&service->pages);
    service_auth_file_changed(&service->auth);
}

/* ---- life ---- */

static int open_metrics(struct service *service)
{
    if (!service->config->service.metrics_enabled)
        return 0;
    struct listen_sockets *sockets = &service->sockets->metrics;
    return metrics_page_open(service->loop, sockets->fds, sockets->n, service->span_cpu,
                             &service->metrics);
}

static int open_auth(struct service *service)
{
    return service_auth_open(&service->auth, service->config, service->files);
}

static int open_health(struct service *service)
{
    service->health.store = service->store.store;
    service->health.intake = service->intake;
    return service_health_open(&service->health, service->loop, service->config,
                               &service->sockets->health);
}

static int open_pages(struct service *service)
{
    return service_pages_open(&service->pages, &(struct service_pages_settings){
                                                   .loop = service->loop,
                                                   .config = service->config,
                                                   .sockets = &service->sockets->pages,
                                                   .unix_socket = &service->sockets->pages_socket,
                                                   .tls = &service->tls,
                                                   .coverage = service->coverage,
                                                   .sampling = service->handles->sampling,
                                               });
}

static int open_parts(struct service *service)
{
    int (*const parts[])(struct service *) = {open_store,  open_workers, open_exporters,
                                              open_intake, open_metrics, open_auth,
                                              open_health, open_pages};
    int error = loop_open(&service->loop);
    service_tls_init(&service->tls, service->loop, service->files);
    for (size_t i = 0; !error && i < sizeof(parts) / sizeof(*parts); i++)
        error = parts[i](service);
    if (!error)
        error =
            supervisor_client_start(&service->child, service->loop, service->handles->control_fd);
    return error;
}

static void close_parts(struct service *service)
{
    supervisor_client_stop(&service->child);
    timer_stop(&service->stop_timer);
    metrics_page_close(service->metrics);
    service_pages_close(&service->pages);
    service_health_close(&service->health);
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        grpc_server_close(service->grpc[i]);
        http_server_close(service->http[i]);
    }
    service_auth_close(&service->auth);
    for (size_t d = 0; d < service->n_exporters; d++)
        exporter_close(service->exporters[d]);
    service->n_exporters = 0; /* what the workers still deliver wakes no exporter */
    if (service->intake)
        intake_drain_last(service->intake);
    worker_close(service->writer);
    worker_close(service->reader);
    intake_close(service->intake);
    coverage_close(service->coverage);
    span_cpu_close(service->span_cpu);
    ring_close(service->ring);
    procstream_close(service->handles->procstream);
    service_tls_close(&service->tls);
    service_store_close(&service->store);
    loop_close(service->loop);
}

int service_run(const struct config *config, struct service_sockets *sockets,
                struct service_files *files, struct peers *peers,
                const struct service_handles *handles)
{
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return EXIT_FAILURE;
    service->config = config;
    service->sockets = sockets;
    service->files = files;
    service->peers = peers;
    service->handles = handles;
    service->child = (struct supervisor_client){.stop = asked_to_stop,
                                                .symbolizer = symbolizer_came,
                                                .cpu_came = cpu_came,
                                                .cpu_went = cpu_went,
                                                .file_changed = file_changed};
    service->stop_timer.fire = stop_late;
    files_raise_limit();
    int error = open_parts(service);
    if (error) {
        log_error("service", "cannot start: %s", strerror(-error));
        service->exit_code = exit_code_of_failure(service);
    } else {
        intake_start(service->intake, open_receivers);
        error = loop_run(service->loop);
        if (error)
            service->exit_code = EXIT_FAILURE;
    }
    int code = service->exit_code;
    close_parts(service);
    free(service);
    return code;
}
