#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <string>

namespace unisono::data::hdf5 {

/// How to read the strings of a dataset or an attribute, of variable or fixed length.
struct Texts {
  std::string object;  ///< path of the dataset or the attribute's object, for messages
  std::string what;    ///< "", or "attribute 'NAME' "
  hid_t stored;        ///< their type in the file
  std::uint64_t count;
  std::function<bool(hid_t type, void* to)> read;  ///< reads all of them as this type; false: the library failed
};

}  // namespace unisono::data::hdf5
