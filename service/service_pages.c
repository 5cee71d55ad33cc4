/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_pages.h"
#include "base/log.h"
#include "store/window/coverage.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES_MIN 16
#define TOKEN_BYTES_MAX 512

/* ---- sockets ---- */

static int listen_on(struct service_pages *pages, struct listen_sockets *sockets,
                     struct tls_context *tls, bool of_node)
{
    int error = pages_listen(pages->pages, sockets->fds, sockets->n, tls, of_node);
    if (!error)
        listen_close(sockets); /* taken over */
    return error;
}

static int listen_all(struct service_pages *pages, const struct service_pages_settings *settings,
                      const char *id)
{
    struct tls_context *context;
    char section[CONFIG_NAME_MAX + 48];
    snprintf(section, sizeof(section), "extensions::%s::tls", id);
    int error = service_tls_server(settings->tls, section, &pages->config->tls, &context);
    if (!error)
        error = listen_on(pages, settings->sockets, context, false);
    return error ? error : listen_on(pages, settings->unix_socket, NULL, true);
}

/* ---- the token ---- */

static bool is_token(const struct buf *text)
{
    if (text->len < TOKEN_BYTES_MIN || text->len > TOKEN_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] <= ' ' || text->data[i] > '~')
            return false;
    return true;
}

/* 0, or said in a sentence. */
static int set_token(struct service_pages *pages)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    const char *path = pages->config->auth.token_file;
    if (!*path) {
        pages_set_token(pages->pages, pages->config->auth.token);
        return 0;
    }
    int error = service_files_read(pages->files, path, &text);
    if (!error && !is_token(&text))
        error = -EINVAL;
    if (!error)
        error = buf_append(&text, "", 1);
    if (!error)
        pages_set_token(pages->pages, (const char *)text.data);
    else
        log_error("pages",
                  "extensions::pages::auth::token_file: %s holds no token of %d to %d "
                  "letters and digits on one line",
                  path, TOKEN_BYTES_MIN, TOKEN_BYTES_MAX);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    return error;
}

void service_pages_file_changed(struct service_pages *pages)
{
    if (pages->pages)
        set_token(pages); /* what was there goes on, if that fails */
}

/* ---- life ---- */

int service_pages_open(struct service_pages *pages, const struct service_pages_settings *settings)
{
    LOOP_THREAD(settings->loop);
    const struct config_extension *extension =
        config_find_extension(settings->config, CONFIG_EXTENSION_PAGES);
    if (!extension)
        return 0;
    const struct db_settings db = {
        .directory = config_find_extension(settings->config, CONFIG_EXTENSION_SQLITE_STORAGE)
                         ->sqlite_storage.directory};
    pages->config = &extension->pages;
    pages->files = settings->tls->files;
    int error = db_open_reader(&db, &pages->reader_db);
    if (!error)
        error = pages_open(&(struct pages_settings){.loop = settings->loop,
                                                    .config = settings->config,
                                                    .pages = pages->config,
                                                    .reader_db = pages->reader_db,
                                                    .version = SPANPROF_VERSION,
                                                    .coverage = settings->coverage,
                                                    .sampling = settings->sampling},
                           &pages->pages);
    if (!error)
        error = set_token(pages);
    if (!error)
        error = listen_all(pages, settings, extension->id);
    return error;
}

void service_pages_close(struct service_pages *pages)
{
    pages_close(pages->pages);
    db_close(pages->reader_db);
    *pages = (struct service_pages){0};
}

struct coverage *service_pages_coverage(const struct config *config)
{
    struct coverage *coverage = NULL;
    if (!config_find_extension(config, CONFIG_EXTENSION_PAGES) || coverage_open(&coverage))
        return NULL;
    return coverage;
}
