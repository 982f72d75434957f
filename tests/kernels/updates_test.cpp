#include "cpu_fixture.hpp"
#include "reference_updates.hpp"

namespace unisono::cpu {
namespace {

constexpr Index kSizes[] = {0, 1, 15, 1000, 40001};  // the last: three chunks
constexpr int kSteps = 10;

/// θ and two vectors of state.
struct Vectors {
  Floats theta, first, second;
  explicit Vectors(Index size)
      : theta(random_floats(size, 71)), first(theta.size(), 0.0F), second(theta.size(), 0.0F) {}
  Outputs outputs() const { return {{theta, first, second}, {}}; }
};

Floats gradient_at(int step, Index size) { return random_floats(size, 80 + static_cast<std::uint64_t>(step)); }

/// θ, first and second after kSteps steps of the reference. \param rule (g, parameter, step from 1 on)
template <typename Rule>
std::array<std::vector<double>, 3> reference_run(Index size, const Rule& rule) {
  const Vectors begin(size);
  std::array<std::vector<double>, 3> result{widen(begin.theta), widen(begin.first), widen(begin.second)};
  for (int step = 1; step <= kSteps; ++step) {
    const Floats g = gradient_at(step, size);
    for (std::size_t i = 0; i < g.size(); ++i) {
      reference::Parameter p{result[0][i], result[1][i], result[2][i]};
      rule(static_cast<double>(g[i]), p, step);
      result[0][i] = p.theta, result[1][i] = p.first, result[2][i] = p.second;
    }
  }
  return result;
}

/// Ten steps on every instruction set against the reference.
/// \param update (backend, g, vectors, step from 1 on). \param rule see reference_run
/// \param bound of the error of θ, in u; states are held to 50 u
template <typename Update, typename Rule>
void compare(const Update& update, const Rule& rule, double bound) {
  for (Index size : kSizes) {
    INFO(size);
    const auto expected = reference_run(size, rule);
    everywhere(
        [&](CpuBackend& backend) {
          Vectors v(size);
          for (int step = 1; step <= kSteps; ++step) update(backend, gradient_at(step, size), v, step);
          return v.outputs();
        },
        [&](const Outputs& outputs) {
          CHECK(excess(outputs.tensors[0], expected[0], bound * kRoundoff) <= 1);
          CHECK(excess(outputs.tensors[1], expected[1], 50 * kRoundoff) <= 1);
          CHECK(excess(outputs.tensors[2], expected[2], 50 * kRoundoff) <= 1);
        });
  }
}

AdamStep at_step(AdamStep s, int t) {
  s.correction1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta1), t)));
  s.correction2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta2), t)));
  return s;
}

}  // namespace

// Tolerances. |θ|, |g| and scale · g are at most 2 in these runs, and a velocity with μ = 0.9 below 10. A step rounds θ
// once (u |θ|) and its direction some 5 times (5 u · rate · |direction|); earlier errors of θ come back through decay
// only, times rate · λ, and those of a velocity are handed on by μ < 1. So ten steps err by at most 10 (2 + 5 rate
// |direction|) u.

TEST_CASE("ten steps of SGD, momentum and Nesterov are the reference's", "[updates]") {
  const SgdStep plain{.rate = 0.1F, .decay = 0.01F, .gradient_scale = 0.5F};
  SgdStep momentum = plain;
  momentum.momentum = 0.9F;
  SgdStep nesterov = momentum;
  nesterov.nesterov = true;
  compare([&](auto& backend, const Floats& g, Vectors& v, int) { backend.sgd_update(plain, g, v.theta, {}); },
          [&](double g, auto& p, int) { reference::sgd(plain, g, p, false), p.first = 0; }, 10 * (2 + 5 * 0.1));
  for (const SgdStep& step : {momentum, nesterov}) {
    compare([&](auto& backend, const Floats& g, Vectors& v, int) { backend.sgd_update(step, g, v.theta, v.first); },
            [&](double g, auto& p, int) { reference::sgd(step, g, p, true); }, 10 * (2 + 5 * 0.1 * 10));
  }
}

TEST_CASE("ten steps of Adagrad and RMSProp are the reference's", "[updates]") {
  // The direction g / √Σ g² is at most 1, g / √((1 − ρ) g²) at most 10 (ρ = 0.99). Where decay moves a small g by an
  // error of θ the direction moves by that over ε = 0.1 at most: 10 · λ · error, within the bounds.
  const AdagradStep adagrad{.rate = 0.1F, .decay = 0.01F, .epsilon = 0.1F, .gradient_scale = 0.5F};
  compare(
      [&](auto& backend, const Floats& g, Vectors& v, int) { backend.adagrad_update(adagrad, g, v.theta, v.first); },
      [&](double g, auto& p, int) { reference::adagrad(adagrad, g, p); }, 10 * (2 + 5 * 0.1));
  const RmspropStep rmsprop{.rate = 0.1F, .decay = 0.01F, .smoothing = 0.99F, .epsilon = 0.1F, .gradient_scale = 0.5F};
  compare(
      [&](auto& backend, const Floats& g, Vectors& v, int) { backend.rmsprop_update(rmsprop, g, v.theta, v.first); },
      [&](double g, auto& p, int) { reference::rmsprop(rmsprop, g, p); }, 10 * (2 + 5 * 0.1 * 10));
}

