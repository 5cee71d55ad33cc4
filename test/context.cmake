# SPDX-License-Identifier: Apache-2.0
# Users of the library, loaded by dlopen(): two with a copy linked in, one with the shared library.
foreach(user a b shared)
    add_library(context_user_${user} MODULE ${CMAKE_CURRENT_LIST_DIR}/support/context_user.c)
    target_include_directories(context_user_${user} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(context_user_${user} PRIVATE spanprof_flags
        $<IF:$<STREQUAL:${user},shared>,spanprof_context_shared,spanprof_context>)
endforeach()
set(context_user_paths CONTEXT_USER_A="$<TARGET_FILE:context_user_a>"
    CONTEXT_USER_B="$<TARGET_FILE:context_user_b>"
    CONTEXT_USER_SHARED="$<TARGET_FILE:context_user_shared>")

spanprof_unit_test(context spanprof_context)
spanprof_unit_test(context_process spanprof_context)
spanprof_unit_test(context_users)
spanprof_unit_test(context_torn spanprof_context)
foreach(test context_process context_users)
    target_sources(test_${test} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/context_read.c)
endforeach()
foreach(test context context_users)
    target_include_directories(test_${test} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_definitions(test_${test} PRIVATE ${context_user_paths})
    target_link_libraries(test_${test} PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(test_${test} context_user_a context_user_b context_user_shared)
endforeach()

# Readers look for TLS descriptors first, and for the symbol in .dynsym.
if(SPANPROF_HAVE_TLSDESC)
    add_test(NAME unit.context_tlsdesc COMMAND sh -c
        "readelf -rW '$<TARGET_FILE:spanprof_context_shared>' | grep -q 'TLSDESC.*otel_thread_ctx_v1'")
    set_tests_properties(unit.context_tlsdesc PROPERTIES LABELS unit)
endif()

# What is installed can be linked by a program, through pkg-config.
if(NOT SPANPROF_SANITIZE AND NOT SPANPROF_FUZZ)
    add_test(NAME unit.context_install COMMAND
        ${CMAKE_CURRENT_LIST_DIR}/support/context_install.sh
        ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER})
    set_tests_properties(unit.context_install PROPERTIES LABELS unit)
endif()

# With musl the library is built anew, static and shared; needs musl-gcc of musl-tools.
find_program(SPANPROF_MUSL_GCC musl-gcc)
if(SPANPROF_MUSL_GCC)
    set(musl_sources)
    foreach(source mapping payload process_context shared_state thread_context)
        list(APPEND musl_sources ${CMAKE_SOURCE_DIR}/context/${source}.c)
    endforeach()
    set(musl_headers ${CMAKE_SOURCE_DIR}/context/context_layout.h
        ${CMAKE_SOURCE_DIR}/context/spanprof_context.h ${CMAKE_SOURCE_DIR}/context/mapping.h
        ${CMAKE_SOURCE_DIR}/context/payload.h ${CMAKE_SOURCE_DIR}/context/shared_state.h)
    set(musl_flags -std=gnu11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -fno-strict-aliasing
        -Wall -Wextra -Werror -I${CMAKE_SOURCE_DIR})
    set(musl_main ${CMAKE_CURRENT_LIST_DIR}/support/context_libc.c)
    set(musl_out ${CMAKE_CURRENT_BINARY_DIR})
    add_custom_command(OUTPUT ${musl_out}/context_musl_static ${musl_out}/context_musl_shared
        COMMAND ${SPANPROF_MUSL_GCC} ${musl_flags} -static -o ${musl_out}/context_musl_static
                ${musl_main} ${musl_sources}
        COMMAND ${SPANPROF_MUSL_GCC} ${musl_flags} -shared -o ${musl_out}/libcontext_musl.so
                ${musl_sources}
        COMMAND ${SPANPROF_MUSL_GCC} ${musl_flags} -o ${musl_out}/context_musl_shared
                ${musl_main} ${musl_out}/libcontext_musl.so -Wl,-rpath,${musl_out}
        DEPENDS ${musl_main} ${musl_sources} ${musl_headers} VERBATIM)
    add_custom_target(context_musl ALL
        DEPENDS ${musl_out}/context_musl_static ${musl_out}/context_musl_shared)
    foreach(kind static shared)
        add_test(NAME unit.context_musl_${kind} COMMAND ${musl_out}/context_musl_${kind})
        set_tests_properties(unit.context_musl_${kind} PROPERTIES LABELS unit)
    endforeach()
endif()

spanprof_bench(context spanprof_context_shared)
