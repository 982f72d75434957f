// Lists the engines that cuDNN offers for convolutions on an H100, which need not be there: cuDNN 9.8 and later takes a
// description of a device in its place.
//   list_engines            the table that the simulated cuDNN includes, tests/simulated_cuda/cudnn_listed.inc
//   list_engines --check    compares that file with cuDNN: exit code 1 if it differs, 77 without this version of cuDNN
//   list_engines --plans    which of them unisono takes for batches of 32
// Engines that cuDNN compiles at run time are left out: whether it offers them depends on the driver that it finds.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "convolution_shapes.hpp"
#include "cuda/convolutions.hpp"
#include "simulated_cuda/engine_key.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr int kSkipped = 77;
constexpr const char* kFile = UNISONO_SOURCE_DIR "/tests/simulated_cuda/cudnn_listed.inc";

// What cudaGetDeviceProperties says of an H100 SXM, in cuDNN's words.
constexpr std::string_view kH100 = R"({"deviceName": "NVIDIA H100 80GB HBM3", "cudaDeviceId": 0, "deviceId": 0,
"deviceVer": 900, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
"maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
"supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": 52428800,
"totalGlobalMem": 85017755648})";

#if CUDNN_VERSION >= 90800
Descriptor described_device() {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::span<const char>(kH100));
  device.finalise();
  return device;
}
#else
Descriptor described_device() { throw DeviceError("cuDNN takes descriptions of devices since 9.8"); }
#endif

struct Pass {
  ConvolutionPass pass;
  Activation activation;
  const char* operation;
};
constexpr Pass kPasses[] = {{ConvolutionPass::forward, Activation::none, "forward"},
                            {ConvolutionPass::forward_fused, Activation::none, "forward bias"},
                            {ConvolutionPass::forward_fused, Activation::relu, "forward bias relu"},
                            {ConvolutionPass::data, Activation::none, "data"},
                            {ConvolutionPass::weights, Activation::none, "filter"},
                            {ConvolutionPass::weights_small, Activation::none, "filter"}};

std::string key_of(const Pass& pass, const ConvolutionSpec& s, Precision precision) {
  simulated::EngineKey key;
  key.operation = pass.operation;
  key.halves = stores_halves(precision);
  key.result_halves = result_of(pass.pass, precision) == CUDNN_DATA_BFLOAT16;
  std::ranges::copy(std::array{s.in.channels, s.in.height, s.in.width}, key.in);
  std::ranges::copy(std::array{s.channels, s.in.channels / s.groups, s.kernel_height, s.kernel_width}, key.filters);
  std::ranges::copy(std::array{s.padding_height, s.padding_width}, key.padding);
  std::ranges::copy(std::array{s.stride_height, s.stride_width}, key.stride);
  std::ranges::copy(std::array{s.dilation_height, s.dilation_width}, key.dilation);
  return key.text();
}

/// "70t": its number; t: tensor cores, d: inputs rounded to less, r: sums rounded to less, n: not deterministic.
std::string text_of(const EngineChoice& choice) {
  std::string text = std::to_string(choice.engine);
  if (choice.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) text += 't';
  if (choice.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) text += 'd';
  if (choice.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) text += 'r';
  if (choice.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) text += 'n';
  return text;
}

/// The engines that a mode offers for batches of each size, in the order for the first, each once; "!" behind those of
/// which no plan can be made.
std::string engines_of(const ConvolutionPlanner& planner, const Pass& pass, const ConvolutionSpec& spec,
                       cudnnBackendHeurMode_t mode) {
  std::vector<std::string> common;
  for (const Index batch : {32, 2, 1024}) {
    std::vector<std::string> offered;
    for (const EngineChoice& choice : planner.offers(pass.pass, spec, batch, mode)) {
      if (choice.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) continue;
      std::string text = text_of(choice);
      if (std::ranges::count(offered, text) + std::ranges::count(offered, text + '!') > 0) continue;
      offered.push_back(planner.builds(choice) ? text : text + '!');
    }
    if (batch == 32) common = offered;
    std::erase_if(common, [&](const std::string& text) { return std::ranges::count(offered, text) == 0; });
  }
  return fmt::format("{}", fmt::join(common, " "));
}

template <typename Act>
void for_each_pass(const Descriptor& device, Act act) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {  // of tf32 as of fp32
    const ConvolutionPlanner planner(precision, WeightGradients::tuned, {.described = &device});
    for (ConvolutionSpec spec : listed_convolutions()) {
      for (const Pass& pass : kPasses) {
        if (pass.pass == ConvolutionPass::weights_small && precision == Precision::fp32) continue;
        spec.activation = pass.activation;
        act(planner, pass, spec, precision);
      }
    }
  }
}

std::string table() {
  const Descriptor device = described_device();
  std::map<std::string, std::string> rows;
  for_each_pass(device, [&](const auto& planner, const Pass& pass, const auto& spec, Precision precision) {
    rows[key_of(pass, spec, precision)] =
        fmt::format("\"{}\", \"{}\"", engines_of(planner, pass, spec, CUDNN_HEUR_MODE_A),
                    engines_of(planner, pass, spec, CUDNN_HEUR_MODE_FALLBACK));
  });
  const auto version = cudnn().cudnnGetVersion();
  std::string text = fmt::format(
      "// Engines of cuDNN {}.{}.{} for an H100, tuned ones and fallbacks; written by list_engines (tests/cuda).\n",
      version / 10000, version / 100 % 100, version % 100);
  for (const auto& [key, row] : rows) text += fmt::format("{{\"{}\", {}}},\n", key, row);
  return text;
}

void print_plans() {
  const Descriptor device = described_device();
  for_each_pass(device, [&](const auto& planner, const Pass& pass, const auto& spec, Precision precision) {
    const ConvolutionPlan plan = planner.plan(pass.pass, spec, 32);
    std::cout << fmt::format("{}: {} ({:.2f} s)\n", key_of(pass, spec, precision), plan.text(), plan.seconds);
  });
}

int check() {
  std::ifstream file(kFile);
  std::ostringstream written;
  written << file.rdbuf();
  const std::string listed = table();
  if (listed == written.str()) return 0;
  const std::string_view first = std::string_view(listed).substr(0, listed.find('\n'));
  if (!written.str().starts_with(first)) {
    std::cout << "the table is of another version of cuDNN than this: " << first << '\n';
    return kSkipped;
  }
  std::cout << kFile << " differs from what cuDNN lists: write it anew with list_engines\n";
  return 1;
}

int run(const std::string& option) {
  try {
    if (option == "--check") return check();
    if (option == "--plans") {
      print_plans();
    } else {
      std::cout << table();
    }
    return 0;
  } catch (const DeviceError& error) {
    std::cerr << "list_engines: " << error.what() << '\n';
    return option == "--check" ? kSkipped : 1;
  }
}

}  // namespace
}  // namespace unisono::kernels::cuda

int main(int count, char** words) { return unisono::kernels::cuda::run(count > 1 ? words[1] : ""); }
