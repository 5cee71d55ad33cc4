/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

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
