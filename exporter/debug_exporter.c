/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/debug_exporter.h"
#include "exporter/debug_parts.h"
#include "proto/pb.h"
#include <inttypes.h>

#define DECODED_BYTES_MAX ((size_t)128 << 20)

static void show_traces(struct debug_text *text, enum config_verbosity verbosity,
                        const ProtobufCMessage *message)
{
    if (verbosity == VERBOSITY_NORMAL)
        debug_normal_traces(text, (const TraceRequest *)message);
    else
        debug_detailed(text, message);
}

static void show_profiles(struct debug_text *text, enum config_verbosity verbosity,
                          const ProtobufCMessage *message)
{
    const ProfilesRequest *request = (const ProfilesRequest *)message;
    text->dictionary = request->dictionary;
    if (verbosity == VERBOSITY_NORMAL)
        debug_normal_profiles(text, request);
    else
        debug_detailed(text, message);
}

static const ProtobufCMessageDescriptor *descriptor_of(enum signal signal)
{
    if (signal == SIGNAL_TRACES)
        return &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor;
    if (signal == SIGNAL_PROFILES)
        return &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor;
    return NULL;
}

static void show(struct debug_text *text, enum config_verbosity verbosity, enum signal signal,
                 struct bytes request)
{
    ProtobufCMessage *message;
    struct arena arena;
    arena_init(&arena, DECODED_BYTES_MAX);
    int outcome = pb_unpack(descriptor_of(signal), request, &arena, &message);
    if (outcome != PB_OK) {
        debug_printf(text, "%s", outcome == PB_MALFORMED ? "malformed" : "too large to be shown");
        debug_line_end(text);
    } else if (signal == SIGNAL_TRACES) {
        show_traces(text, verbosity, message);
    } else {
        show_profiles(text, verbosity, message);
    }
    arena_close(&arena);
}

int debug_exporter_text(enum config_verbosity verbosity, enum signal signal, struct bytes request,
                        struct buf *out)
{
    if (verbosity == VERBOSITY_BASIC || !descriptor_of(signal))
        return 0;
    struct debug_text text;
    debug_text_open(&text, NULL);
    show(&text, verbosity, signal, request);
    int error = buf_append_bytes(out, buf_bytes(&text.text));
    if (!error && text.n_more)
        error = buf_printf(out, "... %" PRIu64 " more lines\n", text.n_more);
    debug_text_close(&text);
    return error;
}
