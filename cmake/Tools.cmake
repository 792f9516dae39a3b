# Optional speed-ups of the build: ccache and mold are used when they are there.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers need this sloppiness; base_dir lets two checkouts share entries.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Binaries name no folder of the machine that built them, also where no ccache makes the compiler's paths relative:
# __FILE__ is short. Torch.cmake does the same for LibTorch's headers.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
