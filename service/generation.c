/* SPDX-License-Identifier: Apache-2.0 */
#include "service/generation.h"
#include "agent-bpf/symbolizer/symbolizer.h"
#include "base/log.h"
#include "config/load/config_load.h"
#include "service/sampling_config.h"
#include <stdlib.h>

struct generation *generation_load(const struct cli *cli)
{
    struct generation *generation = calloc(1, sizeof(*generation));
    if (generation && cli_load_config(cli, &generation->config, stderr) == 0)
        return generation;
    free(generation);
    return NULL;
}

int generation_open(struct generation *generation, const struct generation *in_use)
{
    int error = service_sockets_open(generation->config, in_use ? &in_use->sockets : NULL,
                                     &generation->sockets);
    return error ? error : service_files_open(generation->config, &generation->files);
}

void generation_release(struct generation *generation, const struct generation *other)
{
    service_sockets_close(&generation->sockets, other ? &other->sockets : NULL);
    service_files_close(&generation->files);
}

void generation_close(struct generation *generation, const struct generation *other)
{
    if (!generation)
        return;
    generation_release(generation, other);
    config_close(generation->config);
    free(generation);
}

void generation_announce(const struct generation *generation)
{
    const struct config *config = generation->config;
    log_set_format(config->service.log_format);
    log_set_level(config->service.log_level);
    for (size_t i = 0; i < config->n_warnings; i++)
        log_warn("config", "%s", config->warnings[i]);
}

int generation_run(struct generation *generation, struct supervisor_settings settings)
{
    const struct config *config = generation->config;
    int fds[SERVICE_SOCKETS_MAX];
    settings.user = config->service.user;
    settings.store_directory =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage.directory;
    settings.keep_fds = fds;
    settings.n_keep_fds = service_sockets_fds(&generation->sockets, fds);
    settings.files = generation->files.files;
    settings.n_files = generation->files.n;
    sampling_config_supervisor(config, &settings);
    if (settings.want_sampler && symbolizer_ledger_open(&generation->ledger) != 0)
        log_warn("main", "no memory for the symbolizer's ledger; going on without it");
    int code = supervisor_run(&settings);
    symbolizer_ledger_close(generation->ledger);
    generation->ledger = NULL;
    return code;
}
