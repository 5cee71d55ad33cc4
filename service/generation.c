/* SPDX-License-Identifier: Apache-2.0 */
#include "service/generation.h"
#include "agent-bpf/symbolizer/symbolizer.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/load/config_load.h"
#include "service/config_process.h"
#include "service/sampling_config.h"
#include "service/service_process.h"
#include "service/store_directory.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct generation *generation_load(const struct cli *cli)
{
    struct generation *generation = calloc(1, sizeof(*generation));
    if (!generation)
        return NULL;
    generation->config_fd = config_process_load(cli, &generation->config);
    if (generation->config_fd >= 0)
        return generation;
    free(generation);
    return NULL;
}

/* Before its sockets: one of them may lie there. */
static void prepare_directory(const struct config *config)
{
    struct privileges owner;
    const char *directory =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage.directory;
    if (privileges_target(config->service.user, directory, &owner) ==
        0) /* else said by the supervisor */
        store_directory_prepare(directory, &owner);
}

int generation_open(struct generation *generation, const struct generation *in_use)
{
    prepare_directory(generation->config);
    int error = service_sockets_open(generation->config, in_use ? &in_use->sockets : NULL,
                                     &generation->sockets);
    return error ? error
                 : service_files_open(generation->config, in_use ? &in_use->files : NULL,
                                      &generation->files);
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
    fd_close(generation->config_fd);
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

/* What the service is given, and the descriptors that this names. */
struct service_given {
    struct service_process_settings settings;
    int fds[1 + SERVICE_SOCKETS_MAX];
};

static struct role_settings give_service(const struct generation *generation,
                                         struct service_given *given)
{
    given->settings.config_fd = given->fds[0] = generation->config_fd;
    given->settings.sockets = generation->sockets;
    for (size_t i = 0; i < generation->files.n; i++)
        given->settings.files[i] = generation->files.files[i].fd;
    size_t n_sockets = service_sockets_fds(&generation->sockets, given->fds + 1);
    return (struct role_settings){
        .bytes = BYTES((const void *)&given->settings, sizeof(given->settings)),
        .fds = given->fds,
        .n_fds = 1 + n_sockets};
}

static struct role_settings give_symbolizer(const struct generation *generation,
                                            struct symbolizer_process_settings *given)
{
    sampling_config_symbolizer(generation->config, given);
    return (struct role_settings){.bytes = BYTES((const void *)given, sizeof(*given)),
                                  .fds = &given->ledger_fd,
                                  .n_fds = given->ledger_fd >= 0};
}

static int supervisor_run_given(struct generation *generation, struct supervisor_settings *settings,
                                struct service_given *service)
{
    const struct config *config = generation->config;
    struct symbolizer_process_settings symbolizer = {.ledger_fd = -1};
    sampling_config_supervisor(config, settings);
    service_sockets_ports(&generation->sockets, settings->sampler.ports, CONNECTION_PORTS_MAX);
    if (settings->want_sampler && (symbolizer.ledger_fd = symbolizer_ledger_make()) < 0)
        log_warn("main", "no memory for the symbolizer's ledger; going on without it");
    settings->user = config->service.user;
    settings->store_directory =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage.directory;
    settings->service = give_service(generation, service);
    settings->symbolizer = give_symbolizer(generation, &symbolizer);
    settings->reader = true;
    settings->files = generation->files.files;
    settings->n_files = generation->files.n;
    int code = supervisor_run(settings);
    fd_close(symbolizer.ledger_fd);
    return code;
}

int generation_run(struct generation *generation, struct supervisor_settings settings)
{
    struct service_given *service = calloc(1, sizeof(*service));
    int code = service ? supervisor_run_given(generation, &settings, service) : EXIT_FAILURE;
    free(service);
    return code;
}
