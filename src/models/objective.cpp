#include "unisono/models/objective.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

/// A batch of a linear model takes about so long on a thread, if a value takes a nanosecond, and one more for each
/// eight margins beyond the first: enough work for several threads.
constexpr double kNanosecondsOfBatch = 2e6;

std::vector<PenalisedRange> decaying_blocks(const ParameterLayout& layout, const ObjectiveTerms& terms) {
  std::vector<PenalisedRange> decaying;
  for (const Block& block : layout.blocks()) {
    const bool decays = terms.weight_decay != 0 && unisono::decays(block.role, terms.decay);
    if (!decays || block.frozen) continue;
    decaying.push_back({{block.offset, block.offset + block.stored_size()}, 0, terms.weight_decay});
  }
  return decaying;
}

/// The sum of penalties on ranges that may overlap, as ascending and disjoint ranges.
std::vector<PenalisedRange> added(const std::vector<PenalisedRange>& penalties) {
  std::set<Index> ends;
  for (const PenalisedRange& one : penalties) ends.insert({one.range.first, one.range.last});
  std::vector<PenalisedRange> sum;
  for (auto at = ends.begin(); at != ends.end() && std::next(at) != ends.end(); ++at) {
    PenalisedRange piece{{*at, *std::next(at)}};
    for (const PenalisedRange& one : penalties) {
      if (piece.range.first < one.range.first || piece.range.last > one.range.last) continue;
      piece.l1 += one.l1;
      piece.l2 += one.l2;
    }
    const bool goes_on = !sum.empty() && sum.back().range.last == piece.range.first && sum.back().l1 == piece.l1 &&
                         sum.back().l2 == piece.l2;
    if (goes_on) {
      sum.back().range.last = piece.range.last;
    } else if (piece.l1 != 0 || piece.l2 != 0) {
      sum.push_back(piece);
    }
  }
  return sum;
}

/// The largest batch where `count` examples are cut into the fewest batches of at most `most`, all about as large.
Index even_batch(Index count, Index most) {
  const Index batches = std::max<Index>(1, (count + most - 1) / most);
  return std::max<Index>(1, (count + batches - 1) / batches);
}

}  // namespace

Index network_batch(Index count, Index most) {
  constexpr Index kVector = 16;
  const Index vectors = (even_batch(count, most) + kVector - 1) / kVector;
  return std::min(vectors * kVector, most);
}

Index objective_batch(Model& model, const data::DatasetInfo& data, Index count, Index most) {
  if (model.convex() == nullptr) return network_batch(count, most);
  const double row = data.row_values > 0 ? data.row_values : static_cast<double>(data.features.size());
  const double cost = std::max(row, 1.0) * (1 + static_cast<double>(model.output_size()) / 8);
  return even_batch(count, static_cast<Index>(std::max(64.0, kNanosecondsOfBatch / cost)));
}

void Objective::require(Model& model, const data::DatasetInfo& data) {
  model.require_gradient();
  model.require_deterministic();
  if (data.augmented) {
    throw ConfigError(
        "[data.augmentation] changes the examples in every pass, but whole-batch methods minimise one function of the "
        "parameters; remove it");
  }
  if (Convex* const convex = model.convex()) convex->require_smooth();
}

Objective::Objective(Model& model, kernels::Backend& backend, data::Dataset& data, const ObjectiveTerms& terms)
    : model_(model), backend_(backend), data_(data), terms_(terms), convex_(model.convex()) {
  require(model, data.info());
  std::vector<PenalisedRange> penalties = decaying_blocks(model.layout(), terms);
  if (convex_ != nullptr) {
    const std::vector<PenalisedRange> own = convex_->penalties();
    penalties.insert(penalties.end(), own.begin(), own.end());
    convex_->begin_set();
  }
  penalties_ = added(penalties);
}

/// Calls visit(batch) for the portion's batches. \return whether it was not stopped
template <typename Visit>
bool Objective::visit_portion(int portion, const Between& between, Visit visit) {
  const Index n = examples(), count = n * (portion + 1) / terms_.portions - n * portion / terms_.portions;
  const Index batch_size = objective_batch(model_, data_.info(), count, terms_.batch_size);
  const auto source = data_.training_part(portion, terms_.portions, batch_size, terms_.class_weights, terms_.delivery);
  while (auto batch = source->next()) {
    batch->whole = true;
    visit(*batch);
    backend_.submit();  // the source may write over the batch
    if (between && !between(batch->size)) return false;
  }
  return true;
}

bool Objective::add_gradient(int portion, ModelState state, MutableView gradient, kernels::LossSums& sums,
                             const Between& between) {
  const bool complete = visit_portion(portion, between, [&](const data::Batch& batch) {
    if (convex_ != nullptr) {
      convex_->add_data_gradient(batch, share_of_example(), state.parameters, gradient, sums);
    } else {
      model_.loss_and_gradient(batch, share_of_example(), state, {gradient, kernels::Write::add}, sums);
    }
  });
  backend_.collect(sums);  // where it was stopped, too: the device must not keep these sums
  return complete;
}

bool Objective::add_hessian_product(int portion, ModelState state, View v, MutableView product,
                                    const Between& between) {
  return visit_portion(portion, between, [&](const data::Batch& batch) {
    convex_->add_hessian_product(batch, share_of_example(), state.parameters, v, product);
  });
}

double Objective::hessian_cost() const {
  return convex_ == nullptr ? std::numeric_limits<double>::infinity() : convex_->hessian_cost(data_.info().row_values);
}

bool Objective::add_hessian(int portion, ModelState state, MutableView matrix, const Between& between) {
  return visit_portion(portion, between, [&](const data::Batch& batch) {
    convex_->add_hessian(batch, share_of_example(), state.parameters, matrix);
  });
}

}  // namespace unisono::models
