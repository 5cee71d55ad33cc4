# SPDX-License-Identifier: Apache-2.0
# OTLP/HTTP as a client.
spanprof_unit_test(http_answer spanprof_proto)
spanprof_unit_test(config_otlp spanprof_config)
spanprof_unit_test(export_result spanprof_exporter)
spanprof_fuzz_target(http_answer spanprof_exporter)

add_library(spanprof_http_peer STATIC ${CMAKE_CURRENT_LIST_DIR}/support/http_peer.c)
target_link_libraries(spanprof_http_peer PUBLIC spanprof_proto PRIVATE spanprof_flags)
spanprof_unit_test(otlp_http spanprof_exporter_fixture spanprof_http_peer spanprof_certificates)

spanprof_integration_test(otlp_http TIMEOUT 150)
spanprof_bench(export spanprof_exporter_fixture spanprof_http_peer)
