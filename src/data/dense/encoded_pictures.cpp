#include "dense/encoded_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "set/external.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

[[noreturn]] void fail_pictures(const hdf5::File& file, const std::string& object, const std::string& what) {
  throw DataError(fmt::format("{}: /{} {}", file.path(), object, what));
}

/// "photos.h5: /train/pictures: example 7 (cat/img 3.jpg)"
std::string describe_picture(const EncodedPictures& pictures, std::int64_t row) {
  const std::string where = fmt::format("{}: /{}/pictures: example {}", pictures.set, pictures.group, row);
  try {
    const hdf5::File file = open_set_file(pictures.set, /*external_files=*/true);
    const auto name = file.read_strings(pictures.group + "/files", static_cast<std::uint64_t>(row), 1);
    return fmt::format("{} ({})", where, name.at(0));
  } catch (const Error&) {
    return where;  // the set has no names
  }
}

/// Where the pictures of each file begin, where the set is several.
std::vector<PicturesOfFile> files_of_pictures(const hdf5::File& file, const std::string& bytes,
                                              const std::string& ends) {
  std::vector<PicturesOfFile> files;
  PicturesOfFile next;
  for (const hdf5::File& part : file.parts()) {
    if (!part.exists(ends)) continue;
    const std::uint64_t size = part.shape(bytes).rows(), rows = part.shape(ends).rows();
    std::uint64_t end = 0;
    if (rows > 0) part.read_rows(ends, rows - 1, 1, &end);
    if (end != size)
      fail_pictures(part, ends, fmt::format("ends at {}, but should at {}, the bytes of /{}", end, size, bytes));
    files.push_back(next);
    next.first_row += static_cast<std::int64_t>(rows);
    next.first_byte += static_cast<std::int64_t>(size);
  }
  return files;
}

std::string ends_of(const std::string& group) { return group + "/ends"; }

}  // namespace

/// Names are read where they are needed: in messages.
template <typename Read>
void EncodedPictures::naming(std::int64_t row, Read read) const {
  try {
    read();
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("{}{}; remove the file and import the folder again, with --verify, which finds all "
                    "such files",
                    describe_picture(*this, row), error.what()));
  }
}

void EncodedPictures::read(PictureReader& reader, std::int64_t row, std::span<const std::uint8_t> picture,
                           std::span<std::uint8_t> image) const {
  naming(row, [&] { reader.read(picture, "", form, /*to_the_end=*/false, image); });
}

void EncodedPictures::read(PictureReader& reader, std::int64_t row, std::span<const std::uint8_t> picture,
                           const std::function<Box(std::int64_t height, std::int64_t width)>& choose,
                           std::span<std::uint8_t> image) const {
  naming(row, [&] { reader.read(picture, "", form, choose, image); });
}

std::vector<std::int64_t> EncodedPictures::bounds(const hdf5::File& file, Range rows) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows.size()) + 1);
  const std::int64_t first = std::max<std::int64_t>(rows.first - 1, 0);  // a picture begins where the one before ends
  std::int64_t* const ends = all.data() + (rows.first == 0 ? 1 : 0);
  file.read_rows(ends_of(group), static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(rows.last - first),
                 ends);
  for (std::size_t i = 1; i < files.size(); ++i) {
    const std::int64_t from = std::max(files[i].first_row, first);
    const std::int64_t to = std::min(i + 1 < files.size() ? files[i + 1].first_row : examples, rows.last);
    for (std::int64_t row = from; row < to; ++row) ends[row - first] += files[i].first_byte;
  }
  if (std::ranges::is_sorted(all) && all.front() >= 0 && all.back() <= bytes) return all;
  fail_pictures(file, ends_of(group),
                fmt::format("should be ascending and at most {}, the bytes of /{}/pictures", bytes, group));
}

EncodedPictures read_encoded_pictures(const hdf5::File& file, const std::string& group, const ImageForm& form) {
  const std::string bytes = group + "/pictures", ends = ends_of(group);
  EncodedPictures pictures{.set = file.path(), .group = group, .form = form};
  const hdf5::DatasetShape shape = file.shape(bytes);
  if (shape.extent.size() != 1 || shape.type != hdf5::Type::uint8) {
    fail_pictures(file, bytes, "should be bytes (uint8) along one axis: the files, one after the other");
  }
  if (!file.exists(ends))
    fail_pictures(file, group, "has no dataset 'ends', which says where each picture ends; add it");
  if (file.shape(ends).extent.size() != 1) fail_pictures(file, ends, "should have one axis: where each picture ends");
  pictures.bytes = static_cast<std::int64_t>(shape.rows());
  pictures.examples = static_cast<std::int64_t>(file.shape(ends).rows());
  if (pictures.examples == 0) fail_pictures(file, ends, "is empty; leave the group out, or give it pictures");
  pictures.files = files_of_pictures(file, bytes, ends);
  constexpr std::int64_t kAtATime = 1 << 16;
  for (std::int64_t first = 0; first < pictures.examples; first += kAtATime) {
    const auto bounds = pictures.bounds(file, {first, std::min(first + kAtATime, pictures.examples)});  // checks them
    if (first + kAtATime >= pictures.examples) pictures.bytes = bounds.back();
  }
  return pictures;
}

}  // namespace unisono::data
