#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {

TEST_CASE("a gate gives the reference's outputs and gradients", "[gate]") {
  for (const Index batch : kBatches) {
    for (const Index units : {1, 3, 20, 300}) {
      INFO(batch << " × " << units);
      const Shape in{{2 * units, 1, 1}, batch}, out{{units, 1, 1}, batch};
      const Floats x = random_floats(in.size(), 41, -8, 8), dy = random_floats(out.size(), 42);
      const auto size = static_cast<std::size_t>(units);
      const auto y = reference::gate(widen(x), size), dx = reference::gate_backward(widen(x), size, widen(dy));
      everywhere(
          [&](CpuBackend& backend) {
            Buffer to = fresh(backend, out), gradient = fresh(backend, in);
            const Buffer from = to_device(backend, in, x, 5);
            backend.gate_forward(units, batch, from.view(), to.view());
            backend.gate_backward(units, batch, from.view(), to_device(backend, out, dy).view(), gradient.view());
            CHECK(std::isfinite(largest_unused(backend, out, to.view())));
            CHECK(largest_unused(backend, in, gradient.view()) == 0);
            return Outputs{{from_device(backend, out, to), from_device(backend, in, gradient)}, {}};
          },
          [&](const Outputs& outputs) {
            // σ errs by 5 u, and there are two products more. Of the derivative's terms, σ ≤ 1 and z σ (1 − σ) < 1.1,
            // the latter errs by 5 u (|z| + 1) more; |v| ≤ 8.
            CHECK(excess(outputs.tensors[0], y, [&](std::size_t i) { return 8 * kRoundoff * std::abs(y[i]); }) <= 1);
            CHECK(excess(outputs.tensors[1], dx, 8 * 60 * kRoundoff) <= 1);
          });
    }
  }
}

TEST_CASE("a gate of 0 is closed, a large one lets pass its own multiple", "[gate]") {
  CpuBackend backend({});
  const Buffer x = to_device(backend, {{4, 1, 1}, 1}, Floats{0, 100, 3, 2});
  Buffer y = fresh(backend, {{2, 1, 1}, 1});
  backend.gate_forward(2, 1, x.view(), y.view());
  CHECK(from_device(backend, {{2, 1, 1}, 1}, y) == Floats{0, 200});
}

}  // namespace unisono::kernels::cpu
