#include <span>
#include <utility>

#include "cpu_fixture.hpp"
#include "reference_updates.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kSizes[] = {0, 1, 15, 1000, 40001};  // the last: three chunks
constexpr int kSteps = 10;
constexpr GradientScale kHalf{.factor = 0.5F};

using Ranges = std::vector<UpdateRange>;
using MutableDoubles = std::span<double>;

/// One range, which decays.
Ranges whole(Index size) { return {{.first = 0, .last = size, .decays = true}}; }
Ranges whole(const Floats& g) { return whole(std::ssize(g)); }

/// θ and two vectors of state.
struct Vectors {
  Floats theta, first, second;
  explicit Vectors(Index size)
      : theta(random_floats(size, 71)), first(theta.size(), 0.0F), second(theta.size(), 0.0F) {}
  Outputs outputs() const { return {{theta, first, second}, {}}; }
};

Floats gradient_at(int step, Index size) { return random_floats(size, 80 + static_cast<std::uint64_t>(step)); }

/// θ, first and second after kSteps steps of the reference. \param rule (kHalf of g, parameter, step from 1 on)
template <typename Rule>
std::array<std::vector<double>, 3> reference_update(Index size, const Rule& rule) {
  const Vectors begin(size);
  std::array<std::vector<double>, 3> result{widen(begin.theta), widen(begin.first), widen(begin.second)};
  for (int step = 1; step <= kSteps; ++step) {
    const Floats g = gradient_at(step, size);
    for (std::size_t i = 0; i < g.size(); ++i) {
      reference::Parameter p{result[0][i], result[1][i], result[2][i]};
      rule(static_cast<double>(kHalf.factor * g[i]), p, step);
      result[0][i] = p.theta, result[1][i] = p.first, result[2][i] = p.second;
    }
  }
  return result;
}

