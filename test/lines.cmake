# SPDX-License-Identifier: Apache-2.0
# Lines and inlined functions from DWARF.
set(lines_support ${CMAKE_CURRENT_LIST_DIR}/support)

# One program as compilers write its DWARF: lines/NAME; those that tell less end in .out.
set(lines_programs)
function(lines_program name compiler)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/lines/${name})
    add_custom_command(OUTPUT ${output}
        COMMAND ${compiler} -std=gnu11 -D_GNU_SOURCE -O2 ${ARGN} -o ${output} ${lines_support}/lines_program.c
        DEPENDS ${lines_support}/lines_program.c VERBATIM)
    set(lines_programs ${lines_programs} ${output} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/lines)
foreach(version 2 3 4 5)
    lines_program(gcc${version} gcc -gdwarf-${version})
    lines_program(clang${version} ${BPF_CLANG} -gdwarf-${version})
endforeach()
lines_program(gcc64 gcc -gdwarf-5 -gdwarf64)
lines_program(gcc_compressed gcc -g -gz=zlib)
lines_program(gcc_sections gcc -g -ffunction-sections -Wl,--gc-sections)
lines_program(gcc_lto gcc -g -flto)
lines_program(clang_no_pie ${BPF_CLANG} -g -no-pie)
lines_program(split.out gcc -g -gsplit-dwarf)
lines_program(none.out gcc -g0)
add_custom_target(lines_programs ALL DEPENDS ${lines_programs})

spanprof_unit_test(dwarf_lines spanprof_agent)
add_dependencies(test_dwarf_lines lines_programs)
target_compile_definitions(test_dwarf_lines PRIVATE
    LINES_PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}/lines")
spanprof_fuzz_target(dwarf_lines spanprof_agent)

# What is found of addresses, for tests in Python; those hold it against other tools.
add_executable(lines_inspect ${lines_support}/lines_inspect.c)
target_link_libraries(lines_inspect PRIVATE spanprof_agent spanprof_flags)
spanprof_integration_test(lines LONG TIMEOUT 120)
spanprof_bench(lines spanprof_agent)

spanprof_unit_test(analyst_lines spanprof_agent)
target_sources(test_analyst_lines PRIVATE ${lines_support}/analyst_rig.c)
add_dependencies(test_analyst_lines lines_programs)
target_compile_definitions(test_analyst_lines PRIVATE
    LINES_PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}/lines")
