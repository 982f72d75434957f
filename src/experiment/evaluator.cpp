#include "evaluator.hpp"

#include "losses.hpp"

namespace unisono {

std::vector<Metric> evaluate_split(Communicator& world, Dataset& data, Split split, Index batch_size, Model& model,
                                   ModelState state, Division* division) {
  LossSums sums;
  const auto source = data.evaluate(split, world.rank(), world.size(), batch_size);
  if (division != nullptr) {
    division->evaluate(*source, state.parameters, sums);
  } else {
    while (const auto batch = source->next()) model.evaluate(*batch, state, sums);
  }
  return model.metrics(sum_over_ranks(world, sums));
}

std::int64_t examples_of(const DatasetInfo& info, Split split) {
  if (split == Split::train) return info.train;
  return split == Split::validation ? info.validation : info.test;
}

Split judging_split(const DatasetInfo& info) { return info.validation > 0 ? Split::validation : Split::test; }

}  // namespace unisono