TEST_CASE("ten steps of Adam and AdamW are the reference's", "[updates]") {
  // 1 − β₂ is exact to u / (1 − β₂) relative to itself: the same in float and in the reference, which reads β₂ from the
  // step. The corrections are rounded once, relative to themselves.
  for (bool decoupled : {false, true}) {
    AdamStep step{.rate = 0.1F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 0.01F};
    step.decoupled = decoupled;
    step.gradient_scale = 0.5F;
    compare([&](auto& backend, const Floats& g, Vectors& v,
                int t) { backend.adam_update(at_step(step, t), g, v.theta, v.first, v.second); },
            [&](double g, auto& p, int t) { reference::adam(step, g, p, t); }, 10 * (2 + 10 * 0.1 * 3));
  }
}

TEST_CASE("LAMB's directions and steps are the reference's", "[updates]") {
  AdamStep step{.rate = 0.1F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 0.01F};
  step.gradient_scale = 0.5F;
  constexpr float kRatio = 0.7F;
  for (Index size : kSizes) {
    INFO(size);
    std::vector<double> squares(kSteps);
    const auto expected = reference_run(size, [&](double g, auto& p, int t) {
      const double direction = reference::lamb_direction(step, g, p, t);
      squares[static_cast<std::size_t>(t - 1)] += direction * direction;
      p.theta -= static_cast<double>(kRatio) * static_cast<double>(step.rate) * direction;
    });
    everywhere(
        [&](CpuBackend& backend) {
          Vectors v(size);
          Outputs outputs;
          for (int t = 1; t <= kSteps; ++t) {
            outputs.sums.push_back(
                backend.lamb_moments(at_step(step, t), gradient_at(t, size), v.theta, v.first, v.second));
            backend.lamb_apply(at_step(step, t), kRatio, v.theta, v.first, v.second);
          }
          outputs.tensors = v.outputs().tensors;
          return outputs;
        },
        [&](const Outputs& outputs) {
          CHECK(excess(outputs.tensors[0], expected[0], 10 * (2 + 10 * 0.1 * 3) * kRoundoff) <= 1);
          CHECK(excess(outputs.sums, squares, [&](std::size_t t) { return 30 * kRoundoff * squares[t] + 1e-30; }) <= 1);
        });
  }
}

TEST_CASE("one step of each rule is what one works out by hand", "[updates]") {
  CpuBackend backend({});
  const Floats g{2};
  const auto near = [](float value) { return Approx(value).epsilon(4 * kRoundoff); };
  Floats theta{1}, first{0}, second{0};

  // g' = 2 + 0.5 · 1 = 2.5; θ = 1 − 0.1 · 2.5
  backend.sgd_update({.rate = 0.1F, .decay = 0.5F}, g, theta, {});
  CHECK(theta[0] == near(0.75F));
  // v = 0.5 · 4 + 2 = 4; θ = 1 − 0.1 · 4, with Nesterov 1 − 0.1 (2 + 0.5 · 4)
  for (bool nesterov : {false, true}) {
    theta = {1}, first = {4};
    backend.sgd_update({.rate = 0.1F, .momentum = 0.5F, .nesterov = nesterov}, g, theta, first);
    CHECK(first[0] == 4);
    CHECK(theta[0] == near(0.6F));
  }
  // a = 12 + 2² = 16; θ = 1 − 0.1 · 2 / (4 + 1)
  theta = {1}, first = {12};
  backend.adagrad_update({.rate = 0.1F, .epsilon = 1}, g, theta, first);
  CHECK(first[0] == 16);
  CHECK(theta[0] == near(0.96F));
  // m = 0.75 · 4 + 0.25 · 4 = 4; θ = 1 − 0.1 · 2 / (2 + 2)
  theta = {1}, first = {4};
  backend.rmsprop_update({.rate = 0.1F, .smoothing = 0.75F, .epsilon = 2}, g, theta, first);
  CHECK(first[0] == 4);
  CHECK(theta[0] == near(0.95F));
  // m = 0.5 · 2 = 1, v = 0.25 · 4 = 1, m̂ = 2, v̂ = 4: direction 2 / (2 + 2), and AdamW's λ θ = 0.5 beside it
  AdamStep adam{.rate = 0.1F, .decay = 0, .beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 2};
  adam.correction1 = 2, adam.correction2 = 4, adam.decoupled = true;
  theta = {1}, first = {0};
  backend.adam_update(adam, g, theta, first, second);
  CHECK(first[0] == 1);
  CHECK(second[0] == 1);
  CHECK(theta[0] == near(0.95F));
  adam.decay = 0.5F;
  theta = {1}, first = {0}, second = {0};
  backend.adam_update(adam, g, theta, first, second);
  CHECK(theta[0] == near(0.9F));
  // LAMB: the same direction, 1; θ = 1 − 3 · 0.1 · 1
  theta = {1}, first = {0}, second = {0};
  CHECK(backend.lamb_moments(adam, g, theta, first, second) == Approx(1));
  CHECK(theta[0] == 1);
  backend.lamb_apply(adam, 3, theta, first, second);
  CHECK(theta[0] == near(0.7F));
}

TEST_CASE("a step on parts of θ is the step on the whole", "[updates]") {
  // As ranges of equal decay and shards of it need. Views begin at multiples of 16 floats, or anywhere.
  const AdamStep step{.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
  const Floats g = gradient_at(1, 40001);
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    Vectors whole(40001), parts(40001);
    backend.adam_update(step, g, whole.theta, whole.first, whole.second);
    std::size_t first = 0;
    for (std::size_t length : {16U, 7U, 20000U, 19978U}) {
      const auto part = [&](Floats& v) { return MutableView(v).subspan(first, length); };
      backend.adam_update(step, View(g).subspan(first, length), part(parts.theta), part(parts.first),
                          part(parts.second));
      first += length;
    }
    CHECK(same_bits(whole.outputs(), parts.outputs()));
  }
}

}  // namespace unisono::cpu
