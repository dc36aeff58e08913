# The kernels use cp.async and bf16 on tensor cores (kernels/common/async_copy.h, tensor_core.h): compute capability 8.0.
set(RINGTAPE_OLDEST_CUDA_ARCHITECTURE 80)

# ringtape_old_cuda_architectures(RESULT ARCHITECTURE...): sets RESULT to those of the architectures, in the form of
# CMAKE_CUDA_ARCHITECTURES ("75-real", "all"), for which the kernels cannot be built, separated by commas; empty if there are none.
function(ringtape_old_cuda_architectures result)
  set(old "")
  foreach(architecture IN LISTS ARGN)
    if(architecture MATCHES "^all" OR (architecture MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS RINGTAPE_OLDEST_CUDA_ARCHITECTURE))
      list(APPEND old ${architecture})
    endif()
  endforeach()
  list(JOIN old ", " old)
  set(${result} "${old}" PARENT_SCOPE)
endfunction()
