# SPDX-License-Identifier: Apache-2.0
# Unwind information and unwinding.
set(support ${CMAKE_CURRENT_LIST_DIR}/support)

spanprof_unit_test(eh_frame spanprof_agent)
spanprof_unit_test(debug_frame spanprof_agent)
target_compile_definitions(test_debug_frame PRIVATE
    CORPUS="${CMAKE_CURRENT_LIST_DIR}/fuzz/corpus/eh_frame")
spanprof_unit_test(unwind_block spanprof_agent)
spanprof_unit_test(go_unwind spanprof_agent)
target_sources(test_go_unwind PRIVATE ${support}/go_table.c)
spanprof_one_thread(debug_frame)
spanprof_fuzz_target(eh_frame spanprof_agent)
spanprof_bench(unwind spanprof_agent)

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
endif()

# Every row of real files against what readelf says: a sample, and all that there is.
add_executable(eh_frame_compare ${support}/eh_frame_compare.c ${support}/readelf_frames.c)
target_link_libraries(eh_frame_compare PRIVATE spanprof_agent spanprof_flags)
set(libraries /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
file(GLOB eh_frame_samples ${libraries}/libc.so.6 ${libraries}/ld-linux-*.so.*
    ${libraries}/libm.so.6 ${libraries}/libmvec.so.1 ${libraries}/libstdc++.so.6
    ${libraries}/libgcc_s.so.1 ${libraries}/libcrypto.so.3 ${libraries}/libssl.so.3
    ${libraries}/libgnutls.so.30 ${libraries}/libgcrypt.so.20 ${libraries}/libsqlite3.so.0
    ${libraries}/libz*.so.1 ${libraries}/libelf.so.1 ${libraries}/libprotobuf*.so.??
    /usr/bin/python3.[0-9][0-9] /usr/bin/perl /usr/bin/git /usr/bin/cmake /usr/bin/bash /usr/bin/gdb
    /usr/bin/sqlite3 /usr/bin/openssl /usr/bin/curl /usr/bin/tar /usr/bin/find /usr/bin/ls
    /usr/bin/mawk ${libraries}/libglib-2.0.so.0 ${libraries}/libgmp.so.10
    ${libraries}/libpcre2-8.so.0 ${libraries}/libkrb5.so.3 ${libraries}/libnghttp2.so.14
    /usr/bin/*-gcc-1[0-9] /usr/bin/*-ld.gold)
file(GLOB eh_frame_small ${CMAKE_CURRENT_LIST_DIR}/fuzz/corpus/eh_frame/[!c]*.so)
list(APPEND eh_frame_samples ${eh_frame_small} $<TARGET_FILE:eh_frame_compare>)
add_test(NAME unit.eh_frame_rows COMMAND eh_frame_compare ${eh_frame_samples})
set_tests_properties(unit.eh_frame_rows PROPERTIES LABELS unit TIMEOUT 300)
add_test(NAME soak.eh_frame_rows COMMAND eh_frame_compare /usr/bin /usr/lib)
set_tests_properties(soak.eh_frame_rows PROPERTIES LABELS soak TIMEOUT 3600)

# Programs whose stacks are known: test/unwind/NAME. Not with the flags of the build: without frame
# pointers, and bound lazily, as distributions build.
set(unwind_hosts)
function(unwind_host name compiler)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/unwind/${name})
    set(flags -std=gnu11 -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR} -Wall -Wextra -Werror)
    set(no_info ${support}/unwind_no_info.c)
    add_custom_command(OUTPUT ${output}
        COMMAND ${compiler} ${flags} -O2 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables
                -fno-unwind-tables -c -o ${output}.no_info.o ${no_info}
        COMMAND ${compiler} ${flags} -fomit-frame-pointer -fasynchronous-unwind-tables ${ARGN}
                -o ${output} ${support}/unwind_host.c ${output}.no_info.o -Wl,-z,lazy
        DEPENDS ${support}/unwind_host.c ${support}/unwind_host.h ${no_info} VERBATIM)
    set(unwind_hosts ${unwind_hosts} ${output} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/unwind)
unwind_host(O0 gcc -O0 -fPIE -pie)
unwind_host(O2 gcc -O2 -fPIE -pie)
unwind_host(O3 gcc -O3 -fno-pie -no-pie)
unwind_host(clang_O2 ${BPF_CLANG} -O2 -fPIE -pie)
unwind_host(static gcc -O2 -static)
unwind_host(no_table gcc -O2 -fPIE -pie -Wl,--no-eh-frame-hdr)
# Of its own code only .debug_frame speaks; .eh_frame is about the C library's first instructions.
unwind_host(debug_frame gcc -O2 -fPIE -pie -g -fno-asynchronous-unwind-tables -fno-unwind-tables)
foreach(codec zlib zstd)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/unwind/debug_frame_${codec})
    add_custom_command(OUTPUT ${output} DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/unwind/debug_frame VERBATIM
        COMMAND ${CMAKE_OBJCOPY} --compress-debug-sections=${codec}
                ${CMAKE_CURRENT_BINARY_DIR}/unwind/debug_frame ${output})
    list(APPEND unwind_hosts ${output})
endforeach()
if(SPANPROF_MUSL_GCC)
    unwind_host(musl_static ${SPANPROF_MUSL_GCC} -O2 -static)
endif()
add_custom_target(unwind_hosts ALL DEPENDS ${unwind_hosts})
spanprof_unit_test(unwind spanprof_agent)
target_compile_definitions(test_unwind PRIVATE
    UNWIND_HOSTS="${CMAKE_CURRENT_BINARY_DIR}/unwind")
add_dependencies(test_unwind unwind_hosts)

# Stacks of programs under load, against what elfutils says: needs libdw-dev.
pkg_check_modules(LIBDW IMPORTED_TARGET libdw)
if(LIBDW_FOUND)
    add_executable(oracle ${support}/oracle.c ${support}/unwind_rig.c ${support}/analyst_rig.c)
    target_link_libraries(oracle PRIVATE spanprof_agent spanprof_flags PkgConfig::LIBDW)
    function(oracle_test name)
        set(label bpf)
        if(SPANPROF_SANITIZE AND NOT name STREQUAL little_memory)
            set(label long)
        endif()
        add_test(NAME bpf.oracle_${name} COMMAND oracle -s 4 -n 200 -v 3 ${ARGN})
        set_tests_properties(bpf.oracle_${name} PROPERTIES
            LABELS ${label} TIMEOUT 60 SKIP_RETURN_CODE 77)
    endfunction()
    set(loads ${support}/loads)
    oracle_test(python /usr/bin/python3 ${loads}/sorting.py)
    oracle_test(perl perl ${loads}/words.pl)
    oracle_test(shell bash ${loads}/pipes.sh)
    add_executable(load_untouched ${loads}/untouched.c)
    target_compile_options(load_untouched PRIVATE -O2 -fomit-frame-pointer)
    oracle_test(untouched -w $<TARGET_FILE:load_untouched>)
    # Many real programs, and Go's tables: ./dev test peers.
    add_test(NAME peers.oracle COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers/test_oracle.py)
    set_tests_properties(peers.oracle PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 5400 RUN_SERIAL ON
        ENVIRONMENT "SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
    oracle_test(little_memory -m 1 /usr/bin/python3 ${loads}/sorting.py)
endif()
