# Compiles kernels: every .cu file for the CPU by the host compiler and, in a CUDA build, for the GPU.
add_library(ringtape_cpu_kernel_flags INTERFACE)
target_include_directories(ringtape_cpu_kernel_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(ringtape_cpu_kernel_flags INTERFACE ${RINGTAPE_CPU_KERNEL_FLAGS} -Wno-unknown-pragmas)
target_link_libraries(ringtape_cpu_kernel_flags INTERFACE ringtape_flags)
if(RINGTAPE_CHECK)
  target_compile_definitions(ringtape_cpu_kernel_flags INTERFACE RINGTAPE_CHECK)
  target_compile_options(ringtape_cpu_kernel_flags INTERFACE -fsanitize=bounds -fno-sanitize-recover=bounds)
  target_link_options(ringtape_dependencies INTERFACE -fsanitize=bounds)
  if(RINGTAPE_SANITIZE MATCHES "address")
    target_compile_options(ringtape_cpu_kernel_flags INTERFACE -fsanitize-sections=simt_shared)
  endif()
endif()

# ringtape_add_kernels(TARGET FILE...) compiles the files and adds the objects to the target. The object libraries
# are TARGET_kernels_cpu and TARGET_kernels_cuda.
function(ringtape_add_kernels target)
  set(sources ${ARGN})
  if(NOT sources)
    return()
  endif()
  add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/cpu_kernels ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels_cpu)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_kernels_cpu>)
  ringtape_add_gpu_kernels(${target} ${sources})
endfunction()

# The part of ringtape_add_kernels for a GPU or the GPU model; does nothing in a CPU build.
function(ringtape_add_gpu_kernels target)
  set(sources ${ARGN})
  if(RINGTAPE_WITH_GPU_MODEL)
    add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/model_kernels ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels_cuda)
  elseif(RINGTAPE_WITH_CUDA)
    add_library(${target}_kernels_cuda OBJECT ${sources})
    target_include_directories(${target}_kernels_cuda PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target}_kernels_cuda PRIVATE ringtape_flags CUDA::cudart)
  else()
    return()
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_kernels_cuda>)
endfunction()

# ringtape_add_analysed_kernels(TARGET FILE...) compiles the files for the analysis (docs/analysis.md): with
# ThreadSanitizer's instrumentation, whose functions kernels/analysis defines instead of its runtime. With -O1, local
# variables stay in registers and no access is merged. If the target is a program, it gets the objects, and those for
# the GPU as usual. If it is an INTERFACE library, the programs that link it get the objects, which replace those of the
# same files in a static library that comes after them on the linker's command line.
function(ringtape_add_analysed_kernels target)
  set(sources ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels_analysed)
  add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/analysed_kernels ${folder})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(scope INTERFACE)
  else()
    set(scope PRIVATE)
    ringtape_add_gpu_kernels(${target} ${sources})
  endif()
  target_sources(${target} ${scope} $<TARGET_OBJECTS:${target}_kernels_analysed>)
  target_link_libraries(${target} ${scope} ringtape_analysis)
endfunction()
