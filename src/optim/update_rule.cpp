#include "update_rule.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace unisono::optim {

UpdateRule::UpdateRule(const OptimizerSettings& settings, const ParameterLayout& layout,
                       kernels::UpdateKernels& backend, const std::vector<std::string>& state_names, bool adapt_weights)
    : backend_(backend),
      ranges_(make_ranges(
          layout, {.decay = settings.weight_decay != 0, .rule = settings.decay, .adapt_weights = adapt_weights})),
      whole_({{.first = 0, .last = layout.size()}}),
      has_block_rates_(adapt_weights),
      own_state_(state_names.size()),
      weight_decay_(settings.weight_decay),
      clip_norm_(settings.clip_norm) {
  for (const std::string& name : state_names) state_.push_back({name, Buffer(layout.size(), backend.memory())});
  if (clip_norm_ != 0) squared_norm_ = Buffer(2, backend.memory());
}

void UpdateRule::step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) {
  assert(static_cast<Index>(parameters.size()) == whole_.front().last);
  kernels::GradientScale scale{.factor = gradient_scale};
  if (clip_norm_ != 0) {
    const std::span<double> norm = as_doubles(squared_norm_.view());
    if (divided_) {
      norm.front() = divided_->whole(squares_of(gradient));
    } else {
      backend_.squared_norms(gradient, whole_, norm);
    }
    scale.clip_norm = clip_norm_;
    scale.squared_norm = norm;
    last_factor_ = gradient_scale;
  }
  begin(learning_rate, scale);
  update_floats({0, whole_.front().last}, ranges_, parameters, gradient);
}

void UpdateRule::begin_step(double learning_rate, float gradient_scale) {
  assert(steps_in_parts());
  begin(learning_rate, {.factor = gradient_scale});
}

void UpdateRule::begin(double learning_rate, const kernels::GradientScale& scale) {
  ++steps_;
  rate_ = learning_rate;
  scale_ = scale;
}

void UpdateRule::step_part(Index first, MutableView parameters, View gradient) {
  const Index last = first + std::ssize(parameters);
  part_ranges_.clear();
  for (kernels::UpdateRange range : ranges_) {
    range.first = std::max(range.first, first) - first;
    range.last = std::min(range.last, last) - first;
    if (range.first < range.last) part_ranges_.push_back(range);
  }
  update_floats({first, last}, part_ranges_, parameters, gradient);
}

void UpdateRule::update_floats(FloatRange floats, std::span<const kernels::UpdateRange> ranges, MutableView parameters,
                               View gradient) {
  assert(parameters.size() == gradient.size());
  update({.theta = parameters,
          .g = gradient,
          .ranges = ranges,
          .floats = floats,
          .rate = static_cast<float>(rate_),
          .decay = static_cast<float>(weight_decay_),
          .scale = scale_});
  backend_.submit();
}

std::unique_ptr<kernels::StepAtOnce> UpdateRule::step_at_once(MutableView parameters) {
  auto* const kernels = dynamic_cast<kernels::StepKernels*>(&backend_);
  if (kernels == nullptr || !steps_in_parts() || divided_) return nullptr;
  return update_at_once({.theta = parameters,
                         .g = {},
                         .ranges = ranges_,
                         .floats = {0, std::ssize(parameters)},
                         .rate = static_cast<float>(rate_),
                         .decay = static_cast<float>(weight_decay_),
                         .scale = scale_},
                        *kernels);
}

void UpdateRule::reset() {
  for (OptimizerState& state : state_) backend_.clear(state.values.view());
  steps_ = 0;
}

double UpdateRule::last_gradient_norm() const {
  if (last_factor_ < 0) return -1;
  std::array<float, 2> halves{};
  backend_.memory().copy(squared_norm_.view(), halves);
  return static_cast<double>(last_factor_) * std::sqrt(std::bit_cast<double>(halves));
}

DividedSums::Add UpdateRule::squares_of(View vector) {
  return [this, vector](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
    backend_.sum_squares(vector, {&range, 1}, exactly, {&sum, 1});
  };
}

MutableView UpdateRule::state_vector(std::size_t which, const RuleStep& step) {
  return which < own_state_ ? part(state_[which].values.view(), step.floats) : MutableView{};
}

