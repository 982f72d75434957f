// Sets that hold the bytes of PNG files, which are decoded whenever they are used.
#include <fmt/format.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "augment/augmentation.hpp"
#include "pictures.hpp"
#include "recipe/recipe_file.hpp"
#include "sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

using Catch::Contains;
using test::TempDir;

using Bytes = std::vector<std::uint8_t>;

void append_number(Bytes& bytes, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
}

void append_chunk(Bytes& file, const std::string& type, const Bytes& content) {
  append_number(file, static_cast<std::uint32_t>(content.size()));
  Bytes checked(type.begin(), type.end());
  checked.insert(checked.end(), content.begin(), content.end());
  file.insert(file.end(), checked.begin(), checked.end());
  append_number(file, static_cast<std::uint32_t>(crc32(0, checked.data(), static_cast<uInt>(checked.size()))));
}

/// A PNG file of grey pixels [height, width].
Bytes png(std::uint32_t height, std::uint32_t width, const Bytes& pixels) {
  Bytes header, rows;
  append_number(header, width);
  append_number(header, height);
  header.insert(header.end(), {8, 0, 0, 0, 0});  // 8 bits, grey
  for (std::uint32_t y = 0; y < height; ++y) {
    rows.push_back(0);  // unfiltered
    rows.insert(rows.end(), pixels.begin() + y * width, pixels.begin() + (y + 1) * width);
  }
  uLongf size = compressBound(rows.size());
  Bytes packed(size);
  REQUIRE(compress(packed.data(), &size, rows.data(), rows.size()) == Z_OK);
  packed.resize(size);
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  append_chunk(file, "IHDR", header);
  append_chunk(file, "IDAT", packed);
  append_chunk(file, "IEND", {});
  return file;
}

constexpr std::int64_t kPictures = 24;
constexpr ImageForm kForm{.height = 5, .width = 6, .colours = Colours::grey};

/// Pixel j of picture i: a wave that goes over the picture, and is another in each.
Bytes pixels_of(std::int64_t i, std::int64_t count) {
  Bytes pixels;
  for (std::int64_t j = 0; j < count; ++j) {
    const double wave = std::sin(0.13 * static_cast<double>(j * (i + 3)));
    pixels.push_back(static_cast<std::uint8_t>(std::lround(127 + 120 * wave)));
  }
  return pixels;
}

/// Pictures of 12 × 10, 14 × 10, …, which become images of 6 × 5: numbers [first, last).
std::string write_pictures(const std::string& path, bool damaged = false, std::int64_t first = 0,
                           std::int64_t last = kPictures) {
  Bytes bytes;
  std::vector<std::uint64_t> ends;
  std::vector<std::int32_t> labels;
  std::vector<std::string> names;
  for (std::int64_t i = first; i < last; ++i) {
    const std::uint32_t height = 12 + 2 * static_cast<std::uint32_t>(i % 3), width = 10;
    Bytes file = png(height, width, pixels_of(i, height * width));
    if (damaged && i == 7) file[file.size() / 2] ^= 0xFFU;
    bytes.insert(bytes.end(), file.begin(), file.end());
    ends.push_back(bytes.size());
    labels.push_back(static_cast<std::int32_t>(i % 2));
    names.push_back(fmt::format("class/{}.png", i));
  }
  hdf5::File file(path, hdf5::File::Mode::create);
  file.write("train/pictures", bytes);
  file.write("train/ends", ends);
  file.write("train/labels", labels);
  file.write_strings("train/files", names);
  file.write_attribute("", "class_names", std::vector<std::string>{"a", "b"});
  write_recipe(file, {.images = kForm});
  return path;
}

DataSettings settings_of(const std::string& path) {
  DataSettings settings;
  settings.path = path;
  settings.pictures.threads = 2;
  return settings;
}

