#include <fmt/format.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "hdf5/library.hpp"
#include "hdf5/state.hpp"
#include "hdf5/structure.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_bytes.hpp"

namespace unisono::data::hdf5 {
namespace {

H5FD_class_t sec2;  ///< the library's own driver

herr_t query(const H5FD_t* file, unsigned long* flags) {
  const herr_t result = sec2.query(file, flags);
  if (flags != nullptr) *flags &= ~static_cast<unsigned long>(H5FD_FEAT_ACCUMULATE_METADATA);
  return result;
}

/// Open files whose bytes are read elsewhere. All callbacks of the driver are called with the library's lock held.
std::map<const H5FD_t*, std::shared_ptr<const FileBytes>>& redirected_drivers() {
  static std::map<const H5FD_t*, std::shared_ptr<const FileBytes>> files;
  return files;
}

/// Why bytes that the library asked for could not be read elsewhere: no exception may pass through the library.
std::exception_ptr failure_elsewhere;

H5FD_t* open_redirected(const char* name, unsigned flags, hid_t access, haddr_t limit) {
  H5FD_t* const file = sec2.open(name, flags, access, limit);
  if (auto elsewhere = redirection_of(name); file != nullptr && elsewhere) redirected_drivers()[file] = elsewhere;
  return file;
}

herr_t close_redirected(H5FD_t* file) {
  redirected_drivers().erase(file);
  return sec2.close(file);
}

herr_t read_redirected(H5FD_t* file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size, void* buffer) {
  const auto found = redirected_drivers().find(file);
  if (found == redirected_drivers().end()) return sec2.read(file, type, transfer, at, size, buffer);
  const haddr_t end = sec2.get_eof(file, type), there = at < end ? std::min<haddr_t>(size, end - at) : 0;
  auto* const bytes = static_cast<std::byte*>(buffer);
  std::fill(bytes + there, bytes + size, std::byte{0});  // as sec2 does behind the end
  try {
    found->second->read(at, {bytes, there});
    return 0;
  } catch (...) {
    failure_elsewhere = std::current_exception();
    return -1;
  }
}

/// Throws what the library's last read of a redirected file threw, if it failed.
void rethrow_failure_elsewhere() {
  if (failure_elsewhere) std::rethrow_exception(std::exchange(failure_elsewhere, nullptr));
}

/// \return negative where the library does not let it be made
hid_t register_driver(const char* path, hid_t access) {
  H5FD_t* const file = H5FDopen(path, H5F_ACC_RDONLY, access, HADDR_UNDEF);
  if (file == nullptr) return -1;
  sec2 = *file->cls;
  static H5FD_class_t driver = sec2;
  driver.name = "sec2 without accumulator";
  driver.query = query;
  driver.open = open_redirected;
  driver.close = close_redirected;
  driver.read = read_redirected;
  H5FDclose(file);
  return H5FDregister(&driver);
}

/// Makes the library read files by its own driver (sec2) but without its metadata accumulator, which crashes on damaged
/// addresses because it computes with them before they are compared with the file's size (1.10.8, H5F__accum_read).
/// Where a Redirection says so, the bytes are read elsewhere.
/// \param path any file that can be opened: its driver is copied and modified
void read_without_accumulator(const Handle& access, const char* path) {
  static const hid_t driver = register_driver(path, access.get());
  if (driver >= 0) H5Pset_driver(access.get(), driver, nullptr);
}

std::string reason_in_brackets() {
  const std::string reason = innermost_reason();
  return reason.empty() ? "" : fmt::format(" (HDF5: {})", reason);
}

/// \throws DataError if there is no such file, or it cannot be read
void check_readable(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataError(fmt::format("{}: there is no such file; check the path", path));
  }
  if (std::filesystem::is_directory(path, error)) {
    throw DataError(fmt::format("{}: this is a folder; name an HDF5 file in it", path));
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    throw DataError(fmt::format("{}: this is a pipe or a device, but must be an HDF5 file on the disk", path));
  }
  if (access(path.c_str(), R_OK) != 0) {
    throw DataError(fmt::format("{}: cannot be read: {}; check its permissions", path, std::strerror(errno)));
  }
}

/// Whether HDF5's signature is where a superblock may begin: at byte 0, 512, 1024, 2048, …
bool has_signature(const std::string& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  const RawFile file(path, RawFile::Mode::read);
  const std::uint64_t size = file.size();
  std::array<char, kSignature.size()> found{};
  for (std::uint64_t at = 0; at + found.size() <= size; at = at == 0 ? 512 : 2 * at) {
    file.read(at, std::as_writable_bytes(std::span(found)));
    if (std::string_view(found.data(), found.size()) == kSignature) return true;
  }
  return false;
}

/// Locks the file if the file system supports locks; some parallel ones do not.
Handle access_properties() {
  Handle properties{H5Pcreate(H5P_FILE_ACCESS), H5Pclose};
  H5Pset_file_locking(properties.get(), true, true);
  H5Pset_fclose_degree(properties.get(), H5F_CLOSE_STRONG);
  return properties;
}

/// \throws DataError if the file is so damaged that the library would crash
void require_structure(const std::string& path) {
  try {
    check_structure(path);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}; make the file again", path, error.what()));
  }
}

