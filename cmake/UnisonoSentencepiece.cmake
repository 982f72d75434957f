# Finds SentencePiece, for the tokenizer of this name: UNISONO_HAS_SENTENCEPIECE says whether it is there.
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
