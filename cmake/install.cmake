# SPDX-License-Identifier: MIT
# What `cmake --install` lays down: headers, both libraries, the programs, the manual, and how others find them
# (find_package(weft) and pkg-config). tests/house/install_consumers.py builds with each of them.
include(CMakePackageConfigHelpers)

set_target_properties(weft_shared PROPERTIES EXPORT_NAME weft)
# The static library brings along what its objects call.
target_link_libraries(weft_static INTERFACE $<INSTALL_INTERFACE:-pthread>)
target_compile_definitions(weft_static INTERFACE $<INSTALL_INTERFACE:WEFT_STATIC>)

install(TARGETS weft_shared weft_static EXPORT weftTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(program weft_cli weft-check)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET weft_cli)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/weft.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/weftConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${package_dir})

# weft.pc finds its own prefix, so that an installation may be moved.
file(RELATIVE_PATH WEFT_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" WEFT_PC_PREFIX "${WEFT_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
