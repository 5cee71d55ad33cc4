# SPDX-License-Identifier: Apache-2.0
# Names of JIT-compiled code.
spanprof_unit_test(perf_map spanprof_agent)
spanprof_failing_alloc(test_perf_map)
spanprof_fuzz_target(perf_map spanprof_agent)
spanprof_unit_test(perf_maps spanprof_agent)
set_tests_properties(unit.perf_maps PROPERTIES SKIP_RETURN_CODE 77)
target_sources(test_perf_maps PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/publisher_fuse.c)
spanprof_bench(perf_map spanprof_agent)

# What is found of addresses, for the tests of test/peers.
add_executable(perf_map_inspect ${CMAKE_CURRENT_LIST_DIR}/support/perf_map_inspect.c)
target_link_libraries(perf_map_inspect PRIVATE spanprof_agent spanprof_flags)
add_test(NAME peers.perf_maps COMMAND /usr/bin/python3 -B
    ${CMAKE_CURRENT_LIST_DIR}/peers/test_perf_maps.py)
set_tests_properties(peers.perf_maps PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 300
    ENVIRONMENT "SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")

spanprof_unit_test(analyst_code spanprof_agent)
target_sources(test_analyst_code PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/analyst_rig.c)

# Makes code at run time, and moves it.
add_executable(jit_program ${CMAKE_CURRENT_LIST_DIR}/support/jit_program.c)
target_link_libraries(jit_program PRIVATE spanprof_flags)
spanprof_integration_test(jit LONG TIMEOUT 90)
add_test(NAME peers.jit_names COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers/test_jit_names.py)
set_tests_properties(peers.jit_names PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT "SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
