#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/rows.hpp"
#include "import/spill.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// One line of LIBSVM's text.
struct LibsvmRow {
  double label = 0;
  std::vector<std::uint32_t> indices;  ///< as they are written, ascending
  std::vector<float> values;           ///< beside them
  /// Bytes of the line, from 1, where the label, the first index and the last one begin.
  std::size_t label_at = 0, first_at = 0, last_at = 0;
  std::int64_t line = 0;  ///< of the file, from 1; 0: it was set aside
};

/// \param line where the text is, for messages \return false for a line that is nothing but a comment
/// \throws DataError naming line and byte of what is wrong
bool parse_libsvm(const LineReader& line, std::string_view text, LibsvmRow& row);

inline constexpr std::int64_t kMostColumns = std::numeric_limits<std::uint32_t>::max();  // of a set of sparse rows

/// Examples that are set aside on the disk.
class SpilledExamples {
 public:
  explicit SpilledExamples(const std::string& beside) : file_(beside) {}
  void add(const LibsvmRow& row);
  void for_each(const std::function<void(std::int64_t number, const LibsvmRow& row)>& visit);
  std::int64_t size() const { return size_; }

 private:
  SpillFile file_;
  std::int64_t size_ = 0;
};

/// What the files show together.
struct LibsvmFindings {
  bool zero_index = false;       ///< the index 0 occurs
  bool all_ones = true;          ///< every value is 1
  std::uint32_t largest = 0;     ///< of the indices
  std::string largest_at = {};   ///< FILE:LINE:BYTE
  bool whole_labels = true;      ///< every label is a whole number
  bool too_many_labels = false;  ///< to be classes unasked: not all are in `labels`
  double lowest_label = 0, highest_label = 0;
  double label_rounding = -1;             ///< the largest difference of a label from a float32; −1: none yet
  std::map<double, std::int32_t> labels;  ///< the training files', and the class that each is
};

/// Reads a file's examples. \param classes of the test file: those that there are; null for training files, which make
/// them \throws DataError naming line and byte of what is wrong
void read_libsvm(LineReader& lines, const LibsvmOptions& options, LibsvmFindings& found,
                 const std::map<double, std::int32_t>* classes, const std::function<void(const LibsvmRow& row)>& keep);

/// Numbers the classes in the order of their labels. \return them, or nothing where the labels are targets
/// \throws ConfigError where there are so many that the options must say what they are
std::map<double, std::int32_t> decide_classes(const LibsvmFindings& found, const LibsvmOptions& options,
                                              const std::string& path);

/// Which index the first column has.
std::int64_t decide_base(const LibsvmFindings& found, const LibsvmOptions& options);

/// \throws DataError where an index is beyond the columns that were asked for
std::int64_t decide_columns(const LibsvmFindings& found, const LibsvmOptions& options, const std::string& path);

}  // namespace unisono::data
