# unisono_precompile(TARGET [header...])
#
# Parses the headers that nearly every source includes, and these, once for the target: two thirds of the time of a
# build from nothing was spent on parsing them. Sources include what they use all the same; the presets asan,
# tsan and clang compile without precompiled headers (CMAKE_DISABLE_PRECOMPILE_HEADERS), and would miss an include.
function(unisono_precompile TARGET)
  list(TRANSFORM ARGN REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE more)
  target_precompile_headers(${TARGET} PRIVATE
    <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <numeric>
    <optional> <span> <stdexcept> <string> <string_view> <tuple> <utility> <vector> <fmt/format.h> ${more})
endfunction()
