#include <fmt/format.h>

#include <algorithm>

#include "hdf5/state.hpp"
#include "hdf5/types.hpp"

namespace unisono::data::hdf5 {
namespace {

std::size_t element_count(hid_t attribute) {
  const Handle space{H5Aget_space(attribute), H5Sclose};
  return static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
}

/// \param allowed the stored types from which T can be read
template <typename T>
T read_number(hid_t attribute, bool (*allowed)(Type), bool& failed) {
  const Handle stored{H5Aget_type(attribute), H5Tclose};
  failed = !allowed(type_of(stored.get())) || element_count(attribute) != 1;
  T value{};
  if (!failed) failed = H5Aread(attribute, memory_type<T>().get(), &value) < 0;
  return value;
}

/// \param texts what reads the strings of an attribute
using ReadTexts = std::function<std::vector<std::string>(hid_t stored, std::uint64_t count)>;
template <typename T>
T read_value(hid_t attribute, const ReadTexts& texts, bool& failed);
template <>
std::int64_t read_value(hid_t attribute, const ReadTexts&, bool& failed) {
  return read_number<std::int64_t>(attribute, is_integer, failed);
}
template <>
double read_value(hid_t attribute, const ReadTexts&, bool& failed) {
  return read_number<double>(attribute, is_number, failed);
}
template <>
std::vector<std::string> read_value(hid_t attribute, const ReadTexts& texts, bool& failed) {
  const Handle stored{H5Aget_type(attribute), H5Tclose};
  failed = H5Tget_class(stored.get()) != H5T_STRING;
  return failed ? std::vector<std::string>{} : texts(stored.get(), element_count(attribute));
}
template <>
std::string read_value(hid_t attribute, const ReadTexts& texts, bool& failed) {
  const std::vector<std::string> values = read_value<std::vector<std::string>>(attribute, texts, failed);
  failed = failed || values.size() != 1;
  return failed ? "" : values[0];
}

/// The arguments of H5Acreate and H5Awrite.
struct Encoded {
  Handle type, space;
  const void* values;
};

Encoded encode(const std::int64_t& value) {
  return {memory_type<std::int64_t>(), {H5Screate(H5S_SCALAR), H5Sclose}, &value};
}
Encoded encode(const double& value) { return {memory_type<double>(), {H5Screate(H5S_SCALAR), H5Sclose}, &value}; }

bool write_encoded(hid_t object, const std::string& name, const Encoded& encoded) {
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const Handle attribute{
      H5Acreate2(object, name.c_str(), encoded.type.get(), encoded.space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose};
  return attribute.valid() && H5Awrite(attribute.get(), encoded.type.get(), encoded.values) >= 0;
}

template <typename T>
bool write_value(hid_t object, const std::string& name, const T& value) {
  return write_encoded(object, name, encode(value));
}
/// As strings of fixed length, padded with zeros, which are stored in the object's header.
bool write_fixed(hid_t object, const std::string& name, Handle space, const std::vector<std::string>& values,
                 std::size_t length) {
  Handle type{H5Tcopy(H5T_C_S1), H5Tclose};
  H5Tset_size(type.get(), length);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  std::string bytes(length * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) values[i].copy(bytes.data() + i * length, length);
  return write_encoded(object, name, {std::move(type), std::move(space), bytes.data()});
}

/// As strings of variable length, which are stored in the file's heap, because an object's header cannot hold more than
/// 64 KiB.
bool write_variable(hid_t object, const std::string& name, Handle space, const std::vector<std::string>& values) {
  std::vector<const char*> texts;
  for (const std::string& value : values) texts.push_back(value.c_str());
  return write_encoded(object, name, {text_type(), std::move(space), texts.data()});
}

bool write_texts(hid_t object, const std::string& name, Handle space, const std::vector<std::string>& values) {
  constexpr std::size_t kMostFixed = 60000;
  std::size_t length = 1;
  for (const std::string& value : values) length = std::max(length, value.size());
  return length * values.size() <= kMostFixed ? write_fixed(object, name, std::move(space), values, length)
                                              : write_variable(object, name, std::move(space), values);
}

template <>
bool write_value(hid_t object, const std::string& name, const std::string& value) {
  return write_texts(object, name, {H5Screate(H5S_SCALAR), H5Sclose}, {value});
}
template <>
bool write_value(hid_t object, const std::string& name, const std::vector<std::string>& values) {
  const hsize_t count = values.size();
  return write_texts(object, name, {H5Screate_simple(1, &count, nullptr), H5Sclose}, values);
}

}  // namespace

bool File::has_attribute(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  return H5Aexists(state_->open_object(object).get(), name.c_str()) > 0;
}

template <typename T>
void File::write_attribute(const std::string& object, const std::string& name, const T& value) {
  const LibraryLock lock;
  if (!write_value(state_->open_object(object).get(), name, value)) {
    state_->fail_write(object, fmt::format("attribute '{}' cannot be written", name));
  }
}

template <typename T>
T File::read_attribute(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  const Handle handle = state_->open_object(object);
  if (H5Aexists(handle.get(), name.c_str()) <= 0) state_->fail_read(object, fmt::format("has no attribute '{}'", name));
  const Handle attribute{H5Aopen(handle.get(), name.c_str(), H5P_DEFAULT), H5Aclose};
  bool failed = !attribute.valid();
  const ReadTexts texts = [&](hid_t stored, std::uint64_t count) {
    const auto read = [&](hid_t type, void* to) { return H5Aread(attribute.get(), type, to) >= 0; };
    const std::string what = fmt::format("attribute '{}' ", name);
    return state_->read_texts({.object = object, .what = what, .stored = stored, .count = count, .read = read});
  };
  T value = failed ? T{} : read_value<T>(attribute.get(), texts, failed);
  if (failed) state_->fail_read(object, fmt::format("attribute '{}' has the wrong type or size", name));
  return value;
}

#define UNISONO_INSTANTIATE(T)                                                              \
  template void File::write_attribute<T>(const std::string&, const std::string&, const T&); \
  template T File::read_attribute<T>(const std::string&, const std::string&) const
UNISONO_INSTANTIATE(std::int64_t);
UNISONO_INSTANTIATE(double);
UNISONO_INSTANTIATE(std::string);
UNISONO_INSTANTIATE(std::vector<std::string>);
#undef UNISONO_INSTANTIATE

}  // namespace unisono::data::hdf5
