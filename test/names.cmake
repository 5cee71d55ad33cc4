# SPDX-License-Identifier: Apache-2.0
# Names of functions. An executable, what strip leaves of it, and what was taken out.
add_executable(names_program ${CMAKE_CURRENT_LIST_DIR}/support/names_program.c)
target_link_libraries(names_program PRIVATE spanprof_flags)
target_link_options(names_program PRIVATE -Wl,--build-id=sha1)
add_custom_command(OUTPUT names_program.stripped names_program.debug DEPENDS names_program
    COMMAND ${CMAKE_STRIP} -o names_program.stripped $<TARGET_FILE:names_program>
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:names_program> names_program.debug)
add_custom_target(names_files DEPENDS names_program.stripped names_program.debug)

spanprof_unit_test(intake_names spanprof_intake_fixture)
spanprof_unit_test(debug_file spanprof_agent)
add_dependencies(test_debug_file names_files)
target_compile_definitions(test_debug_file PRIVATE NAMES_PROGRAM="$<TARGET_FILE:names_program>"
    NAMES_FILES="${CMAKE_CURRENT_BINARY_DIR}/names_program" OBJCOPY="${CMAKE_OBJCOPY}")

# What is found of addresses, for the tests of test/peers.
add_executable(names_inspect ${CMAKE_CURRENT_LIST_DIR}/support/names_inspect.c)
target_link_libraries(names_inspect PRIVATE spanprof_agent spanprof_flags)

spanprof_unit_test(go_symbols spanprof_agent)
spanprof_fuzz_target(go_symbols spanprof_agent)
foreach(target test_go_symbols fuzz_go_symbols)
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/go_table.c)
endforeach()

add_test(NAME peers.go_names COMMAND /usr/bin/python3 -B
    ${CMAKE_CURRENT_LIST_DIR}/peers/test_go_names.py)
set_tests_properties(peers.go_names PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 5400
    ENVIRONMENT "SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")

spanprof_unit_test(demangle spanprof_agent)
spanprof_fuzz_target(demangle spanprof_agent)

spanprof_bench(names spanprof_agent ${CMAKE_DL_LIBS})
target_sources(bench_names PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/go_table.c)

spanprof_integration_test(names LONG TIMEOUT 120)
