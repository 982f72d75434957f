#include "import/raw_formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "import/rows.hpp"
#include "import/set_writer.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

std::int64_t import_files(const std::string& folder, const std::vector<std::string>& names, const std::string& group,
                          SetWriter& writer) {
  CifarBatch batch;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    parse_cifar(read_bytes(path), path, batch);
  }
  const auto count = static_cast<std::int64_t>(batch.labels.size());
  writer.create_features<std::uint8_t>(group, count, {3, 32, 32});
  writer.write_features(group, 0, count, batch.pixels.data());
  writer.scale_to_one(group);
  writer.file().write(group + "/labels", batch.labels);
  return count;
}

/// One name a line; empty where there is no such file.
std::vector<std::string> read_class_names(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const auto bytes = read_bytes(path);
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() == kCifarClasses) return names;
  throw DataError(fmt::format("{}: holds {} names; CIFAR-10 has {} classes", path, names.size(), kCifarClasses));
}

constexpr std::uint8_t kUnsignedByte = 8;
constexpr std::size_t kMostAxes = 4;

/// The file of one array, under any of the names that it goes by.
std::optional<std::string> find_array(const std::string& folder, const std::string& stem, int axes) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const std::string path = fmt::format("{}/{}{}idx{}-ubyte{}", folder, stem, separator, axes, suffix);
      std::error_code error;
      if (std::filesystem::exists(path, error)) return path;
    }
  }
  return std::nullopt;
}

std::string need_array(const std::string& folder, const std::string& stem, int axes) {
  if (const auto path = find_array(folder, stem, axes)) return *path;
  throw DataError(fmt::format("{}: has no file '{}-idx{}-ubyte' (also tried: '.idx' for '-idx', and '.gz' at the end)",
                              folder, stem, axes));
}

/// Writes one pair of files as a group. \return its labels' largest
std::uint8_t import_pair(const std::string& folder, const std::string& stem, const std::string& group,
                         SetWriter& writer, ImportSummary& summary) {
  const std::string image_path = need_array(folder, stem + "-images", 3),
                    label_path = need_array(folder, stem + "-labels", 1);
  const auto image_bytes = read_bytes(image_path), label_bytes = read_bytes(label_path);
  const IdxArray images = parse_idx(image_bytes, image_path), labels = parse_idx(label_bytes, label_path);
  const std::int64_t count = images.extent[0];
  if (labels.extent.size() != 1 || labels.extent[0] != count) {
    throw DataError(fmt::format("{}: has shape {}, but {} holds {} images; the two files do not belong together",
                                label_path, labels.extent, image_path, count));
  }
  if (images.extent.size() < 2 || images.values.empty()) {
    throw DataError(fmt::format("{}: has shape {}, which is not a set of images", image_path, images.extent));
  }
  const std::vector<std::int64_t> shape(images.extent.begin() + 1, images.extent.end());
  if (!summary.shape.empty() && shape != summary.shape) {
    throw DataError(
        fmt::format("{}: has images of {}, but the training images are of {}", image_path, shape, summary.shape));
  }
  summary.shape = shape;
  (group == "train" ? summary.train : summary.test) = count;
  writer.create_features<std::uint8_t>(group, count, shape);
  writer.write_features(group, 0, count, images.values.data());
  writer.scale_to_one(group);
  writer.file().write(group + "/labels", std::vector<std::uint8_t>(labels.values.begin(), labels.values.end()));
  return *std::max_element(labels.values.begin(), labels.values.end());
}

}  // namespace

void parse_cifar(std::span<const std::uint8_t> bytes, const std::string& name, CifarBatch& batch) {
  const auto record = static_cast<std::size_t>(kCifarRecord);
  if (bytes.empty() || bytes.size() % record != 0) {
    throw DataError(
        fmt::format("{}: has {} bytes, which is not a multiple of the record size of {} bytes; the file is truncated, "
                    "or not in CIFAR-10's binary format",
                    name, bytes.size(), record));
  }
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    if (bytes[at] >= kCifarClasses) {
      throw DataError(fmt::format("{}: byte {}: record {} has the label {}; CIFAR-10 has classes 0 to {}", name, at,
                                  at / record, bytes[at], kCifarClasses - 1));
    }
    batch.labels.push_back(bytes[at]);
    const auto pixels = bytes.subspan(at + 1, record - 1);
    batch.pixels.insert(batch.pixels.end(), pixels.begin(), pixels.end());
  }
}

ImportSummary import_cifar10(const std::string& folder, const ImportOutput& output) {
  SetWriter writer(output);
  ImportSummary summary;
  summary.path = output.path;
  summary.train = import_files(
      folder, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      "train", writer);
  summary.test = import_files(folder, {"test_batch.bin"}, "test", writer);
  summary.shape = {3, 32, 32};
  summary.classes = kCifarClasses;
  writer.file().write_attribute("", "classes", summary.classes);
  const auto names = read_class_names(folder + "/batches.meta.txt");
  if (!names.empty()) writer.file().write_attribute("", "class_names", names);
  writer.finish();
  return summary;
}

IdxArray parse_idx(std::span<const std::uint8_t> bytes, const std::string& name) {
  if (bytes.size() < 4)
    throw DataError(
        fmt::format("{}: ends after {} bytes, but an IDX file begins with a header of 4 bytes", name, bytes.size()));
  const std::size_t axes = bytes[3], header = 4 + 4 * axes;
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || axes == 0 || axes > kMostAxes) {
    throw DataError(
        fmt::format("{}: begins with {:02x} {:02x} {:02x} {:02x}, but an IDX file of bytes begins with 00 00 08 and "
                    "the number of axes, 1 to {}",
                    name, bytes[0], bytes[1], bytes[2], bytes[3], kMostAxes));
  }
  if (bytes.size() < header) throw DataError(fmt::format("{}: ends at byte {}, inside its header", name, bytes.size()));
  IdxArray array;
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto* at = bytes.data() + 4 + 4 * axis;
    const std::uint64_t extent =
        std::uint64_t{at[0]} << 24 | std::uint64_t{at[1]} << 16 | std::uint64_t{at[2]} << 8 | at[3];
    array.extent.push_back(static_cast<std::int64_t>(extent));
    // Products beyond the file's size stay there: no overflow.
    count = extent == 0 ? 0 : std::min<std::uint64_t>(count, bytes.size()) * extent;
  }
  if (bytes.size() - header != count) {
    throw DataError(fmt::format(
        "{}: its header announces {} values ({}), but {} follow; the file is truncated or damaged", name,
        count > bytes.size() ? "more" : std::to_string(count), fmt::join(array.extent, " × "), bytes.size() - header));
  }
  array.values = bytes.subspan(header);
  return array;
}

ImportSummary import_idx(const std::string& folder, const ImportOutput& output) {
  ImportSummary summary;
  summary.path = output.path;
  need_array(folder, "train-images", 3);
  SetWriter writer(output);
  const std::uint8_t training = import_pair(folder, "train", "train", writer, summary);
  summary.classes = training + 1;
  if (find_array(folder, "t10k-images", 3)) {
    const std::uint8_t test = import_pair(folder, "t10k", "test", writer, summary);
    summary.classes = std::max<std::int64_t>(summary.classes, test + 1);
  }
  writer.file().write_attribute("", "classes", summary.classes);
  writer.finish();
  return summary;
}

}  // namespace unisono::data
