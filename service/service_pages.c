/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_pages.h"
#include "base/log.h"
#include "exporter/pages/pages_token.h"
#include "store/window/coverage.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* 0, or said in a sentence. */
static int set_token(struct service_pages *pages)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    const char *file = pages->config->auth.token_file, *given = pages->config->auth.token;
    if (!pages->config->auth.required || *given) {
        pages_set_token(pages->pages, given);
        return 0;
    }
    int error = *file ? service_files_read(pages->files, file, &text)
                      : pages_token_load(pages->directory, &text);
    if (!error && !pages_token_is_valid(&text))
        error = -EINVAL;
    if (!error)
        error = buf_append(&text, "", 1);
    if (!error)
        pages_set_token(pages->pages, (const char *)text.data);
    else if (*file)
        log_error("pages",
                  "extensions::pages::auth::token_file: %s holds no token of %d to %d "
                  "letters and digits on one line",
                  file, PAGES_TOKEN_BYTES_MIN, PAGES_TOKEN_BYTES_MAX);
    else
        log_error("pages",
                  "pages.token in %s: %s; remove that file, or give a token in "
                  "extensions::pages::auth",
                  pages->directory, error == -EINVAL ? "holds no token" : strerror(-error));
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
    pages->directory = db.directory;
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
