#include "unisono/experiment/checkpoint.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::sample_checkpoint;
using testing::SampleModel;
using testing::ScratchFolder;

TEST_CASE("a checkpoint holds everything that was written, bit for bit", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const Checkpoint written = sample_checkpoint(model);
  write_checkpoint(folder.path("a.h5"), written, model.layout());
  const Checkpoint read = read_checkpoint(folder.path("a.h5"), model.layout());

  CHECK(read.parameters == written.parameters);
  CHECK(read.statistics == written.statistics);
  CHECK(read.optimizer == written.optimizer);
  CHECK(read.header.step == 7);
  CHECK(read.header.cursor.epoch == 1);
  CHECK(read.header.cursor.step == 3);
  CHECK(read.header.optimizer_steps == 7);
  CHECK(read.header.seed == written.header.seed);
  CHECK(read.header.config == written.header.config);
  CHECK(read.header.inputs.features == written.header.inputs.features);
  CHECK(read.header.inputs.classes == 3);
  CHECK(read.header.normalization.mean == written.header.normalization.mean);
  CHECK(read.header.normalization.scale == written.header.normalization.scale);
  CHECK(read.header.data_identity == written.header.data_identity);
  CHECK(read.header.epoch_sums.loss == 0.1);
  CHECK(read.header.epoch_sums.correct == 12);
  CHECK(read.header.has_best);
  CHECK(read.header.best == 0.75);
  CHECK(read.header.ranks == 2);
  CHECK(read.header.threads == 3);
  CHECK(read.header.device == "some CPU");
  CHECK_FALSE(read.header.resident);
  CHECK(read.header.build == 5);
  CHECK(read.header.layout == written.header.layout);
  CHECK_FALSE(std::filesystem::exists(folder.path("a.h5.tmp")));
}

TEST_CASE("blocks lie in a checkpoint in canonical order, so that another backend can read them", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  write_checkpoint(folder.path("a.h5"), sample_checkpoint(model), model.layout());

  // Stored [KH, KW, O, I] counts 1, 2, 3, …; so canonical [o][i][h][w] holds 1 + ((2h + w) 3 + o) 2 + i.
  const hdf5::File file(folder.path("a.h5"), hdf5::File::Mode::read);
  CHECK(file.shape("parameters/convolution1.weight").extent == std::vector<std::uint64_t>{3, 2, 2, 2});
  std::vector<float> values(24);
  file.read_rows<float>("parameters/convolution1.weight", 0, 3, values.data());
  for (int o = 0; o < 3; ++o) {
    for (int i = 0; i < 2; ++i) {
      for (int h = 0; h < 2; ++h) {
        for (int w = 0; w < 2; ++w) {
          CHECK(values[static_cast<std::size_t>(((o * 2 + i) * 2 + h) * 2 + w)] ==
                static_cast<float>(1 + ((2 * h + w) * 3 + o) * 2 + i));
        }
      }
    }
  }
}

TEST_CASE("each rank's optimizer state is kept where ranks have their own", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  Checkpoint written = sample_checkpoint(model);
  written.optimizer = {{testing::counted(model.parameters, 10), testing::counted(model.parameters, 20)},
                       {testing::counted(model.parameters, 30), testing::counted(model.parameters, 40)}};
  write_checkpoint(folder.path("a.h5"), written, model.layout({"first", "second"}));
  CHECK(read_checkpoint(folder.path("a.h5"), model.layout({"first", "second"})).optimizer == written.optimizer);
}

TEST_CASE("any flipped byte of a checkpoint is found", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  write_checkpoint(folder.path("good.h5"), sample_checkpoint(model), model.layout());
  const std::string good = bytes_of(folder.path("good.h5"));
  // Every 97th byte, a prime, so that all kinds of places are hit: HDF5's own, header, config, values, the checksum.
  std::size_t found = 0, tried = 0;
  const auto flip = [&](std::size_t at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    const std::string path = folder.file("bad.h5", bad);
    ++tried;
    try {
      read_checkpoint(path, model.layout());
      FAIL("the flipped byte " << at << " was not found");
    } catch (const DamagedCheckpoint& error) {
      found += std::string(error.what()).find(path) != std::string::npos ? 1 : 0;
    }
  };
  for (std::size_t at = 0; at < good.size(); at += 97) flip(at);
  for (std::size_t at = good.size() - 24; at < good.size(); ++at) flip(at);
  CHECK(found == tried);
}

TEST_CASE("a truncated checkpoint is found, wherever it ends", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  write_checkpoint(folder.path("good.h5"), sample_checkpoint(model), model.layout());
  const std::string good = bytes_of(folder.path("good.h5"));
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{23}, std::size_t{24}, good.size() / 2,
                                   good.size() - 24, good.size() - 1}) {
    const std::string path = folder.file("bad.h5", good.substr(0, length));
    CHECK_THROWS_AS(read_checkpoint(path, model.layout()), DamagedCheckpoint);
    CHECK_THROWS_WITH(read_checkpoint_header(path), Contains(path));
  }
  CHECK_THROWS_WITH(read_checkpoint_header(folder.path("none.h5")), Contains("No such file"));
}

TEST_CASE("a checkpoint of another model is refused by the block that differs", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model, wider(4);
  write_checkpoint(folder.path("a.h5"), sample_checkpoint(model), model.layout());
  CHECK_THROWS_WITH(read_checkpoint(folder.path("a.h5"), wider.layout()),
                    Contains("convolution1.weight is 3×2×2×2, but the config's model has 4×2×2×2"));

  ParameterLayout renamed, shorter;
  renamed.add({.name = "dense1.weight", .shape = {3}});
  shorter.add(model.parameters.block("convolution1.weight"));
  const CheckpointLayout other{.parameters = renamed, .statistics = model.statistics, .optimizer = {"velocity"}};
  const CheckpointLayout part{.parameters = shorter, .statistics = model.statistics, .optimizer = {"velocity"}};
  CHECK_THROWS_WITH(read_checkpoint(folder.path("a.h5"), other), Contains("holds no parameters/dense1.weight"));
  CHECK_THROWS_WITH(read_checkpoint(folder.path("a.h5"), part),
                    Contains("holds 2 blocks, but the config's model has 1"));
  CHECK_THROWS_WITH(read_checkpoint(folder.path("a.h5"), model.layout({"first", "second"})),
                    Contains("another optimizer"));
}

TEST_CASE("a model is read for evaluation whatever optimizer it was trained with", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const Checkpoint written = sample_checkpoint(model);
  write_checkpoint(folder.path("a.h5"), written, model.layout());
  std::vector<float> parameters(written.parameters.size()), statistics(written.statistics.size());
  read_model(folder.path("a.h5"), model.layout({}), {.parameters = parameters, .statistics = statistics});
  CHECK(parameters == written.parameters);
  CHECK(statistics == written.statistics);
}

TEST_CASE("where a checkpoint cannot be written, what was there before stays", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  write_checkpoint(folder.path("a.h5"), sample_checkpoint(model, 1), model.layout());
  std::filesystem::create_directory(folder.path("a.h5.tmp"));  // in the way of the file written aside
  CHECK_THROWS_AS(write_checkpoint(folder.path("a.h5"), sample_checkpoint(model, 2), model.layout()), OutputError);
  CHECK(read_checkpoint_header(folder.path("a.h5")).step == 1);
  CHECK_THROWS_WITH(write_checkpoint(folder.path("none/a.h5"), sample_checkpoint(model), model.layout()),
                    Contains("none/a.h5 could not be written"));
}

}  // namespace
}  // namespace unisono
