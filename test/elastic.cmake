# SPDX-License-Identifier: Apache-2.0
# Elastic correlation, both directions.
foreach(module analyst_passing elastic_storage elastic_socket)
    spanprof_unit_test(${module} spanprof_agent)
endforeach()
spanprof_fuzz_target(elastic_storage spanprof_agent)

foreach(module correlation correlation_counts)
    spanprof_unit_test(${module} spanprof_intake_fixture)
endforeach()
target_sources(test_correlation PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/fail_vfs.c)
