# SPDX-License-Identifier: Apache-2.0
add_library(spanprof_store_fixture STATIC ${CMAKE_SOURCE_DIR}/test/support/stacks_fixture.c
    ${CMAKE_SOURCE_DIR}/test/support/store_fixture.c)
target_link_libraries(spanprof_store_fixture PUBLIC spanprof_store PRIVATE spanprof_flags
                      PkgConfig::CMOCKA)
foreach(name blob db db_size join join_limits outbox outbox_bodies outbox_hands processes stacks window
        window_full)
    spanprof_unit_test(${name} spanprof_store_fixture)
endforeach()
spanprof_unit_test(store spanprof_history_fixture)
set_tests_properties(unit.store PROPERTIES COST 60) # mostly waits for the disk: begins first
spanprof_one_thread(store)
target_sources(test_store PRIVATE ${CMAKE_SOURCE_DIR}/test/support/fail_vfs.c)
spanprof_failing_alloc(test_store)
spanprof_bench(outbox spanprof_bench_rig)
spanprof_bench(store spanprof_bench_rig)
spanprof_fuzz_target(db_open spanprof_store)
