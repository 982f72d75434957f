#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {

TEST_CASE("the backend takes the best instruction set that the CPU has, and says so", "[cpu_backend]") {
  const auto backend = make_cpu_backend(2);
  const Loops best = loops_for(available_instruction_sets().back());
  CHECK(backend->threads() == 2);
  CHECK(backend->description() == std::string("CPU, ") + best.name + ", 2 threads");
  CHECK(make_cpu_backend(1)->description() == std::string("CPU, ") + best.name + ", 1 thread");
}

TEST_CASE("the environment can allow less than the best instruction set", "[cpu_backend]") {
  const std::vector<InstructionSet> sets = available_instruction_sets();
  const std::array<const char*, 4> names = {"portable", "blis", "avx2", "avx512"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    setenv("UNISONO_MAX_ISA", names[i], 1);
    const auto above = std::upper_bound(sets.begin(), sets.end(), static_cast<InstructionSet>(i));
    const InstructionSet expected = *std::prev(above);  // a build without BLIS makes do with less, as a CPU does
    CHECK(chosen_instruction_set() == expected);
    CHECK(cpu_instruction_set() == loops_for(expected).name);
    CHECK(make_cpu_backend(1)->description() == std::string("CPU, ") + loops_for(expected).name + ", 1 thread");
    CHECK(make_in_place_kernels()->name() == cpu_instruction_set());
  }
  setenv("UNISONO_MAX_ISA", "sse", 1);
  CHECK_THROWS_WITH(chosen_instruction_set(), Catch::Contains("UNISONO_MAX_ISA is 'sse'") && Catch::Contains("avx2"));
  unsetenv("UNISONO_MAX_ISA");
  CHECK(chosen_instruction_set() == sets.back());
}

TEST_CASE("scratch memory grows with the first call and not again", "[cpu_backend]") {
  CpuBackend backend({.threads = 2});
  CHECK(backend.scratch_size() == 0);
  const ConvolutionSpec spec{.in = {3, 6, 6}, .channels = 20, .kernel_height = 3, .kernel_width = 3};
  Buffer x(backend.activation_size(spec.in, 20)), y(backend.activation_size(spec.out(), 20)), dy(y.size());
  Buffer dx(x.size()), w(20 * 3 * 9), dw(w.size());
  const auto backward = [&] {
    backend.convolution_backward(spec, 20, x.view(), w.view(), y.view(), dy.view(), dx.view(), dw.view(), {},
                                 Write::overwrite);
  };
  backward();
  const Index once = backend.scratch_size();
  CHECK(once > 0);
  backward();
  CHECK(backend.scratch_size() == once);
}

TEST_CASE("the roofs are of this world", "[long][cpu_backend]") {
  // From the slowest core that could run this to more than any has: a wrong unit or an empty loop would show.
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const double flops = backend.measure_peak_flops_per_second();
    CHECK(flops > 1e8);
    CHECK(flops < 1e12);
  }
  const double bandwidth = CpuBackend({.threads = 2}).measure_bandwidth_bytes_per_second();
  CHECK(bandwidth > 1e7);
  CHECK(bandwidth < 4e12);
}

}  // namespace unisono::kernels::cpu
