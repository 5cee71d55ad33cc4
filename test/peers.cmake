# SPDX-License-Identifier: Apache-2.0
# Programs of others that need toolchains and registries: ./dev test peers.
foreach(peer collector profcheck grpc_go ebpf_profiler)
    add_test(NAME peers.${peer} COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers/test_${peer}.py)
    set_tests_properties(peers.${peer} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 3600 RUN_SERIAL ON
        ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()

# A backend that speaks HTTP/2 badly, with gRPC's negative cases: in CI.
spanprof_integration_test(hostile_backend TIMEOUT 120)

# grpc.testing.TestService, served and asked by our core, for grpc-go's interoperability programs.
add_executable(interop_server ${CMAKE_CURRENT_LIST_DIR}/support/interop_server.c)
target_link_libraries(interop_server PRIVATE spanprof_proto spanprof_flags)
add_executable(interop_client ${CMAKE_CURRENT_LIST_DIR}/support/interop_client.c)
target_link_libraries(interop_client PRIVATE spanprof_exporter spanprof_flags)
