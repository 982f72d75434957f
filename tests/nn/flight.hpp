#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "network_trial.hpp"
#include "unisono/nn/piece.hpp"

namespace unisono::nn {

/// One micro-batch on its way through pieces, each of which is given its own range of all vectors alone.
class Flight {
 public:
  Flight(const std::vector<Piece>& pieces, Trial& data, PassKind kind) : pieces_(pieces), data_(data) {
    for (const Piece& piece : pieces_) {
      plans_.push_back(piece.plan(data.batch, kind));
      memory_.emplace_back(plans_.back().floats);
      std::ranges::fill(memory_.back().view(), std::numeric_limits<float>::quiet_NaN());
    }
  }

  /// \param shared holds θ and the running statistics
  Pass pass(std::size_t p, Trial& shared) const {
    Pass pass = data_.pass(true);
    pass.parameters = part(shared.theta.view(), pieces_[p].parameters());
    pass.statistics = part(shared.statistics.view(), pieces_[p].statistics());
    pass.first_parameter = pieces_[p].parameters().first;
    pass.first_statistic = pieces_[p].statistics().first;
    return pass;
  }
  Workspace space(std::size_t p) { return {plans_[p], memory_[p].view()}; }

  /// \return the outputs; their gradient lies where the backward pass looks for it
  std::vector<float> forward(Trial& shared, bool updates_statistics = true) {
    View outputs;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      Pass now = pass(p, shared);
      now.updates_statistics = updates_statistics;
      if (p > 0) std::ranges::copy(outputs, pieces_[p].input(space(p)).begin());
      outputs = p == 0 ? pieces_[p].forward(now, data_.inputs(), space(p)) : pieces_[p].forward(now, space(p));
    }
    kernels::LossSums sums;
    const std::size_t last = pieces_.size() - 1;
    if (data_.batch > 0) {
      data_.loss->apply(data_.backend, data_.batch, outputs, data_.wanted(), {data_.scale, {}},
                        pieces_[last].output_gradient(space(last)), sums);
    }
    std::vector<float> values(static_cast<std::size_t>(data_.batch * pieces_[last].out().extent.size()));
    if (data_.batch > 0) data_.backend.store(pieces_[last].out().extent, data_.batch, outputs, values);
    return values;
  }

  void backward(Trial& shared, kernels::Write write, Ranges& ready) {
    for (std::size_t p = pieces_.size(); p-- > 0;) {
      pieces_[p].backward(pass(p, shared), space(p), gradient(p, shared), write, into(ready));
      hand_back(p);
    }
  }
  void backward_inputs(Trial& shared) {
    for (std::size_t p = pieces_.size(); p-- > 0;) {
      pieces_[p].backward_inputs(pass(p, shared), space(p));
      hand_back(p);
    }
  }
  void backward_weights(Trial& shared, kernels::Write write, Ranges& ready) {
    for (std::size_t p = pieces_.size(); p-- > 0;) {
      pieces_[p].backward_weights(pass(p, shared), space(p), gradient(p, shared), write, into(ready));
    }
  }

 private:
  static std::function<void(Index, Index)> into(Ranges& ready) {
    return [&ready](Index first, Index last) { ready.emplace_back(first, last); };
  }
  MutableView gradient(std::size_t p, Trial& shared) const {
    return part(shared.gradient.view(), pieces_[p].parameters());
  }
  void hand_back(std::size_t p) {
    if (p == 0) return;
    const View given = pieces_[p].input_gradient(space(p));
    CHECK(given.empty() == !pieces_[p].gives_input_gradient());
    std::ranges::copy(given, pieces_[p - 1].output_gradient(space(p - 1)).begin());
  }

  const std::vector<Piece>& pieces_;
  Trial& data_;
  std::vector<WorkspacePlan> plans_;
  std::vector<Buffer> memory_;
};

/// Calls visit with every rising choice of at most `most` of the numbers 1 … count.
inline void for_each_choice(int count, std::size_t most, const std::function<void(const std::vector<int>&)>& visit,
                            std::vector<int> chosen = {}) {
  visit(chosen);
  if (chosen.size() == most) return;
  for (int next = chosen.empty() ? 1 : chosen.back() + 1; next <= count; ++next) {
    chosen.push_back(next);
    for_each_choice(count, most, visit, chosen);
    chosen.pop_back();
  }
}

/// The pieces between these cut points; the whole network where there are none.
inline std::vector<Piece> pieces_between(const Network& network, const std::vector<int>& cuts) {
  std::vector<Piece> pieces;
  int from = 0;
  for (const int cut : cuts) pieces.push_back(network.piece(std::exchange(from, cut), cut));
  pieces.push_back(network.piece(from, static_cast<int>(network.cut_points().size()) + 1));
  return pieces;
}

/// Each kind of layer that keeps or carries something, batch statistics and dropout among them.
inline TrialSettings image_network() {
  const auto norm = [](const std::string& statistics) {
    return layer("batch_norm", "statistics = '" + statistics + "'");
  };
  const LayerSettings same = convolution(3, {3}, {1});
  return {.layers = {same, pool("max_pool", {2}), layer("relu"),
                     residual({same, norm("auto"), layer("relu"), same, norm("auto")}, {same, norm("local")}),
                     layer("relu"), norm("auto"), layer("relu"), residual({layer("layer_norm"), same, layer("gelu")}),
                     dropout(0.3), pool("average_pool", {2}), layer("flatten"), dense(5), layer("relu"), dense(3)},
          .in = {2, 6, 6},
          .batch = 5,
          .loss = "softmax_cross_entropy"};
}

}  // namespace unisono::nn
