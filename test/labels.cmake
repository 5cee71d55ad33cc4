# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(labels spanprof_agent)
spanprof_fuzz_target(labels spanprof_agent)
spanprof_bench(labels spanprof_agent)

add_executable(workload_labels ${CMAKE_CURRENT_LIST_DIR}/support/workload_labels.c
    ${CMAKE_CURRENT_LIST_DIR}/support/workload_burn.c)
set_target_properties(workload_labels PROPERTIES ENABLE_EXPORTS ON)
spanprof_workload(workload_labels)
spanprof_integration_test(labels SERIAL LONG TIMEOUT 90)
