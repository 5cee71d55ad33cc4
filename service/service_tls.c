/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_tls.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/tls/tls.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define TOGETHER_NS (50 * NS_PER_MS) /* messages about certificate and key follow each other */

static bool tls_given(const char *text)
{
    return text && *text;
}

/* ---- which files there are ---- */

static struct supervisor_file *find_file(struct service_files *files, const char *path)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->files[i].path, path) == 0)
            return &files->files[i];
    return NULL;
}

/* The shortest interval counts where a file has several uses. */
static int add_file(struct service_files *files, const char *section, const char *key,
                    const char *path, uint64_t interval_ns)
{
    if (!tls_given(path))
        return 0;
    struct supervisor_file *file = find_file(files, path);
    if (file) {
        if (interval_ns && (!file->interval_ns || interval_ns < file->interval_ns))
            file->interval_ns = interval_ns;
        return 0;
    }
    if (files->n == SUPERVISOR_FILES_MAX)
        return -ENOSPC;
    snprintf(files->names[files->n], sizeof(files->names[0]), "%s::%s", section, key);
    int fd = files->inherited ? files->inherited[files->n] : -1;
    files->files[files->n++] =
        (struct supervisor_file){.path = path, .interval_ns = interval_ns, .fd = fd};
    return 0;
}

static int add_section(struct service_files *files, const char *section,
                       const struct config_tls *tls)
{
    uint64_t interval_ns = tls->reload_interval_ns;
    const struct {
        const char *key, *path;
        uint64_t interval_ns;
    } wanted[] = {{"ca_file", tls->ca_file, interval_ns},
                  {"cert_file", tls->cert_file, interval_ns},
                  {"key_file", tls->key_file, interval_ns},
                  {"client_ca_file", tls->client_ca_file,
                   tls->client_ca_file_reload ? NS_PER_SEC : interval_ns}};
    int error = 0;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        int one = add_file(files, section, wanted[i].key, wanted[i].path, wanted[i].interval_ns);
        error = error ? error : one;
    }
    return error;
}

#define NAME_MAX_ sizeof(((struct service_tls_user *)0)->name)

static const char *receiver_section(const struct config_receiver *receiver, const char *protocol,
                                    char name[NAME_MAX_])
{
    snprintf(name, NAME_MAX_, "receivers::%s::protocols::%s::tls", receiver->id, protocol);
    return name;
}

static const char *exporter_section(const struct config_exporter *exporter, char name[NAME_MAX_])
{
    snprintf(name, NAME_MAX_, "exporters::%s::tls", exporter->id);
    return name;
}

static int add_receiver(struct service_files *files, const struct config_receiver *receiver)
{
    const struct config_receiver_otlp *otlp = &receiver->otlp;
    char name[NAME_MAX_];
    int error = 0;
    if (!receiver->used || receiver->type != CONFIG_RECEIVER_OTLP)
        return 0;
    if (otlp->grpc.enabled && otlp->grpc.tls.enabled)
        error = add_section(files, receiver_section(receiver, "grpc", name), &otlp->grpc.tls);
    if (otlp->http.enabled && otlp->http.tls.enabled) {
        int one = add_section(files, receiver_section(receiver, "http", name), &otlp->http.tls);
        error = error ? error : one;
    }
    return error;
}

static int add_pages(struct service_files *files, const struct config_extension *extension)
{
    const struct config_pages *pages = &extension->pages;
    char name[NAME_MAX_];
    snprintf(name, sizeof(name), "extensions::%s::auth", extension->id);
    int error = add_file(files, name, "token_file", pages->auth.token_file, 0);
    if (!pages->tls.enabled)
        return error;
    snprintf(name, sizeof(name), "extensions::%s::tls", extension->id);
    int one = add_section(files, name, &pages->tls);
    return error ? error : one;
}

static int add_tokens(struct service_files *files, const struct config *config)
{
    char name[NAME_MAX_];
    int error = 0;
    for (size_t i = 0; i < config->n_extensions; i++) {
        const struct config_extension *extension = &config->extensions[i];
        if (!extension->used || extension->type != CONFIG_EXTENSION_BEARER_TOKEN_AUTH)
            continue;
        snprintf(name, sizeof(name), "extensions::%s", extension->id);
        int one = add_file(files, name, "filename", extension->bearer_token_auth.filename,
                           60 * NS_PER_SEC);
        error = error ? error : one;
    }
    return error;
}

static bool exports_by_tls(const struct config_exporter *exporter)
{
    bool otlp =
        exporter->type == CONFIG_EXPORTER_OTLP_GRPC || exporter->type == CONFIG_EXPORTER_OTLP_HTTP;
    return exporter->used && otlp && !exporter->otlp.tls.insecure;
}

