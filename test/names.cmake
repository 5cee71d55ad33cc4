# SPDX-License-Identifier: Apache-2.0
# Names of functions. An executable, what strip leaves of it, and what was taken out.
add_executable(names_program ${CMAKE_CURRENT_LIST_DIR}/support/names_program.c)
target_link_libraries(names_program PRIVATE spanprof_flags)
target_link_options(names_program PRIVATE -Wl,--build-id=sha1)
add_custom_command(OUTPUT names_program.stripped names_program.debug DEPENDS names_program
    COMMAND ${CMAKE_STRIP} -o names_program.stripped $<TARGET_FILE:names_program>
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:names_program> names_program.debug)
add_custom_target(names_files DEPENDS names_program.stripped names_program.debug)

spanprof_unit_test(debug_file spanprof_agent)
add_dependencies(test_debug_file names_files)
target_compile_definitions(test_debug_file PRIVATE NAMES_PROGRAM="$<TARGET_FILE:names_program>"
    NAMES_FILES="${CMAKE_CURRENT_BINARY_DIR}/names_program" OBJCOPY="${CMAKE_OBJCOPY}")
