#include "unisono/session/evaluator.hpp"

#include "unisono/session/losses.hpp"

namespace unisono::session {

namespace {

/// Into how many portions a split is divided; each is evaluated by one replica. Where sums are to be reproducible, this
/// does not depend on the number of replicas, so that batches and sums are the same ones everywhere.
int portions_of(const settings::Config& config, int replicas) {
  constexpr int kPortionsOfLeaf = 4;
  const int leaves = config.communication.tree_leaves();
  return leaves > 0 ? kPortionsOfLeaf * leaves : replicas;
}

}  // namespace

std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config) {
  kernels::LossSums sums;
  comm::Communicator& replicas = parts.grid.data();
  const int portions = portions_of(config, replicas.size());
  const comm::Slice own = comm::slice_of(portions, replicas.rank(), replicas.size());
  for (Index portion = own.first; portion < own.last; ++portion) {
    const auto source =
        data.evaluate(split, static_cast<int>(portion), portions, config.train.evaluation_batch_size, parts.delivery());
    parts.replica->evaluate(*source, parts.state(), sums);
    if (config.communication.tree_leaves() > 0) sums.settle();
  }
  return parts.model->metrics(sum_over_ranks(parts.grid.all(), sums));
}

std::int64_t examples_of(const data::DatasetInfo& info, data::Split split) {
  if (split == data::Split::train) return info.train;
  return split == data::Split::validation ? info.validation : info.test;
}

data::Split watched_split(const data::DatasetInfo& info) {
  return info.validation > 0 ? data::Split::validation : data::Split::test;
}

}  // namespace unisono::session