static int add_all(const struct config *config, struct service_files *files)
{
    char name[NAME_MAX_];
    int error = 0;
    for (size_t i = 0; i < config->n_receivers; i++) {
        int one = add_receiver(files, &config->receivers[i]);
        error = error ? error : one;
    }
    for (size_t i = 0; i < config->n_exporters; i++) {
        const struct config_exporter *exporter = &config->exporters[i];
        if (!exports_by_tls(exporter))
            continue;
        int one = add_section(files, exporter_section(exporter, name), &exporter->otlp.tls);
        error = error ? error : one;
    }
    const struct config_extension *pages = config_find_extension(config, CONFIG_EXTENSION_PAGES);
    int one = pages ? add_pages(files, pages) : 0;
    error = error ? error : one;
    one = add_tokens(files, config);
    return error ? error : one;
}

int service_files_open(const struct config *config, const struct service_files *in_use,
                       struct service_files *files)
{
    files->n = 0;
    files->inherited = NULL;
    int error = add_all(config, files);
    supervisor_files_open(files->files, files->n, in_use ? in_use->files : NULL,
                          in_use ? in_use->n : 0);
    for (size_t i = 0; i < files->n; i++) {
        const struct supervisor_file *file = &files->files[i];
        if (file->fd >= 0)
            continue;
        log_error("main", "%s: cannot read %s: %s", files->names[i], file->path,
                  supervisor_file_reason(file->error));
        error = error ? error : file->error;
    }
    return error;
}

int service_files_inherit(const struct config *config, const int *fds, struct service_files *files)
{
    files->n = 0;
    files->inherited = fds;
    return add_all(config, files);
}

int service_files_read(const struct service_files *files, const char *path, struct buf *text)
{
    const struct supervisor_file *file = find_file((struct service_files *)files, path);
    int error = file ? supervisor_file_contents(file->fd, text) : -ENOENT;
    while (!error && text->len && strchr("\r\n", text->data[text->len - 1]))
        text->len--;
    return error;
}

void service_files_close(struct service_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        supervisor_file_close(&files->files[i]);
    files->n = 0;
}

/* ---- what is in them ---- */

struct pem_text {
    char name[256];
    struct buf text;
};

static void pem_close(struct pem_text *pem)
{
    if (pem->text.data)
        explicit_bzero(pem->text.data, pem->text.cap);
    buf_close(&pem->text);
}

#define _cleanup_pem_ __attribute__((cleanup(pem_close)))

/* From the file or the configuration itself, whichever is given. */
static int read_pem(struct service_files *files, const char *key, const char *path,
                    const char *inline_text, struct pem_text *pem, struct tls_pem *out)
{
    const struct supervisor_file *file = tls_given(path) ? find_file(files, path) : NULL;
    int error = 0;
    if (file) {
        snprintf(pem->name, sizeof(pem->name), "%s_file %.200s", key, path);
        error = supervisor_file_contents(file->fd, &pem->text);
    } else if (tls_given(inline_text)) {
        snprintf(pem->name, sizeof(pem->name), "%s_pem", key);
        error = buf_append(&pem->text, inline_text, strlen(inline_text));
    }
    *out = (struct tls_pem){
        .name = pem->name, .text = buf_bytes(&pem->text), .given = file || tls_given(inline_text)};
    return error;
}

static int load_user(struct service_tls *tls, struct service_tls_user *user, bool server,
                     const struct tls_settings *settings, char why[TLS_WHY_MAX])
{
    const struct config_tls *config = user->config;
    _cleanup_pem_ struct pem_text certificate = {.text = BUF_INIT(0)};
    _cleanup_pem_ struct pem_text key = {.text = BUF_INIT(0)};
    _cleanup_pem_ struct pem_text cas = {.text = BUF_INIT(0)};
    struct tls_material material;
    snprintf(why, TLS_WHY_MAX, "cannot read certificates");
    int error = read_pem(tls->files, "cert", config->cert_file, config->cert_pem, &certificate,
                         &material.certificate);
    if (!error)
        error = read_pem(tls->files, "key", config->key_file, config->key_pem, &key, &material.key);
    if (!error && server)
        error =
            read_pem(tls->files, "client_ca", config->client_ca_file, NULL, &cas, &material.cas);
    else if (!error)
        error = read_pem(tls->files, "ca", config->ca_file, config->ca_pem, &cas, &material.cas);
    if (error)
        return error;
    return user->context ? tls_context_reload(user->context, &material, why)
                         : tls_context_open(settings, &material, &user->context, why);
}

/* ---- contexts ---- */

static enum tls_version service_tls_version(enum config_tls_version config)
{
    return config == CONFIG_TLS_1_3 ? TLS_1_3 : TLS_1_2;
}

