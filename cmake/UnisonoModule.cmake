# unisono_module(NAME [MODULES module...] [ROOMS folder...] [LIBRARIES library...] [SELDOM_RUN folder...])
#
# Makes the library unisono_NAME from src/NAME, with include/unisono/NAME as its public headers. Each module has an
# include root of its own in the build tree (a link to its folder), so that a header of a module that is not linked is
# not found.
#   MODULES    the modules that this one may include, and through them theirs
#   ROOMS      its folders, the lowest first: none may include a later one (scripts/check-style checks that)
#   LIBRARIES  third parties, which no public header includes
#   SELDOM_RUN folders whose code runs once a step at most (ALL: the whole module): -O1 compiles it in two thirds of the
#              time that -O3 takes
function(unisono_module NAME)
  # src/CMakeLists.txt adds these, or what takes their places.
  set(optional_folders blis cuda nccl cpu/loops_isa tokenizer/pcre2 tokenizer/sentencepiece images/codecs
    import/zstd import/minizip)
  cmake_parse_arguments(ARG "" "" "MODULES;ROOMS;LIBRARIES;SELDOM_RUN" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cpp)
  list(JOIN optional_folders "|" optional)
  list(FILTER sources EXCLUDE REGEX "_absent\\.cpp$|/main\\.cpp$|/src/${NAME}/(${optional})/")

  if(NOT sources)  # headers alone
    set(sources ${CMAKE_BINARY_DIR}/${NAME}_headers.cpp)
    file(TOUCH ${sources})
  else()
    set(root ${CMAKE_SOURCE_DIR}/src/${NAME})
    set(seldom_run ${sources})
    if(NOT ARG_SELDOM_RUN STREQUAL ALL)
      list(JOIN ARG_SELDOM_RUN "|" folders)
      list(FILTER seldom_run INCLUDE REGEX "^${root}/(${folders})/")
    endif()
    if(seldom_run)
      list(REMOVE_ITEM sources ${seldom_run})
      unisono_unity(seldom_run ${root} ${seldom_run})
      set_source_files_properties(${seldom_run} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
    endif()
    unisono_unity(sources ${root} ${sources})
    list(APPEND sources ${seldom_run})
  endif()

  set(root ${CMAKE_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${root}/unisono)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include/unisono/${NAME} ${root}/unisono/${NAME} SYMBOLIC)

  add_library(unisono_${NAME} STATIC ${sources})
  add_library(unisono::${NAME} ALIAS unisono_${NAME})
  set_target_properties(unisono_${NAME} PROPERTIES EXPORT_NAME ${NAME} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(unisono_${NAME}
    PUBLIC $<BUILD_INTERFACE:${root}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${CMAKE_SOURCE_DIR}/src/${NAME})
  foreach(module IN LISTS ARG_MODULES)
    target_link_libraries(unisono_${NAME} PUBLIC unisono_${module})
  endforeach()
  target_link_libraries(unisono_${NAME} PRIVATE ${ARG_LIBRARIES} PUBLIC unisono_options)
  install(TARGETS unisono_${NAME} EXPORT unisono COMPONENT development)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/unisono/${NAME} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/unisono
    COMPONENT development)
endfunction()
