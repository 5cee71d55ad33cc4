# SPDX-License-Identifier: Apache-2.0
spanprof_otlp(spanprof_otlp common.proto resource.proto trace.proto trace_service.proto profiles.proto
    profiles_service.proto metrics.proto metrics_service.proto logs.proto logs_service.proto
    process_context.proto rpc_status.proto)
set(PROTO_MESSAGES_LIBRARIES spanprof_otlp)
set(PROTO_MESSAGES_SOURCES wire.c pb.c json.c otlp_items.c otlp_profiles_annotate.c
    otlp_profiles_links.c otlp_json.c otlp_json_read.c
    otlp_json_write.c otlp_schema.c otlp_spans.c otlp_spans_attribute.c otlp_spans_pack.c
    otlp_spans_rewrite.c otlp_spans_walk.c otlp_profiles.c otlp_profiles_add.c otlp_profiles_check.c
    otlp_profiles_dictionary.c otlp_profiles_encode.c otlp_profiles_layout.c otlp_profiles_mark.c
    otlp_profiles_table.c otlp_profiles_value.c pprof.c)
