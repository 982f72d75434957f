// Steps inside of a dense layer's backward pass have the bits of a gradient and an update after it.
#include <catch2/catch.hpp>

#include "product_case.hpp"

namespace unisono::kernels::cpu {
namespace {

/// θ begins with some floats of another layer; then W, which decays or not.
constexpr Index kBefore = 32;

struct Case {
  DenseSpec spec;
  Index batch;
};

/// θ and two vectors of state, after two steps.
using State = std::array<Floats, 3>;

struct Rules {
  SgdStep sgd{.rate = 0.1F, .momentum = 0.9F, .decay = 0.01F};
  AdamStep adam{.rate = 0.01F,
                .decay = 0.01F,
                .beta1 = 0.9F,
                .beta2 = 0.99F,
                .epsilon = 1e-8F,
                .correction1 = 2,
                .correction2 = 3};
};

/// \param rule 0: SGD, 1: with momentum, 2: Adam
State after_steps(const CpuSettings& settings, const Case& c, int rule, bool decays, bool at_once) {
  CpuBackend backend(settings);
  const Index in = c.spec.in.size(), weights = in * c.spec.units, size = kBefore + weights;
  const Shape inputs{c.spec.in, c.batch}, outputs{{c.spec.units, 1, 1}, c.batch};
  const Buffer x = to_device(backend, inputs, random_floats(c.batch * in, 1));
  State state{random_floats(size, 2), random_floats(size, 3), random_floats(size, 4)};
  for (float& second : state[2]) second = std::abs(second);
  const std::vector<UpdateRange> ranges = {{.first = 0, .last = 16, .decays = true},
                                           {.first = 16, .last = kBefore, .decays = !decays},
                                           {.first = kBefore, .last = size, .decays = decays}};
  const Rules rules;
  const MutableView theta(state[0]), first(state[1]), second(state[2]);
  const MutableView velocity = rule == 0 ? MutableView{} : first;
  for (std::uint64_t step = 0; step < 2; ++step) {
    const Buffer y = to_device(backend, outputs, random_floats(c.batch * c.spec.units, 10 + step));
    Buffer dy = to_device(backend, outputs, random_floats(c.batch * c.spec.units, 20 + step));
    Floats g(static_cast<std::size_t>(size));
    const View w = View(theta).subspan(kBefore);
    backend.dense_backward(c.spec, c.batch, x.view(), w, y.view(), dy.view(), {},
                           at_once ? MutableView{} : MutableView(g).subspan(kBefore), {}, Write::overwrite);
    if (at_once) {
      const auto steps = rule == 2 ? backend.adam_at_once(rules.adam, 0.5F, ranges, theta, first, second)
                                   : backend.sgd_at_once(rules.sgd, 0.5F, ranges, theta, velocity);
      backend.dense_step(c.spec, c.batch, x.view(), dy.view(), kBefore, *steps);
    } else if (rule == 2) {
      backend.adam_update(rules.adam, {.factor = 0.5F}, std::span(ranges).last(1), g, theta, first, second);
    } else {
      backend.sgd_update(rules.sgd, {.factor = 0.5F}, std::span(ranges).last(1), g, theta, velocity);
    }
  }
  return state;
}

bool same_bits(const State& a, const State& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const Floats& left, const Floats& right) {
    return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
  });
}

TEST_CASE("a step inside of a dense layer's backward pass has the bits of a gradient and an update", "[dense]") {
  const std::vector<DenseSpec> specs = {{{300, 1, 1}, 70, Activation::relu},
                                        {{5, 1, 1}, 3, Activation::none},
                                        {{1, 1, 1}, 100, Activation::none},
                                        {{16, 3, 3}, 29, Activation::relu},
                                        {{6000, 1, 1}, 9, Activation::none}};
  for (InstructionSet set : available_instruction_sets()) {
    for (const DenseSpec& spec : specs) {
      CpuBackend backend({.instruction_set = set});
      if (!backend.has_dense_step(spec)) continue;
      for (Index batch : {1, 3, 4, 5, 8, 9, 17, 64, 70}) {
        for (int rule : {0, 1, 2}) {
          INFO(loops_for(set).name << ", " << spec.in.size() << " → " << spec.units << ", batch " << batch << ", rule "
                                   << rule);
          const bool decays = batch % 2 == 1;
          const State apart = after_steps({.instruction_set = set}, {spec, batch}, rule, decays, false);
          for (int threads : {1, 3}) {
            CHECK(same_bits(
                apart, after_steps({.threads = threads, .instruction_set = set}, {spec, batch}, rule, decays, true)));
          }
        }
      }
    }
  }
}

TEST_CASE("an empty batch makes no step of weights that have no decay and no momentum", "[dense]") {
  const Case none{{{300, 1, 1}, 70, Activation::relu}, 0};
  CHECK(same_bits(after_steps({}, none, 0, false, false), after_steps({}, none, 0, false, true)));
}

}  // namespace
}  // namespace unisono::kernels::cpu
