# Finds what decodes pictures: libjpeg and libspng. UNISONO_HAS_IMAGES says whether both are there.
set(UNISONO_HAS_IMAGES OFF)
if(UNISONO_IMAGES)
  pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
  pkg_check_modules(SPNG IMPORTED_TARGET spng)
  if(JPEG_FOUND AND SPNG_FOUND)
    set(UNISONO_HAS_IMAGES ON)
  elseif(NOT UNISONO_IMAGES STREQUAL AUTO)
    message(FATAL_ERROR
      "UNISONO_IMAGES is ON, but libjpeg or spng is not found; Debian has them in libjpeg62-turbo-dev and libspng-dev")
  endif()
endif()
message(STATUS "Pictures: ${UNISONO_HAS_IMAGES}")
