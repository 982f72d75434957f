# Finds BLIS, of whose matrix products kernels/blis is made: UNISONO_HAS_BLIS says whether it is there. Debian's serial
# library is preferred, as a static one: which library a shared "libblis.so.4" is depends on the machine. Each call runs
# on the calling thread, whichever library it is.
set(UNISONO_HAS_BLIS OFF)
if(UNISONO_BLIS)
  find_path(BLIS_INCLUDE_DIR blis.h PATH_SUFFIXES blis-serial blis)
  find_library(BLIS_LIBRARY NAMES libblis.a blis PATH_SUFFIXES blis-serial)
  mark_as_advanced(BLIS_INCLUDE_DIR BLIS_LIBRARY)
  if(BLIS_INCLUDE_DIR AND BLIS_LIBRARY)
    set(UNISONO_HAS_BLIS ON)
  elseif(NOT UNISONO_BLIS STREQUAL AUTO)
    message(FATAL_ERROR "UNISONO_BLIS is ON, but blis.h or libblis is not found; Debian has them in libblis-serial-dev")
  endif()
endif()
if(UNISONO_HAS_BLIS)
  message(STATUS "BLIS: ${BLIS_LIBRARY}")
else()
  message(STATUS "BLIS: OFF")
endif()

# unisono_link_blis(TARGET): for a target that includes blis.h.
function(unisono_link_blis TARGET)
  target_include_directories(${TARGET} SYSTEM PRIVATE ${BLIS_INCLUDE_DIR})
  target_link_libraries(${TARGET} PRIVATE ${BLIS_LIBRARY} Threads::Threads m)
endfunction()
