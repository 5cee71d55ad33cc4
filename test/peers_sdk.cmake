# SPDX-License-Identifier: Apache-2.0
# OpenTelemetry SDKs and load generators as senders, from their registries: ./dev test peers.
foreach(sdk JavaScript JavaScriptLatest Python Java Go Rust)
    string(TOLOWER ${sdk} name)
    add_test(NAME peers.sdk_${name} COMMAND /usr/bin/python3 -B
        ${CMAKE_CURRENT_LIST_DIR}/peers/test_sdk_clients.py ${sdk})
    set_tests_properties(peers.sdk_${name} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 2700
        ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
foreach(tool Telemetrygen Grpcurl)
    string(TOLOWER ${tool} name)
    add_test(NAME peers.${name} COMMAND /usr/bin/python3 -B
        ${CMAKE_CURRENT_LIST_DIR}/peers/test_sdk_tools.py ${tool})
    set_tests_properties(peers.${name} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 900
        ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
