#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "hdf5/library.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // one per process, like the library's state
  return mutex;
}

/// Callback of H5Ewalk2: keeps the first description and stops.
herr_t keep_description(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 1;
}

/// Extracts the system's message, 'File too large', from "file write failed: time = …, errno = 27, error message =
/// 'File too large', buf = …".
std::string systems_reason(const std::string& description) {
  constexpr std::string_view kBefore = "error message = '";
  const std::size_t at = description.find(kBefore);
  if (at == std::string::npos) return description;
  const std::size_t begin = at + kBefore.size();
  return description.substr(begin, description.find('\'', begin) - begin);
}

constexpr std::size_t kExponentBits = 5, kMantissaBits = 10, kBias = 15, kSignBit = 15;  // of binary16

Type integer_type(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? Type::int8 : Type::uint8;
    case 2:
      return is_signed ? Type::int16 : Type::uint16;
    case 4:
      return is_signed ? Type::int32 : Type::uint32;
    case 8:
      return is_signed ? Type::int64 : Type::uint64;
    default:
      return Type::other;
  }
}

/// Whether a number uses all bits of its bytes. With other (damaged) types the library would write out of bounds.
bool is_full(hid_t datatype) {
  return H5Tget_precision(datatype) == 8 * H5Tget_size(datatype) && H5Tget_offset(datatype) == 0;
}

/// Whether a floating-point type is IEEE's format with these fields.
bool is_ieee(hid_t datatype, std::size_t wanted_exponent, std::size_t wanted_mantissa) {
  std::size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  H5Tget_fields(datatype, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
  return exponent == wanted_exponent && mantissa == wanted_mantissa && mantissa_at == 0 && exponent_at == mantissa &&
         sign == exponent + mantissa && H5Tget_ebias(datatype) == (std::size_t{1} << (exponent - 1)) - 1 &&
         H5Tget_norm(datatype) == H5T_NORM_IMPLIED;
}

Type float_type(hid_t datatype) {
  if (is_ieee(datatype, kExponentBits, kMantissaBits)) return Type::float16;
  if (is_ieee(datatype, 8, 23)) return Type::float32;
  return is_ieee(datatype, 11, 52) ? Type::float64 : Type::other;
}

Handle copy_of(hid_t native) { return {H5Tcopy(native), H5Tclose}; }

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  // At exit the library would close what is still open, and crash on a file that could not be written to its end.
  static const herr_t no_cleanup_at_exit = H5dont_atexit();
  static_cast<void>(no_cleanup_at_exit);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors become exceptions; nothing is printed
}

Handle make_parents() {
  Handle properties{H5Pcreate(H5P_LINK_CREATE), H5Pclose};
  H5Pset_create_intermediate_group(properties.get(), 1);
  return properties;
}

std::string innermost_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_description, &reason);
  return systems_reason(reason);
}

std::string_view name_of(Type type) {
  constexpr std::string_view names[] = {"uint8", "int8",    "uint16",  "int16",   "uint32", "int32", "uint64",
                                        "int64", "float16", "float32", "float64", "text",   "other"};
  return names[static_cast<int>(type)];
}

bool is_integer(Type type) { return type <= Type::int64; }
bool is_number(Type type) { return type <= Type::float64; }

std::size_t size_of(Type type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 0, 0};
  return sizes[static_cast<int>(type)];
}

std::uint64_t DatasetShape::row_size() const {
  if (extent.empty()) return 0;
  return std::accumulate(extent.begin() + 1, extent.end(), std::uint64_t{1}, std::multiplies<>());
}

Handle text_type(H5T_cset_t set) {
  Handle type{H5Tcopy(H5T_C_S1), H5Tclose};
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), set);
  return type;
}

Type type_of(hid_t datatype) {
  const std::size_t bytes = H5Tget_size(datatype);
  switch (H5Tget_class(datatype)) {
    case H5T_INTEGER:
      return is_full(datatype) ? integer_type(bytes, H5Tget_sign(datatype) == H5T_SGN_2) : Type::other;
    case H5T_FLOAT:
      return is_full(datatype) ? float_type(datatype) : Type::other;
    case H5T_STRING:
      return Type::text;
    default:
      return Type::other;
  }
}

Handle make_float16_type() {
  Handle type{H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
  H5Tset_fields(type.get(), kSignBit, kMantissaBits, kExponentBits, 0, kMantissaBits);
  H5Tset_size(type.get(), sizeof(Half));
  H5Tset_ebias(type.get(), kBias);
  return type;
}

template <>
Handle memory_type<std::uint8_t>() {
  return copy_of(H5T_NATIVE_UINT8);
}
template <>
Handle memory_type<std::uint16_t>() {
  return copy_of(H5T_NATIVE_UINT16);
}
template <>
Handle memory_type<std::uint32_t>() {
  return copy_of(H5T_NATIVE_UINT32);
}
template <>
Handle memory_type<std::int32_t>() {
  return copy_of(H5T_NATIVE_INT32);
}
template <>
Handle memory_type<std::int64_t>() {
  return copy_of(H5T_NATIVE_INT64);
}
template <>
Handle memory_type<std::uint64_t>() {
  return copy_of(H5T_NATIVE_UINT64);
}
template <>
Handle memory_type<float>() {
  return copy_of(H5T_NATIVE_FLOAT);
}
template <>
Handle memory_type<double>() {
  return copy_of(H5T_NATIVE_DOUBLE);
}
template <>
Handle memory_type<Half>() {
  return make_float16_type();
}

std::vector<hsize_t> extent_of(hid_t dataset) {
  const Handle space{H5Dget_space(dataset), H5Sclose};
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extent(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  return extent;
}

RowSelection select_rows(hid_t dataset, std::vector<hsize_t> extent, hsize_t first, hsize_t count) {
  RowSelection selection{{H5Dget_space(dataset), H5Sclose}, {}};
  std::vector<hsize_t> start(extent.size(), 0);
  start[0] = first;
  extent[0] = count;
  H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  selection.memory = {H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose};
  return selection;
}

std::string outside(const std::vector<hsize_t>& extent, std::uint64_t first, std::uint64_t count) {
  if (extent.empty()) return "is a scalar, but rows were requested";
  if (first <= extent[0] && count <= extent[0] - first) return "";
  return fmt::format("has {}; rows {} to {} were requested", count_of(static_cast<std::int64_t>(extent[0]), "row"),
                     first, first + count);
}

}  // namespace unisono::data::hdf5
