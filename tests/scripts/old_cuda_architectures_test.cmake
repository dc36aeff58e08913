# The GPUs that the kernels cannot be built for: cmake -P old_cuda_architectures_test.cmake
cmake_policy(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/OldCudaArchitectures.cmake)

function(expect expected)
  ringtape_old_cuda_architectures(found ${ARGN})
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "of '${ARGN}' found '${found}', expected '${expected}'")
  endif()
endfunction()

expect("")
expect("" 80 90)
expect("" 80-real 86-virtual 90a 100f 120)
expect("" native)
expect("75" 75)
expect("75-real, 60" 75-real 80 60)
expect("all" all)
expect("all-major" all-major)

