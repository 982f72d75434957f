#include <algorithm>

#include "hdf5/selection.hpp"
#include "hdf5/state.hpp"
#include "hdf5/types.hpp"

namespace unisono::data::hdf5 {
namespace {

constexpr std::uint64_t kStringsAtATime = 1 << 16;

}  // namespace

std::vector<std::string> File::read_strings(const std::string& dataset, std::uint64_t first,
                                            std::uint64_t count) const {
  const LibraryLock lock;
  if (!is_dataset(dataset)) return read_names(dataset, first, count);
  const Handle handle = state_->open_dataset(dataset);
  const Handle stored{H5Dget_type(handle.get()), H5Tclose};
  const std::vector<hsize_t> extent = extent_of(handle.get());
  if (H5Tget_class(stored.get()) != H5T_STRING || extent.size() != 1)
    state_->fail_read(dataset, "is not a list of strings");
  check_stored(dataset);
  if (const auto wrong = outside(extent, first, count); !wrong.empty()) state_->fail_read(dataset, wrong);
  if (count == 0) return {};
  const RowSelection rows = select_rows(handle.get(), extent, first, count);
  const auto read = [&](hid_t type, void* to) {
    return H5Dread(handle.get(), type, rows.memory.get(), rows.file.get(), H5P_DEFAULT, to) >= 0;
  };
  auto values =
      state_->read_texts({.object = dataset, .what = "", .stored = stored.get(), .count = count, .read = read});
  state_->check_unchanged(dataset);
  return values;
}

std::vector<std::string> File::read_strings(const std::string& dataset) const {
  const LibraryLock lock;
  return read_strings(dataset, 0, count_strings(dataset));
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

}  // namespace unisono::data::hdf5
