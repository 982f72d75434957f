// How fast pictures of a set become training images: an epoch of batches, cropped at random, mirrored and normalised;
// and beside it what libjpeg needs for the same rectangles alone.
//   bench_pictures SET SIZE THREADS EPOCHS
// prints a line of JSON: images a second of each, the median over the epochs, which alternate.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "augment/augmentation.hpp"
#include "images/picture.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/data/hdf5.hpp"

namespace {

using namespace unisono;
using namespace unisono::data;

constexpr Index kBatch = 64;
constexpr std::uint64_t kSeed = 1;

std::int64_t number(const char* text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != '\0' || value < 1)
    throw ConfigError(fmt::format("{}: a number is expected", text));
  return value;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Decodes the rectangles of an epoch, without scaling them.
class Decoding {
 public:
  Decoding(const DataSettings& settings, int threads)
      : augmentation_(settings.augmentation),
        size_(settings.pictures.height),
        team_(threads),
        parts_(static_cast<std::size_t>(threads)) {
    const hdf5::File file(settings.path, hdf5::File::Mode::read);
    bytes_ = file.read<std::uint8_t>("train/pictures");
    ends_ = file.read<std::uint64_t>("train/ends");
  }

  void run(std::int64_t epoch) {
    team_.run_each(0, ends_.size(), [&](int thread, std::size_t i) {
      const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
      const auto choose = [&](std::int64_t height, std::int64_t width) {
        return draw_crop(augmentation_, 1, kSeed, epoch, i, height, width);
      };
      decode_part(std::span(bytes_).subspan(begin, ends_[i] - begin), "",
                  {.height = size_, .width = size_, .choose = choose, .to_the_end = false},
                  parts_[static_cast<std::size_t>(thread)]);
    });
  }

 private:
  AugmentationSettings augmentation_;
  std::int64_t size_;
  ThreadTeam team_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint64_t> ends_;
  std::vector<PicturePart> parts_;  ///< one for each thread
};

void measure(const std::string& path, std::int64_t size, int threads, std::int64_t epochs) {
  DataSettings settings;
  settings.path = path;
  settings.reader = Reader::resident;
  settings.normalization = NormalizationKind::channel;
  settings.pictures = {.height = size, .width = size, .threads = threads};
  settings.augmentation = {.horizontal_flip = true, .crop_area = 0.08};
  const auto set = open_dataset(settings, kSeed);
  const auto source = set->train({.batch_size = kBatch, .seed = kSeed});
  Decoding decoding(settings, threads);
  source->next();
  const auto count = static_cast<double>(set->info().train);
  std::vector<double> images, decoded;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    source->seek({epoch, 0});
    Stopwatch watch;
    while (!source->next().last_of_epoch) {
    }
    images.push_back(count / watch.seconds());
    source->seek({epoch, 0});  // ends the threads that prepare batches
    watch.restart();
    decoding.run(epoch);
    decoded.push_back(count / watch.seconds());
  }
  fmt::print("{{\"images\": {:.1f}, \"decoded\": {:.1f}}}\n", median(images), median(decoded));
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 5) throw ConfigError("usage: bench_pictures SET SIZE THREADS EPOCHS");
    measure(words[1], number(words[2]), static_cast<int>(number(words[3])), number(words[4]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_pictures: {}\n", error.what());
    return 1;
  }
}
