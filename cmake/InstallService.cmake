# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install`: what depends on its prefix, which need not be the one that was configured.
# SPANPROF_SOURCE and SPANPROF_BINDIR are set before.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr") # as the FHS has it
    set(etc /etc)
else()
    set(etc ${CMAKE_INSTALL_PREFIX}/etc)
endif()
set(config ${etc}/spanprof/spanprof.yaml)
set(unit ${CMAKE_INSTALL_PREFIX}/lib/systemd/system/spanprof.service)

if(EXISTS $ENV{DESTDIR}${config}) # it may have been changed
    message(STATUS "Keeping: $ENV{DESTDIR}${config}")
else()
    file(INSTALL ${SPANPROF_SOURCE}/config/spanprof.yaml DESTINATION ${etc}/spanprof)
endif()

file(READ ${SPANPROF_SOURCE}/packaging/spanprof.service text)
string(REPLACE /usr/bin/spanprof ${CMAKE_INSTALL_PREFIX}/${SPANPROF_BINDIR}/spanprof text "${text}")
string(REPLACE /etc/spanprof/spanprof.yaml ${config} text "${text}")
string(REPLACE /usr/share/ ${CMAKE_INSTALL_PREFIX}/share/ text "${text}")
message(STATUS "Installing: $ENV{DESTDIR}${unit}")
file(WRITE $ENV{DESTDIR}${unit} "${text}")
file(CHMOD $ENV{DESTDIR}${unit} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
