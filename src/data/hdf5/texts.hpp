#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <string>

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// A memory type for reading strings of variable length as the stored references, HeapReference::kBytes each, without
/// following them into the heap. Reading as this type fails if addresses do not have 8 bytes.
Handle reference_type();

/// How to read the strings of a dataset or an attribute, of variable or fixed length.
struct Texts {
  std::string object;  ///< path of the dataset or the attribute's object, for messages
  std::string what;    ///< "", or "attribute 'NAME' "
  hid_t stored;        ///< their type in the file
  std::uint64_t count;
  std::function<bool(hid_t type, void* to)> read;  ///< reads all of them as this type; false: the library failed
};

}  // namespace unisono::data::hdf5
