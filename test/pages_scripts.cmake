# SPDX-License-Identifier: Apache-2.0
# The scripts of the pages: what is pure by node, where there is one; in a browser: test/peers.
find_program(NODE NAMES node nodejs)
if(NODE)
    file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/pages/*.test.mjs)
    set(command ${NODE} --test ${scripts})
else()
    set(command sh -c "echo 'node is not installed'; exit 77")
endif()
add_test(NAME unit.pages_scripts COMMAND ${command})
set_tests_properties(unit.pages_scripts PROPERTIES LABELS unit TIMEOUT 60 SKIP_RETURN_CODE 77)

# In Chromium, on the demo's data and on hostile names: ./dev test peers.
add_test(NAME peers.pages_browser COMMAND /usr/bin/python3 -B
    ${CMAKE_CURRENT_LIST_DIR}/peers/test_pages_browser.py)
set_tests_properties(peers.pages_browser PROPERTIES LABELS peers SKIP_RETURN_CODE 77 TIMEOUT 1200 RUN_SERIAL ON
    ENVIRONMENT "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof;SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}")
