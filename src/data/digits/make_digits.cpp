#include <algorithm>
#include <vector>

#include "import/set_writer.hpp"
#include "unisono/data/digits.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kDigitsAtATime = 4096;
constexpr std::uint64_t kFirstOfValidation = std::uint64_t{1} << 40, kFirstOfTest = std::uint64_t{1} << 41;

void write_digits(SetWriter& writer, const std::string& group, std::int64_t count, std::uint64_t seed,
                  std::uint64_t first) {
  if (count == 0) return;
  writer.create_features<std::uint8_t>(group, count, {kDigitSide, kDigitSide});
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(count)), pixels;
  for (std::int64_t begin = 0; begin < count; begin += kDigitsAtATime) {
    const std::int64_t end = std::min(begin + kDigitsAtATime, count);
    pixels.clear();
    for (std::int64_t i = begin; i < end; ++i) {
      const Digit digit = draw_digit(seed, first + static_cast<std::uint64_t>(i));
      labels[static_cast<std::size_t>(i)] = digit.label;
      pixels.insert(pixels.end(), digit.pixels.begin(), digit.pixels.end());
    }
    writer.write_features(group, begin, end - begin, pixels.data());
  }
  writer.scale_to_one(group);
  writer.file().write(group + "/labels", labels);
}

}  // namespace

ImportSummary make_digits(const DigitsOptions& options, const ImportOutput& output) {
  SetWriter writer(output);
  write_digits(writer, "train", options.train, options.seed, 0);
  write_digits(writer, "validation", options.validation, options.seed, kFirstOfValidation);
  write_digits(writer, "test", options.test, options.seed, kFirstOfTest);
  writer.file().write_attribute("", "classes", std::int64_t{10});
  writer.finish();
  ImportSummary summary;
  summary.path = output.path;
  summary.train = options.train;
  summary.validation = options.validation;
  summary.test = options.test;
  summary.shape = {kDigitSide, kDigitSide};
  summary.classes = 10;
  return summary;
}

}  // namespace unisono::data
