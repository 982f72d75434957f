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

/// Where the set is several files: makes the ends, which each file counts from its own first byte, those in all bytes.
void join_ends(const hdf5::File& file, const std::string& bytes, const std::string& ends,
               std::vector<std::uint64_t>& joined) {
  std::uint64_t before = 0, row = 0;
  for (const hdf5::File& part : file.parts()) {
    if (!part.exists(ends)) continue;
    const std::uint64_t size = part.shape(bytes).rows(), rows = part.shape(ends).rows();
    if (rows > 0 && joined[row + rows - 1] != size) {
      fail_pictures(part, ends, fmt::format("ends at {}, but should at {}, the bytes of /{}", joined[row + rows - 1],
                                            size, bytes));
    }
    for (const std::uint64_t end = row + rows; row < end; ++row) joined[row] += before;
    before += size;
  }
}

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

EncodedPictures read_encoded_pictures(const hdf5::File& file, const std::string& group, const ImageForm& form) {
  const std::string bytes = group + "/pictures", ends = group + "/ends";
  EncodedPictures pictures{.set = file.path(), .group = group, .form = form};
  const hdf5::DatasetShape shape = file.shape(bytes);
  if (shape.extent.size() != 1 || shape.type != hdf5::Type::uint8) {
    fail_pictures(file, bytes, "should be bytes (uint8) along one axis: the files, one after the other");
  }
  if (!file.exists(ends))
    fail_pictures(file, group, "has no dataset 'ends', which says where each picture ends; add it");
  if (file.shape(ends).extent.size() != 1) fail_pictures(file, ends, "should have one axis: where each picture ends");
  pictures.ends = file.read<std::uint64_t>(ends);
  if (pictures.ends.empty()) fail_pictures(file, ends, "is empty; leave the group out, or give it pictures");
  join_ends(file, bytes, ends, pictures.ends);
  if (!std::ranges::is_sorted(pictures.ends) || pictures.ends.back() > shape.rows()) {
    fail_pictures(file, ends, fmt::format("should be ascending and at most {}, the bytes of /{}", shape.rows(), bytes));
  }
  return pictures;
}

}  // namespace unisono::data
