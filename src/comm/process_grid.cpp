#include "unisono/comm/process_grid.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::comm {
namespace {

/// Returns the shape, after checking that it has as many ranks as there are.
const GridShape& require_fitting(const GridShape& shape, int ranks) {
  if (shape.data < 1 || shape.stages < 1 || shape.tensor < 1) {
    throw ConfigError(
        fmt::format("a process grid of {} × {} × {} ranks (data × stages × tensor) is none; each of the "
                    "three numbers must be at least 1",
                    shape.data, shape.stages, shape.tensor));
  }
  // Divided, since a product may be too large for any integer.
  const bool fits = ranks % shape.tensor == 0 && ranks / shape.tensor % shape.stages == 0 &&
                    ranks / shape.tensor / shape.stages == shape.data;
  if (fits) return shape;
  throw LaunchError(
      fmt::format("a process grid of {} × {} × {} ranks (data × stages × tensor) does not fit, because {} {} started; "
                  "start as many "
                  "ranks as their product, or choose numbers whose product is {}",
                  shape.data, shape.stages, shape.tensor, count_of(ranks, "rank"), ranks == 1 ? "was" : "were", ranks));
}

}  // namespace

GridPlace place_of(const GridShape& shape, int rank) {
  const int piece = rank / shape.tensor;
  return {.data = piece / shape.stages, .stage = piece % shape.stages, .tensor = rank % shape.tensor};
}

int rank_of(const GridShape& shape, const GridPlace& place) {
  return (place.data * shape.stages + place.stage) * shape.tensor + place.tensor;
}

ProcessGrid::Axis::Axis(Communicator& all, int extent, int line, int number) {
  if (extent == all.size()) return;
  own_ = extent == 1 ? all.alone() : all.split(line, number);
}

ProcessGrid::ProcessGrid(Communicator& all, const GridShape& shape)
    : all_(all),
      shape_(require_fitting(shape, all.size())),
      place_(place_of(shape, all.rank())),
      data_(all, shape.data, place_.stage * shape.tensor + place_.tensor, place_.data),
      pipeline_(all, shape.stages, place_.data * shape.tensor + place_.tensor, place_.stage),
      tensor_(all, shape.tensor, place_.data * shape.stages + place_.stage, place_.tensor),
      replica_(all, shape.stages * shape.tensor, place_.data, place_.stage * shape.tensor + place_.tensor) {}

}  // namespace unisono::comm
