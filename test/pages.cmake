# SPDX-License-Identifier: Apache-2.0
foreach(module flame flame_write pages_door pages_json pages_query pages_status)
    spanprof_unit_test(${module} spanprof_exporter)
    spanprof_failing_alloc(test_${module})
endforeach()
spanprof_unit_test(config_pages spanprof_config)
spanprof_unit_test(coverage spanprof_store)
spanprof_failing_alloc(test_coverage)

spanprof_integration_test(pages_door TIMEOUT 90 LABELS tsan)
spanprof_integration_test(pages SERIAL LONG TIMEOUT 150)
spanprof_integration_test(soak_pages FILE pages_door TIMEOUT 120 LABELS soak ENVIRONMENT SPANPROF_SOAK=1
    ARGUMENTS Hostile.test_slow_heads)
spanprof_fuzz_target(pages_query spanprof_exporter)
spanprof_bench(pages spanprof_exporter spanprof_history_load spanprof_bench_rig)
spanprof_integration_test(commands LONG TIMEOUT 150)
spanprof_integration_test(scrape LONG TIMEOUT 150)
spanprof_unit_test(span_cpu spanprof_store)
