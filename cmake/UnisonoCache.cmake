# Where ccache is installed, the compilers are called through it: what a user has compiled once, in this clone or
# another one, is not compiled again. UNISONO_CCACHE=OFF, or a launcher of one's own, turns that off.
option(UNISONO_CCACHE "Compile through ccache, where it is installed" ON)
find_program(UNISONO_CCACHE_PROGRAM ccache)
mark_as_advanced(UNISONO_CCACHE_PROGRAM)
if(UNISONO_CCACHE AND UNISONO_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the source folder count relative to the build folder, whose own path does not count. What is not in the
  # cache is parsed once, not twice (CCACHE_DEPEND). The rest is what precompiled headers need.
  set(launcher env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${UNISONO_CCACHE_PROGRAM})
  foreach(language C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
  endforeach()
endif()
