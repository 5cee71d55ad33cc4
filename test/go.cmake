# SPDX-License-Identifier: Apache-2.0
# Go executables: small made-up ones here, those of the toolchains in test/peers.
spanprof_unit_test(go_binary spanprof_agent)
target_sources(test_go_binary PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/go_file.c)

spanprof_fuzz_target(go_binary spanprof_agent)

# What of a file is found, for the tests of test/peers.
add_executable(go_inspect ${CMAKE_CURRENT_LIST_DIR}/support/go_inspect.c)
target_link_libraries(go_inspect PRIVATE spanprof_agent spanprof_flags)

spanprof_bench(go spanprof_agent)
target_sources(bench_go PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/go_file.c)

# Toolchains of many versions, fetched by a `go` that is there: ./dev test peers.
foreach(case Executables Labels)
    string(TOLOWER ${case} name)
    add_test(NAME peers.go_${name} COMMAND /usr/bin/python3 -B
        ${CMAKE_CURRENT_LIST_DIR}/peers/test_go_labels.py ${case})
    set_tests_properties(peers.go_${name} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 5400
        RUN_SERIAL ON ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
