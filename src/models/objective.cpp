#include "unisono/models/objective.hpp"

#include <algorithm>

namespace unisono::models {
namespace {

std::vector<FloatRange> decaying_blocks(const ParameterLayout& layout, const ObjectiveTerms& terms) {
  std::vector<FloatRange> decaying;
  for (const Block& block : layout.blocks()) {
    const bool decays = terms.weight_decay != 0 && (block.role == Role::weight || terms.decay_biases_and_norms);
    if (decays && !block.frozen) decaying.push_back({block.offset, block.offset + block.stored_size()});
  }
  return decaying;
}

}  // namespace

Objective::Objective(Model& model, kernels::Backend& backend, data::Dataset& data, const ObjectiveTerms& terms)
    : model_(model), backend_(backend), data_(data), terms_(terms), decaying_(decaying_blocks(model.layout(), terms)) {}

double Objective::share_of(std::int64_t examples) const {
  return static_cast<double>(examples) / static_cast<double>(data_.info().train);
}

double Objective::penalty(View parameters) const {
  double squares = 0;
  for (const FloatRange& block : decaying_) squares += backend_.squared_norm(part(parameters, block));
  return model_.penalty(parameters) + terms_.weight_decay / 2 * squares;
}

void Objective::add_decay(double share, View parameters, MutableView gradient) const {
  const auto factor = static_cast<float>(share * terms_.weight_decay);
  for (const FloatRange& block : decaying_) {
    backend_.axpby(factor, part(parameters, block), 1, part(gradient, block));
  }
}

/// Calls visit(batch, sums) for the portion's batches, each of which is on this rank alone. \return the sums
template <typename Visit>
kernels::LossSums Objective::visit_portion(int portion, Visit visit) const {
  const auto source =
      data_.training_part(portion, terms_.portions, terms_.batch_size, terms_.class_weights, terms_.delivery);
  kernels::LossSums sums;
  while (auto batch = source->next()) {
    batch->whole = true;
    visit(*batch, sums);
    backend_.submit();  // the source writes over the batch
  }
  backend_.collect(sums);
  return sums;
}

double Objective::value_of(const kernels::LossSums& sums, View parameters) const {
  return sums.loss / static_cast<double>(data_.info().train) + share_of(sums.examples) * penalty(parameters);
}

double Objective::value(int portion, ModelState state) {
  const kernels::LossSums sums = visit_portion(
      portion, [&](const data::Batch& batch, kernels::LossSums& into) { model_.loss(batch, state, into); });
  return value_of(sums, state.parameters);
}

double Objective::value_and_gradient(int portion, ModelState state, MutableView gradient, kernels::Write write) {
  const auto scale = static_cast<float>(1 / static_cast<double>(data_.info().train));
  if (write == kernels::Write::overwrite) backend_.clear(gradient);
  const kernels::LossSums sums = visit_portion(portion, [&](const data::Batch& batch, kernels::LossSums& into) {
    model_.loss_and_gradient(batch, scale, state, gradient, kernels::Write::add, {}, into);
  });
  add_decay(share_of(sums.examples), state.parameters, gradient);
  return value_of(sums, state.parameters);
}

}  // namespace unisono::models
