#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hdf5/handle.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::hdf5 {

/// What shows that a file was written to.
struct Version {
  std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;  ///< its size; its last change
  bool operator==(const Version&) const = default;
};

struct File::State {
  std::string path;
  Handle file;
  std::optional<Version> version;  ///< of a file that is only read, as it was opened

  /// \throws DataError "PATH: /OBJECT WHAT (HDF5: REASON)"
  [[noreturn]] void fail_read(const std::string& object, const std::string& what) const;
  /// \throws OutputError, likewise
  [[noreturn]] void fail_write(const std::string& object, const std::string& what) const;

  /// \throws DataError where the file was written to since it was opened: HDF5 would give zeros for what was cut off
  void check_unchanged(const std::string& object) const;
  bool exists(const std::string& object) const;
  Handle open_object(const std::string& object) const;
  Handle open_dataset(const std::string& dataset) const;
  void create_dataset(const std::string& dataset, const std::vector<hsize_t>& extent, const Handle& type,
                      const Handle& properties) const;
};

/// "" is the root's own name, which the library calls "/".
inline const char* name_in_file(const std::string& object) { return object.empty() ? "/" : object.c_str(); }

}  // namespace unisono::hdf5
