#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unisono/tensor/holding.hpp"

namespace unisono::session {

/// Whose values a vector of a checkpoint has: where replicas have different ones, each of them has a vector of its own.
enum class ValuesOf { all_replicas, this_replica, another_replica };

/// A vector of a checkpoint, and this rank's part of it.
struct StoredVector {
  std::string group;                       ///< its group in checkpoints: "parameters", "optimizer/1/velocity"
  std::shared_ptr<const Holding> holding;  ///< what this rank holds of it
  MutableView values;                      ///< [holding->size()]
  Allocator* memory = &plain_allocator();  ///< of the values
  ValuesOf of = ValuesOf::all_replicas;    ///< another_replica: this rank writes nothing of it

  const ParameterLayout& layout() const { return holding->layout(); }
  /// Whether ranks hold different parts of it.
  bool is_divided() const { return of != ValuesOf::all_replicas || !holding->held_by_all(); }
};
using StoredVectors = std::vector<StoredVector>;

inline StoredVector stored_vector(std::string group, std::shared_ptr<const Holding> holding, Buffer& values) {
  return {std::move(group), std::move(holding), values.view(), &values.allocator()};
}

/// The parts of a vector that one of several writers writes: its share of each block of a vector that all ranks hold;
/// else all its shards that are first copies.
std::vector<Shard> shards_to_write(const StoredVector& vector, int writer, int writers);

}  // namespace unisono::session
