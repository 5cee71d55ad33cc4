/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_store.h"
#include "base/clock.h"
#include "base/limits.h"
#include "config/load/config_load.h"
#include "exporter/exporter.h"
#include <errno.h>
#include <unistd.h>

#define REQUEST_BYTES_DEFAULT ((4u << 20) - (64u << 10))
#define RECENT_SPANS_BYTES    (16u << 20)       /* remembered for profiles of others */
#define GONE_AFTER_NS         (60 * NS_PER_SEC) /* who goes back to the configuration before finds all */
#define PREDECESSOR_TRIES     20
#define PREDECESSOR_PAUSE_US  50000

_Static_assert((int)SIGNAL_TRACES == CONFIG_TRACES && (int)SIGNAL_PROFILES == CONFIG_PROFILES &&
                   (int)SIGNAL_METRICS == CONFIG_METRICS && (int)SIGNAL_LOGS == CONFIG_LOGS,
               "a signal is the configuration's by its number");

static const struct config_pipeline *store_pipeline(const struct config *config, enum signal signal)
{
    return config_find_pipeline(config, (enum config_signal)signal);
}

uint32_t service_signals_of(const struct config *config, size_t receiver)
{
    uint32_t mask = 0;
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        const struct config_pipeline *of = config_find_pipeline(config, (enum config_signal)signal);
        for (size_t i = 0; of && i < of->n_receivers; i++)
            mask |= (uint32_t)(of->receivers[i] == receiver) << signal;
    }
    return mask;
}

bool service_joins(const struct config *config, enum signal signal)
{
    const struct config_pipeline *of = store_pipeline(config, signal);
    for (size_t i = 0; of && i < of->n_processors; i++)
        if (config->processors[of->processors[i]].type == CONFIG_PROCESSOR_JOIN)
            return true;
    return false;
}

static struct join_settings join_settings(const struct config *config)
{
    const struct config_processor *join = config_find_processor(config, CONFIG_PROCESSOR_JOIN);
    if (!join) /* samples go on with their Link alone, at once */
        return (struct join_settings){.max_pending_bytes = 16u << 20,
                                      .max_span_totals_bytes = 1u << 20,
                                      .max_recent_spans = 1,
                                      .max_recent_bytes = 1u << 20};
    return (struct join_settings){
        .wait_ns = service_joins(config, SIGNAL_PROFILES) ? join->join.wait_ns : 0,
        .span_totals_ttl_ns = join->join.span_totals_ttl_ns,
        .max_pending_bytes = join->join.max_pending_bytes,
        .max_span_totals_bytes = join->join.max_span_totals_bytes,
        .max_recent_spans = join->join.max_recent_spans,
        .max_recent_bytes = join->join.max_recent_bytes,
        .top_stacks = join->join.top_stacks,
        .span_attributes = join->join.span_attributes.items,
    };
}

uint32_t service_destinations(const struct service_store *store, enum signal signal)
{
    const struct config_pipeline *of = store_pipeline(store->config, signal);
    uint32_t mask = 0;
    for (size_t i = 0; of && i < of->n_exporters; i++)
        for (size_t d = 0; d < store->n_exporters; d++)
            if (store->exporters[d] == &store->config->exporters[of->exporters[i]])
                mask |= 1u << d;
    return mask;
}

size_t service_max_request_bytes(const struct service_store *store)
{
    uint64_t limit = REQUEST_BYTES_DEFAULT;
    for (size_t d = 0; d < store->n_exporters; d++) {
        uint64_t most = exporter_max_body_bytes(store->exporters[d]);
        limit = most < limit ? most : limit;
    }
    return (size_t)limit;
}

uint32_t service_unsent(const struct service_store *store)
{
    uint32_t signals = 0;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        if (store_pipeline(store->config, (enum signal)signal) &&
            !service_destinations(store, (enum signal)signal))
            signals |= 1u << signal;
    return signals;
}

