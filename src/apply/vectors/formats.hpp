#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/new_file.hpp"
#include "unisono/tensor/allocator.hpp"

// The formats that vectors are exported in.
namespace unisono::apply {

/// Named vectors to be exported.
struct NamedVectors {
  const std::vector<std::string>& names;
  Index width = 0;
  std::function<void(Index row, MutableView vector)> read;  ///< writes a row to `vector` [width]
};

/// word2vec's text format: a line "ROWS WIDTH", then a line per vector: name and numbers, separated by blanks.
/// \throws DataError for a name that holds a blank
void write_word2vec_text(const NamedVectors& rows, NewFile& file);
/// word2vec's binary format: "ROWS WIDTH\n", then for each vector name, blank, WIDTH floats, "\n". \throws as above
void write_word2vec_binary(const NamedVectors& rows, NewFile& file);
/// NumPy's .npy, version 1.0: float32 [ROWS, WIDTH], little-endian, row-major.
void write_npy(const NamedVectors& rows, NewFile& file);
/// CSV: "name,x0,x1,…", then a line per vector.
void write_csv(const NamedVectors& rows, NewFile& file);
/// The names, one per line. \throws DataError for a name that contains a line break
void write_names(const std::vector<std::string>& names, NewFile& file);

/// Writes NumPy's .npz: an uncompressed zip archive with one .npy file per array, up to 4 GiB.
class NpzWriter {
 public:
  explicit NpzWriter(NewFile& file) : file_(file) {}

  /// Adds NAME.npy: float32, row-major. \throws OutputError where the archive would grow beyond 4 GiB
  void add(const std::string& name, const std::vector<Index>& shape, View values);
  /// Writes the archive's directory; `add` must not be called afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0, size = 0, offset = 0;
  };
  void write(const std::string& bytes);

  NewFile& file_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
};

/// The beginning of an .npy file of float32: magic, version 1.0 and header, padded to a multiple of 64 bytes.
std::string npy_header(const std::vector<Index>& shape);

}  // namespace unisono::apply
