#include <fmt/format.h>

#include <algorithm>

#include "import/arrays.hpp"
#include "recipe/encoder.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

[[noreturn]] void fail_without_array(const std::string& path, const std::string& wanted,
                                     const std::vector<std::string>& there) {
  const std::string nearest = nearest_name(wanted, there);
  throw ConfigError(fmt::format("{}: holds no array '{}'; {}{}", path, wanted,
                                there.empty() ? "it holds none" : fmt::format("it holds {}", listed(there)),
                                nearest.empty() ? "" : fmt::format("; is it '{}'?", nearest)));
}

class Hdf5Array final : public ArrayReader {
 public:
  Hdf5Array(const std::string& path, const std::string& dataset)
      : file_(path, hdf5::File::Mode::read),
        dataset_(dataset.substr(std::min(dataset.find_first_not_of('/'), dataset.size()))),
        name_(fmt::format("{}: /{}", path, dataset_)) {
    file_.require_own_values("copy its values into this file");
    if (dataset_.empty() || !file_.exists(dataset_) || !file_.is_dataset(dataset_))
      fail_without_array(path, dataset, file_.datasets());
    shape_ = file_.shape(dataset_);
    check();
    form_.extent.assign(shape_.extent.begin(), shape_.extent.end());
    form_.bytes = shape_.type == hdf5::Type::uint8;
    form_.fits_float = hdf5::size_of(shape_.type) <= 2 || shape_.type == hdf5::Type::float32;
    if (!shape_.chunk.empty()) form_.rows_at_once = static_cast<std::int64_t>(shape_.chunk[0]);
  }

  const ArrayForm& form() const override { return form_; }
  const std::string& name() const override { return name_; }

  void read(std::span<double> values) override {
    const std::uint64_t rows = values.size() / std::max<std::uint64_t>(1, shape_.row_size());
    file_.read_rows(dataset_, row_, rows, values.data());
    row_ += rows;
  }

 private:
  void check() const {
    const auto fail = [&](const std::string& what) { throw DataError(fmt::format("{} {}", name_, what)); };
    if (shape_.type == hdf5::Type::text) fail("holds text; write numbers, also for classes");
    if (!hdf5::is_number(shape_.type))
      fail("holds values that are neither integers nor floats of up to 64 bits; convert them, booleans to uint8");
    if (shape_.extent.empty()) fail("is a single value, not an array");
    if (!shape_.complete) fail("was not written to its end; make the file again");
    std::uint64_t chunk_bytes = shape_.chunk.empty() ? 0 : hdf5::size_of(shape_.type);
    for (const std::uint64_t n : shape_.chunk) chunk_bytes *= n;  // below 4 GiB, as the library demands
    require_room(name_, static_cast<std::int64_t>(chunk_bytes));
  }

  hdf5::File file_;
  std::string dataset_, name_;
  hdf5::DatasetShape shape_;
  ArrayForm form_;
  std::uint64_t row_ = 0;  ///< the next one
};

}  // namespace

std::unique_ptr<ArrayReader> open_hdf5_array(const std::string& path, const std::string& dataset) {
  return std::make_unique<Hdf5Array>(path, dataset);
}

std::unique_ptr<ArrayReader> open_npz(const std::string& path, const std::string& array) {
  const std::vector<ArchiveEntry> entries = list_archive(path);
  std::vector<std::string> names;
  for (const ArchiveEntry& entry : entries) {
    if (entry.name == array + ".npy") return std::make_unique<NpyReader>(open_entry(path, entry), entry.bytes);
    if (entry.name.ends_with(".npy")) names.push_back(entry.name.substr(0, entry.name.size() - 4));
  }
  fail_without_array(path, array, names);
}

}  // namespace unisono::data
