#pragma once

#include <hdf5.h>

#include <cstdint>

#include "hdf5/handle.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data::hdf5 {

/// IEEE binary16, little-endian; the library has no constant for it.
Handle make_float16_type();

/// Strings of variable length. \param set as stored: the library does not convert between ASCII and UTF-8
Handle text_type(H5T_cset_t set = H5T_CSET_UTF8);

Type type_of(hid_t datatype);

/// The library's type for T in memory.
template <typename T>
Handle memory_type();
template <>
Handle memory_type<std::uint8_t>();
template <>
Handle memory_type<std::uint32_t>();
template <>
Handle memory_type<std::int32_t>();
template <>
Handle memory_type<std::int64_t>();
template <>
Handle memory_type<std::uint64_t>();
template <>
Handle memory_type<float>();
template <>
Handle memory_type<double>();

}  // namespace unisono::data::hdf5
