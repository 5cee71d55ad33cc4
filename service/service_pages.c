/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_pages.h"
#include "agent-bpf/supervisor/privileges.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/window/coverage.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES_MIN 16
#define TOKEN_BYTES_MAX 512

STAT_COUNTER(out_of_files, "spanprof_pages_accept_pauses_total",
             "Times when no connection to the pages was taken for want of file descriptors.");

/* ---- TLS ---- */

static void on_passed(struct tls_accept *gate, struct tls *tls, int fd)
{
    struct service_pages *pages = container_of(gate, struct service_pages, gate);
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(peer);
    int plain;
    (void)getpeername(fd, (struct sockaddr *)&peer, &size);
    int error = tls_proxy_open(&pages->bridges, tls, fd, &plain);
    if (error)
        log_warn("pages", "cannot serve a connection: %s", strerror(-error));
    else
        pages_add(pages->pages, plain, (const struct sockaddr *)&peer, size);
}

static void on_accepted(struct acceptor *acceptor, int fd)
{
    const int on = 1;
    struct service_pages *pages = container_of(acceptor, struct service_pages, acceptor);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    tls_accept_enter(&pages->gate, fd);
}

static int listen_tls(struct service_pages *pages, const struct service_pages_settings *settings,
                      struct tls_context *context)
{
    pages->acceptor = (struct acceptor){.loop = settings->loop,
                                        .area = "pages",
                                        .out_of_files = {&out_of_files},
                                        .accepted = on_accepted};
    pages->gate = (struct tls_accept){
        .loop = settings->loop, .context = context, .area = "pages", .passed = on_passed};
    tls_accept_init(&pages->gate);
    tls_proxys_init(&pages->bridges, settings->loop);
    pages->has_tls = true;
    return acceptor_start(&pages->acceptor, settings->sockets);
}

/* ---- sockets ---- */

static int listen_plain(struct service_pages *pages, struct listen_sockets *sockets, bool of_node)
{
    int error = 0;
    for (size_t i = 0; !error && i < sockets->n; i++)
        error = pages_listen(pages->pages, sockets->fds[i], of_node);
    if (!error)
        listen_close(sockets); /* they have duplicates */
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
        error = context ? listen_tls(pages, settings, context)
                        : listen_plain(pages, settings->sockets, false);
    return error ? error : listen_plain(pages, settings->unix_socket, true);
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
    if (pages->has_tls) {
        acceptor_stop(&pages->acceptor);
        tls_accept_close(&pages->gate);
    }
    pages_close(pages->pages);
    if (pages->has_tls)
        tls_proxys_close(&pages->bridges);
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

/* ---- before ---- */

static void make_parents(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s", directory);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)!mkdir(path, 0755);
        *slash = '/';
    }
}

void service_pages_directory(const struct config *config)
{
    struct privileges owner;
    const char *directory =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage.directory;
    if (access(directory, F_OK) == 0 ||
        privileges_target(config->service.user, directory, &owner) != 0)
        return;
    make_parents(directory);
    if (mkdir(directory, 0700) == 0 && geteuid() != owner.uid)
        (void)!chown(directory, owner.uid, owner.gid);
}
