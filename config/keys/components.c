/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers of config.h want typed arrays, the code that fills and prints them wants one loop.
 */
#include "config/keys/components.h"
#include <stdio.h>

#define TRACES   (1U << CONFIG_TRACES)
#define PROFILES (1U << CONFIG_PROFILES)
#define METRICS  (1U << CONFIG_METRICS)
#define LOGS     (1U << CONFIG_LOGS)
#define ALL      (TRACES | PROFILES | METRICS | LOGS)

const struct config_component config_components[] = {
    {CONFIG_RECEIVER_OTLP, CLASS_RECEIVER, "otlp", NULL, ALL, "beta",
     "Receives spans, metrics, logs and profiles by OTLP over gRPC and over HTTP (protobuf "
     "and JSON), for the signals whose pipeline names it. At least one protocol must be "
     "named; a protocol that is not named is off, one without settings has its defaults. A "
     "request is acknowledged once it is on disk."},
    {CONFIG_RECEIVER_SAMPLER, CLASS_RECEIVER, "sampler", NULL, PROFILES, "alpha",
     "Samples the stacks of all processes on this node with eBPF, together with the trace "
     "and span that each thread works on. Needs root or CAP_BPF and CAP_PERFMON."},
    {CONFIG_PROCESSOR_JOIN, CLASS_PROCESSOR, "join", NULL, TRACES | PROFILES, "alpha",
     "Joins samples with the spans they were taken in. Name it in the traces and in the profiles "
     "pipeline: samples then carry their span's name and attributes, and spans their CPU time and "
     "top "
     "stacks. Samples of other profilers (an otlp receiver in the profiles pipeline) are joined by "
     "their Links or labels."},
    {CONFIG_EXPORTER_OTLP_GRPC, CLASS_EXPORTER, "otlp_grpc", "otlp", ALL, "beta",
     "Sends OTLP/gRPC, from a queue on disk: acknowledged data survives restarts and outages "
     "of the backend."},
    {CONFIG_EXPORTER_OTLP_HTTP, CLASS_EXPORTER, "otlp_http", "otlphttp", ALL, "beta",
     "Sends OTLP/HTTP (HTTP/1.1), in protobuf or JSON. Redirects are not followed."},
    {CONFIG_EXPORTER_DEBUG, CLASS_EXPORTER, "debug", NULL, ALL, "alpha",
     "Prints the output on stderr, for a first look."},
    {CONFIG_EXPORTER_FILE, CLASS_EXPORTER, "file", NULL, ALL, "alpha",
     "Writes to a file, one record for each request: a line of OTLP/JSON, which the "
     "Collector's otlp_json_file receiver reads. With format proto or with compression each "
     "record follows its length (4 bytes, big-endian). Requests that cannot be written wait "
     "in the store. The file and its directory must be writable for the user that the "
     "service runs as (service::user, otherwise the owner of the store's directory, never root)."},
    {CONFIG_EXPORTER_NOP, CLASS_EXPORTER, "nop", NULL, ALL, "alpha",
     "Sends nothing, for a node without a backend: pages, history and scraping work as "
     "usual. It has no keys."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, CLASS_EXTENSION, "sqlite_storage", NULL, 0, "alpha",
     "The store on disk: waiting samples and outgoing requests. There is exactly one; if none is "
     "configured, one with the defaults below is used."},
    {CONFIG_EXTENSION_HEALTH_CHECK, CLASS_EXTENSION, "health_check", NULL, 0, "alpha",
     "A page that answers 200 while requests are accepted, otherwise 503: while starting or "
     "stopping, while the store is full or out of service, and when it hangs. The gRPC "
     "receiver reports the same by grpc.health.v1.Health/Check, also without this extension."},
    {CONFIG_EXTENSION_PAGES, CLASS_EXTENSION, "pages", NULL, 0, "alpha",
     "Web pages: traces and where their CPU time went, functions, flame graphs, differences, "
     "and the status of this node; the same as JSON and for download. See docs/api.md."},
    {CONFIG_EXTENSION_HISTORY, CLASS_EXTENSION, "history", NULL, 0, "alpha",
     "The data behind the pages: recent samples and spans, in the store. If pages is used "
     "and no history is configured, one with the defaults below is used."},
    {CONFIG_EXTENSION_BEARER_TOKEN_AUTH, CLASS_EXTENSION, "bearertokenauth", NULL, 0, "alpha",
     "Tokens that clients of a receiver must send, named by its auth::authenticator. The keys are "
     "the Collector's. Without TLS the token can be read on the way."},
};
const size_t config_components_count = sizeof(config_components) / sizeof(config_components[0]);

static size_t *count_of(struct config *config, enum config_class class)
{
    switch (class) {
    case CLASS_RECEIVER:
        return &config->n_receivers;
    case CLASS_PROCESSOR:
        return &config->n_processors;
    case CLASS_EXPORTER:
        return &config->n_exporters;
    default:
        return &config->n_extensions;
    }
}

size_t components_count(const struct config *config, enum config_class class)
{
    switch (class) {
    case CLASS_RECEIVER:
        return config->n_receivers;
    case CLASS_PROCESSOR:
        return config->n_processors;
    case CLASS_EXPORTER:
        return config->n_exporters;
    default:
        return config->n_extensions;
    }
}

struct component_slot components_at(const struct config *constant, enum config_class class,
                                    size_t i)
{
    struct config *config = (struct config *)constant;
    switch (class) {
    case CLASS_RECEIVER: {
        struct config_receiver *receiver = &config->receivers[i];
        return (struct component_slot){receiver->id, &receiver->type, &receiver->used,
                                       &receiver->otlp};
    }
    case CLASS_PROCESSOR: {
        struct config_processor *processor = &config->processors[i];
        return (struct component_slot){processor->id, &processor->type, &processor->used,
                                       &processor->join};
    }
    case CLASS_EXPORTER: {
        struct config_exporter *exporter = &config->exporters[i];
        return (struct component_slot){exporter->id, &exporter->type, &exporter->used,
                                       &exporter->otlp};
    }
    default: {
        struct config_extension *extension = &config->extensions[i];
        return (struct component_slot){extension->id, &extension->type, &extension->used,
                                       &extension->sqlite_storage};
    }
    }
}

ptrdiff_t components_find(const struct config *config, enum config_class class, const char *id)
{
    for (size_t i = 0; i < components_count(config, class); i++)
        if (strcmp(components_at(config, class, i).id, id) == 0)
            return (ptrdiff_t)i;
    return -1;
}

bool components_add(struct config *config, enum config_class class, const char *id,
                    enum config_type type, struct component_slot *slot)
{
    size_t *count = count_of(config, class);
    if (*count == CONFIG_COMPONENTS_MAX)
        return false;
    *slot = components_at(config, class, (*count)++);
    snprintf(slot->id, CONFIG_NAME_MAX, "%s", id);
    *slot->type = type;
    return true;
}
