# SPDX-License-Identifier: Apache-2.0
set(support ${CMAKE_CURRENT_LIST_DIR}/support)
add_library(spanprof_intake_fixture STATIC ${support}/intake_rig.c ${support}/record_fixture.c
    ${support}/request_rig.c ${support}/samples_rig.c ${support}/store_fixture.c ${support}/trace_request.c)
target_link_libraries(spanprof_intake_fixture PUBLIC spanprof_receiver
    PRIVATE spanprof_flags PkgConfig::CMOCKA)

foreach(module intake intake_answers intake_context intake_samples intake_sampling intake_spans)
    spanprof_unit_test(${module} spanprof_intake_fixture)
endforeach()
foreach(module intake intake_sampling)
    target_sources(test_${module} PRIVATE ${support}/fail_vfs.c)
endforeach()

spanprof_unit_test(metrics_page spanprof_exporter)
spanprof_bench(intake spanprof_intake_fixture)
target_link_libraries(bench_intake PRIVATE PkgConfig::CMOCKA)