Handle open_existing(const std::string& path, unsigned flags) {
  check_readable(path);
  if (!has_signature(path)) {
    throw DataError(
        fmt::format("{}: this is not an HDF5 file; 'unisono data import' makes one from other formats", path));
  }
  const Handle properties = access_properties();  // outlives the message below: every call clears the last one
  if (flags == H5F_ACC_RDONLY) {
    read_without_accumulator(properties, path.c_str());
    require_structure(path);
  }
  Handle file{H5Fopen(path.c_str(), flags, properties.get()), H5Fclose};
  if (!file.valid()) {
    rethrow_failure_elsewhere();
    throw DataError(fmt::format("{}: cannot be opened{}; the file may be damaged or still being written", path,
                                reason_in_brackets()));
  }
  return file;
}

Handle create_file(const std::string& path) {
  const Handle properties = access_properties();
  Handle file{H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, properties.get()), H5Fclose};
  if (!file.valid()) {
    throw OutputError(fmt::format("{}: cannot be created{}; check that its folder exists and can be written", path,
                                  reason_in_brackets()));
  }
  return file;
}

/// Nothing where the file has no descriptor.
std::optional<Version> version_of(hid_t file) {
  void* descriptor = nullptr;
  struct stat state {};
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0 || descriptor == nullptr) return std::nullopt;
  if (fstat(*static_cast<int*>(descriptor), &state) != 0) return std::nullopt;
  return Version{state.st_size, state.st_mtim.tv_sec, state.st_mtim.tv_nsec};
}

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

void File::State::fail_read(const std::string& object, const std::string& what) const {
  rethrow_failure_elsewhere();
  throw DataError(fmt::format("{}: /{} {}{}", path, object, what, reason_in_brackets()));
}

void File::State::fail_write(const std::string& object, const std::string& what) const {
  throw OutputError(fmt::format("{}: /{} {}{}", path, object, what, reason_in_brackets()));
}

void File::State::check_unchanged(const std::string& object) const {
  if (!version || version_of(file.get()) == version) return;
  fail_read(object, "changed while it was being read; do not modify a data set that is in use");
}

RawFile File::State::raw(hid_t holder) const {
  void *descriptor = nullptr, *own = nullptr;
  if (!version) H5Fflush(holder, H5F_SCOPE_LOCAL);
  if (H5Fget_vfd_handle(holder, H5P_DEFAULT, &descriptor) < 0 || descriptor == nullptr)
    fail_read("", "cannot be read as plain bytes");
  if (version && H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &own) >= 0 && own == descriptor)
    return {path, RawFile::Mode::read};
  return {path, *static_cast<int*>(descriptor)};
}

