// Training by the pieces of a network, all micro-batches of a step in flight, against the whole network one by one.
#include <catch2/catch.hpp>

#include "../nn/flight.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono::strategies {
namespace {

constexpr Index kMicroBatches = 3;
constexpr int kSteps = 3;

/// θ, the running statistics and the optimizer's vectors after training.
using State = std::vector<std::vector<float>>;

/// The micro-batches of a step; θ, g and the running statistics are the first one's.
std::vector<std::unique_ptr<nn::Trial>> micro_batches(kernels::Backend& backend, const nn::TrialSettings& settings,
                                                      Reducer& reducer) {
  std::vector<std::unique_ptr<nn::Trial>> batches;
  for (Index i = 0; i < kMicroBatches; ++i) {
    batches.push_back(std::make_unique<nn::Trial>(backend, settings, reducer, i * settings.batch / kMicroBatches,
                                                  (i + 1) * settings.batch / kMicroBatches));
  }
  return batches;
}

kernels::Write write_of(Index micro_batch) {
  return micro_batch == 0 ? kernels::Write::overwrite : kernels::Write::add;
}

void whole_gradient(const std::vector<std::unique_ptr<nn::Trial>>& batches) {
  nn::Trial& shared = *batches.front();
  for (Index i = 0; i < kMicroBatches; ++i) {
    nn::Trial& data = *batches[static_cast<std::size_t>(i)];
    nn::Pass pass = data.pass(true);
    pass.parameters = shared.theta.view();
    pass.statistics = shared.statistics.view();
    const nn::Workspace space = data.workspace(true);
    kernels::LossSums sums;
    const View outputs = data.network.forward(pass, {data.features}, space);
    data.loss->apply(data.backend, data.batch, outputs, data.wanted(), {data.scale, {}},
                     data.network.output_gradient(space), sums);
    data.network.backward(pass, space, shared.gradient.view(), write_of(i), {});
  }
}

/// All forward passes come first; so each piece adds its gradients in the order of the micro-batches.
void gradient_in_pieces(const std::vector<nn::Piece>& pieces, const std::vector<std::unique_ptr<nn::Trial>>& batches,
                        nn::PassKind kind) {
  nn::Trial& shared = *batches.front();
  std::vector<nn::Flight> flights;
  for (const auto& data : batches) flights.emplace_back(pieces, *data, kind);
  for (nn::Flight& flight : flights) flight.forward(shared);
  nn::Ranges ready;
  for (Index i = 0; i < kMicroBatches; ++i) {
    nn::Flight& flight = flights[static_cast<std::size_t>(i)];
    if (kind == nn::PassKind::training) {
      flight.backward(shared, write_of(i), ready);
    } else {
      flight.backward_inputs(shared);
    }
  }
  if (kind == nn::PassKind::training) return;
  for (Index i = 0; i < kMicroBatches; ++i) {
    flights[static_cast<std::size_t>(i)].backward_weights(shared, write_of(i), ready);
  }
}

template <typename Gradient>
State train_pieces(const optim::OptimizerSettings& settings, std::vector<std::unique_ptr<nn::Trial>> batches,
                   Gradient gradient) {
  nn::Trial& shared = *batches.front();
  const auto optimizer = optim::make_optimizer(settings, shared.network.parameters(), shared.backend);
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& data : batches) data->epoch = step;  // other dropout masks in each
    gradient(batches);
    optimizer->step(shared.theta.view(), shared.gradient.view(), settings.learning_rate);
  }
  State state = {nn::canonical(shared.network.parameters(), shared.theta.view()),
                 nn::canonical(shared.network.statistics(), shared.statistics.view())};
  for (optim::OptimizerState& own : optimizer->state()) {
    state.push_back(nn::canonical(shared.network.parameters(), own.values.view()));
  }
  return state;
}

/// Every cut into at most four pieces, both kinds of backward pass.
void check_all_cuts(const optim::OptimizerSettings& settings) {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  nn::TrialSettings network = nn::image_network();
  network.batch = 8;
  const auto batches = [&] { return micro_batches(*backend, network, reducer); };
  const State whole = train_pieces(settings, batches(), [](const auto& all) { whole_gradient(all); });
  const State start = {nn::canonical(batches().front()->network.parameters(), batches().front()->theta.view())};
  REQUIRE(whole.front() != start.front());
  const auto cuts = static_cast<int>(batches().front()->network.cut_points().size());
  REQUIRE(cuts >= 6);
  nn::for_each_choice(cuts, 3, [&](const std::vector<int>& chosen) {
    INFO("cut at " << Catch::Detail::stringify(chosen));
    for (const nn::PassKind kind : {nn::PassKind::training, nn::PassKind::halves}) {
      CHECK(train_pieces(settings, batches(), [&](const auto& all) {
              gradient_in_pieces(nn::pieces_between(all.front()->network, chosen), all, kind);
            }) == whole);
    }
  });
}

}  // namespace

TEST_CASE("pieces train to the whole network's bits: AdamW with clipping, micro-batches in flight", "[pieces]") {
  optim::OptimizerSettings settings{.kind = "adamw", .learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.1};
  check_all_cuts(settings);
}

TEST_CASE("pieces train to the whole network's bits: LAMB with clipping, micro-batches in flight", "[pieces]") {
  check_all_cuts({.kind = "lamb", .learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.1});
}

}  // namespace unisono::strategies
