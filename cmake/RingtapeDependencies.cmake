# Finds the libraries of docs/design.md's table. A missing optional one is named here and the build goes on.
add_library(ringtape_dependencies INTERFACE)

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
target_link_libraries(ringtape_dependencies INTERFACE
  fmt::fmt nlohmann_json::nlohmann_json ZLIB::ZLIB Threads::Threads $<BUILD_INTERFACE:OpenMP::OpenMP_CXX>)
target_link_options(ringtape_dependencies INTERFACE $<INSTALL_INTERFACE:-fopenmp>)

# CPU GEMM: oneDNN, else OpenBLAS, else Ringtape's own kernel alone.
set(RINGTAPE_CPU_BLAS "none")
# (oneDNN is looked for by its files: the package file that Debian ships stops CMake where there is no OpenCL.)
find_path(RINGTAPE_DNNL_INCLUDE_DIR dnnl.hpp)
find_library(RINGTAPE_DNNL_LIBRARY dnnl)
mark_as_advanced(RINGTAPE_DNNL_INCLUDE_DIR RINGTAPE_DNNL_LIBRARY)
if(RINGTAPE_DNNL_INCLUDE_DIR AND RINGTAPE_DNNL_LIBRARY)
  set(RINGTAPE_CPU_BLAS "oneDNN")
  target_include_directories(ringtape_dependencies INTERFACE $<BUILD_INTERFACE:${RINGTAPE_DNNL_INCLUDE_DIR}>)
  target_link_libraries(ringtape_dependencies INTERFACE ${RINGTAPE_DNNL_LIBRARY})
else()
  find_package(OpenBLAS QUIET)
  if(OpenBLAS_FOUND)
    set(RINGTAPE_CPU_BLAS "OpenBLAS")
    target_link_libraries(ringtape_dependencies INTERFACE ${OpenBLAS_LIBRARIES})
  endif()
endif()
message(STATUS "Ringtape: vendor GEMM on the CPU is ${RINGTAPE_CPU_BLAS}")

# Fibers of the SIMT executor: Boost.Context, else ucontext (slower).
find_package(Boost 1.70 QUIET COMPONENTS context)
if(Boost_FOUND)
  set(RINGTAPE_FIBER "boost")
  target_link_libraries(ringtape_dependencies INTERFACE Boost::context)
else()
  set(RINGTAPE_FIBER "ucontext")
endif()
message(STATUS "Ringtape: fibers by ${RINGTAPE_FIBER}")

if(RINGTAPE_WITH_CUDA)
  target_link_libraries(ringtape_dependencies INTERFACE CUDA::cudart CUDA::cublas)
endif()
