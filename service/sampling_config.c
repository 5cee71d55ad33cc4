/* SPDX-License-Identifier: Apache-2.0 */
#include "service/sampling_config.h"
#include "context/context_source.h"

static struct filter_rules filter_rules(const struct config_filter *filter)
{
    return (struct filter_rules){.values = {[FILTER_PIDS] = filter->pids.items,
                                            [FILTER_COMMS] = filter->comms.items,
                                            [FILTER_EXECUTABLES] = filter->executables.items,
                                            [FILTER_CGROUPS] = filter->cgroups.items,
                                            [FILTER_CONTAINERS] = filter->containers.items}};
}

void sampling_config_supervisor(const struct config *config, struct supervisor_settings *settings)
{
    const struct config_receiver *receiver = config_find_receiver(config, CONFIG_RECEIVER_SAMPLER);
    settings->want_sampler = receiver != NULL;
    if (!receiver)
        return;
    const struct config_receiver_sampler *sampler = &receiver->sampler;
    settings->sampler = (struct sampler_settings){
        .frequency_hz = sampler->frequency,
        .ring_size_bytes = sampler->ring_size_bytes,
        .unwind_bytes = sampler->unwind_table_bytes,
        .obi_map = sampler->contexts.sources[CONTEXT_OBI] ? sampler->contexts.obi_map : NULL,
        .ticks_timed = sampler->max_cpu_percent > 0,
        .filters = {filter_rules(&sampler->include), filter_rules(&sampler->exclude)}};
    settings->sampling_rate =
        (struct sampling_rate_settings){.probability = sampler->probability,
                                        .interval_ns = sampler->probability_interval_ns,
                                        .max_cpu_percent = sampler->max_cpu_percent};
}

void sampling_config_symbolizer(const struct config *config,
                                struct symbolizer_process_settings *settings)
{
    const struct config_receiver *receiver = config_find_receiver(config, CONFIG_RECEIVER_SAMPLER);
    settings->sources = 0;
    for (unsigned source = 0; receiver && source < CONTEXT_SOURCES; source++)
        if (receiver->sampler.contexts.sources[source])
            settings->sources |= CONTEXT_BIT(source) & CONTEXT_VARIABLE_BITS;
    settings->lines = receiver && receiver->sampler.symbols.lines;
    settings->elastic_correlation = receiver && receiver->sampler.contexts.elastic_correlation;
    settings->runtime_frames = receiver && receiver->sampler.runtimes.frames;
    settings->runtime_cache_bytes = receiver ? receiver->sampler.runtimes.cache_bytes : 0;
}
