/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof: the table of contents. The process that is started becomes the supervisor; it forks the
 * service (service/service.c) and the symbolizer (agent-bpf/symbolizer/symbolizer.c).
 * docs/architecture.md, "Processes and threads".
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/supervisor/supervisor.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/record.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/stats.h"
#include "client/client.h"
#include "config/load/cli.h"
#include "service/service.h"
#include <malloc.h>
#include <stdlib.h>

#define HEAP_LARGE_BYTES (1 << 20)

struct program { /* one configuration, and what is open for it */
    const struct cli *cli;
    struct config *config;
    struct service_sockets sockets;
    struct service_files files;
    struct symbolizer_ledger *ledger;
    struct program *next;                  /* that SIGHUP brought */
    struct supervisor_sampling **sampling; /* of all of them: left by one run to the next */
    bool fatal;                            /* its service could not start */
};

static int run_service(const struct service_handles *handles, void *context)
{
    struct program *program = context;
    log_set_process("service");
    return service_run(program->config, &program->sockets, &program->files, handles);
}

struct symbolizer_process {
    struct supervisor_client child;
    struct loop *loop;
};

static void symbolizer_stop(struct supervisor_client *child)
{
    loop_stop(container_of(child, struct symbolizer_process, child)->loop);
}

static unsigned context_sources(const struct config_receiver *sampler)
{
    if (!sampler)
        return 0;
    unsigned sources = 0;
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (sampler->sampler.contexts.sources[source])
            sources |= CONTEXT_BIT(source);
    return sources & CONTEXT_VARIABLE_BITS;
}

static int run_symbolizer(const struct symbolizer_handles *handles, void *context)
{
    struct program *program = context;
    struct symbolizer_process process = {.child.stop = symbolizer_stop};
    struct symbolizer *symbolizer = NULL;
    const struct config_receiver *sampler =
        config_find_receiver(program->config, CONFIG_RECEIVER_SAMPLER);
    log_set_process("symbolizer");
    int error = loop_open(&process.loop);
    if (!error)
        error = supervisor_client_start(&process.child, process.loop, handles->control_fd);
    if (!error)
        error = symbolizer_open(
            &(struct symbolizer_settings){
                .loop = process.loop,
                .socket = handles->service_fd,
                .contexts_map_fd = handles->contexts_fd,
                .unwind = &handles->unwind,
                .ledger = program->ledger,
                .sources = context_sources(sampler),
                .lines = sampler && sampler->sampler.symbols.lines,
                .elastic_correlation = sampler && sampler->sampler.contexts.elastic_correlation},
            &symbolizer);
    if (!error)
        error = loop_run(process.loop);
    symbolizer_close(symbolizer);
    supervisor_client_stop(&process.child);
    loop_close(process.loop);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const char *obi_map(const struct config_receiver_sampler *sampler)
{
    return sampler->contexts.sources[CONTEXT_OBI] ? sampler->contexts.obi_map : NULL;
}

static struct filter_rules filter_rules(const struct config_filter *filter)
{
    return (struct filter_rules){.values = {[FILTER_PIDS] = filter->pids.items,
                                            [FILTER_COMMS] = filter->comms.items,
                                            [FILTER_EXECUTABLES] = filter->executables.items,
                                            [FILTER_CGROUPS] = filter->cgroups.items,
                                            [FILTER_CONTAINERS] = filter->containers.items}};
}

static void set_sampler(struct supervisor_settings *settings,
                        const struct config_receiver_sampler *sampler)
{
    settings->sampler = (struct sampler_settings){
        .frequency_hz = sampler->frequency,
        .ring_size_bytes = sampler->ring_size_bytes,
        .unwind_bytes = sampler->unwind_table_bytes,
        .obi_map = obi_map(sampler),
        .ticks_timed = sampler->max_cpu_percent > 0,
        .filters = {filter_rules(&sampler->include), filter_rules(&sampler->exclude)}};
    settings->sampling_rate =
        (struct sampling_rate_settings){.probability = sampler->probability,
                                        .interval_ns = sampler->probability_interval_ns,
                                        .max_cpu_percent = sampler->max_cpu_percent};
}

static bool reload(void *context);
static void service_fatal(void *context);

static int run(struct program *program)
{
    const struct config *config = program->config;
    const struct config_receiver *sampler = config_find_receiver(config, CONFIG_RECEIVER_SAMPLER);
    int fds[SERVICE_SOCKETS_MAX];
    struct supervisor_settings settings = {
        .want_sampler = sampler != NULL,
        .sampling = program->sampling,
        .service_main = run_service,
        .symbolizer_main = run_symbolizer,
        .reload = reload,
        .service_fatal = service_fatal,
        .context = program,
        .user = config->service.user,
        .store_directory = config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)
                               ->sqlite_storage.directory,
        .keep_fds = fds,
        .n_keep_fds = service_sockets_fds(&program->sockets, fds),
        .files = program->files.files,
        .n_files = program->files.n,
    };
    if (sampler)
        set_sampler(&settings, &sampler->sampler);
    if (sampler && symbolizer_ledger_open(&program->ledger) != 0)
        log_warn("main", "no memory for the symbolizer's ledger; going on without it");
    int code = supervisor_run(&settings);
    symbolizer_ledger_close(program->ledger);
    return code;
}

