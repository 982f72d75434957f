# Libraries that unisono can do without, found by pkg-config. For each, UNISONO_HAS_NAME says whether it is there; its
# target is PkgConfig::NAME.
#
# unisono_find_optional(NAME MODULES module... DEBIAN package...)
#   The cache entry UNISONO_NAME asks for it: ON, OFF, or AUTO.
macro(unisono_find_optional NAME)
  cmake_parse_arguments(OPTIONAL "" "" "MODULES;DEBIAN" ${ARGN})
  set(UNISONO_HAS_${NAME} OFF)
  if(UNISONO_${NAME})
    pkg_check_modules(${NAME} IMPORTED_TARGET ${OPTIONAL_MODULES})
    if(${NAME}_FOUND)
      set(UNISONO_HAS_${NAME} ON)
    elseif(NOT UNISONO_${NAME} STREQUAL AUTO)
      message(FATAL_ERROR
        "UNISONO_${NAME} is ON, but pkg-config does not find ${OPTIONAL_MODULES}; Debian has it in ${OPTIONAL_DEBIAN}")
    endif()
  endif()
  message(STATUS "${NAME}: ${UNISONO_HAS_${NAME}}")
endmacro()

unisono_find_optional(PCRE2 MODULES libpcre2-8 DEBIAN libpcre2-dev)
unisono_find_optional(IMAGES MODULES libjpeg spng DEBIAN libjpeg62-turbo-dev libspng-dev)
unisono_find_optional(ZSTD MODULES libzstd DEBIAN libzstd-dev)
unisono_find_optional(MINIZIP MODULES minizip DEBIAN libminizip-dev)

# unisono_optional_sources(TARGET NAME ABSENT file SOURCES file...): what a target has of such a library, or instead.
function(unisono_optional_sources TARGET NAME)
  cmake_parse_arguments(ARG "" "ABSENT" "SOURCES" ${ARGN})
  if(UNISONO_HAS_${NAME})
    target_sources(${TARGET} PRIVATE ${ARG_SOURCES})
    target_link_libraries(${TARGET} PRIVATE PkgConfig::${NAME})
  else()
    target_sources(${TARGET} PRIVATE ${ARG_ABSENT})
  endif()
endfunction()
