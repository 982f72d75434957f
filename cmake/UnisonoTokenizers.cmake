# Finds what two tokenizers are made of: PCRE2 for gpt2, and SentencePiece. UNISONO_HAS_PCRE2 and
# UNISONO_HAS_SENTENCEPIECE say whether they are there.
set(UNISONO_HAS_PCRE2 OFF)
if(UNISONO_PCRE2)
  pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8)
  if(PCRE2_FOUND)
    set(UNISONO_HAS_PCRE2 ON)
  elseif(NOT UNISONO_PCRE2 STREQUAL AUTO)
    message(FATAL_ERROR "UNISONO_PCRE2 is ON, but libpcre2-8 is not found; Debian has it in libpcre2-dev")
  endif()
endif()
message(STATUS "PCRE2: ${UNISONO_HAS_PCRE2}")

set(UNISONO_HAS_SENTENCEPIECE OFF)
if(UNISONO_SENTENCEPIECE)
  # Not by pkg-config, which also names the library that trains models.
  find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
  find_library(SENTENCEPIECE_LIBRARY NAMES sentencepiece)
  mark_as_advanced(SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY)
  if(SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY)
    set(UNISONO_HAS_SENTENCEPIECE ON)
  elseif(NOT UNISONO_SENTENCEPIECE STREQUAL AUTO)
    message(FATAL_ERROR
      "UNISONO_SENTENCEPIECE is ON, but sentencepiece_processor.h or libsentencepiece is not found; Debian has them in "
      "libsentencepiece-dev")
  endif()
endif()
message(STATUS "SentencePiece: ${UNISONO_HAS_SENTENCEPIECE}")
