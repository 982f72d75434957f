# unisono_unity(VARIABLE ROOT source...)
#
# Sets VARIABLE to sources that include the given ones (absolute paths, all below ROOT), several of one folder each: the
# headers that the files of a folder share are then parsed and compiled once, not once a file. So files of one folder
# must not give two things one name, not even in unnamed namespaces. With UNISONO_UNITY=OFF, VARIABLE is the given
# sources themselves; the build then shows whether each file includes what it uses.
#
# The includes are relative to ROOT, which must be among the target's include directories: a compiler cache then finds
# the same text in every clone.
set(UNISONO_FILES_AT_ONCE 12 CACHE STRING "Files of a folder that are compiled at once, at most")
mark_as_advanced(UNISONO_FILES_AT_ONCE)

function(unisono_unity VARIABLE ROOT)
  set(sources ${ARGN})
  if(NOT UNISONO_UNITY)
    set(${VARIABLE} ${sources} PARENT_SCOPE)
    return()
  endif()
  set(folders "")
  foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
    cmake_path(GET name PARENT_PATH folder)
    list(APPEND folders "${folder}/")
    list(APPEND "in ${folder}/" ${name})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  cmake_path(GET ROOT FILENAME module)
  set(unity "")
  foreach(folder IN LISTS folders)
    set(names ${in\ ${folder}})
    list(LENGTH names count)
    math(EXPR parts "(${count} + ${UNISONO_FILES_AT_ONCE} - 1) / ${UNISONO_FILES_AT_ONCE}")
    string(REPLACE "/" "_" prefix "${module}/${folder}")
    foreach(part RANGE 1 ${parts})
      math(EXPR first "${count} * (${part} - 1) / ${parts}")
      math(EXPR length "${count} * ${part} / ${parts} - ${first}")
      list(SUBLIST names ${first} ${length} some)
      list(TRANSFORM some REPLACE "(.+)" "#include \"\\1\"\n")
      string(JOIN "" text ${some})
      set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${module}/${prefix}${part}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      list(APPEND unity ${file})
    endforeach()
  endforeach()
  set(${VARIABLE} ${unity} PARENT_SCOPE)
endfunction()
