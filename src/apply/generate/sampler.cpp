#include "generate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::apply {
namespace {

using Candidates = std::vector<WeightedToken>;

bool is_likelier(const WeightedToken& a, const WeightedToken& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

double sum_of(const Candidates& candidates) {
  double sum = 0;
  for (const WeightedToken& candidate : candidates) sum += candidate.weight;
  return sum;
}

void keep_most_likely(std::int64_t count, Candidates& candidates) {
  if (count <= 0 || count >= std::ssize(candidates)) return;
  std::nth_element(candidates.begin(), candidates.begin() + count - 1, candidates.end(), is_likelier);
  candidates.resize(static_cast<std::size_t>(count));
}

/// Tokens of less than (1 − P) / n of the sum are together less than 1 − P of it, so that the others reach P: only
/// these few are sorted.
void keep_nucleus(double share, Candidates& candidates) {
  if (share >= 1) return;
  const double sum = sum_of(candidates), least = sum * (1 - share) / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const WeightedToken& candidate) { return candidate.weight < least; });
  std::sort(candidates.begin(), candidates.end(), is_likelier);
  double reached = 0;
  std::size_t count = 0;
  while (count < candidates.size() && (count == 0 || reached < share * sum)) reached += candidates[count++].weight;
  candidates.resize(count);
}

/// ln Σ exp z, less the largest z.
double log_sum(View logits, double largest) {
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - largest);
  return std::log(sum);
}

/// Uniform in [0, 1), a multiple of 2⁻⁵³.
double uniform(RandomStream random) {
  const std::uint64_t high = random.bits(), low = random.bits();
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

std::int32_t drawn_from(const Candidates& candidates, double u) {
  const double wanted = u * sum_of(candidates);
  double reached = 0;
  for (const WeightedToken& candidate : candidates) {
    reached += candidate.weight;
    if (wanted < reached) return candidate.token;
  }
  return std::max_element(candidates.begin(), candidates.end(),
                          [](const auto& a, const auto& b) { return a.weight < b.weight; })
      ->token;  // by rounding
}

}  // namespace

void Sampler::penalise(View logits, std::span<const std::int32_t> tokens) {
  z_.assign(logits.begin(), logits.end());
  if (rule_.repetition_penalty == 1) return;
  seen_.assign(logits.size(), false);
  for (const std::int32_t token : tokens) {
    const auto at = static_cast<std::size_t>(token);
    if (seen_[at]) continue;
    seen_[at] = true;
    z_[at] = z_[at] > 0 ? z_[at] / rule_.repetition_penalty : z_[at] * rule_.repetition_penalty;
  }
}

Candidates Sampler::candidates(View logits, std::span<const std::int32_t> tokens) {
  penalise(logits, tokens);
  const auto largest = std::max_element(z_.begin(), z_.end());
  if (rule_.temperature == 0) return {{static_cast<std::int32_t>(largest - z_.begin()), 1}};
  Candidates candidates;
  candidates.reserve(z_.size());
  for (const double z : z_) {
    const auto token = static_cast<std::int32_t>(candidates.size());
    candidates.push_back({token, std::exp((z - *largest) / rule_.temperature)});
  }
  keep_most_likely(rule_.top_k, candidates);
  keep_nucleus(rule_.top_p, candidates);
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return candidates;
}

DrawnToken Sampler::draw(View logits, std::span<const std::int32_t> tokens, std::uint64_t text, std::uint32_t place) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  const double sum = log_sum(logits, largest);
  if (!std::isfinite(sum)) {
    throw CheckpointError(
        "the model's outputs are no numbers: its training has diverged; use an earlier checkpoint of the run");
  }
  const double u = uniform(RandomStream(seed_, Purpose::generation, text, place));
  const std::int32_t token = drawn_from(candidates(logits, tokens), u);
  return {token, static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest - sum};
}

}  // namespace unisono::apply
