# The third parties, each under one name, and the options that every target shares. Nothing is fetched.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# mpi.h for C++ without its C++ bindings, which were removed
add_compile_definitions(OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
pkg_check_modules(tomlplusplus REQUIRED tomlplusplus)
pkg_check_modules(CLI11 REQUIRED IMPORTED_TARGET CLI11)
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

add_library(unisono_options INTERFACE)
target_compile_features(unisono_options INTERFACE cxx_std_20)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
target_compile_options(unisono_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>>"
  # g++ 12 warns of std::string's own operator+ (GCC bug 105651).
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>>)
if(UNISONO_UNITY)
  # A source that another includes is no header: what it keeps in an unnamed namespace is its own.
  target_compile_options(unisono_options INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>>)
endif()
if(UNISONO_SANITIZE)
  set(sanitizers -fsanitize=${UNISONO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_compile_options(unisono_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:C,CXX>:${sanitizers}>>"
    # What g++ believes uninitialised under a sanitizer is not (GCC manual, -Wmaybe-uninitialized).
    $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>>)
  target_link_options(unisono_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${UNISONO_SANITIZE}>)
endif()
if(UNISONO_ODR)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    message(FATAL_ERROR "UNISONO_ODR needs g++'s -Wodr")
  endif()
  # Objects for both links: the usual one, and that of unisono_odr, which compares the types of all of them.
  target_compile_options(unisono_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-flto;-ffat-lto-objects>>")
  # Without it g++ would optimise every program when it is linked, because the objects allow that.
  target_link_options(unisono_options INTERFACE
    "$<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNISONO_COMPARES_TYPES>>>:-fno-lto>>")
endif()
if(UNISONO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "UNISONO_FUZZ needs clang's libFuzzer; use the preset 'fuzz'")
  endif()
  target_compile_options(unisono_options INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>>)
endif()
install(TARGETS unisono_options EXPORT unisono COMPONENT development)
