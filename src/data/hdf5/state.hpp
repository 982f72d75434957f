#pragma once

#include <string>

#include "hdf5/handle.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::hdf5 {

struct File::State {
  std::string path;
  Handle file;

  /// \throws DataError "PATH: /OBJECT WHAT (HDF5: REASON)"
  [[noreturn]] void fail_read(const std::string& object, const std::string& what) const;
  /// \throws OutputError, likewise
  [[noreturn]] void fail_write(const std::string& object, const std::string& what) const;

  bool exists(const std::string& object) const;
  Handle open_object(const std::string& object) const;
  Handle open_dataset(const std::string& dataset) const;
};

/// "" is the root's own name, which the library calls "/".
inline const char* name_in_file(const std::string& object) { return object.empty() ? "/" : object.c_str(); }

}  // namespace unisono::hdf5
