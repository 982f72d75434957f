#include <fmt/format.h>
#include <zlib.h>

#include <catch2/catch.hpp>

#include "import/raw_formats.hpp"
#include "import/rows.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes idx(const std::vector<std::uint32_t>& extent, const Bytes& values) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(extent.size())};
  for (const std::uint32_t n : extent) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

std::string text_of_bytes(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

void write_gzip(const std::string& path, const Bytes& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

/// Two training images and one test image of 2 × 3.
void write_idx_folder(const TempDir& folder) {
  unisono::test::write_file(folder / "train-images-idx3-ubyte",
                            text_of_bytes(idx({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255})));
  unisono::test::write_file(folder / "train-labels-idx1-ubyte", text_of_bytes(idx({2}, {4, 2})));
  write_gzip(folder / "t10k-images.idx3-ubyte.gz", idx({1, 2, 3}, {9, 9, 9, 9, 9, 9}));
  write_gzip(folder / "t10k-labels.idx1-ubyte.gz", idx({1}, {0}));
}

std::string idx_message(const Bytes& bytes) {
  return unisono::test::message_of<unisono::DataError>([&] { unisono::data::parse_idx(bytes, "f"); });
}

Bytes cifar_record(std::uint8_t label, std::uint8_t first_pixel) {
  Bytes record(unisono::data::kCifarRecord, 7);
  record[0] = label;
  record[1] = first_pixel;
  return record;
}

}  // namespace

TEST_CASE("IDX files, gzipped or not and with either name, become a set", "[import]") {
  const TempDir folder;
  write_idx_folder(folder);
  const auto summary = unisono::data::import_idx(folder.path(), {.path = folder / "a.h5"});
  CHECK(summary.train == 2);
  CHECK(summary.test == 1);
  CHECK(summary.classes == 5);
  CHECK(summary.shape == std::vector<std::int64_t>{2, 3});
  unisono::data::DataSettings settings;
  settings.path = folder / "a.h5";
  settings.shuffle = false;
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->info().features == unisono::data::FeatureShape{1, 2, 3});
  CHECK(set->info().classes == 5);
  const auto source = set->train({.batch_size = 2});
  const unisono::data::Batch batch = source->next();
  CHECK(batch.labels[0] == 4);
  CHECK(batch.labels[1] == 2);
  CHECK(batch.features[11] == Approx(1));  // 255 · 1/255
  CHECK(batch.features[1] == Approx(1 / 255.0));
}

TEST_CASE("IDX bytes that are none are refused with place and reason", "[import]") {
  CHECK(unisono::data::parse_idx(idx({2, 1}, {5, 6}), "f").extent == std::vector<std::int64_t>{2, 1});
  CHECK(unisono::data::parse_idx(idx({0, 7}, {}), "f").values.empty());
  CHECK_THAT(idx_message({0, 0, 8}), Contains("f: ends after 3 bytes"));
  CHECK_THAT(idx_message({0x1f, 0x8b, 8, 0}), Contains("begins with 1f 8b 08 00"));
  CHECK_THAT(idx_message({0, 0, 13, 1, 0, 0, 0, 0}), Contains("begins with 00 00 0d 01"));
  CHECK_THAT(idx_message({0, 0, 8, 3, 0, 0}), Contains("ends at byte 6, inside its header"));
  CHECK_THAT(idx_message(idx({3}, {1, 2})), Contains("its header announces 3 values") && Contains("but 2 follow"));
  CHECK_THAT(idx_message(idx({1}, {1, 2})), Contains("announces 1 values") && Contains("2 follow"));
  CHECK_THAT(idx_message(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {1})), Contains("announces more values"));
}

