#include "unisono/parallel/compressed_changes.hpp"

#include <algorithm>

#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::parallel {
namespace {

constexpr Index kPiece = Index{1} << 20;  // floats that are encoded at a time
constexpr int kSumBits = 24;              // numbers of the sums of a step

}  // namespace

CompressedChanges::CompressedChanges(StepTerms& run, const CompressionSettings& settings)
    : run_(run), encoder_(make_encoder(settings)), sum_(make_encoded_sum(run.communicator, *encoder_)) {
  run.counters.of<CompressionCounters>() = {};
}

void CompressedChanges::begin_step(std::int64_t step) { place_ = static_cast<std::uint64_t>(step) << kSumBits; }

void CompressedChanges::sum(MutableView changes, MutableView rest) {
  run_.backend.axpby(1, changes, 1, rest);
  const Index size = std::ssize(changes);
  for (Index first = 0; first < size; first += kPiece) {
    const FloatRange piece{first, std::min(size, first + kPiece)};
    sum_->sum(*encoder_, part(rest, piece), part(changes, piece), {.step = place_++, .first = first});
  }
  auto& counters = run_.counters.of<CompressionCounters>();
  counters.sent_bytes = sum_->sent_bytes();
  counters.plain_bytes += plain_sum_bytes(size, run_.communicator.size());
}

}  // namespace unisono::parallel
