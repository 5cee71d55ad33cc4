/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/debug/debug_exporter.h"
#include "exporter/debug/debug_state.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/otlp/otlp_items.h"
#include "proto/pb.h"
#include <inttypes.h>

#define DECODED_BYTES_MAX ((size_t)128 << 20)

static void show_normal(struct debug_text *text, enum signal signal,
                        const ProtobufCMessage *message)
{
    switch (signal) {
    case SIGNAL_TRACES:
        return debug_normal_traces(text, (const TraceRequest *)message);
    case SIGNAL_PROFILES:
        return debug_normal_profiles(text, (const ProfilesRequest *)message);
    case SIGNAL_METRICS:
        return debug_normal_metrics(text, (const MetricsRequest *)message);
    case SIGNAL_LOGS:
        return debug_normal_logs(text, (const LogsRequest *)message);
    case SIGNAL_COUNT:
        break;
    }
}

static void debug_text_show(struct debug_text *text, enum config_verbosity verbosity,
                            enum signal signal, struct bytes request)
{
    ProtobufCMessage *message;
    struct arena arena;
    arena_init(&arena, DECODED_BYTES_MAX);
    int outcome = pb_unpack(otlp_schema_request(signal), request, &arena, &message);
    if (outcome == PB_OK && signal == SIGNAL_PROFILES)
        text->dictionary = ((const ProfilesRequest *)message)->dictionary;
    if (outcome != PB_OK) {
        debug_printf(text, "%s", outcome == PB_MALFORMED ? "malformed" : "too large to be shown");
        debug_line_end(text);
    } else if (verbosity == VERBOSITY_NORMAL) {
        show_normal(text, signal, message);
    } else {
        debug_detailed(text, message);
    }
    arena_close(&arena);
}

int debug_exporter_text(enum config_verbosity verbosity, enum signal signal, struct bytes request,
                        struct buf *out)
{
    if (verbosity == VERBOSITY_BASIC)
        return 0;
    struct debug_text text;
    debug_text_open(&text, NULL);
    debug_text_show(&text, verbosity, signal, request);
    int error = buf_append_bytes(out, buf_bytes(&text.text));
    if (!error && text.n_more)
        error = buf_printf(out, "... %" PRIu64 " more lines\n", text.n_more);
    debug_text_close(&text);
    return error;
}