TEST_CASE("IDX files that do not belong together, or are missing, are named", "[import]") {
  const TempDir folder;
  const auto refusal = [&] {
    return unisono::test::message_of<unisono::DataError>(
        [&] { unisono::data::import_idx(folder.path(), {.path = folder / "a.h5"}); });
  };
  CHECK_THAT(refusal(), Contains("has no file 'train-images-idx3-ubyte'"));
  write_idx_folder(folder);
  unisono::test::write_file(folder / "train-labels-idx1-ubyte", text_of_bytes(idx({3}, {4, 2, 1})));
  CHECK_THAT(refusal(), Contains("train-labels-idx1-ubyte: has shape [3]") && Contains("holds 2 images"));
  write_idx_folder(folder);
  write_gzip(folder / "t10k-images.idx3-ubyte.gz", idx({1, 3, 3}, Bytes(9)));
  CHECK_THAT(refusal(), Contains("t10k-images") && Contains("training images are of [2, 3]"));
  write_idx_folder(folder);
  std::filesystem::remove(folder / "t10k-labels.idx1-ubyte.gz");
  CHECK_THAT(refusal(), Contains("has no file 't10k-labels-idx1-ubyte'"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.h5"));
}

TEST_CASE("a truncated or damaged gzip file is a data error", "[import]") {
  const TempDir folder;
  Bytes values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i >> 3);
  write_gzip(folder / "a.gz", values);
  CHECK(unisono::data::read_bytes(folder / "a.gz") == values);
  const auto size = std::filesystem::file_size(folder / "a.gz");
  std::filesystem::copy(folder / "a.gz", folder / "b.gz");
  std::filesystem::resize_file(folder / "b.gz", size / 2);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_bytes(folder / "b.gz"); }),
             Contains("b.gz: cannot be read to its end: unexpected end of file"));
  std::fstream file(folder / "a.gz", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2));
  file << "damage";
  file.close();
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_bytes(folder / "a.gz"); }),
             Contains("a.gz: cannot be read"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_bytes(folder / "none"); }),
             Contains("there is no such file"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_bytes(folder.path()); }),
             Contains("this is a folder"));
}

TEST_CASE("CIFAR-10's batches become a set", "[import]") {
  const TempDir folder;
  for (int i = 1; i <= 5; ++i) {
    Bytes bytes = cifar_record(static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(10 * i));
    const Bytes second = cifar_record(0, 1);
    bytes.insert(bytes.end(), second.begin(), second.end());
    unisono::test::write_file(folder / fmt::format("data_batch_{}.bin", i), text_of_bytes(bytes));
  }
  unisono::test::write_file(folder / "test_batch.bin", text_of_bytes(cifar_record(9, 3)));
  unisono::test::write_file(folder / "batches.meta.txt",
                            "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const auto summary = unisono::data::import_cifar10(folder.path(), {.path = folder / "a.h5"});
  CHECK(summary.train == 10);
  CHECK(summary.test == 1);
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(file.read<std::int64_t>("train/labels") == std::vector<std::int64_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0});
  CHECK(file.shape("train/features").extent == std::vector<std::uint64_t>{10, 3, 32, 32});
  CHECK(file.read<std::uint8_t>("train/features")[4 * unisono::data::kCifarPixels] == 30);
  CHECK(file.read_attribute<std::vector<std::string>>("", "class_names")[9] == "truck");
}

TEST_CASE("CIFAR-10 bytes that are none are refused with place and reason", "[import]") {
  const auto refusal = [](const Bytes& bytes) {
    return unisono::test::message_of<unisono::DataError>([&] {
      unisono::data::CifarBatch batch;
      unisono::data::parse_cifar(bytes, "f", batch);
    });
  };
  CHECK_THAT(refusal({}), Contains("f: has 0 bytes"));
  CHECK_THAT(refusal(Bytes(3072)), Contains("has 3072 bytes") && Contains("record size of 3073"));
  Bytes two = cifar_record(1, 0);
  const Bytes bad = cifar_record(10, 0);
  two.insert(two.end(), bad.begin(), bad.end());
  CHECK_THAT(refusal(two), Contains("byte 3073: record 1 has the label 10"));
  const TempDir folder;
  CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                 [&] { unisono::data::import_cifar10(folder.path(), {.path = folder / "a.h5"}); }),
             Contains("data_batch_1.bin: there is no such file"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.h5"));
}

TEST_CASE("Fashion-MNIST is imported as it is", "[import][data]") {
  const char* root = std::getenv("UNISONO_DATA");
  if (root == nullptr) {
    WARN("skipped: UNISONO_DATA does not name a folder with fashion-mnist");
    return;
  }
  const TempDir folder;
  const auto summary = unisono::data::import_idx(std::string(root) + "/fashion-mnist", {.path = folder / "a.h5"});
  CHECK(summary.train == 60000);
  CHECK(summary.test == 10000);
  CHECK(summary.classes == 10);
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  // The first labels and the mean that the set's authors and many programs show: 9 0 0 3 0, and 0.2860.
  std::vector<std::int64_t> labels(5);
  file.read_rows("train/labels", 0, 5, labels.data());
  CHECK(labels == std::vector<std::int64_t>{9, 0, 0, 3, 0});
  double sum = 0;
  for (const std::uint8_t pixel : file.read<std::uint8_t>("train/features")) sum += pixel;
  CHECK(sum / (60000.0 * 784 * 255) == Approx(0.2860).margin(0.00005));
}
