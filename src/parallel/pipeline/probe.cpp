#include "unisono/parallel/pipeline.hpp"

#include <algorithm>
#include <numeric>

#include "unisono/base/median.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::parallel {
namespace {

constexpr std::size_t kRepetitions = 5;        // after one that warms up
constexpr Index kMostOthers = Index{4} << 20;  // floats: what the caches of usual CPUs cannot keep

/// One segment with values of its own.
class Probe {
 public:
  /// \param others memory that the other segments of a step touch: between two passes of a segment
  Probe(const nn::Piece& piece, bool is_first, kernels::Backend& backend, Index batch, MutableView others)
      : others_(others),
        piece_(piece),
        is_first_(is_first),
        backend_(backend),
        batch_(batch),
        plan_(piece.plan(batch, nn::PassKind::halves)),
        memory_(filled(plan_.floats, 0)),
        parameters_(filled(size_of(piece.parameters()), 0.01F)),
        gradient_(filled(size_of(piece.parameters()), 0)),
        statistics_(filled(size_of(piece.statistics()), 1)),
        inputs_(is_first ? Buffer(batch * piece.in().extent.size()) : Buffer()),
        examples_(static_cast<std::size_t>(batch)) {
    std::ranges::fill(inputs_.view(), 0.5F);
    std::iota(examples_.begin(), examples_.end(), std::uint64_t{0});
  }

  PassSeconds time(const Clock& clock) {
    const nn::Workspace workspace{plan_, memory_.view()};
    const nn::Pass pass{.backend = backend_,
                        .reducer = alone_,
                        .parameters = parameters_.view(),
                        .statistics = statistics_.view(),
                        .training = true,
                        .batch = batch_,
                        .examples = examples_,
                        .first_parameter = piece_.parameters().first,
                        .first_statistic = piece_.statistics().first,
                        .updates_statistics = false};
    PassSeconds seconds;
    use_others();
    if (!is_first_) std::ranges::fill(piece_.input(workspace), 0.5F);
    const Stopwatch forward(clock);
    is_first_ ? piece_.forward(pass, {.values = inputs_.view()}, workspace) : piece_.forward(pass, workspace);
    seconds.forward = forward.seconds();
    use_others();
    std::ranges::fill(piece_.output_gradient(workspace), 0.01F);
    const Stopwatch inputs(clock);
    piece_.backward_inputs(pass, workspace);
    seconds.backward_inputs = inputs.seconds();
    const Stopwatch weights(clock);
    piece_.backward_weights(pass, workspace, gradient_.view(), kernels::Write::add, {});
    seconds.backward_weights = weights.seconds();
    return seconds;
  }

 private:
  /// Leaves the segment's parameters where they are when its turn comes again in a step: not in the fastest cache.
  void use_others() {
    for (float& value : others_) value += 1;
  }
  static Index size_of(const FloatRange& range) { return range.last - range.first; }
  Buffer filled(Index floats, float value) const {
    Buffer buffer(floats, backend_.memory());
    std::ranges::fill(buffer.view(), value);
    return buffer;
  }

  MutableView others_;
  const nn::Piece& piece_;
  bool is_first_;
  kernels::Backend& backend_;
  Index batch_;
  nn::WorkspacePlan plan_;
  Buffer memory_, parameters_, gradient_, statistics_, inputs_;
  std::vector<std::uint64_t> examples_;
  LocalReducer alone_;
};

PassSeconds median(const std::vector<PassSeconds>& all) {
  const auto of = [&all](double PassSeconds::*pass) {
    std::vector<double> values;
    for (const PassSeconds& one : all) values.push_back(one.*pass);
    return median_of(std::move(values));
  };
  return {of(&PassSeconds::forward), of(&PassSeconds::backward_inputs), of(&PassSeconds::backward_weights)};
}

}  // namespace

std::vector<PassSeconds> time_segments(const models::Staged& model, kernels::Backend& backend, Index batch,
                                       const Clock& clock) {
  const int segments = static_cast<int>(model.network().cut_points().size()) + 1;
  Buffer others(std::min(2 * model.network().parameters().size(), kMostOthers));
  std::vector<PassSeconds> seconds;
  for (int i = 0; i < segments; ++i) {
    const nn::Piece piece = model.network().piece(i, i + 1);
    Probe probe(piece, i == 0, backend, batch, others.view());
    probe.time(clock);
    std::vector<PassSeconds> all(kRepetitions);
    for (PassSeconds& one : all) one = probe.time(clock);
    seconds.push_back(median(all));
  }
  return seconds;
}

}  // namespace unisono::parallel
