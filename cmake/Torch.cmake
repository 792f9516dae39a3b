# LibTorch 2.11 from the pip wheel or a LibTorch folder, as own imported targets: find_package(Torch) of a
# CUDA wheel wants nvcc even for plain C++.
#
#   -DGRAPHOPT_TORCH=DIR or the environment's GRAPHOPT_TORCH: the folder with include/ and lib/
#   otherwise the wheel that scripts/setup installed (GRAPHOPT_PYTHON, .deps/venv or the per-user cache)

set(GRAPHOPT_TORCH "$ENV{GRAPHOPT_TORCH}" CACHE PATH "folder of LibTorch 2.11: the wheel's torch/ or an unpacked LibTorch")

function(graphopt_torch_from_python out)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(cache "$ENV{XDG_CACHE_HOME}/graphopt")
  else()
    set(cache "$ENV{HOME}/.cache/graphopt")
  endif()
  foreach(python "$ENV{GRAPHOPT_PYTHON}" ${CMAKE_SOURCE_DIR}/.deps/venv/bin/python ${cache}/venv/bin/python python3)
    if(NOT python)
      continue()
    endif()
    execute_process(COMMAND ${python} -c "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
                    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rc)
    if(rc EQUAL 0 AND EXISTS ${dir}/lib/libtorch_cpu.so)
      set(${out} ${dir} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

if(NOT GRAPHOPT_TORCH)
  graphopt_torch_from_python(found)
  if(NOT found)
    message(FATAL_ERROR "no LibTorch found: run scripts/setup, or point GRAPHOPT_TORCH to the torch folder of the 2.11 wheel")
  endif()
  set(GRAPHOPT_TORCH ${found} CACHE PATH "" FORCE)
endif()

file(STRINGS ${GRAPHOPT_TORCH}/include/torch/headeronly/version.h versionLines REGEX "TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" torchVersion "${versionLines}")
if(NOT torchVersion VERSION_EQUAL 2.11)
  message(FATAL_ERROR "graphopt needs LibTorch 2.11, found ${torchVersion} in ${GRAPHOPT_TORCH}")
endif()
message(STATUS "LibTorch ${torchVersion}: ${GRAPHOPT_TORCH}")

add_compile_options(-fmacro-prefix-map=${GRAPHOPT_TORCH}/include/=)

# Headers alone: what ir/ needs (c10 scalar types and fmt, both header-only).
add_library(graphopt_torch_headers INTERFACE)
target_include_directories(graphopt_torch_headers SYSTEM INTERFACE ${GRAPHOPT_TORCH}/include)
target_compile_definitions(graphopt_torch_headers INTERFACE FMT_HEADER_ONLY _GLIBCXX_USE_CXX11_ABI=1)

# libtorch_cuda is never linked: it is loaded when a GPU is asked for (runtime/device.h).
add_library(graphopt_torch INTERFACE)
target_include_directories(graphopt_torch SYSTEM INTERFACE ${GRAPHOPT_TORCH}/include/torch/csrc/api/include)
target_compile_options(graphopt_torch INTERFACE -fopenmp) # else at::parallel_for is serial
# g++ 12 sees an overflow in intrusive_ptr's counts, inlined from LibTorch's headers, that is none.
target_compile_options(graphopt_torch INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
target_link_libraries(graphopt_torch INTERFACE graphopt_torch_headers
  ${GRAPHOPT_TORCH}/lib/libtorch_cpu.so ${GRAPHOPT_TORCH}/lib/libc10.so)
