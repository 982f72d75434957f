#include "unisono/session/checkpoint.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <divisions.hpp>
#include <expect.hpp>
#include <far_allocator.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::counted;
using testing::sample_header;
using testing::SampleModel;
using testing::SampleState;
using testing::ScratchFolder;
using testing::write_checkpoint;
using testing::write_sample;

void expect_sample(const CheckpointHeader& read, const CheckpointHeader& written) {
  EXPECT(read.step == 7);
  EXPECT(read.cursor.epoch == 1);
  EXPECT(read.cursor.step == 3);
  EXPECT(read.optimizer_steps == 7);
  EXPECT(read.seed == written.seed);
  EXPECT(read.config == written.config);
  EXPECT(read.inputs.features == written.inputs.features);
  EXPECT(read.inputs.classes == 3);
  EXPECT(read.preprocessing.normalization.mean == written.preprocessing.normalization.mean);
  EXPECT(read.preprocessing.normalization.scale == written.preprocessing.normalization.scale);
  EXPECT(read.data_identity == written.data_identity);
  EXPECT(read.epoch_sums.loss == 0.1);
  EXPECT(read.epoch_sums.correct == 12);
  EXPECT(read.has_best);
  EXPECT(read.best == 0.75);
  EXPECT(read.ranks == 2);
  EXPECT(read.threads == 3);
  EXPECT(read.device == "some CPU");
  EXPECT(!read.resident);
  EXPECT(read.build == 5);
  EXPECT(read.layout == written.layout);
}

/// Collective: what a checkpoint says of a state, read into its vectors.
void read_state(comm::Communicator& world, const std::string& path, const StoredVectors& state) {
  const StoredCheckpoint stored = open_checkpoint(world, path);
  for (const StoredVector& vector : state) read_vector(world, stored, {vector.group}, vector);
}

TEST_CASE("a checkpoint holds everything that was written, bit for bit, on any number of ranks", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const std::string path = folder.path("a.h5");
  for (const int writers : {1, 2, 3}) {
    comm::run_as_threads(writers, [&](comm::Communicator& world) {
      SampleState state(model);
      testing::write_checkpoint(world, path, testing::sample_header(model), state.held());
    });
    CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
    for (const int readers : {1, 2, 3}) {
      comm::run_as_threads(readers, [&](comm::Communicator& world) {
        SampleState state(model);
        state.clear();
        read_state(world, path, state.held());
        EXPECT(state == SampleState(model));
        const StoredCheckpoint stored = open_checkpoint(world, path);
        EXPECT(stored.seen_by_all);
        EXPECT(stored.optimizer_states == 1);
        expect_sample(stored.header, testing::sample_header(model));
      });
    }
    std::filesystem::remove(path);
  }
}

TEST_CASE("vectors that only a device reads are written and read through plain memory", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const std::string path = folder.path("a.h5");
  for (const int ranks : {1, 2}) {
    comm::run_as_threads(ranks, [&](comm::Communicator& world) {
      FarAllocator far;
      SampleState state(model);
      Buffer parameters(model.parameters.size(), far);
      far.copy(state.parameters, parameters.view());
      StoredVectors held = state.held();
      held[0].values = parameters.view();
      held[0].memory = &far;
      testing::write_checkpoint(world, path, testing::sample_header(model), held);

      SampleState read(model);  // into plain vectors
      read.clear();
      read_state(world, path, read.held());
      EXPECT(read == state);

      std::ranges::fill(parameters.view(), 0.0F);
      read_state(world, path, held);
      std::vector<float> back(state.parameters.size());
      far.copy(parameters.view(), back);
      EXPECT(back == state.parameters);
    });
    std::filesystem::remove(path);
  }
}

/// All numbers of a checkpoint, by their names in the file.
std::map<std::string, std::vector<float>> numbers_in(const std::string& path, const SampleModel& model) {
  const data::hdf5::File file(path, data::hdf5::File::Mode::read);
  std::map<std::string, std::vector<float>> numbers;
  SampleState state(model);
  for (const StoredVector& vector : state.held()) {
    for (const Block& block : vector.layout().blocks()) {
      const std::string name = vector.group + "/" + block.name;
      numbers[name] = file.read<float>(name);
    }
  }
  return numbers;
}

TEST_CASE("a checkpoint that several ranks wrote is the one that a single rank writes", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  testing::write_sample(folder.path("1.h5"), model);
  for (const int writers : {2, 3, 5}) {
    const std::string path = folder.path(std::to_string(writers) + ".h5");
    comm::run_as_threads(writers, [&](comm::Communicator& world) {
      SampleState state(model);
      testing::write_checkpoint(world, path, testing::sample_header(model), state.held());
    });
    CHECK(numbers_in(path, model) == numbers_in(folder.path("1.h5"), model));
    CHECK(std::filesystem::file_size(path) == std::filesystem::file_size(folder.path("1.h5")));
  }
}

/// What tells a number of θ from all others.
float element_value(const test::Element& element) {
  return static_cast<float>(1000 * (element.block + 1) + element.position);
}

