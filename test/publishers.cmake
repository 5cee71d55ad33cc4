# SPDX-License-Identifier: Apache-2.0
# Programs that publish contexts by every TLS model, with glibc and musl: test/publisher/LIBC/NAME.
# Not with the flags of the build: what is published must not depend on sanitizers. Each links the
# same objects with one publisher_slot.c, built as the model wants it:
#     local_exec, static, static_pie   in the executable
#     linked_MODEL                     in a library that it is linked with (initial_exec,
#                                      general_dynamic, tlsdesc)
#     late                             loads SYMBOLS_MODEL.so by dlopen(): SYMBOLS are otel, elastic,
#                                      labels; tlsdesc_large does not fit into any static TLS
#     late_no_pie                      likewise; its heap, with what descriptors point to, lies low
#     hostile                          loads them too, and lies
find_program(SPANPROF_PUBLISHER_GCC NAMES gcc)
find_program(SPANPROF_MUSL_GCC musl-gcc)
set(publisher_dir ${CMAKE_CURRENT_BINARY_DIR}/publisher)
set(publisher_sources ${CMAKE_CURRENT_LIST_DIR}/support)
set(publisher_parts publisher publisher_agent publisher_process publisher_record workload_burn)
set(publisher_flags -std=gnu11 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer -pthread -Wall -Wextra
    -Werror -I${CMAKE_SOURCE_DIR})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(publisher_dialects gnu gnu2)
else()
    set(publisher_dialects trad desc)
endif()
list(GET publisher_dialects 0 publisher_traditional)
list(GET publisher_dialects 1 publisher_descriptors)
file(GLOB publisher_headers CONFIGURE_DEPENDS ${publisher_sources}/publisher_*.h)
list(APPEND publisher_headers ${publisher_sources}/workload_burn.h
    ${CMAKE_SOURCE_DIR}/context/context_layout.h)
