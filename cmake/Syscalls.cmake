# SPDX-License-Identifier: Apache-2.0
# spanprof_syscall_names(OUT): rows {number, "name"} of all system calls that the headers of this architecture know.
function(spanprof_syscall_names out)
    file(WRITE ${CMAKE_BINARY_DIR}/syscalls.c "#include <asm/unistd.h>\n")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -E -dM ${CMAKE_BINARY_DIR}/syscalls.c OUTPUT_VARIABLE macros
        COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "__NR_[a-z0-9_]+ " names "${macros}")
    list(REMOVE_ITEM names "__NR_syscalls ")
    list(SORT names)
    set(rows "")
    foreach(name ${names})
        string(REGEX REPLACE "__NR_([a-z0-9_]+) " "\\1" call "${name}")
        string(APPEND rows "{__NR_${call}, \"${call}\"},\n")
    endforeach()
    file(CONFIGURE OUTPUT ${out} CONTENT "${rows}" @ONLY)
endfunction()