/// A set that is changed before it is opened.
std::string refusal(const std::function<void(hdf5::File&)>& write) {
  const TempDir folder;
  {
    hdf5::File file(folder / "a.h5", hdf5::File::Mode::create);
    write(file);
    file.write("train/labels", std::vector<std::int32_t>{0, 1});
  }
  return test::message_of<DataError>([&] { open_dataset(settings_of(folder / "a.h5"), 1); });
}

using Images = std::map<std::uint64_t, std::vector<float>>;

/// Images of one epoch by their examples, from all ranks. \param step the first one
Images images_of(Dataset& set, int ranks, std::int64_t epoch, std::int64_t step = 0) {
  constexpr Index kBatch = 8;
  Images images;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto source = set.train({.rank = rank, .size = ranks, .batch_size = kBatch, .seed = 5});
    source->seek({epoch, step});
    for (Batch batch = source->next(); batch.epoch == epoch; batch = source->next()) {
      const auto size = static_cast<std::size_t>(kForm.bytes());
      for (std::size_t i = 0; i < batch.examples.size(); ++i) {
        const auto image = batch.features.subspan(i * size, size);
        images[batch.examples[i]] = {image.begin(), image.end()};
      }
    }
  }
  return images;
}

DataSettings augmented(const std::string& path) {
  DataSettings settings = settings_of(path);
  settings.augmentation.crop_area = 0.3;
  settings.augmentation.horizontal_flip = true;
  settings.augmentation.rotation = 10;
  settings.augmentation.brightness = 0.3;
  settings.augmentation.erasing = 0.5;
  return settings;
}

TEST_CASE("encoded pictures become the images that an import of pixels would hold", "[encoded]") {
  const TempDir folder;
  const auto set = open_dataset(settings_of(write_pictures(folder / "a.h5")), 1);
  CHECK(set->info().features == FeatureShape{1, 5, 6});
  CHECK(set->info().train == kPictures);
  CHECK(set->info().encoded);
  CHECK(set->info().bytes_per_node < 2 * 200 * kPictures);  // files, not images
  CHECK(set->preprocessing().recipe.images == kForm);
  const auto pass = set->training_part(0, 1, 7, {});
  std::int64_t example = 0;
  while (const auto batch = pass->next()) {
    for (std::int64_t i = 0; i < batch->size; ++i, ++example) {
      const std::int64_t height = 12 + 2 * (example % 3);
      const auto expected =
          image_of({.height = height, .width = 10, .channels = 1, .values = pixels_of(example, height * 10)}, kForm);
      for (std::size_t j = 0; j < expected.size(); ++j) {
        const float value = batch->features[static_cast<std::size_t>(i) * expected.size() + j];
        CHECK(value == static_cast<float>(1.0 / 255) * static_cast<float>(expected[j]));
      }
    }
  }
  CHECK(example == kPictures);
}

TEST_CASE("pictures in several files are those of one file", "[encoded]") {
  const TempDir folder;
  const Images whole = images_of(*open_dataset(augmented(write_pictures(folder / "whole.h5")), 1), 1, 2);
  write_pictures(folder / "part-a.h5", false, 0, 5);
  write_pictures(folder / "part-b.h5", /*damaged=*/true, 5, 6);  // does not hold the damaged one
  write_pictures(folder / "part-c.h5", false, 6);
  DataSettings settings = augmented(folder / "part-*.h5");
  for (const Reader reader : {Reader::resident, Reader::streaming}) {
    settings.reader = reader;
    const auto set = open_dataset(settings, 1);
    CHECK(images_of(*set, 2, 2) == whole);
    CHECK(set->file_names(Split::train).at(6) == "class/6.png");
  }
  write_pictures(folder / "part-c.h5", /*damaged=*/true, 6);
  CHECK_THAT(test::message_of<DataError>([&] { images_of(*open_dataset(settings, 1), 1, 2); }),
             Contains("part-*.h5: /train/pictures: example 7 (class/7.png)"));
}

