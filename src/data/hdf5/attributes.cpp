#include <fmt/format.h>

#include "hdf5/library_text.hpp"
#include "hdf5/state.hpp"
#include "hdf5/types.hpp"

namespace unisono::hdf5 {
namespace {

std::vector<std::string> read_variable_texts(hid_t attribute, hid_t stored, std::size_t count, bool& failed) {
  LibraryText text(count);
  failed = H5Aread(attribute, text_type(H5Tget_cset(stored)).get(), text.pointers.data()) < 0;
  return text.strings();
}

std::vector<std::string> read_fixed_texts(hid_t attribute, hid_t stored, std::size_t count, bool& failed) {
  const std::size_t length = H5Tget_size(stored);
  std::string text(length * count, '\0');
  failed = H5Aread(attribute, stored, text.data()) < 0;
  return cut_fixed(text, length);
}

std::vector<std::string> read_texts(hid_t attribute, std::size_t count, bool& failed) {
  const Handle stored{H5Aget_type(attribute), H5Tclose};
  failed = H5Tget_class(stored.get()) != H5T_STRING;
  if (failed) return {};
  return H5Tis_variable_str(stored.get()) > 0 ? read_variable_texts(attribute, stored.get(), count, failed)
                                              : read_fixed_texts(attribute, stored.get(), count, failed);
}

std::size_t count_of(hid_t attribute) {
  const Handle space{H5Aget_space(attribute), H5Sclose};
  return static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
}

/// \param allowed which types T can be read from
template <typename T>
T read_number(hid_t attribute, bool (*allowed)(Type), bool& failed) {
  const Handle stored{H5Aget_type(attribute), H5Tclose};
  failed = !allowed(type_of(stored.get())) || count_of(attribute) != 1;
  T value{};
  if (!failed) failed = H5Aread(attribute, memory_type<T>().get(), &value) < 0;
  return value;
}

template <typename T>
T read_value(hid_t attribute, bool& failed);
template <>
std::int64_t read_value(hid_t attribute, bool& failed) {
  return read_number<std::int64_t>(attribute, is_integer, failed);
}
template <>
double read_value(hid_t attribute, bool& failed) {
  return read_number<double>(attribute, is_number, failed);
}
template <>
std::vector<std::string> read_value(hid_t attribute, bool& failed) {
  return read_texts(attribute, count_of(attribute), failed);
}
template <>
std::string read_value(hid_t attribute, bool& failed) {
  const std::vector<std::string> values = read_value<std::vector<std::string>>(attribute, failed);
  failed = failed || values.size() != 1;
  return failed ? "" : values[0];
}

/// What H5Acreate and H5Awrite need.
struct Encoded {
  Handle type, space;
  const void* values;
};

Encoded encode(const std::int64_t& value) {
  return {memory_type<std::int64_t>(), {H5Screate(H5S_SCALAR), H5Sclose}, &value};
}
Encoded encode(const double& value) { return {memory_type<double>(), {H5Screate(H5S_SCALAR), H5Sclose}, &value}; }
Encoded encode(const char* const& text) { return {text_type(), {H5Screate(H5S_SCALAR), H5Sclose}, &text}; }
Encoded encode(const std::vector<const char*>& texts) {
  const hsize_t count = texts.size();
  return {text_type(), {H5Screate_simple(1, &count, nullptr), H5Sclose}, texts.data()};
}

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
template <>
bool write_value(hid_t object, const std::string& name, const std::string& value) {
  const char* text = value.c_str();
  return write_encoded(object, name, encode(text));
}
template <>
bool write_value(hid_t object, const std::string& name, const std::vector<std::string>& values) {
  std::vector<const char*> texts;
  for (const std::string& value : values) texts.push_back(value.c_str());
  return write_encoded(object, name, encode(texts));
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
  T value = failed ? T{} : read_value<T>(attribute.get(), failed);
  if (failed)
    state_->fail_read(object, fmt::format("attribute '{}' is not of the type or size that it should be", name));
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

}  // namespace unisono::hdf5
