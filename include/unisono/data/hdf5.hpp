#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::hdf5 {

enum class Type { uint8, int32, int64, uint64, float16, float32, float64, text, other };

struct DatasetShape {
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> chunk;  ///< empty: contiguous
  Type type = Type::other;
};

/// An HDF5 file, closed by its destructor. The library is not thread-safe: every call takes one process-wide mutex.
/// Paths name groups from the root: "train/features". All throw DataError with file, path and HDF5's own reason.
class File {
 public:
  enum class Mode { read, create, update };
  File(const std::string& path, Mode mode);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  const std::string& path() const;
  bool exists(const std::string& object) const;
  std::vector<std::string> children(const std::string& group) const;
  DatasetShape shape(const std::string& dataset) const;

  /// Rows [first, first + count) along the first axis, converted by HDF5 to T (uint8_t, int32_t, int64_t, uint64_t,
  /// float, double).
  template <typename T>
  void read_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, T* values) const;
  /// Makes a dataset (and the groups above it). \param chunk_rows 0: contiguous
  template <typename T>
  void create(const std::string& dataset, const std::vector<std::uint64_t>& extent, std::uint64_t chunk_rows = 0,
              int compression = 0);
  template <typename T>
  void write_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, const T* values);

  template <typename T>  // std::int64_t, double, std::string
  void write_attribute(const std::string& object, const std::string& name, const T& value);
  template <typename T>
  T read_attribute(const std::string& object, const std::string& name) const;
  bool has_attribute(const std::string& object, const std::string& name) const;

  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono::hdf5