TEST_CASE("mixtures of encoded pictures are the same on any ranks and threads, and resumed", "[encoded]") {
  const TempDir folder;
  DataSettings settings = augmented(write_pictures(folder / "a.h5"));
  settings.augmentation.mixup = settings.augmentation.cutmix = 1;
  for (const Reader reader : {Reader::resident, Reader::streaming}) {
    settings.reader = reader;
    settings.pictures.threads = 1;
    const Images serial = images_of(*open_dataset(settings, 1), 1, 2);
    CHECK(serial.size() == kPictures);
    for (const int threads : {1, 3}) {
      settings.pictures.threads = threads;
      const auto set = open_dataset(settings, 1);
      for (const int ranks : {1, 2, 3}) CHECK(images_of(*set, ranks, 2) == serial);
      for (const auto& [example, image] : images_of(*set, 2, 2, 3)) CHECK(image == serial.at(example));
    }
  }
}

TEST_CASE("an epoch of encoded pictures is the same on any ranks, threads and readers, and resumed", "[encoded]") {
  const TempDir folder;
  DataSettings settings = augmented(write_pictures(folder / "a.h5"));
  settings.pictures.threads = 1;
  const Images serial = images_of(*open_dataset(settings, 1), 1, 2);
  CHECK(serial.size() == kPictures);
  for (const int threads : {1, 3}) {
    for (const Reader reader : {Reader::resident, Reader::streaming}) {
      settings.pictures.threads = threads;
      settings.reader = reader;
      const auto set = open_dataset(settings, 1);
      for (const int ranks : {1, 2, 3}) CHECK(images_of(*set, ranks, 2) == serial);
      const Images rest = images_of(*set, 1, 2, 2);
      CHECK(rest.size() == 8);
      for (const auto& [example, image] : rest) CHECK(image == serial.at(example));
      CHECK(images_of(*set, 1, 3) != serial);
    }
  }
}

TEST_CASE("encoded pictures are mirrored as they are otherwise written", "[encoded]") {
  const TempDir folder;
  DataSettings settings = settings_of(write_pictures(folder / "a.h5"));
  settings.normalization = NormalizationKind::channel;
  const Images plain = images_of(*open_dataset(settings, 1), 1, 0);
  settings.augmentation.horizontal_flip = true;
  int mirrored = 0;
  for (const auto& [example, image] : images_of(*open_dataset(settings, 1), 1, 0)) {
    std::vector<float> expected = plain.at(example);
    if (draw_movement(settings.augmentation, 5, 0, example).flipped) {
      ++mirrored;
      for (auto row = expected.begin(); row != expected.end(); row += kForm.width) std::reverse(row, row + kForm.width);
    }
    CHECK(image == expected);
  }
  CHECK(mirrored > 4);  // of 24
  CHECK(mirrored < 20);
}

TEST_CASE("the window of streamed pictures is counted in their bytes", "[encoded]") {
  const TempDir folder;
  DataSettings settings = settings_of(write_pictures(folder / "a.h5"));
  settings.reader = Reader::streaming;
  settings.window_bytes = 2000;
  const auto set = open_dataset(settings, 1);
  CHECK_FALSE(set->info().resident);
  CHECK(set->info().bytes_per_node == 2000);
  CHECK(images_of(*set, 2, 0).size() == kPictures);
}

TEST_CASE("pictures are normalised by the mean of the training examples' images", "[encoded]") {
  const TempDir folder;
  DataSettings settings = settings_of(write_pictures(folder / "a.h5"));
  settings.normalization = NormalizationKind::channel;
  settings.validation_fraction = 0.25;
  settings.pictures.threads = GENERATE(1, 3);
  const auto set = open_dataset(settings, 1);
  double sum = 0, squares = 0;
  std::size_t count = 0;
  for (const auto& [example, image] : images_of(*set, 1, 0)) {
    for (const float x : image) {
      sum += x;
      squares += x * x;
      ++count;
    }
  }
  CHECK(count == static_cast<std::size_t>(set->info().train * kForm.bytes()));
  CHECK(sum / static_cast<double>(count) == Approx(0).margin(1e-6));
  CHECK(squares / static_cast<double>(count) == Approx(1).epsilon(1e-5));
}