TEST_CASE("what ranks divide is written by its holders, and read in any other division", "[checkpoint]") {
  const ScratchFolder folder;
  const ParameterLayout layout = test::mixed_layout();
  const std::string path = folder.path("a.h5");
  const auto held_values = [](const ShardMap& map, int rank) {
    std::vector<float> values(static_cast<std::size_t>(map.local(rank).size()));
    test::for_each_held(map, rank, [&](test::Element element, std::size_t at) { values[at] = element_value(element); });
    return values;
  };
  const auto require_readable = [&](const ShardMap& map) {
    comm::run_as_threads(map.ranks(), [&](comm::Communicator& world) {
      const std::vector<float> expected = held_values(map, world.rank());
      std::vector<float> read(expected.size());
      read_state(world, path, {testing::divided_vector("parameters", map, world.rank(), read)});
      EXPECT(read == expected);
    });
  };
  const auto write = [&](const ShardMap& map) {
    comm::run_as_threads(map.ranks(), [&](comm::Communicator& world) {
      std::vector<float> values = held_values(map, world.rank());
      testing::write_checkpoint(world, path, testing::sample_header(SampleModel()),
                                {testing::divided_vector("parameters", map, world.rank(), values)});
    });
  };
  for (const int writers : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, writers)) {
      INFO(name << " over " << writers);
      write(map);
      require_readable(test::whole(layout, 1));
      std::filesystem::remove(path);
    }
  }
  write(test::dealt_rows(layout, 3));
  for (const int readers : {1, 2, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, readers)) {
      INFO(name << " over " << readers);
      require_readable(map);
    }
  }
  std::vector<float> read(static_cast<std::size_t>(layout.size()));
  read_state(*comm::make_self_communicator(), path, {testing::whole_vector("parameters", layout, read)});
  CHECK(read == held_values(test::whole(layout, 1), 0));
}

TEST_CASE("where not all ranks see the file, rank 0 writes and reads for all", "[checkpoint]") {
  const ScratchFolder shared, other;
  const SampleModel model;
  comm::run_as_threads(3, [&](comm::Communicator& world) {
    const std::string path = (world.rank() == 2 ? other : shared).path("a.h5");
    SampleState state(model);
    testing::write_checkpoint(world, path, testing::sample_header(model), state.held());
    EXPECT(std::filesystem::exists(path) == (world.rank() != 2));
    state.clear();
    EXPECT(!open_checkpoint(world, path).seen_by_all);
    read_state(world, path, state.held());
    EXPECT(state == SampleState(model));
  });
  // Another file of this name and size is none of the ranks' business.
  std::filesystem::copy(shared.path("a.h5"), other.path("a.h5"));
  std::fstream(other.path("a.h5"), std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('x');
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    const std::string path = (world.rank() == 1 ? other : shared).path("a.h5");
    EXPECT(!open_checkpoint(world, path).seen_by_all);
  });
}

TEST_CASE("ranks that hold parts of a state and do not see one file say what they need", "[checkpoint]") {
  const ScratchFolder shared, other;
  const SampleModel model;
  std::atomic<int> refused{0};
  testing::write_sample(shared.path("b.h5"), model);
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    const ScratchFolder& folder = world.is_root() ? shared : other;
    const ShardMap map = test::by_rows(model.statistics, world.size());
    std::vector<float> values(static_cast<std::size_t>(map.local(world.rank()).size()));
    const StoredVector part = testing::divided_vector("statistics", map, world.rank(), values);
    const auto expect_refused = [&](const auto& work) {
      try {
        work();
      } catch (const OutputError& error) {
        refused += std::string(error.what()).find("file system that all nodes share") != std::string::npos ? 1 : 0;
      }
    };
    expect_refused(
        [&] { testing::write_checkpoint(world, folder.path("a.h5"), testing::sample_header(model), {part}); });
    const StoredCheckpoint stored = open_checkpoint(world, folder.path("b.h5"));
    expect_refused([&] { read_vector(world, stored, {"statistics"}, part); });
  });
  CHECK(refused == 4);
  CHECK_FALSE(std::filesystem::exists(shared.path("a.h5.tmp")));
}

