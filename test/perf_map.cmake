# SPDX-License-Identifier: Apache-2.0
# Names of JIT-compiled code.
spanprof_unit_test(perf_map spanprof_agent)
spanprof_failing_alloc(test_perf_map)
spanprof_fuzz_target(perf_map spanprof_agent)
spanprof_unit_test(perf_maps spanprof_agent)
set_tests_properties(unit.perf_maps PROPERTIES SKIP_RETURN_CODE 77)
target_sources(test_perf_maps PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/publisher_fuse.c)
spanprof_bench(perf_map spanprof_agent)
