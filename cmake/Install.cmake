# SPDX-License-Identifier: Apache-2.0
# Component "service": the program and its configuration. Component "context": what programs need to
# link libspanprof-context (cmake --install BUILD --component context).
include(GNUInstallDirs)
install(TARGETS spanprof RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT service)
install(CODE "set(SPANPROF_SOURCE \"${CMAKE_SOURCE_DIR}\")
set(SPANPROF_BINDIR \"${CMAKE_INSTALL_BINDIR}\")" COMPONENT service)
install(SCRIPT cmake/InstallService.cmake COMPONENT service)
install(FILES ${CMAKE_SOURCE_DIR}/docs/deployment.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT service)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/spanprof.sysusers DESTINATION lib/sysusers.d
    RENAME spanprof.conf COMPONENT service)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/spanprof.tmpfiles DESTINATION lib/tmpfiles.d
    RENAME spanprof.conf COMPONENT service)

install(TARGETS spanprof_context spanprof_context_shared
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT context
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT context NAMELINK_COMPONENT context)
install(FILES ${CMAKE_SOURCE_DIR}/context/spanprof_context.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT context)
install(FILES ${CMAKE_BINARY_DIR}/context/spanprof-context.pc
    ${CMAKE_BINARY_DIR}/context/spanprof-context-static.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT context)
