#pragma once

// Hogwild on purpose: several threads read and write the same θ without locks or atomics, and updates that are lost
// when two write one float at once are part of the method (Niu et al., NIPS 2011). By the C++ standard that is a data
// race. It is confined to the functions that carry this mark, in loops_isa/ and in_place_kernels.cpp, which touch θ by
// loads and stores of plain floats: whole floats on every CPU that this is compiled for. The thread sanitizer leaves
// these functions alone and watches everything else. It decides by the function that an access is compiled into:
// functions that these call must be marked, too, or always_inline.

#define UNISONO_RACES_BY_DESIGN __attribute__((no_sanitize("thread")))
