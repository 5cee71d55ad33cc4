# SPDX-License-Identifier: Apache-2.0
# Programs whose stacks are known, seen by spanprof: test/stacks/NAME. Not with the flags of the
# build: without frame pointers where not said otherwise, as distributions build.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
endif()
set(support ${CMAKE_CURRENT_LIST_DIR}/support)
set(stacks ${CMAKE_CURRENT_BINARY_DIR}/stacks)
file(MAKE_DIRECTORY ${stacks})
set(stacks_built)
set(stacks_headers ${support}/stacks.h ${support}/stacks_code.h ${support}/unwind_host.h)
set(stacks_flags -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR} -Wall -Wextra -Werror -fomit-frame-pointer
    -pthread)

# Of unwind_no_info.c, which is built with frame pointers and without unwind information.
function(stacks_program name compiler)
    set(output ${stacks}/${name})
    add_custom_command(OUTPUT ${output}
        COMMAND ${compiler} -std=gnu11 ${stacks_flags} -O2 ${ARGN} -fno-omit-frame-pointer
                -fno-asynchronous-unwind-tables -fno-unwind-tables -Wno-unused-command-line-argument
                -c -o ${output}.no_info.o
                ${support}/unwind_no_info.c
        COMMAND ${compiler} -std=gnu11 ${stacks_flags} ${ARGN} -o ${output}
                ${support}/stacks_program.c ${output}.no_info.o
        DEPENDS ${support}/stacks_program.c ${stacks_headers} ${support}/unwind_no_info.c VERBATIM)
    set(stacks_built ${stacks_built} ${output} PARENT_SCOPE)
endfunction()

function(stacks_cpp_program name)
    set(output ${stacks}/${name})
    add_custom_command(OUTPUT ${output}
        COMMAND ${SPANPROF_GXX} -std=gnu++17 ${stacks_flags} ${ARGN} -o ${output}
                ${support}/stacks_cpp.cc
        DEPENDS ${support}/stacks_cpp.cc ${stacks_headers} VERBATIM)
    set(stacks_built ${stacks_built} ${output} PARENT_SCOPE)
endfunction()

function(stacks_library name room)
    set(output ${stacks}/lib${name}.so)
    add_custom_command(OUTPUT ${output}
        COMMAND gcc -std=gnu11 ${stacks_flags} -O2 -fPIC -shared -DCODE=${name}
                -DCODE_ROOM=${room} -o ${output} ${support}/stacks_code.c
        DEPENDS ${support}/stacks_code.c ${stacks_headers} VERBATIM)
    set(stacks_built ${stacks_built} ${output} PARENT_SCOPE)
endfunction()

stacks_program(O0 gcc -O0 -fPIE -pie)
stacks_program(O2 gcc -O2 -fPIE -pie)
stacks_program(O2_frame_pointer gcc -O2 -fPIE -pie -fno-omit-frame-pointer)
stacks_program(O3 gcc -O3 -fno-pie -no-pie)
stacks_program(Os gcc -Os -fPIE -pie)
stacks_program(clang_O2 ${BPF_CLANG} -O2 -fPIE -pie)
stacks_program(static gcc -O2 -static -DSTACKS_STATIC)
stacks_program(static_pie gcc -O2 -fPIE -static-pie -DSTACKS_STATIC)
stacks_program(no_table gcc -O2 -fPIE -pie -Wl,--no-eh-frame-hdr)
if(SPANPROF_MUSL_GCC)
    stacks_program(musl_static ${SPANPROF_MUSL_GCC} -O2 -static -DSTACKS_STATIC)
    stacks_program(debug_frame ${SPANPROF_MUSL_GCC} -O2 -static -DSTACKS_STATIC -g
        -fno-asynchronous-unwind-tables -fno-unwind-tables)
endif()
stacks_program(debug_zlib gcc -O2 -fPIE -pie -g -gz=zlib -fno-asynchronous-unwind-tables
    -fno-unwind-tables)
# Its unwind information lies in a file of its own.
stacks_program(separate.whole gcc -O2 -static -DSTACKS_STATIC -g -Wl,--build-id=sha1
    -fno-asynchronous-unwind-tables -fno-unwind-tables)
add_custom_command(OUTPUT ${stacks}/separate ${stacks}/separate.debug DEPENDS ${stacks}/separate.whole
    COMMAND ${CMAKE_STRIP} -o ${stacks}/separate ${stacks}/separate.whole
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug ${stacks}/separate.whole ${stacks}/separate.debug)
list(APPEND stacks_built ${stacks}/separate)
add_custom_command(OUTPUT ${stacks}/stripped DEPENDS ${stacks}/O2
    COMMAND ${CMAKE_STRIP} -o ${stacks}/stripped ${stacks}/O2)
list(APPEND stacks_built ${stacks}/stripped)

find_program(SPANPROF_GXX g++)
if(SPANPROF_GXX)
    stacks_cpp_program(cpp_O0 -O0 -fPIE -pie)
    stacks_cpp_program(cpp_O2 -O2 -fPIE -pie)
    stacks_cpp_program(cpp_static -O2 -static)
endif()
stacks_library(alpha 10)
stacks_library(beta 50)
add_custom_target(stacks ALL DEPENDS ${stacks_built})

spanprof_integration_test(stacks LONG ARGUMENTS Matrix TIMEOUT 300)
spanprof_integration_test(stacks_changes LONG FILE stacks ARGUMENTS Changes TIMEOUT 180)
spanprof_integration_test(short_lived LONG TIMEOUT 300)
