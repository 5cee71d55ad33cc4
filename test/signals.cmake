# SPDX-License-Identifier: Apache-2.0
# Metrics, logs and profiles of others: what passes through.
add_library(spanprof_items_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/support/items_request.c)
target_link_libraries(spanprof_items_fixture PUBLIC spanprof_proto
    PRIVATE spanprof_flags PkgConfig::CMOCKA)

spanprof_unit_test(otlp_items spanprof_items_fixture)
spanprof_unit_test(intake_items spanprof_intake_fixture spanprof_items_fixture)
spanprof_unit_test(debug_items spanprof_exporter)
spanprof_unit_test(otlp_profiles_layout spanprof_proto)
spanprof_unit_test(otlp_profiles_links spanprof_proto)
spanprof_unit_test(held spanprof_store_fixture)
target_sources(test_held PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/trace_request.c)
spanprof_failing_alloc(test_held)
spanprof_fuzz_target(otlp_items spanprof_proto)
spanprof_fuzz_target(otlp_profiles_links spanprof_proto)
spanprof_integration_test(signals TIMEOUT 120)
spanprof_integration_test(held_profiles TIMEOUT 120)