/* Profiles of others wait for spans if a receiver takes both, and both are joined. */
static struct pending_profiles_settings pending_profiles_settings(const struct service_store *store)
{
    const struct config *config = store->config;
    const struct config_pipeline *profiles = store_pipeline(config, SIGNAL_PROFILES);
    const struct config_processor *join = config_find_processor(config, CONFIG_PROCESSOR_JOIN);
    bool receives = false;
    for (size_t i = 0; profiles && i < profiles->n_receivers; i++)
        receives |= config->receivers[profiles->receivers[i]].type == CONFIG_RECEIVER_OTLP;
    struct pending_profiles_settings settings = {
        .enabled = receives && service_joins(config, SIGNAL_PROFILES) &&
                   service_joins(config, SIGNAL_TRACES),
        .max_recent_bytes = RECENT_SPANS_BYTES,
        .destinations = service_destinations(store, SIGNAL_PROFILES),
        .max_body_bytes = service_max_request_bytes(store),
    };
    if (join) {
        settings.wait_ns = join->join.wait_ns;
        settings.max_bytes = join->join.max_pending_bytes;
        settings.span_attributes = join->join.span_attributes.items;
    }
    return settings;
}

static uint64_t limit_pending_profiles(const struct config *config)
{
    struct service_store store = {.config = config};
    const struct pending_profiles_settings settings = pending_profiles_settings(&store);
    return settings.enabled ? settings.max_recent_bytes + PENDING_PROFILES_MEMORY_MAX : 0;
}

LIMIT(pending_profiles, LIMIT_SERVICE, "profiles of others that wait for spans, recent spans",
      .count = limit_pending_profiles);

static struct history_settings history_settings(const struct config *config)
{
    const struct config_extension *history =
        config_find_extension(config, CONFIG_EXTENSION_HISTORY);
    const struct config_processor *join = config_find_processor(config, CONFIG_PROCESSOR_JOIN);
    if (!history) /* what an earlier configuration kept goes */
        return (struct history_settings){.enabled = false};
    return (struct history_settings){
        .enabled = true,
        .retention_ns = history->history.retention_ns,
        .max_size_bytes = history->history.max_size_bytes,
        .max_spans_per_second = history->history.max_spans_per_second,
        .span_attributes = join ? join->join.span_attributes.items : NULL,
    };
}

int service_store_open(struct service_store *store, const struct config *config)
{
    const struct config_sqlite_storage *storage =
        &config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage;
    const char *names[CONFIG_COMPONENTS_MAX], *other_names[CONFIG_COMPONENTS_MAX];
    char others[CONFIG_COMPONENTS_MAX][CONFIG_NAME_MAX];
    struct store_settings settings = {
        .db = {.directory = storage->directory,
               .sync = storage->fsync_full ? DB_SYNC_FULL : DB_SYNC_NORMAL,
               .max_size_bytes = storage->max_size_bytes},
        .join = join_settings(config),
        .history = history_settings(config),
        .destinations = names,
        .other_names = other_names,
        .gone_after_ns = GONE_AFTER_NS,
        .when_full = storage->drop_oldest ? OUTBOX_DROPS_OLDEST : OUTBOX_REFUSES,
    };
    for (size_t i = 0; i < config->n_exporters; i++) {
        if (!config->exporters[i].used || config->exporters[i].type == CONFIG_EXPORTER_NOP)
            continue;
        store->exporters[settings.n_destinations] = &config->exporters[i];
        other_names[settings.n_destinations] =
            config_other_id(&config->exporters[i], others[i]) ? others[i] : NULL;
        names[settings.n_destinations++] = config->exporters[i].id;
    }
    store->config = config;
    store->n_exporters = settings.n_destinations;
    settings.pending_profiles = pending_profiles_settings(store);
    int error = store_open(&settings, &store->store);
    for (int i = 0; error == -EBUSY && i < PREDECESSOR_TRIES;
         i++) { /* one that was killed ends soon */
        usleep(PREDECESSOR_PAUSE_US);
        error = store_open(&settings, &store->store);
    }
    if (!error)
        error = db_open_reader(&settings.db, &store->reader_db);
    if (!error)
        error = outbox_reader_open(store->reader_db, &store->outbox_reader);
    return error;
}

void service_store_close(struct service_store *store)
{
    outbox_reader_close(store->outbox_reader);
    db_close(store->reader_db);
    store_close(store->store);
}
