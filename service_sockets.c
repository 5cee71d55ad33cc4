/* SPDX-License-Identifier: Apache-2.0 */
/* Every listener of the configuration, all errors said before giving up. */
#include "base/log.h"
#include "service.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PREDECESSOR_TRIES    20
#define PREDECESSOR_PAUSE_US 50000

struct opening {
    const struct service_sockets *in_use; /* may be NULL */
    int error;                            /* the first one */
};

static bool share(const struct service_sockets *in_use, const struct config_endpoint *endpoint,
                  struct listen_sockets *sockets)
{
    if (listen_share(&in_use->metrics, endpoint, sockets) ||
        listen_share(&in_use->health, endpoint, sockets))
        return true;
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++)
        if (listen_share(&in_use->grpc[i], endpoint, sockets) ||
            listen_share(&in_use->http[i], endpoint, sockets))
            return true;
    return false;
}

/* A predecessor that was killed may take a moment to let go of its ports. */
static void open_one(struct opening *opening, const struct config_endpoint *endpoint,
                     const char *path, struct listen_sockets *sockets)
{
    _cleanup_buf_ struct buf why = BUF_INIT(1024);
    if (opening->in_use && share(opening->in_use, endpoint, sockets))
        return;
    int error = listen_open(endpoint, path, sockets, &why);
    for (int i = 0; error == -EADDRINUSE && !opening->in_use && i < PREDECESSOR_TRIES; i++) {
        usleep(PREDECESSOR_PAUSE_US);
        buf_clear(&why);
        error = listen_open(endpoint, path, sockets, &why);
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

static void no_sockets(struct listen_sockets *sockets)
{
    *sockets = (struct listen_sockets){0};
    for (size_t i = 0; i < LISTEN_SOCKETS_MAX; i++)
        sockets->fds[i] = -1;
}

int service_sockets_open(const struct config *config, const struct service_sockets *in_use,
                         struct service_sockets *sockets)
{
    struct opening opening = {.in_use = in_use};
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        no_sockets(&sockets->grpc[i]);
        no_sockets(&sockets->http[i]);
    }
    no_sockets(&sockets->metrics);
    no_sockets(&sockets->health);
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver *receiver = &config->receivers[i];
        if (receiver->used && receiver->type == CONFIG_RECEIVER_OTLP)
            open_receiver(&opening, receiver, &sockets->grpc[i], &sockets->http[i]);
    }
    if (config->service.metrics_enabled)
        open_one(&opening, &config->service.metrics_address, "service::telemetry::metrics::address",
                 &sockets->metrics);
    open_health(&opening, config, &sockets->health);
    return opening.error;
}

void service_sockets_close(struct service_sockets *sockets, bool for_good)
{
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        if (for_good) {
            listen_remove(&sockets->grpc[i]);
            listen_remove(&sockets->http[i]);
        }
        listen_close(&sockets->grpc[i]);
        listen_close(&sockets->http[i]);
    }
    listen_close(&sockets->metrics);
    listen_close(&sockets->health);
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
    size_t n = add_fds(&sockets->metrics, fds);
    n += add_fds(&sockets->health, fds + n);
    for (size_t i = 0; i < SERVICE_RECEIVERS_MAX; i++) {
        n += add_fds(&sockets->grpc[i], fds + n);
        n += add_fds(&sockets->http[i], fds + n);
    }
    return n;
}
