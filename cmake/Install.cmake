# The install tree: libgraphopt.so and its public headers for find_package(graphopt), and the tool. It is relocatable:
# LibTorch is not part of it, and nothing in it names a path of this machine. bin/graphopt is a launcher that finds the
# machine's LibTorch; a program of the user's finds it at link time, by the same rules as this build (Torch.cmake).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(packageDir ${CMAKE_INSTALL_LIBDIR}/cmake/graphopt)
set(toolDir ${CMAKE_INSTALL_LIBEXECDIR}/graphopt)
set_target_properties(graphopt PROPERTIES INSTALL_RPATH "")
set_target_properties(graphopt_tool PROPERTIES INSTALL_RPATH "$ORIGIN/../../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS graphopt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS graphopt_tool RUNTIME DESTINATION ${toolDir})
install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/launcher.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME graphopt)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/graphopt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/graphoptConfig.cmake.in ${CMAKE_BINARY_DIR}/graphoptConfig.cmake
  INSTALL_DESTINATION ${packageDir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/graphoptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/graphoptConfig.cmake ${CMAKE_BINARY_DIR}/graphoptConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/Torch.cmake DESTINATION ${packageDir})
