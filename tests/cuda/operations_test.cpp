// Every kernel of a GPU against the reference, in every precision.
#include "operations.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "nn/reference_backend.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/kernels/compute_device.hpp"

namespace unisono {
namespace {

/// The inputs are exact in each precision. Sums of n floats, in whatever order, leave four deviations of √(n/6) 2⁻²⁴ of
/// the largest (as in tests/nn/cpu_room_test.cpp); storing a result as bfloat16 leaves half a unit of its last of
/// eight bits, 2⁻⁸ of it, and where that is done twice, as much of the largest for the first time.
void check_close(const Result& expected, const Result& got, kernels::Precision precision) {
  INFO(expected.name);
  REQUIRE(expected.values.size() == got.values.size());
  double largest = expected.scale;
  for (const float value : expected.values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  const double sums = 4 * std::sqrt(expected.terms / 6 + 1) * 0x1p-24 * largest;
  const double stored = precision == kernels::Precision::bf16 && expected.activations ? 0x1p-8 : 0;
  const double before = expected.roundings > 1 ? stored * largest : 0;
  double worst = 0;  // of what is allowed
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double value = expected.values[i], error = std::abs(got.values[i] - value);
    const double allowed = sums + before + stored * std::abs(value) * 1.001;
    if (!(error <= allowed)) worst = std::max(worst, std::isfinite(error) ? error / std::max(allowed, 1e-300) : 1e300);
  }
  CHECK(worst == 0);
}

void compare(const std::vector<Operation>& table, kernels::Backend& reference, kernels::Precision precision) {
  const auto device = kernels::make_cuda_backend(0, precision);
  for (const Operation& operation : table) {
    INFO(operation.name << ", " << device->description());
    const Results expected = operation.run(reference);
    // Five times: in each of the queue's two areas, the third is a recorded graph. The queue is the same for all
    // precisions: the others have one graph.
    const int times = precision == kernels::Precision::fp32 ? 5 : 3;
    for (int time = 1; time <= times; ++time) {
      INFO("time " << time);
      const Results got = operation.run(*device);
      REQUIRE(expected.size() == got.size());
      for (std::size_t i = 0; i < expected.size(); ++i) check_close(expected[i], got[i], precision);
    }
  }
}

/// What tf32 changes; everything else runs as in fp32.
bool is_product(const Operation& operation) {
  return operation.name.starts_with("dense ") || operation.name.starts_with("convolution ");
}

TEST_CASE("layers and losses on the device equal the reference", "[gpu]") {
  nn::ReferenceBackend reference;
  for (const kernels::Precision precision :
       {kernels::Precision::fp32, kernels::Precision::tf32, kernels::Precision::bf16}) {
    DYNAMIC_SECTION(kernels::name_of(precision)) {
      std::vector<Operation> table = operations();
      if (precision == kernels::Precision::tf32) std::erase_if(table, [](const auto& one) { return !is_product(one); });
      REQUIRE(!table.empty());
      compare(table, reference, precision);
    }
  }
}

TEST_CASE("vectors and update rules on the device equal the CPU's", "[gpu]") {
  const auto cpu = kernels::make_cpu_backend(1);
  compare(vector_operations(), *cpu, kernels::Precision::fp32);
}

class RareKernels {
 public:
  static constexpr std::string_view kOwner = "layer 'rare'";
  virtual void run() = 0;

 protected:
  ~RareKernels() = default;
};

TEST_CASE("a kernel that the device lacks is refused by its owner's name", "[gpu]") {
  const auto device = kernels::make_cuda_backend(0, kernels::Precision::fp32);
  CHECK_THROWS_WITH(kernels::kernels_of<RareKernels>(*device),
                    "layer 'rare' has no CUDA kernel yet: train on the CPU, with device = \"cpu\"");
}

TEST_CASE("norms of no ranges are nothing to do", "[gpu]") {
  const auto device = kernels::make_cuda_backend(0, kernels::Precision::fp32);
  Buffer x(64, device->memory());
  device->squared_norms(x.view(), {}, {});
  device->lamb_moments({}, {}, {}, x.view(), x.view(), x.view(), x.view(), {});
  CHECK_NOTHROW(device->device()->synchronise());
}

}  // namespace
}  // namespace unisono
