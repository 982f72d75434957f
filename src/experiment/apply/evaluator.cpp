#include "apply/evaluator.hpp"

#include "run/losses.hpp"

namespace unisono::experiment {

std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           Index batch_size) {
  kernels::LossSums sums;
  comm::Communicator& replicas = parts.grid.data();
  const auto source = data.evaluate(split, replicas.rank(), replicas.size(), batch_size, parts.delivery());
  if (parts.division != nullptr) {
    parts.division->evaluate(*source, parts.parameters.view(), sums);
  } else {
    parts.replica->evaluate(*source, parts.state(), sums);
  }
  return parts.model->metrics(sum_over_ranks(replicas, sums));
}

std::int64_t examples_of(const data::DatasetInfo& info, data::Split split) {
  if (split == data::Split::train) return info.train;
  return split == data::Split::validation ? info.validation : info.test;
}

data::Split watched_split(const data::DatasetInfo& info) {
  return info.validation > 0 ? data::Split::validation : data::Split::test;
}

}  // namespace unisono::experiment
