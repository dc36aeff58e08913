# `cmake --install` and the package files for find_package(ringtape).
include(CMakePackageConfigHelpers)

set(ringtape_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringtape)
install(TARGETS ringtape ringtape_mnist ringtape_gpt ringtape_dependencies EXPORT ringtape-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ringtape-targets NAMESPACE ringtape:: DESTINATION ${ringtape_package_dir})

# The headers: <ringtape/ringtape.h> for all, or a single one such as <ringtape/core/tensor.h>.
install(CODE "
  set(SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
  set(STAGING_DIR \"${PROJECT_BINARY_DIR}/installed_headers\")
  set(INCLUDE_DIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/install_headers.cmake\")")

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ringtape-config.cmake.in
  ${PROJECT_BINARY_DIR}/ringtape-config.cmake INSTALL_DESTINATION ${ringtape_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ringtape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringtape-config.cmake ${PROJECT_BINARY_DIR}/ringtape-config-version.cmake
  DESTINATION ${ringtape_package_dir})