TEST_CASE("the config says what pictures become, and a trained model what new ones become", "[encoded]") {
  const TempDir folder;
  DataSettings settings = settings_of(write_pictures(folder / "a.h5"));
  settings.pictures.height = 8;
  settings.pictures.width = 4;
  settings.pictures.centre = 0.5;
  const ImageForm asked{.height = 8, .width = 4, .colours = Colours::grey, .centre = 0.5};
  const auto set = open_dataset(settings, 1);
  CHECK(set->info().features == FeatureShape{1, 8, 4});
  CHECK(set->preprocessing().recipe.images == asked);
  CHECK(recipe_from_json(to_json(set->preprocessing().recipe), "a").images == asked);
  const Preprocessing trained = set->preprocessing();
  const auto later = open_dataset(settings_of(folder / "a.h5"), 1, {}, &trained);
  CHECK(later->info().features == FeatureShape{1, 8, 4});
  const auto pass = later->evaluate(Split::train, 0, 1, 1);
  // Of 12 × 10 the middle of the largest part of 2 × 1, 12 × 6: 6 × 3.
  const Picture whole{.height = 12, .width = 10, .channels = 1, .values = pixels_of(0, 120)};
  const auto first = image_of(whole, asked);
  const auto batch = pass->next();
  for (std::size_t j = 0; j < first.size(); ++j) {
    CHECK(batch->features[j] == static_cast<float>(1.0 / 255) * static_cast<float>(first[j]));
  }
}

TEST_CASE("a damaged picture is named when it is decoded", "[encoded]") {
  const TempDir folder;
  const auto set = open_dataset(settings_of(write_pictures(folder / "a.h5", /*damaged=*/true)), 1);
  const auto message = test::message_of<DataError>([&] { images_of(*set, 1, 0); });
  CHECK_THAT(message, Contains("a.h5: /train/pictures: example 7 (class/7.png): is a damaged PNG file"));
}

TEST_CASE("sets of pictures that are not as they should be are refused", "[encoded]") {
  const Bytes bytes(20);
  const std::vector<std::uint64_t> ends = {10, 20};
  const auto with_recipe = [](hdf5::File& file) { write_recipe(file, {.images = kForm}); };
  CHECK_THAT(refusal([&](hdf5::File& file) {
               file.write("train/pictures", bytes);
               file.write("train/ends", ends);
             }),
             Contains("/train/pictures needs /recipe to say"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               with_recipe(file);
               file.write("train/pictures", bytes);
             }),
             Contains("/train has no dataset 'ends'"));
  for (const std::vector<std::uint64_t>& wrong : {std::vector<std::uint64_t>{10, 21}, {15, 10}}) {
    CHECK_THAT(refusal([&](hdf5::File& file) {
                 with_recipe(file);
                 file.write("train/pictures", bytes);
                 file.write("train/ends", wrong);
               }),
               Contains("/train/ends should be ascending and at most 20"));
  }
  CHECK_THAT(refusal([&](hdf5::File& file) {
               with_recipe(file);
               file.write("train/pictures", std::vector<float>(20));
               file.write("train/ends", ends);
             }),
             Contains("/train/pictures should be bytes"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               with_recipe(file);
               file.write("train/pictures", bytes);
               file.write("train/ends", std::vector<std::uint64_t>{10, 15, 20});
             }),
             Contains("/train/labels holds 2 values but /train/pictures holds 3 examples"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               with_recipe(file);
               file.write("train/pictures", bytes);
               file.write("train/ends", ends);
               file.write("train/features", std::vector<float>(2));
             }),
             Contains("/train has both 'features' and 'pictures'"));
}