TEST_CASE("blocks lie in a checkpoint in canonical order, so that another backend can read them", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  testing::write_sample(folder.path("a.h5"), model);

  // Stored [KH, KW, O, I] counts 1, 2, 3, …; so canonical [o][i][h][w] holds 1 + ((2h + w) 3 + o) 2 + i.
  const data::hdf5::File file(folder.path("a.h5"), data::hdf5::File::Mode::read);
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

TEST_CASE("each rank's optimizer state is kept where ranks have their own, and their mean can be read",
          "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const std::string path = folder.path("a.h5");
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    std::vector<float> own = testing::counted(model.parameters, world.is_root() ? 10 : 20);
    StoredVectors state;
    for (int rank = 0; rank < world.size(); ++rank) {
      state.push_back(testing::whole_vector(optimizer_group(rank, "velocity"), model.parameters, own));
      state.back().of = rank == world.rank() ? ValuesOf::this_replica : ValuesOf::another_replica;
    }
    testing::write_checkpoint(world, path, testing::sample_header(model), state);
  });
  const auto world = comm::make_self_communicator();
  const StoredCheckpoint stored = open_checkpoint(*world, path);
  CHECK(stored.optimizer_states == 2);
  const auto read = [&](const std::vector<std::string>& groups) {
    std::vector<float> values(static_cast<std::size_t>(model.parameters.size()));
    read_vector(*world, stored, groups, testing::whole_vector("", model.parameters, values));
    return values;
  };
  CHECK(read({optimizer_group(0, "velocity")}) == testing::counted(model.parameters, 10));
  CHECK(read({optimizer_group(1, "velocity")}) == testing::counted(model.parameters, 20));
  CHECK(read({optimizer_group(0, "velocity"), optimizer_group(1, "velocity")}) ==
        testing::counted(model.parameters, 15));
}

TEST_CASE("any flipped byte of a checkpoint is found", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  testing::write_sample(folder.path("good.h5"), model);
  const std::string good = testing::bytes_of(folder.path("good.h5"));
  // Every 97th byte, a prime, so that all kinds of places are hit: HDF5's own, header, config, values, the checksum.
  std::size_t found = 0, tried = 0;
  const auto flip = [&](std::size_t at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    const std::string path = folder.file("bad.h5", bad);
    ++tried;
    found += testing::damage_of(path).find(path) != std::string::npos ? 1 : 0;
  };
  for (std::size_t at = 0; at < good.size(); at += 97) flip(at);
  for (std::size_t at = good.size() - 25; at < good.size(); ++at) flip(at);
  CHECK(found == tried);
}

TEST_CASE("a truncated checkpoint is found, wherever it ends", "[checkpoint]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  const SampleModel model;
  testing::write_sample(folder.path("good.h5"), model);
  const std::string good = testing::bytes_of(folder.path("good.h5"));
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{24}, std::size_t{25}, good.size() / 2,
                                   good.size() - 25, good.size() - 1}) {
    const std::string path = folder.file("bad.h5", good.substr(0, length));
    CHECK_THROWS_AS(open_checkpoint(*world, path), DamagedCheckpoint);
    CHECK_THROWS_WITH(open_checkpoint(*world, path), Contains(path));
  }
  CHECK_THROWS_WITH(open_checkpoint(*world, folder.path("none.h5")), Contains("No such file"));
}

TEST_CASE("a checkpoint of another model is refused by the block that differs", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model, wider(4);
  const std::string path = folder.path("a.h5");
  testing::write_sample(path, model);
  CHECK_THROWS_WITH(require_same_model(path, wider.parameters, model.statistics),
                    Contains("convolution1.weight is 3×2×2×2, but the config's model has 4×2×2×2"));

  ParameterLayout renamed, shorter;
  renamed.add({.name = "dense1.weight", .shape = {3}});
  shorter.add(model.parameters.block("convolution1.weight"));
  CHECK_THROWS_WITH(require_same_model(path, renamed, model.statistics), Contains("has no parameters/dense1.weight"));
  CHECK_THROWS_WITH(require_same_model(path, shorter, model.statistics),
                    Contains("holds 2 tensors, but the config's model has 1"));
  CHECK_THROWS_WITH(require_same_optimizer(path, {{"first", &model.parameters}, {"second", &model.parameters}}),
                    Contains("does not fit the config's optimizer"));
  require_same_model(path, model.parameters, model.statistics);
  CHECK_THROWS_WITH(require_same_optimizer(path, {{"velocity", &wider.parameters}}),
                    Contains("optimizer/0/velocity/convolution1.weight is 3×2×2×2"));
  require_same_optimizer(path, {{"velocity", &model.parameters}});
}

TEST_CASE("where a checkpoint cannot be written, all ranks say so, and what was there before stays", "[checkpoint]") {
  const ScratchFolder folder;
  const SampleModel model;
  const auto fails = [&](const std::string& path) {
    std::atomic<int> said{0};
    comm::run_as_threads(3, [&](comm::Communicator& world) {
      SampleState state(model);
      try {
        testing::write_checkpoint(world, path, testing::sample_header(model, 2), state.held());
      } catch (const OutputError& error) {
        said += std::string(error.what()).find(path + " could not be written") != std::string::npos ? 1 : 0;
      }
    });
    return said == 3;
  };
  testing::write_sample(folder.path("a.h5"), model, 1);
  std::filesystem::create_directory(folder.path("a.h5.tmp"));  // in the way of the file written aside
  CHECK(fails(folder.path("a.h5")));
  CHECK(read_header(folder.path("a.h5")).step == 1);
  CHECK(fails(folder.path("none/a.h5")));
  std::filesystem::create_directories(folder.path("b.h5/in the way"));  // of the finished file
  CHECK(fails(folder.path("b.h5")));
  CHECK_FALSE(std::filesystem::exists(folder.path("b.h5.tmp")));
}

}  // namespace
}  // namespace unisono::session
