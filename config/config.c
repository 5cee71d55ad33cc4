/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"
#include <stdio.h>
#include <string.h>

const char *const config_signal_names[CONFIG_SIGNALS] = {
    [CONFIG_TRACES] = "traces",
    [CONFIG_PROFILES] = "profiles",
    [CONFIG_METRICS] = "metrics",
    [CONFIG_LOGS] = "logs",
};

const char *config_signal_name(enum config_signal signal)
{
    return config_signal_names[signal];
}

bool config_endpoint_is(const struct config_endpoint *endpoint, const char *text)
{
    static const char scheme[] = "unix://";
    char address[sizeof(endpoint->host) + 16];
    if (endpoint->transport == CONFIG_UNIX) {
        bool has_scheme = strncmp(text, scheme, sizeof(scheme) - 1) == 0;
        return strcmp(endpoint->host, has_scheme ? text + sizeof(scheme) - 1 : text) == 0;
    }
    snprintf(address, sizeof(address), strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u",
             endpoint->host, (unsigned)endpoint->port);
    return strcmp(address, text) == 0;
}

const struct config_receiver *config_find_receiver(const struct config *config,
                                                   enum config_type type)
{
    for (size_t i = 0; i < config->n_receivers; i++)
        if (config->receivers[i].used && config->receivers[i].type == type)
            return &config->receivers[i];
    return NULL;
}

const struct config_processor *config_find_processor(const struct config *config,
                                                     enum config_type type)
{
    for (size_t i = 0; i < config->n_processors; i++)
        if (config->processors[i].used && config->processors[i].type == type)
            return &config->processors[i];
    return NULL;
}

const struct config_extension *config_find_extension(const struct config *config,
                                                     enum config_type type)
{
    for (size_t i = 0; i < config->n_extensions; i++)
        if (config->extensions[i].used && config->extensions[i].type == type)
            return &config->extensions[i];
    return NULL;
}

const struct config_pipeline *config_find_pipeline(const struct config *config,
                                                   enum config_signal signal)
{
    for (size_t i = 0; i < config->n_pipelines; i++)
        if (config->pipelines[i].signal == signal)
            return &config->pipelines[i];
    return NULL;
}

size_t config_largest_request(const struct config *config)
{
    size_t largest = 0;
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver *receiver = &config->receivers[i];
        const struct config_receiver_otlp *otlp = &receiver->otlp;
        if (!receiver->used || receiver->type != CONFIG_RECEIVER_OTLP)
            continue;
        if (otlp->grpc.enabled && otlp->grpc.max_recv_msg_size_bytes > largest)
            largest = otlp->grpc.max_recv_msg_size_bytes;
        if (otlp->http.enabled && otlp->http.max_request_body_size_bytes > largest)
            largest = otlp->http.max_request_body_size_bytes;
    }
    return largest;
}
