# SPDX-License-Identifier: Apache-2.0
# Who else reads what is scraped: ./dev test peers.
spanprof_unit_test(scrape spanprof_exporter)

foreach(name pprof pyroscope)
    add_test(NAME peers.${name} COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers/test_${name}.py)
    set_tests_properties(peers.${name} PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 1800 RUN_SERIAL ON
        ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
endforeach()
