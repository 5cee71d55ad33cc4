# SPDX-License-Identifier: Apache-2.0
add_library(spanprof_flags INTERFACE)
target_compile_options(spanprof_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Werror
    -fno-omit-frame-pointer -fstack-protector-strong
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=) # __FILE__ is the path in the tree, however the compiler is called
target_compile_definitions(spanprof_flags INTERFACE _GNU_SOURCE)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT SPANPROF_SANITIZE)
    target_compile_options(spanprof_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
# Assertions guard our own invariants; they stay on in a release.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
if(SPANPROF_SANITIZE)
    target_compile_options(spanprof_flags INTERFACE -fsanitize=${SPANPROF_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(spanprof_flags INTERFACE -fsanitize=${SPANPROF_SANITIZE})
    if(SPANPROF_SANITIZE STREQUAL "thread")
        # Fences order what another process reads, which TSan does not watch.
        target_compile_options(spanprof_flags INTERFACE -Wno-tsan)
    endif()
endif()
if(SPANPROF_FUZZ) # the parsers are watched too, not the harness alone
    target_compile_options(spanprof_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# spanprof_library(NAME DEPENDS ... [SOURCES ...]): one library a top folder. Its rooms add their files.
function(spanprof_library name)
    cmake_parse_arguments(LIB "" "" "DEPENDS;SOURCES" ${ARGN})
    add_library(${name} STATIC ${LIB_SOURCES})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${LIB_DEPENDS} PRIVATE spanprof_flags)
endfunction()

# spanprof_room(TARGET SOURCES...): the .c files of a room. All are named, none is globbed.
function(spanprof_room target)
    target_sources(${target} PRIVATE ${ARGN})
endfunction()
