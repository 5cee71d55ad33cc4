# SPDX-License-Identifier: Apache-2.0
# Elastic correlation, both directions.
foreach(module analyst_passing elastic_socket)
    spanprof_unit_test(${module} spanprof_agent)
endforeach()
spanprof_unit_test(elastic_storage spanprof_receiver)
spanprof_fuzz_target(elastic_storage spanprof_agent)

foreach(module correlation correlation_counts)
    spanprof_unit_test(${module} spanprof_intake_fixture)
endforeach()
target_sources(test_correlation PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/fail_vfs.c)
spanprof_bench(correlation spanprof_intake_fixture)
target_link_libraries(bench_correlation PRIVATE PkgConfig::CMOCKA)

# Elastic's Java agents, from Maven Central: ./dev test peers.
foreach(case OtelAgent ApmAgent)
    string(TOLOWER ${case} name)
    add_test(NAME peers.elastic_${name} COMMAND /usr/bin/python3 -B
        ${CMAKE_CURRENT_LIST_DIR}/peers/test_elastic_java.py ${case})
    set_tests_properties(peers.elastic_${name} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 3600
        RUN_SERIAL ON ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