std::vector<kernels::UpdateRange> make_ranges(const ParameterLayout& layout, const RangeRules& rules) {
  const std::vector<Block>& blocks = layout.blocks();
  std::vector<kernels::UpdateRange> ranges;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].frozen) continue;
    const kernels::UpdateRange range{.first = blocks[i].offset,
                                     .last = i + 1 < blocks.size() ? blocks[i + 1].offset : layout.size(),
                                     .decays = rules.decay && decays(blocks[i].role, rules.rule),
                                     .adapted = rules.adapt_weights && is_weight(blocks[i].role)};
    const bool merges = !ranges.empty() && ranges.back().last == range.first && !range.adapted &&
                        !ranges.back().adapted && range.decays == ranges.back().decays;
    if (merges) {
      ranges.back().last = range.last;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

ParameterLayout layout_of(const Holding& holding) {
  std::vector<InterleavedBlock> parts;  // of one row, in which blocks may begin anywhere
  for (const BlockRange& range : holding.ranges()) {
    const Block& block = holding.layout().blocks()[range.block];
    const Index count = range.floats.last - range.floats.first;
    parts.push_back(
        {{.name = block.name, .shape = {1, count}, .role = block.role, .frozen = block.frozen}, range.floats.first});
  }
  ParameterLayout local;
  if (!parts.empty()) local.add_rows(std::move(parts), holding.size());
  return local;
}

DividedSums::DividedSums(const Holding& holding)
    : own_(holding.ranges()), blocks_(holding.layout().blocks().size()), ranks_(*holding.squares()) {}

std::vector<double> DividedSums::totals(std::size_t count, const std::vector<Term>& terms) {
  std::vector<double> values(count);
  std::vector<char> open(count, 1);
  for (const bool exactly : {false, true}) {
    std::vector<ExactSquares> sums(count);
    for (const Term& term : terms) {
      if (open[term.sum] != 0) (*term.add)(term.range, exactly, sums[term.sum]);
    }
    ranks_.sum(sums);
    for (std::size_t i = 0; i < count; ++i) {
      if (open[i] == 0) continue;
      const auto settled = exactly ? sums[i].value() : sums[i].settled_value();
      if (settled) values[i] = *settled;
      open[i] = settled ? 0 : 1;
    }
    if (std::ranges::find(open, 1) == open.end()) break;
  }
  return values;
}

double DividedSums::whole(const Add& add) {
  std::vector<Term> terms;
  for (const FloatRange& range : joined(own_)) terms.push_back({&add, {.first = range.first, .last = range.last}, 0});
  return totals(1, terms).front();
}

void DividedSums::of_blocks(std::span<const kernels::UpdateRange> ranges, std::initializer_list<Vector> vectors) {
  std::vector<Term> terms;
  std::vector<std::size_t> blocks(ranges.size());  // of the ranges
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i].adapted) continue;
    const auto own = std::ranges::find(own_, ranges[i].first, [](const BlockRange& one) { return one.floats.first; });
    blocks[i] = own->block;
    std::size_t sum = own->block;
    for (const Vector& vector : vectors) {
      if (!own->counts) break;
      terms.push_back({&vector.add, ranges[i], sum});
      sum += blocks_;
    }
  }
  const std::vector<double> values = totals(blocks_ * vectors.size(), terms);
  std::size_t first = 0;
  for (const Vector& vector : vectors) {
    for (std::size_t i = 0; i < ranges.size(); ++i) vector.norms[i] = ranges[i].adapted ? values[first + blocks[i]] : 0;
    first += blocks_;
  }
}

double squared_norm(const Holding& holding, View vector, kernels::VectorKernels& kernels) {
  if (holding.squares() == nullptr) return kernels.squared_norm(vector);
  if (kernels.device() == nullptr) {
    return DividedSums(holding).whole([&](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
      kernels.sum_squares(vector, {&range, 1}, exactly, {&sum, 1});
    });
  }
  double own = 0;
  for (const FloatRange& range : joined(holding.ranges())) own += kernels.squared_norm(part(vector, range));
  return holding.squares()->sum(own);
}

}  // namespace unisono::optim
