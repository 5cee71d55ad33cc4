# SPDX-License-Identifier: Apache-2.0
# Stacks whose end is found later. The libraries: test/store.cmake, test/intake.cmake.
spanprof_unit_test(promised spanprof_store_fixture)
spanprof_unit_test(intake_stacks spanprof_intake_fixture)
spanprof_unit_test(intake_stacks_faults spanprof_intake_fixture)
spanprof_failing_alloc(test_intake_stacks_faults)
spanprof_bench(intake_stacks spanprof_intake_fixture)
target_link_libraries(bench_intake_stacks PRIVATE PkgConfig::CMOCKA)
