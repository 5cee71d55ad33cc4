/* SPDX-License-Identifier: Apache-2.0 */
/* Opens every listener of the configuration; all errors are logged before it fails. */
#include "agent-bpf/files/fs_rights.h"
#include "base/log.h"
#include "receiver/listen_name.h"
#include "service/config_process.h"
#include "service/service.h"
#include "service/service_pages.h"
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREDECESSOR_TRIES    20
#define PREDECESSOR_PAUSE_US 50000

struct opening {
    const struct service_sockets *in_use; /* may be NULL */
    int error;                            /* the first one */
    const char *name;                     /* looked up last; NULL: none yet */
    struct buf addresses;                 /* of that */
    int name_error;
};

#define N_LISTENERS (2 * SERVICE_RECEIVERS_MAX + 4)

static const struct listen_sockets *service_sockets_listener(const struct service_sockets *sockets,
                                                             size_t i)
{
    const struct listen_sockets *const single[] = {&sockets->metrics, &sockets->health,
                                                   &sockets->pages, &sockets->pages_socket};
    if (i < SERVICE_RECEIVERS_MAX)
        return &sockets->grpc[i];
    i -= SERVICE_RECEIVERS_MAX;
    return i < SERVICE_RECEIVERS_MAX ? &sockets->http[i] : single[i - SERVICE_RECEIVERS_MAX];
}

static struct listen_sockets *own_listener(struct service_sockets *sockets, size_t i)
{
    return (struct listen_sockets *)service_sockets_listener(sockets, i);
}

static bool sockets_share(const struct service_sockets *in_use,
                          const struct config_endpoint *endpoint, struct listen_sockets *sockets)
{
    for (size_t i = 0; i < N_LISTENERS; i++)
        if (listen_share(service_sockets_listener(in_use, i), endpoint, sockets))
            return true;
    return false;
}

/* A Unix socket is made and removed as the owner of its directory would: root may lack
 * CAP_DAC_OVERRIDE, and is led nowhere by links that the owner makes. */
static bool act_as_owner(const struct config_endpoint *endpoint, struct fs_rights_own *own)
{
    char directory[sizeof(endpoint->host)];
    struct stat status;
    if (endpoint->transport != CONFIG_UNIX)
        return false;
    snprintf(directory, sizeof(directory), "%s", endpoint->host);
    if (stat(dirname(directory), &status) || !status.st_uid)
        return false;
    const struct fs_rights rights = {.uid = status.st_uid, .gid = status.st_gid};
    return !fs_rights_take(&rights, own);
}

/* Names that most endpoints share are looked up once, and none after one that did not come in time:
 * all of it takes 2 s at most. */
static struct listen_name look_up(struct opening *opening, const char *name)
{
    bool is_known =
        opening->name && (strcmp(opening->name, name) == 0 || opening->name_error == -ETIMEDOUT);
    if (!is_known) {
        buf_clear(&opening->addresses);
        opening->name = name;
        opening->name_error = config_process_look_up(name, &opening->addresses);
    }
    return (struct listen_name){opening->name_error, buf_bytes(&opening->addresses)};
}

static int open_as_owner(struct opening *opening, const struct config_endpoint *endpoint,
                         const char *path, struct listen_sockets *sockets, struct buf *why)
{
    struct fs_rights_own own;
    struct listen_name name;
    bool has_name = listen_has_name(endpoint);
    if (has_name)
        name = look_up(opening, endpoint->host);
    bool acts = act_as_owner(endpoint, &own);
    int error = listen_open_name(endpoint, has_name ? &name : NULL, path, sockets, why);
    if (acts)
        fs_rights_return(&own);
    return error;
}

static void remove_as_owner(const struct listen_sockets *sockets)
{
    struct fs_rights_own own;
    bool acts = act_as_owner(&sockets->endpoint, &own);
    listen_remove(sockets);
    if (acts)
        fs_rights_return(&own);
}

/* A predecessor that was killed may take a moment to let go of its ports. */
static void open_one(struct opening *opening, const struct config_endpoint *endpoint,
                     const char *path, struct listen_sockets *sockets)
{
    _cleanup_buf_ struct buf why = BUF_INIT(1024);
    if (opening->in_use && sockets_share(opening->in_use, endpoint, sockets))
        return;
    int error = open_as_owner(opening, endpoint, path, sockets, &why);
    for (int i = 0; error == -EADDRINUSE && !opening->in_use && i < PREDECESSOR_TRIES; i++) {
        usleep(PREDECESSOR_PAUSE_US);
        buf_clear(&why);
        error = open_as_owner(opening, endpoint, path, sockets, &why);
    }
    if (error)
        log_error("main", "%.*s", (int)why.len, (const char *)why.data);
    opening->error = opening->error ? opening->error : error;
}