/// Ten steps on every instruction set against the reference.
/// \param update (backend, g, vectors, step from 1 on). \param rule see reference_update
/// \param bound of the error of θ, in u; states are held to 50 u
template <typename Update, typename Rule>
void compare_update(const Update& update, const Rule& rule, double bound) {
  for (Index size : kSizes) {
    INFO(size);
    const auto expected = reference_update(size, rule);
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
  const SgdStep plain{.rate = 0.1F, .decay = 0.01F};
  SgdStep momentum = plain;
  momentum.momentum = 0.9F;
  SgdStep nesterov = momentum;
  nesterov.nesterov = true;
  compare_update([&](auto& backend, const Floats& g, Vectors& v,
                     int) { backend.sgd_update(plain, kHalf, whole(g), g, v.theta, {}); },
                 [&](double g, auto& p, int) { reference::sgd(plain, g, p, false), p.first = 0; }, 10 * (2 + 5 * 0.1));
  for (const SgdStep& step : {momentum, nesterov}) {
    compare_update([&](auto& backend, const Floats& g, Vectors& v,
                       int) { backend.sgd_update(step, kHalf, whole(g), g, v.theta, v.first); },
                   [&](double g, auto& p, int) { reference::sgd(step, g, p, true); }, 10 * (2 + 5 * 0.1 * 10));
  }
}

TEST_CASE("ten steps of Adagrad and RMSProp are the reference's", "[updates]") {
  // The direction g / √Σ g² is at most 1, g / √((1 − ρ) g²) at most 10 (ρ = 0.99). Where decay moves a small g by an
  // error of θ the direction moves by that over ε = 0.1 at most: 10 · λ · error, within the bounds.
  const AdagradStep adagrad{.rate = 0.1F, .decay = 0.01F, .epsilon = 0.1F};
  compare_update([&](auto& backend, const Floats& g, Vectors& v,
                     int) { backend.adagrad_update(adagrad, kHalf, whole(g), g, v.theta, v.first); },
                 [&](double g, auto& p, int) { reference::adagrad(adagrad, g, p); }, 10 * (2 + 5 * 0.1));
  const RmspropStep rmsprop{.rate = 0.1F, .decay = 0.01F, .smoothing = 0.99F, .epsilon = 0.1F};
  compare_update([&](auto& backend, const Floats& g, Vectors& v,
                     int) { backend.rmsprop_update(rmsprop, kHalf, whole(g), g, v.theta, v.first); },
                 [&](double g, auto& p, int) { reference::rmsprop(rmsprop, g, p); }, 10 * (2 + 5 * 0.1 * 10));
}

TEST_CASE("ten steps of Adam and AdamW are the reference's", "[updates]") {
  // 1 − β₂ is exact to u / (1 − β₂) relative to itself: the same in float and in the reference, which reads β₂ from the
  // step. The corrections are rounded once, relative to themselves.
  for (bool decoupled : {false, true}) {
    AdamStep step{.rate = 0.1F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 0.01F};
    step.decoupled = decoupled;
    compare_update(
        [&](auto& backend, const Floats& g, Vectors& v, int t) {
          backend.adam_update(at_step(step, t), kHalf, whole(g), g, v.theta, v.first, v.second);
        },
        [&](double g, auto& p, int t) { reference::adam(step, g, p, t); }, 10 * (2 + 10 * 0.1 * 3));
  }
}

TEST_CASE("LAMB's directions and steps are the reference's", "[updates]") {
  AdamStep step{.rate = 0.1F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 0.01F};
  constexpr float kRatio = 0.7F;
  const std::vector<double> squared_ratio = {static_cast<double>(kRatio) * static_cast<double>(kRatio)}, one = {1};
  for (Index size : kSizes) {
    INFO(size);
    std::vector<double> squares(kSteps);
    const auto expected = reference_update(size, [&](double g, auto& p, int t) {
      const double direction = reference::lamb_direction(step, g, p, t);
      squares[static_cast<std::size_t>(t - 1)] += direction * direction;
      p.theta -= static_cast<double>(kRatio) * static_cast<double>(step.rate) * direction;
    });
    everywhere(
        [&](CpuBackend& backend) {
          Vectors v(size);
          Outputs outputs;
          for (int t = 1; t <= kSteps; ++t) {
            std::vector<double> direction(1);
            backend.lamb_moments(at_step(step, t), kHalf, whole(size), gradient_at(t, size), v.theta, v.first, v.second,
                                 direction);
            backend.lamb_apply(at_step(step, t), whole(size), {squared_ratio, one}, v.theta, v.first, v.second);
            outputs.sums.push_back(direction[0]);
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

TEST_CASE("LAMB's directions are the same numbers when they are summed again, however they are divided", "[updates]") {
  const AdamStep step = at_step({.rate = 0.1F, .decay = 0.3F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-6F}, 3);
  for (const Index size : {16, 272, 16384 + 48, 50'000}) {
    INFO(size);
    const Ranges halves = {{.first = 0, .last = size / 32 * 16, .decays = true, .adapted = true},
                           {.first = size / 32 * 16, .last = size, .decays = true, .adapted = true}};
    Ranges all = whole(size);
    all.front().decays = true;
    everywhere(
        [&](CpuBackend& backend) {
          Vectors v(size);
          std::vector<double> direction(1);
          backend.lamb_moments(step, kHalf, all, gradient_at(1, size), v.theta, v.first, v.second, direction);
          for (const bool exactly : {true, false}) {
            std::vector<ExactSquares> sums(2);
            backend.sum_lamb_directions(step, halves, v.theta, v.first, v.second, exactly, sums);
            sums[0].add(sums[1]);
            CHECK((exactly ? sums[0].value() : sums[0].settled_value().value_or(direction[0])) == direction[0]);
          }
          return Outputs{{}, direction};
        },
        [](const Outputs& outputs) { CHECK(outputs.sums[0] > 0); });
  }
}

TEST_CASE("one step of each rule is what one works out by hand", "[updates]") {
  CpuBackend backend({});
  const Floats g{2};
  const Ranges all = whole(1);
  const auto near = [](float value) { return Approx(value).epsilon(4 * kRoundoff); };
  Floats theta{1}, first{0}, second{0};

  // g' = 2 + 0.5 · 1 = 2.5; θ = 1 − 0.1 · 2.5
  backend.sgd_update({.rate = 0.1F, .decay = 0.5F}, {}, all, g, theta, {});
  CHECK(theta[0] == near(0.75F));
  // v = 0.5 · 4 + 2 = 4; θ = 1 − 0.1 · 4, with Nesterov 1 − 0.1 (2 + 0.5 · 4)
  for (bool nesterov : {false, true}) {
    theta = {1}, first = {4};
    backend.sgd_update({.rate = 0.1F, .momentum = 0.5F, .nesterov = nesterov}, {}, all, g, theta, first);
    CHECK(first[0] == 4);
    CHECK(theta[0] == near(0.6F));
  }
  // a = 12 + 2² = 16; θ = 1 − 0.1 · 2 / (4 + 1)
  theta = {1}, first = {12};
  backend.adagrad_update({.rate = 0.1F, .epsilon = 1}, {}, all, g, theta, first);
  CHECK(first[0] == 16);
  CHECK(theta[0] == near(0.96F));
  // m = 0.75 · 4 + 0.25 · 4 = 4; θ = 1 − 0.1 · 2 / (2 + 2)
  theta = {1}, first = {4};
  backend.rmsprop_update({.rate = 0.1F, .smoothing = 0.75F, .epsilon = 2}, {}, all, g, theta, first);
  CHECK(first[0] == 4);
  CHECK(theta[0] == near(0.95F));
  // m = 0.5 · 2 = 1, v = 0.25 · 4 = 1, m̂ = 2, v̂ = 4: direction 2 / (2 + 2), and AdamW's λ θ = 0.5 beside it
  AdamStep adam{.rate = 0.1F, .decay = 0, .beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 2};
  adam.correction1 = 2, adam.correction2 = 4, adam.decoupled = true;
  theta = {1}, first = {0};
  backend.adam_update(adam, {}, all, g, theta, first, second);
  CHECK(first[0] == 1);
  CHECK(second[0] == 1);
  CHECK(theta[0] == near(0.95F));
  adam.decay = 0.5F;
  theta = {1}, first = {0}, second = {0};
  backend.adam_update(adam, {}, all, g, theta, first, second);
  CHECK(theta[0] == near(0.9F));
  // LAMB: the same direction, 1; θ = 1 − √9 / √1 · 0.1 · 1
  theta = {1}, first = {0}, second = {0};
  std::vector<double> direction(1);
  backend.lamb_moments(adam, {}, all, g, theta, first, second, direction);
  CHECK(direction[0] == Approx(1));
  CHECK(theta[0] == 1);
  const std::vector<double> nine = {9}, one = {1}, zero = {0};
  backend.lamb_apply(adam, all, {nine, one}, theta, first, second);
  CHECK(theta[0] == near(0.7F));
  // … and without a norm of either the ratio is 1.
  for (const auto& [of_theta, of_direction] : {std::pair(nine, zero), {zero, one}}) {
    theta = {1};
    backend.lamb_apply(adam, all, {of_theta, of_direction}, theta, first, second);
    CHECK(theta[0] == near(0.9F));
  }
}

TEST_CASE("LARS gives each adapted range a rate in proportion to its own norms", "[updates]") {
  // Three ranges of 16: θ = 3, 3, 0 and g = 1, so that ‖θ‖ = 12, 12, 0 and ‖g‖ = 4, of which a scale of ½ leaves 2.
  //   adapted, decays    ρ = ½ · 12 / (2 + ¼ · 12) = 1.2,   v = 0.5 · 2 + 0.1 · 1.2 (½ + ¼ · 3) = 1.15
  //   not adapted        ρ = 1,                             v = 0.5 · 2 + 0.1 · ½ = 1.05
  //   adapted, θ = 0     ρ = 1,                             v = 1.05
  const Ranges ranges = {{.first = 0, .last = 16, .decays = true, .adapted = true},
                         {.first = 16, .last = 32},
                         {.first = 32, .last = 48, .adapted = true}};
  const std::vector<double> theta_norms = {144, 144, 0}, g_norms = {16, 16, 16};
  const LarsStep step{.rate = 0.1F, .momentum = 0.5F, .decay = 0.25F, .trust = 0.5};
  const std::vector<double> moves = {1.15, 1.05, 1.05};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 2, .instruction_set = set});
    Floats theta(48, 3.0F), velocity(48, 2.0F), plain(48, 3.0F);
    std::fill(theta.begin() + 32, theta.end(), 0.0F);
    std::fill(plain.begin() + 32, plain.end(), 0.0F);
    const Floats g(48, 1.0F), before = theta;
    backend.lars_update(step, kHalf, ranges, {theta_norms, g_norms}, g, theta, velocity);
    backend.lars_update(step, kHalf, ranges, {theta_norms, g_norms}, g, plain, {});
    for (std::size_t i = 0; i < theta.size(); ++i) {
      CHECK(velocity[i] == Approx(moves[i / 16]).epsilon(8 * kRoundoff));
      CHECK(theta[i] == Approx(before[i] - moves[i / 16]).epsilon(16 * kRoundoff));
      CHECK(plain[i] == Approx(before[i] - (moves[i / 16] - 1)).epsilon(16 * kRoundoff));  // without the velocity's 1
    }
  }
}

TEST_CASE("a gradient is scaled by its factor, and down to a norm that it would exceed", "[updates]") {
  CHECK(value_of({}, 1e30) == 1);
  CHECK(value_of({.factor = 0.25F}, 1e30) == 0.25F);
  // ‖g‖ = 4, of which a factor of ½ leaves 2.
  CHECK(value_of({.factor = 0.5F, .clip_norm = 2}, 16) == 0.5F);
  CHECK(value_of({.factor = 0.5F, .clip_norm = 1.5}, 16) == 0.375F);
  CHECK(value_of({.factor = 1, .clip_norm = 1}, 16) == 0.25F);
  CHECK(value_of({.factor = 1, .clip_norm = 1}, 0) == 1);
  CHECK(value_of({.factor = 1, .clip_norm = 1}, std::nan("")) == 1);  // and the step shows that the run diverged

  CpuBackend backend({});
  const std::vector<double> squared_norm = {16};
  const GradientScale scale{.factor = 0.5F, .clip_norm = 1.5, .squared_norm = squared_norm};
  const Floats g{8};
  Floats theta{1};
  backend.sgd_update({.rate = 0.125F}, scale, whole(1), g, theta, {});
  CHECK(theta[0] == 1 - 0.125F * 0.375F * 8);
}

namespace {

/// A call on several ranges, some of which decay, and the same range by range.
template <typename Update>
void check_ranges(const Update& update) {
  constexpr Index kSize = 40016;
  const Ranges ranges = {{.first = 0, .last = 16, .decays = true},
                         {.first = 16, .last = 48},
                         {.first = 64, .last = 20064, .decays = true, .adapted = true},  // a gap before it
                         {.first = 20064, .last = kSize, .adapted = true}};
  const Floats g = gradient_at(1, kSize);
  everywhere(
      [&](CpuBackend& backend) {
        Vectors together(kSize), apart(kSize);
        std::vector<double> sums(4);
        update(backend, ranges, true, g, together, MutableDoubles(sums));
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          Ranges one = {ranges[i]};
          const bool decays = std::exchange(one[0].decays, true);  // as the step says that all do
          update(backend, one, decays, g, apart, MutableDoubles(sums).subspan(i, 1));
        }
        CHECK(same_bits(together.outputs(), apart.outputs()));
        const Floats begun = Vectors(kSize).theta;
        CHECK(std::equal(begun.begin() + 48, begun.begin() + 64, together.theta.begin() + 48));
        CHECK(together.theta != begun);
        Outputs outputs = together.outputs();
        outputs.sums = sums;
        return outputs;
      },
      [](const Outputs&) {});
}

}  // namespace

TEST_CASE("a step on several ranges is a step on each, with decay where the range says so", "[updates]") {
  const auto decay = [](bool decays) { return decays ? 0.25F : 0.0F; };
  check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
    b.sgd_update({.rate = 0.1F, .decay = decay(decays)}, kHalf, r, g, v.theta, {});
  });
  check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
    b.sgd_update({.rate = 0.1F, .momentum = 0.9F, .decay = decay(decays)}, kHalf, r, g, v.theta, v.first);
  });
  check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
    b.adagrad_update({.rate = 0.1F, .decay = decay(decays), .epsilon = 0.1F}, kHalf, r, g, v.theta, v.first);
  });
  check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
    b.rmsprop_update({.rate = 0.1F, .decay = decay(decays), .smoothing = 0.9F, .epsilon = 0.1F}, kHalf, r, g, v.theta,
                     v.first);
  });
  for (bool decoupled : {false, true}) {
    AdamStep adam{.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 0.01F};
    adam.decoupled = decoupled;
    check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
      adam.decay = decay(decays);
      b.adam_update(adam, kHalf, r, g, v.theta, v.first, v.second);
    });
    if (!decoupled) continue;
    check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles sums) {
      adam.decay = decay(decays);
      std::vector<double> norms(r.size()), directions(r.size());
      b.squared_norms(v.theta, r, norms);
      b.lamb_moments(adam, kHalf, r, g, v.theta, v.first, v.second, directions);
      b.lamb_apply(adam, r, {norms, directions}, v.theta, v.first, v.second);
      if (sums[0] != 0) CHECK(std::equal(directions.begin(), directions.end(), sums.begin()));
      std::ranges::copy(directions, sums.begin());
    });
  }
  check_ranges([&](auto& b, const Ranges& r, bool decays, const Floats& g, Vectors& v, MutableDoubles) {
    std::vector<double> theta_norms(r.size()), g_norms(r.size());
    b.squared_norms(v.theta, r, theta_norms);
    b.squared_norms(g, r, g_norms);
    b.lars_update({.rate = 0.1F, .momentum = 0.9F, .decay = decay(decays), .trust = 0.5}, kHalf, r,
                  {theta_norms, g_norms}, g, v.theta, v.first);
  });
}

TEST_CASE("a step on views of parts of θ is the step on the whole", "[updates]") {
  // As shards of it need. Views begin at multiples of 16 floats, or anywhere.
  const AdamStep step{.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
  const Floats g = gradient_at(1, 40001);
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    Vectors all(40001), parts(40001);
    backend.adam_update(step, {}, whole(g), g, all.theta, all.first, all.second);
    std::size_t first = 0;
    for (std::size_t length : {16U, 7U, 20000U, 19978U}) {
      const auto part = [&](Floats& v) { return MutableView(v).subspan(first, length); };
      backend.adam_update(step, {}, whole(static_cast<Index>(length)), View(g).subspan(first, length),
                          part(parts.theta), part(parts.first), part(parts.second));
      first += length;
    }
    CHECK(same_bits(all.outputs(), parts.outputs()));
  }
}

}  // namespace unisono::kernels::cpu