TEST_CASE("augmentations that a set cannot have are refused", "[encoded]") {
  const TempDir folder;
  const auto message = [&](const std::string& path, const std::function<void(DataSettings&)>& change) {
    DataSettings settings;
    settings.path = path;
    change(settings);
    return test::message_of<ConfigError>([&] { open_dataset(settings, 1); });
  };
  const std::string bytes = test::write_set<std::uint8_t>(folder / "a.h5", {.train = 8, .shape = {4, 4}});
  const std::string floats = test::write_set<float>(folder / "b.h5", {.train = 8, .shape = {4, 4}});
  const std::string two = test::write_set<std::uint8_t>(folder / "c.h5", {.train = 8, .shape = {2, 4, 4}});
  CHECK_THAT(message(bytes, [](auto& s) { s.pictures.height = 8; }), Contains("no pictures of JPEG or PNG files"));
  CHECK_THAT(message(bytes, [](auto& s) { s.augmentation.hue = 0.1; }), Contains("grey"));
  const std::string pictures = write_pictures(folder / "d.h5");
  CHECK_THAT(message(pictures, [](auto& s) { s.pictures.height = s.pictures.width = 1 << 16; }),
             Contains("[data.pictures]: images of 65536 × 65536 are not possible"));
  CHECK_THAT(message(floats, [](auto& s) { s.augmentation.hue = 0.1; }), Contains("stored as bytes"));
  CHECK_THAT(message(floats, [](auto& s) { s.augmentation.crop_area = 0.5; }), Contains("stored as bytes"));
  CHECK_THAT(message(two, [](auto& s) { s.augmentation.contrast = 0.1; }), Contains("one or three channels"));
  CHECK_THAT(message(bytes,
                     [](auto& s) {
                       s.augmentation.shift = 1;
                       s.augmentation.fill = Fill::mean;
                     }),
             Contains("needs the mean of the training examples"));
}

TEST_CASE("images are filled with zeros, the mean, or what is reflected at their edges", "[augmentation]") {
  const FeatureShape shape{1, 2, 3};
  const std::vector<float> image = {0, 1, 2, 3, 4, 5};
  std::vector<float> out(6);
  move_image(shape, {.down = 1, .right = 1}, {.fill = Fill::mean, .values = {9}}, image.data(), out.data());
  CHECK(out == std::vector<float>{4, 5, 9, 9, 9, 9});
  move_image(shape, {.down = -1, .right = 1}, {.fill = Fill::reflect}, image.data(), out.data());
  CHECK(out == std::vector<float>{4, 5, 4, 1, 2, 1});
  move_image(shape, {.down = 0, .right = 1, .flipped = true}, {.fill = Fill::reflect}, image.data(), out.data());
  CHECK(out == std::vector<float>{1, 2, 1, 4, 5, 4});
  // A quarter of a turn to the left of a square.
  const std::vector<float> square = {0, 1, 2, 3};
  std::vector<float> turned(4);
  turn_image({1, 2, 2}, 90, {.fill = Fill::black, .values = {0}}, square.data(), turned.data());
  for (std::size_t i = 0; i < 4; ++i) CHECK(turned[i] == Approx(std::vector<float>{1, 3, 0, 2}[i]).margin(1e-5));
}

TEST_CASE("the mean as a fill becomes 0 by normalisation, and erased parts are 0", "[augmentation]") {
  const TempDir folder;
  DataSettings settings;
  settings.path = test::write_set<std::uint8_t>(folder / "a.h5", {.train = 40, .shape = {3, 4}});
  settings.normalization = NormalizationKind::channel;
  settings.augmentation.shift = 3;
  settings.augmentation.fill = Fill::mean;
  const auto set = open_dataset(settings, 1);
  const auto source = set->train({.batch_size = 40, .seed = 2});
  const Batch batch = source->next();
  for (std::size_t i = 0; i < batch.examples.size(); ++i) {
    const Movement movement = draw_movement(settings.augmentation, 2, batch.epoch, batch.examples[i]);
    for (Index y = 0; y < 3; ++y) {
      for (Index x = 0; x < 4; ++x) {
        const Index row = y + movement.down, column = x + movement.right;
        if (row >= 0 && row < 3 && column >= 0 && column < 4) continue;
        CHECK(batch.features[i * 12 + static_cast<std::size_t>(y * 4 + x)] == 0);
      }
    }
  }
}

