#include "set/identity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "dense/rows.hpp"
#include "unisono/base/hash.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kSampledRows = 32;  // of each group

std::uint64_t hash_row(const hdf5::File& file, const GroupSchema& group, std::int64_t row, std::uint64_t hash) {
  OwnedRows one(group, {row, row + 1});
  one.block.read(file, group, one.block.rows());
  const RawExample example = one.block.example(row);
  hash = hash_bytes({example.features, static_cast<std::size_t>(group.features.size()) * size_of(group.storage)}, hash);
  if (group.has_labels) hash = hash_bytes(std::as_bytes(std::span(&example.label, 1)), hash);
  if (group.has_weights) hash = hash_bytes(std::as_bytes(std::span(&example.weight, 1)), hash);
  if (group.target_size == 0) return hash;
  return hash_bytes(std::as_bytes(std::span(example.targets, static_cast<std::size_t>(group.target_size))), hash);
}

}  // namespace

std::uint64_t identity_of(const hdf5::File& file, const SetSchema& schema) {
  std::uint64_t hash = 0;
  for (const auto& group : schema.groups) {
    if (!group) continue;
    hash =
        hash_bytes(fmt::format("{} {} {} {} {} {} {}", group->name, group->stored.extent, name_of(group->stored.type),
                               group->scale, group->offset, group->has_labels, group->target_size),
                   hash);
    const std::int64_t rows = std::min(kSampledRows, group->examples);
    for (std::int64_t i = 0; i < rows; ++i)
      hash = hash_row(file, *group, part_of(group->examples, i, rows).first, hash);
  }
  return hash;
}

}  // namespace unisono::data
