/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_auth.h"
#include "base/log.h"
#include "receiver/bearer.h"
#include "service/service_tls.h"
#include <errno.h>
#include <string.h>

static void text_close(struct buf *text)
{
    if (text->data)
        explicit_bzero(text->data, text->cap);
    buf_close(text);
}

static int tokens_read(const struct config_bearer_token_auth *config,
                       const struct service_files *files, struct buf *lines)
{
    if (*config->filename)
        return service_files_read(files, config->filename, lines);
    int error = buf_append(lines, config->token, strlen(config->token));
    for (size_t i = 0; i < config->tokens.count && !error; i++)
        error = buf_printf(lines, "\n%s", config->tokens.items[i]);
    return error;
}

static int set_tokens(const struct service_auth *auth, size_t i)
{
    const struct config_extension *extension = &auth->config->extensions[i];
    __attribute__((cleanup(text_close))) struct buf lines = BUF_INIT(0);
    int error = tokens_read(&extension->bearer_token_auth, auth->files, &lines);
    if (!error)
        error = bearer_set(auth->bearers[i], buf_bytes(&lines));
    if (error)
        log_error("service",
                  "extensions::%s: %s holds no tokens of %d to %d letters and digits, one on each "
                  "line, at most %d",
                  extension->id,
                  *extension->bearer_token_auth.filename ? extension->bearer_token_auth.filename
                                                         : "the configuration",
                  BEARER_TOKEN_MIN, BEARER_TOKEN_MAX, BEARER_TOKENS_MAX);
    return error;
}

int service_auth_open(struct service_auth *auth, const struct config *config,
                      const struct service_files *files)
{
    *auth = (struct service_auth){.config = config, .files = files};
    int error = 0;
    for (size_t i = 0; i < config->n_extensions && !error; i++) {
        const struct config_extension *extension = &config->extensions[i];
        if (!extension->used || extension->type != CONFIG_EXTENSION_BEARER_TOKEN_AUTH)
            continue;
        error = bearer_open(extension->bearer_token_auth.scheme, &auth->bearers[i]);
        if (!error)
            error = set_tokens(auth, i);
    }
    return error;
}

void service_auth_close(struct service_auth *auth)
{
    for (size_t i = 0; i < CONFIG_COMPONENTS_MAX; i++)
        bearer_close(auth->bearers[i]);
    *auth = (struct service_auth){0};
}

void service_auth_file_changed(struct service_auth *auth)
{
    for (size_t i = 0; i < CONFIG_COMPONENTS_MAX; i++)
        if (auth->bearers[i] && *auth->config->extensions[i].bearer_token_auth.filename)
            set_tokens(auth, i);
}

const struct bearer *service_auth_find(const struct service_auth *auth, const char *authenticator)
{
    for (size_t i = 0; i < CONFIG_COMPONENTS_MAX; i++)
        if (auth->bearers[i] && strcmp(auth->config->extensions[i].id, authenticator) == 0)
            return auth->bearers[i];
    return NULL;
}