/// The settings of augmentation_reference.py, and the set that it makes.
DataSettings reference_settings() {
  const char* folder = std::getenv("UNISONO_AUGMENTED");
  REQUIRE(folder != nullptr);
  DataSettings settings = settings_of(std::string(folder) + "/set.h5");
  settings.augmentation = {.crop_padding = 2,
                           .horizontal_flip = true,
                           .shift = 1,
                           .fill = Fill::reflect,
                           .crop_area = 0.3,
                           .crop_aspect = 1.5,
                           .rotation = 25,
                           .brightness = 0.4,
                           .contrast = 0.3,
                           .saturation = 0.5,
                           .hue = 0.1,
                           .erasing = 0.5};
  return settings;
}

hdf5::File reference_results() {
  return {std::string(std::getenv("UNISONO_AUGMENTED")) + "/expected.h5", hdf5::File::Mode::read};
}

/// Checks the images of a batch. \param expected of all examples
void check_images(const Batch& batch, const std::vector<float>& expected) {
  // Some fifty roundings of values up to 1, which contrast and saturation double.
  constexpr float kMost = 1e-5F;
  const std::size_t size = batch.features.size() / batch.examples.size();
  for (std::size_t i = 0; i < batch.examples.size(); ++i) {
    float largest = 0;
    for (std::size_t j = 0; j < size; ++j) {
      largest = std::max(largest, std::abs(batch.features[i * size + j] - expected[batch.examples[i] * size + j]));
    }
    INFO("epoch " << batch.epoch << ", example " << batch.examples[i]);
    CHECK(largest < kMost);
  }
}

// Hidden: augmentation_reference.py runs them on the set and the images that it makes.
TEST_CASE("augmented pictures are those of an independent reference", "[.augmentation_reference]") {
  const auto set = open_dataset(reference_settings(), 1);
  const hdf5::File expected = reference_results();
  const auto source = set->train({.batch_size = set->info().train, .seed = 7});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto images = expected.read<float>(std::to_string(epoch));
    const Batch batch = source->next();
    REQUIRE(images.size() == batch.features.size());
    check_images(batch, images);
  }
}

TEST_CASE("mixed pictures are those of an independent reference, with their labels", "[.augmentation_reference]") {
  DataSettings settings = reference_settings();
  settings.augmentation.mixup = 0.4;
  settings.augmentation.cutmix = 1;
  const auto set = open_dataset(settings, 1);
  const hdf5::File expected = reference_results();
  const auto source = set->train({.batch_size = 6, .seed = 7});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto read = [&](const char* name) { return expected.read<float>(fmt::format("mixed/{}/{}", epoch, name)); };
    const auto images = read("features"), labels = read("labels"), others = read("others"), shares = read("shares");
    for (std::int64_t step = 0; step < source->steps_per_epoch(); ++step) {
      const Batch batch = source->next();
      check_images(batch, images);
      for (std::size_t i = 0; i < batch.examples.size(); ++i) {
        const std::size_t row = batch.examples[i];
        CHECK(static_cast<float>(batch.labels[i]) == labels[row]);
        CHECK(static_cast<float>(batch.other_labels[i]) == others[row]);
        CHECK(std::abs(batch.other_shares[i] - shares[row]) < 1e-6F);
      }
    }
  }
}

}  // namespace
}  // namespace unisono::data
