#pragma once

#include <barrier>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::test {

/// A set whose example i of a group has the features i·F, i·F + 1, … (as T) and the label i mod classes.
struct CountingSet {
  std::int64_t train = 10, validation = 0, test = 0;
  std::vector<std::uint64_t> shape = {3};  ///< of an example
  std::int64_t classes = 2;                ///< 0: no labels
  std::uint64_t chunk_rows = 0;
  int compression = 0;
};

template <typename T>
void write_group(data::hdf5::File& file, const std::string& name, std::int64_t examples, const CountingSet& set) {
  std::vector<std::uint64_t> extent{static_cast<std::uint64_t>(examples)};
  extent.insert(extent.end(), set.shape.begin(), set.shape.end());
  std::size_t size = static_cast<std::size_t>(examples);
  for (const auto n : set.shape) size *= n;
  std::vector<T> features(size);
  for (std::size_t i = 0; i < size; ++i) features[i] = static_cast<T>(i);
  file.create<T>(name + "/features", extent, set.chunk_rows, set.compression);
  file.write_rows(name + "/features", 0, extent[0], features.data());
  if (set.classes == 0) return;
  std::vector<std::int64_t> labels(extent[0]);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i) % set.classes;
  file.write(name + "/labels", labels);
}

template <typename T = float>
std::string write_set(const std::string& path, const CountingSet& set) {
  data::hdf5::File file(path, data::hdf5::File::Mode::create);
  if (set.train > 0) write_group<T>(file, "train", set.train, set);
  if (set.validation > 0) write_group<T>(file, "validation", set.validation, set);
  if (set.test > 0) write_group<T>(file, "test", set.test, set);
  if (set.classes > 0) file.write_attribute("", "classes", set.classes);
  return path;
}

/// Ranks as threads, all on one node: what comm does for processes, for NodeShare alone.
class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : ranks_(ranks), barrier_(ranks), texts_(static_cast<std::size_t>(ranks)) {}

  /// \param window false: no memory is to be shared
  data::NodeShare share(int rank, bool window = true) {
    data::NodeShare share;
    share.node_rank = rank;
    share.node_size = ranks_;
    share.barrier = [this] { barrier_.arrive_and_wait(); };
    share.allocate = [this, rank, window](std::size_t bytes) -> std::byte* {
      if (rank == 0 && window) windows_.emplace_back(static_cast<Index>(bytes / sizeof(float) + 1));
      barrier_.arrive_and_wait();
      std::byte* base = window ? reinterpret_cast<std::byte*>(windows_.back().data()) : nullptr;
      barrier_.arrive_and_wait();
      return base;
    };
    share.gather = [this, rank](const std::string& text) {
      texts_[static_cast<std::size_t>(rank)] = text;
      barrier_.arrive_and_wait();
      auto texts = texts_;
      barrier_.arrive_and_wait();
      return texts;
    };
    return share;
  }

  void run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) threads.emplace_back(body, rank);
    for (auto& thread : threads) thread.join();
  }

 private:
  int ranks_;
  std::barrier<> barrier_;
  std::vector<std::string> texts_;
  std::vector<Buffer> windows_;
};

/// The examples of the next `steps` steps, each the concatenation of its micro-batches.
inline std::vector<std::vector<std::uint64_t>> take_steps(data::BatchSource& source, std::int64_t steps) {
  std::vector<std::vector<std::uint64_t>> taken;
  while (static_cast<std::int64_t>(taken.size()) < steps) {
    std::vector<std::uint64_t> step;
    for (bool last = false; !last;) {
      const data::Batch batch = source.next();
      step.insert(step.end(), batch.examples.begin(), batch.examples.end());
      last = batch.last_of_step;
    }
    taken.push_back(step);
  }
  return taken;
}

/// All examples of a split, [examples · features], in the set's order.
inline std::vector<float> features_of(data::Dataset& set, data::Split split) {
  std::vector<float> all;
  const auto source = set.evaluate(split, 0, 1, 3);
  while (const auto batch = source->next()) all.insert(all.end(), batch->features.begin(), batch->features.end());
  return all;
}

}  // namespace unisono::test
