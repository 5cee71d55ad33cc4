# SPDX-License-Identifier: Apache-2.0
# docs/reliability.md, what takes a whole program: faults and figures, in a short and a long form.
add_library(clock_shift MODULE ${CMAKE_CURRENT_LIST_DIR}/support/clock_shift.c)
target_link_libraries(clock_shift PRIVATE spanprof_flags)
set_target_properties(clock_shift PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)

spanprof_unit_test(power spanprof_store_fixture)
target_sources(test_power PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/power_vfs.c)

spanprof_integration_test(reliability_health FILE reliability TIMEOUT 90 ARGUMENTS Health)
spanprof_integration_test(reliability_full FILE reliability TIMEOUT 90 ARGUMENTS Full)
spanprof_integration_test(loop_disk FILE reliability TIMEOUT 90 ARGUMENTS LoopDisk)
spanprof_integration_test(backlog FILE reliability SERIAL TIMEOUT 120 ARGUMENTS Backlog)
spanprof_integration_test(damage FILE reliability TIMEOUT 120 ARGUMENTS Damage)
spanprof_integration_test(outage FILE reliability SERIAL TIMEOUT 90 ARGUMENTS Outage)
spanprof_integration_test(clock FILE reliability TIMEOUT 90 ARGUMENTS Clock)

set(soak LABELS soak ENVIRONMENT SPANPROF_SOAK=1)
spanprof_integration_test(soak_kills FILE durability SERIAL TIMEOUT 1800 ${soak} ARGUMENTS Kills)
spanprof_integration_test(soak_loop_disk FILE reliability SERIAL TIMEOUT 600 ${soak} ARGUMENTS LoopDisk)
spanprof_integration_test(soak_backlog FILE reliability SERIAL TIMEOUT 1800 ${soak} ARGUMENTS Backlog)
spanprof_integration_test(soak_damage FILE reliability SERIAL TIMEOUT 1800 ${soak} ARGUMENTS Damage)
spanprof_integration_test(soak_outage FILE reliability SERIAL TIMEOUT 1800 ${soak} ARGUMENTS Outage)
