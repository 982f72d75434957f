#include "hdf5/handle.hpp"

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

}  // namespace unisono::data::hdf5
