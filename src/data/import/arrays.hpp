#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "import/rows.hpp"

// Arrays of numbers in the files of other programs, as importers read them: from the first value to the last one.
namespace unisono::data {

/// What is known of an array before its values are read.
struct ArrayForm {
  std::vector<std::int64_t> extent;
  bool bytes = false;             ///< whether values are unsigned bytes
  bool fits_float = false;        ///< whether a float32 holds any value of its type exactly
  std::int64_t rows_at_once = 1;  ///< rows along the first axis that are best read together
  bool operator==(const ArrayForm&) const = default;
};

class ArrayReader {
 public:
  virtual ~ArrayReader() = default;
  virtual const ArrayForm& form() const = 0;
  /// What stands before messages: "x.npy", "x.h5: /images".
  virtual const std::string& name() const = 0;
  /// The next values, in row-major order: a whole number of rows along the first axis.
  /// \throws DataError where they are not there or damaged
  virtual void read(std::span<double> values) = 0;
  /// Called after the last value. \throws DataError where something follows, or a checksum does not match
  virtual void finish() {}
};

/// Opens an array at its first value, as often as asked for.
using OpenArray = std::function<std::unique_ptr<ArrayReader>()>;

/// A type of number of NumPy.
struct NpyType {
  std::string_view name;  ///< kind and size, as NumPy writes them
  std::size_t size;       ///< bytes
  void (*read)(const std::uint8_t* bytes, std::span<double> values);
};

/// The header of a .npy file.
struct NpyHeader {
  std::string described;          ///< the type, as NumPy writes it: "<f4"
  const NpyType* type = nullptr;  ///< null: a type of something else than such numbers
  bool most_significant_first = false, first_axis_fastest = false;
  std::vector<std::int64_t> extent;
  std::uint64_t values = 0;
  std::uint64_t header_bytes = 0, bytes = 0;  ///< of all that stands before the values; of the values
};

/// Reads a header. \param file_bytes how long the source is, where that is known \throws DataError where it is none, or
/// does not fit that length
NpyHeader read_npy_header(ByteSource& source, std::optional<std::uint64_t> file_bytes);

/// An array in NumPy's format, versions 1 to 3 (numpy.lib.format). Memory: some values; the whole array where the first
/// axis runs fastest (Fortran's order).
class NpyReader final : public ArrayReader {
 public:
  /// \param file_bytes how long the source is, where that is known \throws DataError for anything but an array of
  /// numbers
  NpyReader(std::unique_ptr<ByteSource> source, std::optional<std::uint64_t> file_bytes);

  const ArrayForm& form() const override { return form_; }
  const std::string& name() const override { return source_->name(); }
  void read(std::span<double> values) override;
  void finish() override;

 private:
  void take_bytes(std::span<std::uint8_t> bytes);
  void take_all();
  void gather(std::span<double> values);

  std::unique_ptr<ByteSource> source_;
  NpyHeader header_;
  ArrayForm form_;
  std::vector<std::uint8_t> bytes_;
  // Where the first axis runs fastest.
  std::vector<std::size_t> step_, index_;  ///< of each axis: values from one place to the next; of the next value
  std::size_t at_ = 0;                     ///< where the next value stands
};

std::unique_ptr<ArrayReader> open_npy(const std::string& path);

/// An array of a zip file of NumPy's. \throws ConfigError where there is none of this name; DataError for a file that
/// is no such archive, or an entry that cannot be read
std::unique_ptr<ArrayReader> open_npz(const std::string& path, const std::string& array);

/// A dataset of an HDF5 file of any layout. \throws ConfigError where there is none; DataError where it holds no plain
/// numbers
std::unique_ptr<ArrayReader> open_hdf5_array(const std::string& path, const std::string& dataset);

/// An entry of a zip file.
struct ArchiveEntry {
  std::string name;
  std::uint64_t bytes = 0;  ///< unpacked
  std::uint64_t place = 0;  ///< where the archive's directory describes it
};

/// The entries of a zip file. \throws DataError where it is none, has an entry twice, or this build has no minizip
std::vector<ArchiveEntry> list_archive(const std::string& path);

/// The bytes of an entry. Whoever reads beyond its end checks it. \throws DataError where it is encrypted, or packed in
/// another way than with deflate
std::unique_ptr<ByteSource> open_entry(const std::string& path, const ArchiveEntry& entry);

}  // namespace unisono::data