# The kernel's headers, of which musl-gcc leaves out the way.
set(publisher_musl_flags -idirafter /usr/include
    -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
set(publisher_files)

# publisher_file(OUTPUT LIBC SOURCES... [FLAGS ...] [DEPENDS ...]): one command, all of it.
function(publisher_file output libc)
    cmake_parse_arguments(FILE "" "" "SOURCES;FLAGS;DEPENDS" ${ARGN})
    set(compiler ${SPANPROF_PUBLISHER_GCC})
    if(libc STREQUAL musl)
        set(compiler ${SPANPROF_MUSL_GCC} ${publisher_musl_flags})
    endif()
    set(output ${publisher_dir}/${libc}/${output})
    list(TRANSFORM FILE_DEPENDS PREPEND ${publisher_dir}/${libc}/)
    add_custom_command(OUTPUT ${output}
        COMMAND ${compiler} ${publisher_flags} -o ${output} ${FILE_SOURCES} ${FILE_FLAGS}
        DEPENDS ${FILE_SOURCES} ${FILE_DEPENDS} ${publisher_headers} VERBATIM)
    set(publisher_files ${publisher_files} ${output} PARENT_SCOPE)
endfunction()

function(publisher_programs libc)
    set(dir ${publisher_dir}/${libc})
    file(MAKE_DIRECTORY ${dir})
    set(slot ${publisher_sources}/publisher_slot.c)
    set(objects)
    foreach(part ${publisher_parts} publisher_linked publisher_late publisher_fuse
            publisher_hostile)
        publisher_file(${part}.o ${libc} SOURCES ${publisher_sources}/${part}.c FLAGS -c -fPIE)
        list(APPEND objects ${part}.o)
    endforeach()
    list(TRANSFORM publisher_parts APPEND .o OUTPUT_VARIABLE parts)
    list(TRANSFORM parts PREPEND ${dir}/ OUTPUT_VARIABLE parts)
    set(linked ${parts} ${dir}/publisher_linked.o)
    set(seen -Wl,--export-dynamic)

    publisher_file(local_exec ${libc} SOURCES ${slot} ${linked}
        FLAGS -fPIE -pie -ftls-model=local-exec ${seen})
    publisher_file(labels_local_exec ${libc} SOURCES ${slot} ${linked}
        FLAGS -DPUBLISHER_LABELS -fPIE -pie -ftls-model=local-exec ${seen})
    publisher_file(static ${libc} SOURCES ${slot} ${linked} FLAGS -fno-pie -static -no-pie)
    # Exporting everything would leave it relocations that it cannot do by itself.
    set(one_seen -Wl,--export-dynamic-symbol=otel_thread_ctx_v1)
    if(libc STREQUAL glibc)
        publisher_file(static_pie ${libc} SOURCES ${slot} ${linked}
            FLAGS -fPIE -static-pie ${one_seen})
    else() # musl-gcc does not know -static-pie
        set(musl /usr/lib/${CMAKE_SYSTEM_PROCESSOR}-linux-musl)
        publisher_file(static_pie ${libc} SOURCES ${slot} ${linked}
            FLAGS -fPIE -nostdlib -Wl,-static,-pie,--no-dynamic-linker,-z,text ${musl}/rcrt1.o
                ${musl}/crti.o ${musl}/libc.a -lgcc ${musl}/crtn.o ${one_seen})
    endif()

    set(initial_exec -ftls-model=initial-exec)
    set(general_dynamic -ftls-model=global-dynamic -mtls-dialect=${publisher_traditional})
    set(tlsdesc -ftls-model=global-dynamic -mtls-dialect=${publisher_descriptors})
    foreach(model initial_exec general_dynamic tlsdesc)
        publisher_file(liblinked_${model}.so ${libc} SOURCES ${slot}
            FLAGS -fPIC -shared ${${model}})
        publisher_file(linked_${model} ${libc}
            SOURCES ${linked} DEPENDS liblinked_${model}.so
            FLAGS -pie -L${dir} -llinked_${model} -Wl,-rpath,${dir})
    endforeach()
    publisher_file(libcustomlabels_tlsdesc.so ${libc} SOURCES ${slot}
        FLAGS -DPUBLISHER_LABELS -fPIC -shared ${tlsdesc})
    publisher_file(linked_labels ${libc} SOURCES ${linked} DEPENDS libcustomlabels_tlsdesc.so
        FLAGS -pie -L${dir} -lcustomlabels_tlsdesc -Wl,-rpath,${dir})

    publisher_file(late ${libc} SOURCES ${parts} ${dir}/publisher_late.o FLAGS -pie)
    publisher_file(late_no_pie ${libc} SOURCES ${parts} ${dir}/publisher_late.o FLAGS -no-pie)
    list(REMOVE_ITEM parts ${dir}/publisher.o)
    publisher_file(hostile ${libc} SOURCES ${parts} ${dir}/publisher_late.o ${dir}/publisher_fuse.o
        ${dir}/publisher_hostile.o FLAGS -pie)
    set(tlsdesc_large ${tlsdesc} -DPUBLISHER_BALLAST=65536)
    set(symbols_of_otel -DPUBLISHER_OTEL)
    set(symbols_of_elastic -DPUBLISHER_ELASTIC)
    foreach(symbols otel elastic)
        foreach(model general_dynamic tlsdesc tlsdesc_large)
            publisher_file(${symbols}_${model}.so ${libc} SOURCES ${slot}
                FLAGS ${symbols_of_${symbols}} -fPIC -shared ${${model}})
        endforeach()
    endforeach()
    set(publisher_files ${publisher_files} PARENT_SCOPE)
endfunction()

if(SPANPROF_PUBLISHER_GCC)
    publisher_programs(glibc)
endif()
if(SPANPROF_MUSL_GCC)
    publisher_programs(musl)
endif()
add_custom_target(publishers ALL DEPENDS ${publisher_files})

# Libraries of others, fetched from their registries: ./dev test peers.
foreach(peer datadog_python custom_labels)
    add_test(NAME peers.${peer} COMMAND /usr/bin/python3 -B
        ${CMAKE_CURRENT_LIST_DIR}/peers/test_${peer}.py)
    set_tests_properties(peers.${peer} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 900
        RUN_SERIAL ON ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