bool File::State::exists(const std::string& object) const {
  for (std::size_t end = 0; end != std::string::npos && !object.empty();) {
    end = object.find('/', end + 1);  // H5Lexists demands that all groups above exist
    if (H5Lexists(file.get(), object.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

Handle File::State::open_object(const std::string& object) const {
  if (!exists(object)) fail_read(object, "does not exist");
  Handle handle{H5Oopen(file.get(), name_in_file(object), H5P_DEFAULT), H5Oclose};
  if (!handle.valid()) fail_read(object, "cannot be opened");
  return handle;
}

Handle File::State::open_dataset(const std::string& dataset) const {
  Handle handle = open_object(dataset);
  if (H5Iget_type(handle.get()) != H5I_DATASET) fail_read(dataset, "is not a dataset");
  return handle;
}

File::File(const std::string& path, Mode mode) : state_(std::make_unique<State>()) {
  const LibraryLock lock;
  state_->path = path;
  state_->file = mode == Mode::create ? create_file(path)
                                      : open_existing(path, mode == Mode::read ? H5F_ACC_RDONLY : H5F_ACC_RDWR);
  if (mode == Mode::read) state_->version = version_of(state_->file.get());
}

File::~File() {
  const LibraryLock lock;
  state_.reset();
}

File::File(File&&) noexcept = default;

File& File::operator=(File&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

const std::string& File::path() const { return state_->path; }

bool File::exists(const std::string& object) const {
  const LibraryLock lock;
  if (!state_->parts.empty())
    return std::ranges::any_of(state_->parts, [&](const File& p) { return p.exists(object); });
  return state_->exists(object);
}

std::vector<std::string> File::children(const std::string& group) const {
  const LibraryLock lock;
  if (!state_->parts.empty()) return state_->children_of_parts(group);
  const Handle handle = state_->open_object(group);
  std::vector<std::string> names;
  const auto add_name = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  if (H5Literate(handle.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names) < 0) {
    state_->fail_read(group, "cannot be listed");
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool File::is_dataset(const std::string& object) const {
  const LibraryLock lock;
  if (!state_->parts.empty()) return state_->holder_of(object).is_dataset(object);
  return H5Iget_type(state_->open_object(object).get()) == H5I_DATASET;
}

std::vector<std::string> File::datasets() const {
  const LibraryLock lock;
  if (!state_->parts.empty()) return state_->parts.front().datasets();
  std::vector<std::string> paths;
  const auto add_path = [](hid_t root, const char* name, const H5L_info_t* link, void* list) -> herr_t {
    constexpr std::size_t kMost = 1000;
    if (link->type != H5L_TYPE_HARD) return 0;
    auto& found = *static_cast<std::vector<std::string>*>(list);
    const Handle object{H5Oopen(root, name, H5P_DEFAULT), H5Oclose};
    if (object.valid() && H5Iget_type(object.get()) == H5I_DATASET) found.push_back(fmt::format("/{}", name));
    return found.size() == kMost ? 1 : 0;
  };
  if (H5Lvisit(state_->file.get(), H5_INDEX_NAME, H5_ITER_INC, add_path, &paths) < 0)
    state_->fail_read("", "cannot be listed");
  return paths;
}

void File::create_group(const std::string& group) {
  const LibraryLock lock;
  const Handle parents = make_parents();
  const Handle handle{H5Gcreate2(state_->file.get(), group.c_str(), parents.get(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose};
  if (!handle.valid()) state_->fail_write(group, "cannot be created");
}

void File::flush() {
  const LibraryLock lock;
  if (H5Fflush(state_->file.get(), H5F_SCOPE_LOCAL) < 0) state_->fail_write("", "cannot be written");
}

bool is_hdf5(const std::string& path) {
  check_readable(path);
  return has_signature(path);
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  if (!state_->parts.empty()) return state_->holder_of(object).has_attribute(object, name);
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
  if (!state_->parts.empty()) return state_->holder_of(object).read_attribute<T>(object, name);
  const Handle handle = state_->open_object(object);
  if (H5Aexists(handle.get(), name.c_str()) <= 0) state_->fail_read(object, fmt::format("has no attribute '{}'", name));
  const Handle attribute{H5Aopen(handle.get(), name.c_str(), H5P_DEFAULT), H5Aclose};
  bool failed = !attribute.valid();
  const Handle holder{H5Iget_file_id(attribute.get()), H5Fclose};
  const ReadTexts texts = [&](hid_t stored, std::uint64_t count) {
    const auto read = [&](hid_t type, void* to) { return H5Aread(attribute.get(), type, to) >= 0; };
    const std::string what = fmt::format("attribute '{}' ", name);
    return state_->read_texts(
        {.object = object, .what = what, .stored = stored, .holder = holder.get(), .count = count, .read = read});
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