static void open_receiver(struct opening *opening, const struct config_receiver *receiver,
                          struct listen_sockets *grpc, struct listen_sockets *http)
{
    char path[CONFIG_NAME_MAX + 64];
    const struct config_receiver_otlp *otlp = &receiver->otlp;
    if (otlp->grpc.enabled) {
        snprintf(path, sizeof(path), "receivers::%s::protocols::grpc::endpoint", receiver->id);
        open_one(opening, &otlp->grpc.endpoint, path, grpc);
    }
    if (otlp->http.enabled) {
        snprintf(path, sizeof(path), "receivers::%s::protocols::http::endpoint", receiver->id);
        open_one(opening, &otlp->http.endpoint, path, http);
    }
}

static void open_health(struct opening *opening, const struct config *config,
                        struct listen_sockets *sockets)
{
    char path[CONFIG_NAME_MAX + 64];
    const struct config_extension *health =
        config_find_extension(config, CONFIG_EXTENSION_HEALTH_CHECK);
    if (!health)
        return;
    snprintf(path, sizeof(path), "extensions::%s::endpoint", health->id);
    open_one(opening, &health->health_check.endpoint, path, sockets);
}

static void open_pages(struct opening *opening, const struct config *config,
                       struct service_sockets *sockets)
{
    char path[CONFIG_NAME_MAX + 64];
    const struct config_extension *pages = config_find_extension(config, CONFIG_EXTENSION_PAGES);
    if (!pages)
        return;
    snprintf(path, sizeof(path), "extensions::%s::endpoint", pages->id);
    open_one(opening, &pages->pages.endpoint, path, &sockets->pages);
    if (!pages->pages.socket_endpoint.set)
        return;
    snprintf(path, sizeof(path), "extensions::%s::socket", pages->id);
    open_one(opening, &pages->pages.socket_endpoint, path, &sockets->pages_socket);
}

static void no_sockets(struct listen_sockets *sockets)
{
    *sockets = (struct listen_sockets){0};
    for (size_t i = 0; i < LISTEN_SOCKETS_MAX; i++)
        sockets->fds[i] = -1;
}

int service_sockets_open(const struct config *config, const struct service_sockets *in_use,
                         struct service_sockets *sockets)
{
    struct opening opening = {.in_use = in_use, .addresses = BUF_INIT(LISTEN_ADDRESSES_MAX)};
    for (size_t i = 0; i < N_LISTENERS; i++)
        no_sockets(own_listener(sockets, i));
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver *receiver = &config->receivers[i];
        if (receiver->used && receiver->type == CONFIG_RECEIVER_OTLP)
            open_receiver(&opening, receiver, &sockets->grpc[i], &sockets->http[i]);
    }
    if (config->service.metrics_enabled)
        open_one(&opening, &config->service.metrics_address, "service::telemetry::metrics::address",
                 &sockets->metrics);
    open_health(&opening, config, &sockets->health);
    open_pages(&opening, config, sockets);
    buf_close(&opening.addresses);
    return opening.error;
}

static bool sockets_have(const struct service_sockets *sockets, const struct listen_sockets *wanted)
{
    for (size_t i = 0; sockets && i < N_LISTENERS; i++)
        if (listen_same(service_sockets_listener(sockets, i), wanted))
            return true;
    return false;
}

void service_sockets_close(struct service_sockets *sockets, const struct service_sockets *others)
{
    for (size_t i = 0; i < N_LISTENERS; i++) {
        struct listen_sockets *each = own_listener(sockets, i);
        if (!sockets_have(others, each))
            remove_as_owner(each);
        listen_close(each);
    }
}

static size_t add_fds(const struct listen_sockets *sockets, int *fds)
{
    size_t n = 0;
    for (size_t i = 0; i < sockets->n; i++)
        if (sockets->fds[i] >= 0)
            fds[n++] = sockets->fds[i];
    return n;
}

size_t service_sockets_fds(const struct service_sockets *sockets, int fds[SERVICE_SOCKETS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < N_LISTENERS; i++)
        n += add_fds(service_sockets_listener(sockets, i), fds + n);
    return n;
}

size_t service_sockets_ports(const struct service_sockets *sockets, uint16_t *ports, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; n < max && i < 2 * SERVICE_RECEIVERS_MAX; i++) {
        const struct listen_sockets *each = service_sockets_listener(sockets, i);
        if (each->n && each->port)
            ports[n++] = each->port;
    }
    return n;
}
