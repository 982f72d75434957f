#include "unisono/strategies/probe.hpp"

#include <algorithm>
#include <numeric>

#include "unisono/tensor/reducer.hpp"

namespace unisono::strategies {
namespace {

constexpr int kRepetitions = 4;  // the first warms up

/// One segment with values of its own.
class Probe {
 public:
  Probe(const nn::Piece& piece, bool is_first, kernels::Backend& backend, Index batch)
      : piece_(piece),
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
    const Stopwatch forward(clock);
    is_first_ ? piece_.forward(pass, {.values = inputs_.view()}, workspace) : piece_.forward(pass, workspace);
    seconds.forward = forward.seconds();
    std::ranges::fill(piece_.output_gradient(workspace), 0.01F);
    const Stopwatch inputs(clock);
    piece_.backward_inputs(pass, workspace);
    seconds.backward_inputs = inputs.seconds();
    const Stopwatch weights(clock);
    piece_.backward_weights(pass, workspace, gradient_.view(), kernels::Write::overwrite, {});
    seconds.backward_weights = weights.seconds();
    return seconds;
  }

 private:
  static Index size_of(const FloatRange& range) { return range.last - range.first; }
  Buffer filled(Index floats, float value) const {
    Buffer buffer(floats, backend_.memory());
    std::ranges::fill(buffer.view(), value);
    return buffer;
  }

  const nn::Piece& piece_;
  bool is_first_;
  kernels::Backend& backend_;
  Index batch_;
  nn::WorkspacePlan plan_;
  Buffer memory_, parameters_, gradient_, statistics_, inputs_;
  std::vector<std::uint64_t> examples_;
  LocalReducer alone_;
};

void keep_least(PassSeconds& least, const PassSeconds& more) {
  least.forward = std::min(least.forward, more.forward);
  least.backward_inputs = std::min(least.backward_inputs, more.backward_inputs);
  least.backward_weights = std::min(least.backward_weights, more.backward_weights);
}

}  // namespace

std::vector<PassSeconds> time_segments(const models::Staged& model, kernels::Backend& backend, Index batch,
                                       const Clock& clock) {
  const int segments = static_cast<int>(model.network().cut_points().size()) + 1;
  std::vector<PassSeconds> seconds;
  for (int i = 0; i < segments; ++i) {
    const nn::Piece piece = model.network().piece(i, i + 1);
    Probe probe(piece, i == 0, backend, batch);
    probe.time(clock);
    PassSeconds& least = seconds.emplace_back(probe.time(clock));
    for (int more = 2; more < kRepetitions; ++more) keep_least(least, probe.time(clock));
  }
  return seconds;
}

}  // namespace unisono::strategies
