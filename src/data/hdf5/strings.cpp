#include <algorithm>

#include "hdf5/library_text.hpp"
#include "hdf5/selection.hpp"
#include "hdf5/state.hpp"
#include "hdf5/types.hpp"

namespace unisono::hdf5 {
namespace {

constexpr std::uint64_t kStringsAtATime = 1 << 16;

std::vector<std::string> read_variable(hid_t dataset, hid_t stored, const RowSelection& rows, std::uint64_t count,
                                       bool& failed) {
  LibraryText text(count);
  const Handle type = text_type(H5Tget_cset(stored));
  failed = H5Dread(dataset, type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, text.pointers.data()) < 0;
  return text.strings();
}

/// Strings of fixed length, which end at a zero byte or are full; those of Fortran are filled up with blanks.
std::vector<std::string> read_fixed(hid_t dataset, hid_t stored, const RowSelection& rows, std::uint64_t count,
                                    bool& failed) {
  std::string text(H5Tget_size(stored) * count, '\0');
  failed = H5Dread(dataset, stored, rows.memory.get(), rows.file.get(), H5P_DEFAULT, text.data()) < 0;
  std::vector<std::string> values = cut_fixed(text, H5Tget_size(stored));
  if (H5Tget_strpad(stored) != H5T_STR_SPACEPAD) return values;
  for (std::string& value : values) value.erase(value.find_last_not_of(' ') + 1);
  return values;
}

}  // namespace

std::vector<std::string> File::read_strings(const std::string& dataset, std::uint64_t first,
                                            std::uint64_t count) const {
  const LibraryLock lock;
  const Handle handle = state_->open_dataset(dataset);
  const Handle stored{H5Dget_type(handle.get()), H5Tclose};
  const std::vector<hsize_t> extent = extent_of(handle.get());
  if (H5Tget_class(stored.get()) != H5T_STRING || extent.size() != 1)
    state_->fail_read(dataset, "is no list of strings");
  if (const auto wrong = outside(extent, first, count); !wrong.empty()) state_->fail_read(dataset, wrong);
  if (count == 0) return {};
  const RowSelection rows = select_rows(handle.get(), extent, first, count);
  bool failed = false;
  std::vector<std::string> values = H5Tis_variable_str(stored.get()) > 0
                                        ? read_variable(handle.get(), stored.get(), rows, count, failed)
                                        : read_fixed(handle.get(), stored.get(), rows, count, failed);
  if (failed) state_->fail_read(dataset, "cannot be read; the file may be damaged");
  state_->check_unchanged(dataset);
  return values;
}

std::vector<std::string> File::read_strings(const std::string& dataset) const {
  const LibraryLock lock;
  return read_strings(dataset, 0, shape(dataset).rows());
}

void File::write_strings(const std::string& dataset, const std::vector<std::string>& values) {
  const LibraryLock lock;
  const hsize_t size = values.size();
  const Handle space{H5Screate_simple(1, &size, nullptr), H5Sclose};
  const Handle type = text_type(), parents = make_parents();
  const Handle handle{
      H5Dcreate2(state_->file.get(), dataset.c_str(), type.get(), space.get(), parents.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose};
  if (!handle.valid()) state_->fail_write(dataset, "cannot be created");
  for (std::uint64_t first = 0; first < size; first += kStringsAtATime) {
    std::vector<const char*> texts;
    for (std::uint64_t i = first; i < std::min<std::uint64_t>(size, first + kStringsAtATime); ++i)
      texts.push_back(values[i].c_str());
    const RowSelection rows = select_rows(handle.get(), {size}, first, texts.size());
    if (H5Dwrite(handle.get(), type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, texts.data()) < 0)
      state_->fail_write(dataset, "cannot be written; is the disk full?");
  }
}

}  // namespace unisono::hdf5
