# SPDX-License-Identifier: Apache-2.0
# What is asked of the history. The library: test/store.cmake.
spanprof_unit_test(history_frames spanprof_store_fixture)
add_library(spanprof_history_truth STATIC ${CMAKE_SOURCE_DIR}/test/support/history_rig.c
            ${CMAKE_SOURCE_DIR}/test/support/history_truth.c)
target_link_libraries(spanprof_history_truth PUBLIC spanprof_store_fixture PRIVATE spanprof_flags
                      PkgConfig::CMOCKA)
spanprof_unit_test(history_reader spanprof_history_truth)
spanprof_unit_test(history_reader_hostile spanprof_history_truth)
spanprof_unit_test(history_scrape spanprof_store_fixture)
spanprof_bench(history_reader spanprof_history_load spanprof_bench_rig)
spanprof_unit_test(history_reader_faults spanprof_history_truth)
spanprof_failing_alloc(test_history_reader_faults)
spanprof_one_thread(history_frames history_reader history_scrape history_reader_faults)
