# SPDX-License-Identifier: Apache-2.0
set(support ${CMAKE_CURRENT_LIST_DIR}/support)
add_library(spanprof_http_fixture STATIC ${support}/h2_end.c ${support}/h2_raw.c ${support}/h2_rig.c
    ${support}/otlp_client.c)
target_link_libraries(spanprof_http_fixture PUBLIC spanprof_proto PRIVATE spanprof_flags
    PkgConfig::CMOCKA)
add_library(spanprof_server_fixture STATIC ${support}/fake_intake.c ${support}/http_rig.c)
target_link_libraries(spanprof_server_fixture PUBLIC spanprof_http_fixture spanprof_receiver
    PRIVATE spanprof_flags PkgConfig::CMOCKA)

foreach(module codec grpc)
    spanprof_unit_test(${module} spanprof_proto)
    spanprof_failing_alloc(test_${module})
endforeach()
foreach(module h2 h2_limits h2_client)
    spanprof_unit_test(${module} spanprof_http_fixture)
endforeach()
spanprof_failing_alloc(test_h2)
foreach(module grpc_server grpc_window http_server http_peers cors listen listen_unix)
    spanprof_unit_test(${module} spanprof_server_fixture)
endforeach()
spanprof_failing_alloc(test_grpc_server)

spanprof_unit_test(backoff spanprof_exporter)
add_library(spanprof_exporter_fixture STATIC ${support}/backend.c ${support}/exporter_rig.c)
target_link_libraries(spanprof_exporter_fixture PUBLIC spanprof_exporter spanprof_http_fixture
    spanprof_store_fixture PRIVATE spanprof_flags PkgConfig::CMOCKA)
foreach(module exporter exporter_faults)
    spanprof_unit_test(${module} spanprof_exporter_fixture)
endforeach()

spanprof_unit_test(debug_exporter spanprof_exporter)
spanprof_failing_alloc(test_debug_exporter)
spanprof_fuzz_target(debug_exporter spanprof_exporter)

add_library(spanprof_h2_fuzz STATIC ${support}/h2_fuzz.c)
target_link_libraries(spanprof_h2_fuzz PUBLIC spanprof_base PRIVATE spanprof_flags)
spanprof_fuzz_target(codec spanprof_proto)
spanprof_fuzz_target(grpc spanprof_proto)
spanprof_fuzz_target(h2_server spanprof_server_fixture spanprof_h2_fuzz)
spanprof_fuzz_target(h2_client spanprof_http_fixture spanprof_exporter spanprof_h2_fuzz)
