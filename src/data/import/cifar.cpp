#include "import/cifar.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "import/bytes.hpp"
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

}  // namespace unisono::data

namespace unisono::data {

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

}  // namespace unisono::data
