# Flags of Ringtape's own targets. They are not passed on to programs that link the installed library.
add_library(ringtape_flags INTERFACE)

set(ringtape_warnings -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
# GCC 12 warns about copies inside of std::string when a literal and a string are joined (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND ringtape_warnings -Wno-restrict)
endif()
if(RINGTAPE_WERROR)
  list(APPEND ringtape_warnings -Werror)
endif()
target_compile_options(ringtape_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ringtape_warnings}>")
if(RINGTAPE_WERROR)
  target_compile_options(ringtape_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()

# Of what every program needs, only kernels, the executor and sums over ranks compute much, and have flags of their own.
# With -O1 the other files are compiled in three quarters of the time, and no slower that could be measured.
set(RINGTAPE_HOST_FLAGS "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(RINGTAPE_HOST_FLAGS -O1)
endif()
add_library(ringtape_host_flags INTERFACE)
target_link_libraries(ringtape_host_flags INTERFACE ringtape_flags)
target_compile_options(ringtape_host_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${RINGTAPE_HOST_FLAGS}>")
# In batches of RINGTAPE_UNITY GCC's garbage collection takes a twelfth of the time: none below a heap of 1 GB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ringtape_host_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>")
endif()

# Flags that vectorise the CPU kernels and keep IEEE results.
set(RINGTAPE_CPU_KERNEL_FLAGS -fno-math-errno -fno-trapping-math)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RINGTAPE_CHECK)
  list(APPEND RINGTAPE_CPU_KERNEL_FLAGS -O3)
endif()
include(CheckCXXCompilerFlag)
# With unroll-and-jam a sum over a long array (LaneSum) reads two places alternately; with GCC 12 it took 1.5 times as
# long.
check_cxx_compiler_flag(-fno-loop-unroll-and-jam RINGTAPE_HAS_NO_UNROLL_AND_JAM)
if(RINGTAPE_HAS_NO_UNROLL_AND_JAM)
  list(APPEND RINGTAPE_CPU_KERNEL_FLAGS -fno-loop-unroll-and-jam)
endif()
if(RINGTAPE_NATIVE)
  check_cxx_compiler_flag(-march=native RINGTAPE_HAS_MARCH_NATIVE)
  if(RINGTAPE_HAS_MARCH_NATIVE)
    list(APPEND RINGTAPE_CPU_KERNEL_FLAGS -march=native)
  endif()
  check_cxx_compiler_flag(-mprefer-vector-width=512 RINGTAPE_HAS_VECTOR_WIDTH)
  if(RINGTAPE_HAS_VECTOR_WIDTH)
    list(APPEND RINGTAPE_CPU_KERNEL_FLAGS -mprefer-vector-width=512)
  endif()
endif()

if(RINGTAPE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${RINGTAPE_SANITIZE};-fno-omit-frame-pointer;-g1>")
  if(RINGTAPE_SANITIZE MATCHES "undefined")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>")
  endif()
  add_link_options("-fsanitize=${RINGTAPE_SANITIZE}")
endif()
