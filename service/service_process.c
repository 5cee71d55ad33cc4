/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_process.h"
#include "service/service_sandbox.h"
#include "base/log.h"
#include "base/memfd.h"
#include "config/load/config_load.h"
#include "config/users.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The image holds secrets. */
static void image_wipe(struct buf *image)
{
    if (image->data)
        explicit_bzero(image->data, image->cap);
    buf_close(image);
}

static int read_config(int fd, struct config **config)
{
    __attribute__((cleanup(image_wipe))) struct buf image = BUF_INIT(0);
    int error = memfd_read(fd, CONFIG_IMAGE_MAX, &image);
    close(fd);
    return error ? error : config_unpack(buf_bytes(&image), config);
}

static int run(const struct role_start *start, const struct service_process_settings *settings)
{
    struct config *config;
    struct service_sockets sockets = settings->sockets;
    struct service_files files;
    struct peers *peers = NULL;
    int error = read_config(settings->config_fd, &config);
    if (error) {
        log_error("service", "cannot read the configuration: %s", strerror(-error));
        return SERVICE_EXIT_FATAL;
    }
    int code = SERVICE_EXIT_FATAL;
    error = service_files_inherit(config, settings->files, &files);
    /* These two read what the sandbox hides: accounts, mounts, sock_diag(7). */
    users_find(config);
    if (!error)
        error = peers_open(config, start->service.connections_fd, &peers);
    if (!error)
        error = service_sandbox_enter(config, !start->service.restarts);
    if (error)
        log_error("service", "cannot give up its rights: %s", strerror(-error));
    else
        code = service_run(config, &sockets, &files, peers, &start->service);
    peers_close(peers);
    config_close(config);
    return code;
}

int service_process_run(const struct role_start *start)
{
    struct service_process_settings *settings = malloc(sizeof(*settings));
    int code = SERVICE_EXIT_FATAL;
    if (settings && start->settings.len == sizeof(*settings)) {
        memcpy(settings, start->settings.data, sizeof(*settings));
        code = run(start, settings);
    }
    free(settings);
    return code;
}
