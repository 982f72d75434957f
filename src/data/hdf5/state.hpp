#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hdf5/library.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data::hdf5 {

/// A memory type for reading strings of variable length as the stored references, HeapReference::kBytes each, without
/// following them into the heap. Reading as this type fails if addresses do not have 8 bytes.
Handle reference_type();

/// How to read the strings of a dataset or an attribute, of variable or fixed length.
struct Texts {
  std::string object;  ///< path of the dataset or the attribute's object, for messages
  std::string what;    ///< "", or "attribute 'NAME' "
  hid_t stored;        ///< their type in the file
  hid_t holder;        ///< the file that holds them: not this one where a link leads to another
  std::uint64_t count;
  std::function<bool(hid_t type, void* to)> read;  ///< reads all of them as this type; false: the library failed
};

/// Shows whether a file has been written to.
struct Version {
  std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;  ///< its size; its last change
  bool operator==(const Version&) const = default;
};

/// Limit of bytes in memory per byte of the file: deflate cannot compress more.
inline constexpr std::uint64_t kMostInflated = 1100;

/// How the rows of a dataset or a list of strings are divided among joined files.
struct JoinedRows {
  std::vector<std::uint64_t> begins;  ///< [files + 1]
  std::uint64_t row_size = 1;         ///< values of a row
};

/// Rows [first, first + count) of one of several joined files.
struct PartOfRows {
  const File& file;
  std::uint64_t first, count;
  std::uint64_t before;  ///< rows of other files before them
};

struct File::State {
  std::string path;
  Handle file;
  std::optional<Version> version;         ///< of a read-only file, when it was opened
  mutable std::set<std::string> checked;  ///< read-only: datasets that were found complete

  // Of joined files, which have no `file`.
  std::vector<File> parts;
  std::vector<std::string> joined_groups;
  mutable std::map<std::string, JoinedRows> joined_rows;  ///< by the object's path

  /// The first of the joined files that has an object; without one the first of all.
  const File& holder_of(const std::string& object) const;
  /// The names of what a group has in any of the joined files. \throws DataError where none has the group
  std::vector<std::string> children_of_parts(const std::string& group) const;
  /// The shape of a dataset with the rows of all files, in the type and chunks of the first one.
  DatasetShape shape_of_parts(const std::string& dataset) const;
  /// How the rows of a dataset or a list of strings are divided among the files.
  const JoinedRows& rows_of_parts(const std::string& object) const;
  /// Calls visit for the files that have rows [first, first + count) of a dataset or a list of strings.
  /// \throws DataError if there are fewer rows
  void visit_parts(const std::string& object, std::uint64_t first, std::uint64_t count,
                   const std::function<void(const PartOfRows&)>& visit) const;

  /// \throws DataError "PATH: /OBJECT WHAT (HDF5: REASON)"
  [[noreturn]] void fail_read(const std::string& object, const std::string& what) const;
  /// \throws OutputError, likewise
  [[noreturn]] void fail_write(const std::string& object, const std::string& what) const;

  /// \throws DataError if the file was written to since it was opened: HDF5 would return zeros for truncated parts
  void check_unchanged(const std::string& object) const;
  /// \throws DataError if a dataset of a read-only file claims more values than the file can hold
  void check_extent(const std::string& dataset, hid_t handle) const;
  /// \throws DataError if values of a dataset are in other files, and these are missing or too small
  void check_sources(const std::string& dataset, hid_t handle) const;
  /// Bytes of the file that holds an object: of this one when it was opened, or of another one to which a link leads.
  std::uint64_t bytes_of_holder(hid_t object) const;
  /// This file, or one to which a link leads, as plain bytes, after flushing everything that was written.
  RawFile raw(hid_t holder) const;
  /// \throws DataError if a location in the file does not hold what it should
  std::vector<std::string> read_texts(const Texts& texts) const;
  bool exists(const std::string& object) const;
  Handle open_object(const std::string& object) const;
  Handle open_dataset(const std::string& dataset) const;
  void create_dataset(const std::string& dataset, const std::vector<hsize_t>& extent, const Handle& type,
                      const Handle& properties) const;

 private:
  std::vector<std::string> follow(const Texts& texts, std::span<const std::byte> references,
                                  const RawFile& bytes_of_file) const;
};

/// "" is the root's own name, which the library calls "/".
inline const char* name_in_file(const std::string& object) { return object.empty() ? "/" : object.c_str(); }

}  // namespace unisono::data::hdf5
