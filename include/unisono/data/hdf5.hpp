#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::data::hdf5 {

/// The type of a dataset's values. `other`: types that nothing here reads (compounds, booleans, bfloat16, …).
enum class Type { uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, float32, float64, text, other };
std::string_view name_of(Type type);
bool is_integer(Type type);
bool is_number(Type type);
/// Bytes of one value; 0 for text and other.
std::size_t size_of(Type type);

/// The bits of an IEEE binary16 number.
struct Half {
  std::uint16_t bits = 0;
};

/// Shape, chunking and type of a dataset.
struct DatasetShape {
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> chunk;  ///< empty: contiguous
  Type type = Type::other;
  bool compressed = false;
  /// Whether the dataset was written as a whole; false: what was not would be read as HDF5's fill value.
  bool complete = true;

  std::uint64_t rows() const { return extent.empty() ? 0 : extent[0]; }
  std::uint64_t row_size() const;  ///< values of one row: the product of all extents but the first
};

/// Something in an HDF5 file that leads to another file: an external link, or a dataset with external raw storage or
/// virtual values.
struct ExternalReference {
  std::string object;               ///< the path of the link or dataset in the file that holds it
  std::string name;                 ///< name of the other file, as it is stored
  std::vector<std::string> places;  ///< where HDF5 looks for the other file, in this order
  bool is_hdf5 = true;              ///< whether the other file is an HDF5 file; false: raw bytes
};

/// An HDF5 file, closed by its destructor. The library is not thread-safe: every call takes one process-wide mutex.
/// Paths name groups from the root: "train/features". All functions throw DataError if something cannot be read or is
/// not as it should be, and OutputError if it cannot be written; messages give file, path and HDF5's own reason.
class File {
 public:
  /// create: makes or truncates; update: reads and writes a file that exists
  enum class Mode { read, create, update };
  File(const std::string& path, Mode mode);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  /// Several files as one, for reading. Datasets and lists in the groups of the names `groups` have the rows of all
  /// files that have them, one file after the other; of all else, the first file that has it counts. What does not fit
  /// together is for the caller to find.
  /// \param path what messages call it \param parts opened for reading, at least one
  static File join(std::string path, std::vector<File> parts, std::vector<std::string> groups);

  const std::string& path() const;
  /// The files that were joined; empty for a single file.
  std::span<const File> parts() const;
  /// Whether there is a group or dataset with a path; false where a group above it is missing.
  bool exists(const std::string& object) const;
  /// All objects that lead to other files.
  std::vector<ExternalReference> external_references() const;
  /// Checks that no object leads to another file.
  /// \throws DataError "PATH: /OBJECT refers to the file 'NAME', which is not read: WHY" if there is one
  void require_own_values(const std::string& why) const;
  /// Names of what a group holds, in alphabetical order; "" is the root.
  std::vector<std::string> children(const std::string& group) const;
  bool is_dataset(const std::string& object) const;
  /// Paths of the file's datasets: "/images/train". Of very many, the first ones.
  std::vector<std::string> datasets() const;
  DatasetShape shape(const std::string& dataset) const;
  /// Bytes from the file's start to the first value of a contiguous dataset, whose values follow in row-major order; 0
  /// if it has no values.
  /// \pre the file is a single one
  std::uint64_t offset(const std::string& dataset) const;

  /// Rows [first, first + count) along the first axis, converted by HDF5 to T (uint8_t, uint16_t, uint32_t, int32_t,
  /// int64_t, uint64_t, Half, float, double). \param values count × row_size() values, overwritten
  template <typename T>
  void read_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, T* values) const;
  /// A whole dataset, flat.
  template <typename T>
  std::vector<T> read(const std::string& dataset) const;

  /// How many strings a list has. A list is a one-dimensional dataset of strings, of variable or fixed length, or a
  /// group made by `write_names`.
  std::uint64_t count_strings(const std::string& list) const;
  /// Strings [first, first + count) of a list.
  std::vector<std::string> read_strings(const std::string& list, std::uint64_t first, std::uint64_t count) const;
  /// All strings of a list; checks their hash if there is one.
  std::vector<std::string> read_strings(const std::string& list) const;

  /// Makes an empty group (and the groups above it).
  void create_group(const std::string& group);
  /// Makes a dataset (and the groups above it). \param chunk_rows 0: contiguous. \param compression 0 to 9 (gzip;
  /// chunked only)
  template <typename T>
  void create(const std::string& dataset, const std::vector<std::uint64_t>& extent, std::uint64_t chunk_rows = 0,
              int compression = 0);
  /// Makes a contiguous dataset whose values will be written directly into the file after HDF5 has closed it.
  /// \return the offset() of the dataset
  template <typename T>
  std::uint64_t reserve(const std::string& dataset, const std::vector<std::uint64_t>& extent);
  template <typename T>
  void write_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, const T* values);
  /// Makes a one-dimensional, contiguous dataset and writes it.
  template <typename T>
  void write(const std::string& dataset, const std::vector<T>& values);
  /// Makes a group `list` with the strings as plain numbers: 'bytes' (uint8), concatenated, and 'offsets' (uint64),
  /// where each begins and the last ends; the group's attribute 'xxh3' is the hash of both.
  void write_names(const std::string& list, const std::vector<std::string>& values);
  /// Writes a one-dimensional dataset of UTF-8 strings of variable length, for other programs to read. The strings must
  /// not hold zero bytes.
  void write_strings(const std::string& dataset, const std::vector<std::string>& values);

  /// Writes or overwrites an attribute of a dataset or group; "" is the root. T: std::int64_t, double, std::string,
  /// std::vector<std::string>.
  template <typename T>
  void write_attribute(const std::string& object, const std::string& name, const T& value);
  /// Reads an attribute of a dataset or group. Any integer is read as std::int64_t, any number as double, if the
  /// attribute is a scalar or has one element.
  template <typename T>
  T read_attribute(const std::string& object, const std::string& name) const;
  bool has_attribute(const std::string& object, const std::string& name) const;

  /// Flushes everything to the operating system. Call it before destruction, because the destructor ignores errors.
  void flush();

 private:
  struct State;
  File();
  void check_stored(const std::string& dataset) const;
  std::vector<std::string> read_names(const std::string& list, std::uint64_t first, std::uint64_t count) const;

  std::unique_ptr<State> state_;
};

/// Whether a file has HDF5's signature. \throws DataError if it cannot be read
bool is_hdf5(const std::string& path);

}  // namespace unisono::data::hdf5