/* ---- one configuration after the other ---- */

/* other: the one that goes on; may be NULL. */
static void close_opened(struct program *program, const struct program *other)
{
    service_sockets_close(&program->sockets, other ? &other->sockets : NULL);
    service_files_close(&program->files);
}

static void program_close(struct program *program, const struct program *other)
{
    if (!program)
        return;
    close_opened(program, other);
    config_close(program->config);
    free(program);
}

static int open_config(struct program *program, const struct service_sockets *in_use)
{
    int error = service_sockets_open(program->config, in_use, &program->sockets);
    return error ? error : service_files_open(program->config, &program->files);
}

static struct program *program_new(const struct cli *cli)
{
    struct program *program = calloc(1, sizeof(*program));
    if (program && cli_load_config(cli, &program->config, stderr) == 0) {
        program->cli = cli;
        return program;
    }
    free(program);
    return NULL;
}

static void announce(const struct config *config)
{
    log_set_format(config->service.log_format);
    log_set_level(config->service.log_level);
    for (size_t i = 0; i < config->n_warnings; i++)
        log_warn("config", "%s", config->warnings[i]);
}

static void not_taken(struct program *next, const struct program *program)
{
    log_error("main", "the changed configuration is not taken; what was there stays in use");
    program_close(next, program);
}

static void take(struct program *program, struct program *next)
{
    log_info("main", "the configuration has changed: taking it");
    next->sampling = program->sampling;
    program->next = next;
}

/* It has changed once more while the service stops for the change before, which it replaces unless
 * it cannot be taken: sockets that both have are free for it in between. */
static void replace_next(struct program *program, struct program *newer)
{
    struct program *next = program->next;
    close_opened(next, program);
    if (newer && open_config(newer, &program->sockets) == 0) {
        config_close(next->config);
        free(next);
        return take(program, newer);
    }
    not_taken(newer, program);
    if (open_config(next, &program->sockets))
        log_error("main", "nor can the one before be taken any more");
}

/* SIGHUP: the sockets of the next configuration are open before the present one's service is told
 * to stop, so that no connection is refused in between, and what cannot be is found out in time. */
static bool reload(void *context)
{
    struct program *program = context, *next = program_new(program->cli);
    const struct program *last = program->next ? program->next : program;
    if (next && config_same(last->config, next->config)) {
        config_close(next->config);
        free(next);
        return false;
    }
    if (program->next) {
        replace_next(program, next);
        return true;
    }
    if (!next || open_config(next, &program->sockets)) {
        not_taken(next, program);
        return false;
    }
    take(program, next);
    return true;
}

static void service_fatal(void *context)
{
    ((struct program *)context)->fatal = true;
}

/* The sockets of either are open until the other's service is there. */
static struct program *go_back(struct program *program, struct program *before)
{
    log_error("main", "with the changed configuration the service does not start; going back");
    before->next = NULL;
    service_sockets_close(&before->sockets, &program->sockets);
    if (service_sockets_open(before->config, &program->sockets, &before->sockets))
        return NULL;
    announce(before->config);
    return before;
}

static int run_all(struct program *program)
{
    struct program *before = NULL;
    struct supervisor_sampling *sampling = NULL;
    int code;
    program->sampling = &sampling;
    while ((code = run(program)) == SUPERVISOR_RELOADED || (program->fatal && before)) {
        struct program *next =
            code == SUPERVISOR_RELOADED ? program->next : go_back(program, before);
        bool back = next == before;
        if (!next)
            break;
        program_close(back ? program : before, next);
        before = back ? NULL : program;
        program = next;
        if (before)
            service_sockets_close(&before->sockets, &program->sockets);
        announce(program->config);
    }
    supervisor_sampling_close(sampling);
    program_close(before, program);
    program_close(program, NULL);
    return code;
}

/* Requests of megabytes come and go. With thresholds that are set each of them has pages of its
 * own, which the kernel gets back with it; glibc's own rise until the heap keeps all that ever was.
 */
static void settle_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * HEAP_LARGE_BYTES);
}

int main(int argc, char **argv)
{
    struct cli cli;
    settle_heap();
    if (argc > 1 && client_has_command(argv[1]))
        return client_main(argc, argv, stdout, stderr);
    if (cli_parse(argc, argv, &cli, stderr))
        return CLI_EXIT_USAGE;
    if (cli.command != CLI_RUN)
        return cli_run_command(&cli, SPANPROF_VERSION, stdout, stderr);
    struct program *program = program_new(&cli);
    if (!program)
        return CLI_EXIT_FAILURE;
    announce(program->config);
    if (open_config(program, NULL) == 0)
        return run_all(program);
    program_close(program, NULL);
    return CLI_EXIT_FAILURE;
}
