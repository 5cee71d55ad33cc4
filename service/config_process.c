/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It is given the sources that the command line names, each as a byte that says its kind, and its
 * text with a zero. It reads files as the user that started spanprof, and has the environment,
 * which the configuration may refer to.
 */
#include "service/config_process.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include "config/load/config_load.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <stdlib.h>
#include <string.h>

static void image_wipe(struct buf *image)
{
    if (image->data)
        explicit_bzero(image->data, image->cap);
    buf_close(image);
}

#define _cleanup_image_ __attribute__((cleanup(image_wipe)))

/* ---- the supervisor's part ---- */

static int pack_sources(const struct cli *cli, struct buf *out)
{
    int error = 0;
    for (size_t i = 0; !error && i < cli->n_sources; i++) {
        const struct config_source *source = &cli->sources[i];
        error = buf_append(out, &(uint8_t){(uint8_t)source->kind}, 1);
        if (!error)
            error = buf_append(out, source->text, strlen(source->text) + 1);
    }
    return error ? -ENOMEM : 0;
}

/* The sealed image. */
static int run(const struct cli *cli, struct config **config)
{
    _cleanup_buf_ struct buf sources = BUF_INIT(0);
    _cleanup_image_ struct buf image = BUF_INIT(CONFIG_IMAGE_MAX);
    int error = pack_sources(cli, &sources);
    if (error)
        return error;
    _cleanup_fd_ int fd =
        supervisor_run_config(&(struct role_settings){.bytes = buf_bytes(&sources)});
    if (fd < 0)
        return fd;
    error = memfd_read(fd, CONFIG_IMAGE_MAX, &image);
    if (!error)
        error = config_unpack(buf_bytes(&image), config);
    if (error)
        return error == BUF_FULL ? -EFBIG : error;
    int sealed = fd;
    fd = -1;
    return sealed;
}

int config_process_load(const struct cli *cli, struct config **config)
{
    *config = NULL;
    int fd = run(cli, config);
    if (fd == -ETIMEDOUT)
        log_error("config", "the configuration was not read within 10 s; its files may lie on a "
                            "file system that does not answer");
    else if (fd < 0 && fd != -EINVAL)
        log_error("config", "cannot read the configuration: %s", strerror(-fd));
    return fd;
}

/* ---- its own part ---- */

static const struct sandbox_call calls[] = {
    SANDBOX_CALL_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlinkat),
    SANDBOX_CALL_FAILS(ioctl, ENOTTY),
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_DESCRIPTORS,
#ifdef __x86_64__
    SANDBOX_CALL_IF(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlink),
#endif
};

const struct sandbox_table config_calls = SANDBOX_TABLE(calls);

static int unpack_sources(struct bytes packed, struct cli *cli)
{
    *cli = (struct cli){.command = CLI_RUN};
    while (packed.len) {
        const uint8_t *end = memchr(packed.data + 1, 0, packed.len - 1);
        if (!end || cli->n_sources == CLI_SOURCES_MAX)
            return -EINVAL;
        cli->sources[cli->n_sources++] =
            (struct config_source){*packed.data, (const char *)packed.data + 1};
        packed = bytes_skip(packed, (size_t)(end + 1 - packed.data));
    }
    return 0;
}

static int write_image(const struct config *config, int fd)
{
    _cleanup_image_ struct buf image = BUF_INIT(CONFIG_IMAGE_MAX);
    int error = config_pack(config, CONFIG_WITH_SECRETS, &image);
    return error ? -ENOMEM : memfd_write(fd, buf_bytes(&image));
}

int config_process_run(const struct role_start *start)
{
    struct cli cli;
    struct config *config;
    int error = sandbox_calls(calls, sizeof(calls) / sizeof(*calls));
    sandbox_break_out("config");
    if (!error)
        error = unpack_sources(buf_bytes(&start->settings), &cli);
    if (error) {
        log_error("config", "cannot read the configuration: %s", strerror(-error));
        return EXIT_FAILURE;
    }
    if (cli_load_config(&cli, &config, stderr))
        return EXIT_FAILURE;
    error = write_image(config, start->config.out_fd);
    if (error)
        log_error("config", "cannot hand over the configuration: %s", strerror(-error));
    config_close(config);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