static int open_user(struct service_tls *tls, const struct config_tls *config, const char *name,
                     struct tls_settings *settings, struct tls_context **context)
{
    char why[TLS_WHY_MAX];
    struct service_tls_user *user = &tls->users[tls->n];
    if (tls->n == SERVICE_TLS_MAX)
        return -ENOSPC;
    *user = (struct service_tls_user){.config = config, .server = settings->server};
    snprintf(user->name, sizeof(user->name), "%s", name);
    settings->name = user->name;
    settings->min_version = service_tls_version(config->min_version);
    settings->max_version = service_tls_version(config->max_version);
    int error = load_user(tls, user, settings->server, settings, why);
    if (error) {
        log_error("service", "%s: %s", user->name, why);
        return error;
    }
    tls->n++;
    *context = user->context;
    return 0;
}

int service_tls_receiver(struct service_tls *tls, const struct config_receiver *receiver,
                         const char *protocol, const struct config_tls *config, const char *alpn,
                         struct tls_context **context)
{
    LOOP_THREAD(tls->loop);
    char name[NAME_MAX_];
    /* HTTP/1.1 is what a client means who offers nothing. */
    struct tls_settings settings = {
        .server = true, .alpn = alpn, .alpn_required = strcmp(alpn, "h2") == 0};
    *context = NULL;
    if (!config->enabled)
        return 0;
    return open_user(tls, config, receiver_section(receiver, protocol, name), &settings, context);
}

int service_tls_server(struct service_tls *tls, const char *section,
                       const struct config_tls *config, struct tls_context **context)
{
    LOOP_THREAD(tls->loop);
    struct tls_settings settings = {.server = true, .alpn = "http/1.1"};
    *context = NULL;
    return config->enabled ? open_user(tls, config, section, &settings, context) : 0;
}

int service_tls_exporter(struct service_tls *tls, const struct config_exporter *exporter,
                         struct tls_context **context)
{
    LOOP_THREAD(tls->loop);
    char name[NAME_MAX_];
    const struct config_exporter_otlp *otlp = &exporter->otlp;
    bool grpc = exporter->type == CONFIG_EXPORTER_OTLP_GRPC;
    bool is_path = grpc && otlp->endpoint.transport == CONFIG_UNIX;
    const struct config_tls *config = &otlp->tls;
    *context = NULL;
    if (!exports_by_tls(exporter)) /* another kind has none of these settings */
        return 0;
    bool has_ca = tls_given(config->ca_file) || tls_given(config->ca_pem);
    struct tls_settings settings = {
        .alpn = grpc ? "h2" : "http/1.1",
        .alpn_required = grpc,
        .insecure_skip_verify = config->insecure_skip_verify,
        .system_cas = !has_ca || config->include_system_ca_certs_pool,
        .server_name = tls_given(config->server_name_override) ? config->server_name_override
                       : is_path                               ? "localhost"
                       : grpc                                  ? otlp->endpoint.host
                              : "", /* each signal may have its own */
    };
    return open_user(tls, config, exporter_section(exporter, name), &settings, context);
}

/* ---- changes ---- */

static bool config_tls_uses(const struct config_tls *config, const char *path)
{
    const char *const paths[] = {config->ca_file, config->cert_file, config->key_file,
                                 config->client_ca_file};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (tls_given(paths[i]) && strcmp(paths[i], path) == 0)
            return true;
    return false;
}

static void on_reload(struct timer *timer)
{
    struct service_tls *tls = container_of(timer, struct service_tls, reload);
    for (size_t i = 0; i < tls->n; i++) {
        struct service_tls_user *user = &tls->users[i];
        char why[TLS_WHY_MAX];
        if (!user->stale)
            continue;
        user->stale = false;
        if (load_user(tls, user, user->server, NULL, why))
            log_error("service", "%s: changes are not taken: %s; what was there stays in use",
                      user->name, why);
        else
            log_info("service", "%s: changed certificates are in use", user->name);
    }
}

void service_tls_file_changed(struct service_tls *tls, size_t file, int fd)
{
    LOOP_THREAD(tls->loop);
    if (file < tls->files->n && dup3(fd, tls->files->files[file].fd, O_CLOEXEC) >= 0) {
        for (size_t i = 0; i < tls->n; i++)
            tls->users[i].stale |=
                config_tls_uses(tls->users[i].config, tls->files->files[file].path);
        timer_start(tls->loop, &tls->reload, TOGETHER_NS);
    }
    close(fd);
}

void service_tls_init(struct service_tls *tls, struct loop *loop, struct service_files *files)
{
    *tls = (struct service_tls){.loop = loop, .files = files, .reload = {.fire = on_reload}};
}

void service_tls_close(struct service_tls *tls)
{
    timer_stop(&tls->reload);
    for (size_t i = 0; i < tls->n; i++)
        tls_context_close(tls->users[i].context);
    tls->n = 0;
}
