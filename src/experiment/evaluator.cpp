#include "evaluator.hpp"

#include "losses.hpp"

namespace unisono {

std::vector<Metric> evaluate_split(ModelParts& parts, Dataset& data, Split split, Index batch_size) {
  LossSums sums;
  const auto source = data.evaluate(split, parts.world.rank(), parts.world.size(), batch_size, parts.delivery());
  if (parts.division != nullptr) {
    parts.division->evaluate(*source, parts.parameters.view(), sums);
  } else {
    while (const auto batch = source->next()) parts.model->evaluate(*batch, parts.state(), sums);
  }
  return parts.model->metrics(sum_over_ranks(parts.world, sums));
}

std::int64_t examples_of(const DatasetInfo& info, Split split) {
  if (split == Split::train) return info.train;
  return split == Split::validation ? info.validation : info.test;
}

Split watched_split(const DatasetInfo& info) { return info.validation > 0 ? Split::validation : Split::test; }

}  // namespace unisono
