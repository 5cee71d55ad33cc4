/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof: the table of contents. The process that is started becomes the keeper; it forks the
 * service (service.c) and the analyst (agent-bpf/analyst.c). docs/architecture.md, section 2.
 */
#include "agent-bpf/analyst.h"
#include "agent-bpf/keeper.h"
#include "agent-bpf/keeper_child.h"
#include "agent-bpf/record.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/stats.h"
#include "config/cli.h"
#include "service.h"
#include <stdlib.h>

struct program {
    struct config *config;
    struct service_sockets sockets;
    struct service_files files;
    struct analyst_ledger *ledger;
};

static int run_service(const struct service_handles *handles, void *context)
{
    struct program *program = context;
    log_set_process("service");
    return service_run(program->config, &program->sockets, &program->files, handles);
}

struct analyst_process {
    struct keeper_child child;
    struct loop *loop;
};

static void analyst_stop(struct keeper_child *child)
{
    loop_stop(container_of(child, struct analyst_process, child)->loop);
}

static unsigned context_sources(const struct config_receiver *sampler)
{
    if (!sampler)
        return 0;
    const struct config_receiver_sampler *config = &sampler->sampler;
    return (config->contexts.otel ? CONTEXT_BIT(CONTEXT_OTEL_THREAD) : 0) |
           (config->contexts.elastic ? CONTEXT_BIT(CONTEXT_ELASTIC) : 0) |
           (config->contexts.go_labels ? CONTEXT_BIT(CONTEXT_GO_LABELS) : 0) |
           (config->contexts.custom_labels ? CONTEXT_BIT(CONTEXT_CUSTOM_LABELS) : 0);
}

static int run_analyst(const struct analyst_handles *handles, void *context)
{
    struct program *program = context;
    struct analyst_process process = {.child.stop = analyst_stop};
    struct analyst *analyst = NULL;
    const struct config_receiver *sampler =
        config_find_receiver(program->config, CONFIG_RECEIVER_SAMPLER);
    log_set_process("analyst");
    int error = loop_open(&process.loop);
    if (!error)
        error = keeper_child_start(&process.child, process.loop, handles->control_fd);
    if (!error)
        error = analyst_open(
            &(struct analyst_settings){
                .loop = process.loop,
                .socket = handles->service_fd,
                .contexts_map_fd = handles->contexts_fd,
                .unwind = &handles->unwind,
                .ledger = program->ledger,
                .sources = context_sources(sampler),
                .lines = sampler && sampler->sampler.symbols.lines,
                .elastic_correlation = sampler && sampler->sampler.contexts.elastic_correlation},
            &analyst);
    if (!error)
        error = loop_run(process.loop);
    analyst_close(analyst);
    keeper_child_stop(&process.child);
    loop_close(process.loop);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const char *obi_map(const struct config_receiver_sampler *sampler)
{
    return sampler->contexts.obi ? sampler->contexts.obi_map : NULL;
}

static struct filter_rules filter_rules(const struct config_filter *filter)
{
    return (struct filter_rules){.values = {[FILTER_PIDS] = filter->pids.items,
                                            [FILTER_COMMS] = filter->comms.items,
                                            [FILTER_EXECUTABLES] = filter->executables.items,
                                            [FILTER_CGROUPS] = filter->cgroups.items,
                                            [FILTER_CONTAINERS] = filter->containers.items}};
}

static void set_sampler(struct keeper_settings *settings,
                        const struct config_receiver_sampler *sampler)
{
    settings->sampler = (struct sampler_settings){
        .frequency_hz = sampler->frequency,
        .ring_size_bytes = sampler->ring_size_bytes,
        .unwind_bytes = sampler->unwind_table_bytes,
        .obi_map = obi_map(sampler),
        .ticks_timed = sampler->max_cpu_percent > 0,
        .filters = {filter_rules(&sampler->include), filter_rules(&sampler->exclude)}};
    settings->pace = (struct pace_settings){.probability = sampler->probability,
                                            .interval_ns = sampler->probability_interval_ns,
                                            .max_cpu_percent = sampler->max_cpu_percent};
}

static int run(struct program *program)
{
    const struct config *config = program->config;
    const struct config_receiver *sampler = config_find_receiver(config, CONFIG_RECEIVER_SAMPLER);
    int fds[SERVICE_SOCKETS_MAX];
    struct keeper_settings settings = {
        .want_sampler = sampler != NULL,
        .service_main = run_service,
        .analyst_main = run_analyst,
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
    if (sampler && analyst_ledger_open(&program->ledger) != 0)
        log_warn("main", "no memory for the analyst's ledger; going on without it");
    int code = keeper_run(&settings);
    analyst_ledger_close(program->ledger);
    return code;
}

int main(int argc, char **argv)
{
    struct cli cli;
    struct program program = {0};
    if (cli_parse(argc, argv, &cli, stderr))
        return CLI_EXIT_USAGE;
    if (cli.command != CLI_RUN)
        return cli_run_command(&cli, SPANPROF_VERSION, stdout, stderr);
    if (cli_load_config(&cli, &program.config, stderr))
        return CLI_EXIT_FAILURE;
    log_set_level(program.config->service.log_level);
    for (size_t i = 0; i < program.config->n_warnings; i++)
        log_warn("config", "%s", program.config->warnings[i]);
    int code = CLI_EXIT_FAILURE;
    if (service_sockets_open(program.config, &program.sockets) == 0 &&
        service_files_open(program.config, &program.files) == 0)
        code = run(&program);
    service_sockets_close(&program.sockets);
    service_files_close(&program.files);
    config_close(program.config);
    return code;
}
