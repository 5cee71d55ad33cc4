# SPDX-License-Identifier: Apache-2.0
add_library(spanprof_certificates STATIC ${CMAKE_CURRENT_LIST_DIR}/support/certificates.c)
target_link_libraries(spanprof_certificates PUBLIC spanprof_base PkgConfig::GNUTLS PRIVATE spanprof_flags)
target_include_directories(spanprof_certificates PUBLIC ${CMAKE_SOURCE_DIR})

add_executable(make_certificates ${CMAKE_CURRENT_LIST_DIR}/support/make_certificates.c)
target_link_libraries(make_certificates PRIVATE spanprof_certificates spanprof_flags)

add_library(spanprof_tls_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/support/tls_rig.c)
target_link_libraries(spanprof_tls_fixture PUBLIC spanprof_proto spanprof_certificates
    PRIVATE spanprof_flags PkgConfig::CMOCKA)
spanprof_unit_test(tls spanprof_tls_fixture)
spanprof_failing_alloc(test_tls)
spanprof_unit_test(tls_server spanprof_tls_fixture spanprof_http_fixture)
spanprof_unit_test(keeper_files spanprof_agent)
spanprof_unit_test(exporter_tls spanprof_exporter_fixture spanprof_certificates)

spanprof_integration_test(tls TIMEOUT 120)
spanprof_integration_test(doors TIMEOUT 60)
spanprof_integration_test(reload TIMEOUT 120)
spanprof_integration_test(deployment TIMEOUT 120)

# The gRPC port against h2spec: ./dev test peers.
add_test(NAME peers.h2spec COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers/test_h2spec.py)
set_tests_properties(peers.h2spec PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 900
    ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
