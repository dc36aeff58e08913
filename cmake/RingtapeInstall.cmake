# `cmake --install` and the package files behind find_package(ringtape).
include(CMakePackageConfigHelpers)

set(ringtape_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringtape)
install(TARGETS ringtape ringtape_mnist ringtape_dependencies EXPORT ringtape-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ringtape-targets NAMESPACE ringtape:: DESTINATION ${ringtape_package_dir})

# The headers keep their folders, as in the source: #include "core/tensor.h".
install(FILES ringtape.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringtape)
foreach(layer core trace kernels autograd nn data optim dist plot profile train)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${layer})
    install(DIRECTORY ${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringtape
      FILES_MATCHING PATTERN "*.h" PATTERN "mnist" EXCLUDE)
  endif()
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ringtape-config.cmake.in
  ${PROJECT_BINARY_DIR}/ringtape-config.cmake INSTALL_DESTINATION ${ringtape_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ringtape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringtape-config.cmake ${PROJECT_BINARY_DIR}/ringtape-config-version.cmake
  DESTINATION ${ringtape_package_dir})
