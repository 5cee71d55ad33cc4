# SPDX-License-Identifier: Apache-2.0
foreach(module arena buf bytes clock files list log loop map stats utf8 worker)
    spanprof_unit_test(${module} spanprof_base)
endforeach()
foreach(module arena buf loop map stats worker)
    spanprof_failing_alloc(test_${module})
endforeach()
spanprof_fuzz_target(bytes spanprof_base)

# The whole program's counters: docs/metrics.md is not stale, documents mention none that is not there.
add_test(NAME unit.metrics_reference COMMAND /usr/bin/python3 -B
    ${CMAKE_CURRENT_LIST_DIR}/unit/test_metrics_reference.py)
set_tests_properties(unit.metrics_reference PROPERTIES LABELS unit TIMEOUT 60
    ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof")
