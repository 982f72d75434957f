#include "cuda/convolutions.hpp"

#include <fmt/format.h>

#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

cudnnHandle_t created_handle() {
  cudnnHandle_t handle = nullptr;
  check(cudnn().cudnnCreate(&handle), "cudnnCreate");
  return handle;
}

std::string text_of(const ConvolutionSpec& s) {
  std::string text = fmt::format("{}×{}×{} → {}, {}×{}", s.in.channels, s.in.height, s.in.width, s.channels,
                                 s.kernel_height, s.kernel_width);
  if (s.stride_height != 1 || s.stride_width != 1) {
    text += fmt::format(", stride {}×{}", s.stride_height, s.stride_width);
  }
  if (s.dilation_height != 1 || s.dilation_width != 1) {
    text += fmt::format(", dilation {}×{}", s.dilation_height, s.dilation_width);
  }
  return s.groups == 1 ? text : text + fmt::format(", {} groups", s.groups);
}

std::string text_of(const ConvolutionSpec& spec, Index batch) {
  return fmt::format("{}, batch {}", text_of(spec), batch);
}

ConvolutionEngine engine_of(const Convolutions::Planned& planned) {
  const ConvolutionPlan& plan = planned.plan;
  const bool converted = planned.pass == ConvolutionPass::weights_small;
  return {.pass = fmt::format("{}{}", name_of(planned.pass), converted ? ", converted" : ""),
          .convolution = text_of(planned.spec, planned.batch),
          .engine = plan.engine,
          .last_resort = plan.fallback,
          .compiled = plan.compiled,
          .workspace_bytes = plan.workspace_bytes,
          .times = planned.times};
}

}  // namespace

std::string Convolutions::Planned::text() const {
  return fmt::format("{} of {}: {}", name_of(pass), text_of(spec, batch), plan.text());
}

Convolutions::Convolutions(Precision precision, Fallbacks* fallbacks)
    : precision_(precision),
      fallbacks_(fallbacks),
      weight_gradients_(chosen_weight_gradients()),
      handle_(created_handle()),
      planner_(precision, weight_gradients_, {.handle = handle_}) {}

Convolutions::~Convolutions() {
  plans_.clear();
  cudnn().cudnnDestroy(handle_);
}

Convolutions::Planned& Convolutions::planned(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
  const Key key = {static_cast<Index>(pass),
                   batch,
                   spec.in.channels,
                   spec.in.height,
                   spec.in.width,
                   spec.channels,
                   spec.kernel_height,
                   spec.kernel_width,
                   spec.stride_height,
                   spec.stride_width,
                   spec.padding_height,
                   spec.padding_width,
                   spec.dilation_height,
                   spec.dilation_width,
                   spec.groups,
                   static_cast<Index>(spec.activation)};
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(key, Planned{pass, spec, batch, planner_.plan(pass, spec, batch)}).first;
    order_.push_back(&found->second);
    const ConvolutionPlan& plan = found->second.plan;
    if (plan.found() && plan.fallback) {
      note(Fallback::engine, fmt::format("cuDNN recommends no engine in {} for the {}; it is a last resort",
                                         name_of(precision_), found->second.text()));
    }
  }
  return found->second;
}

bool Convolutions::can_fuse(const ConvolutionSpec& spec, Index batch) {
  Planned& fused = planned(ConvolutionPass::forward_fused, spec, batch);
  if (fused.plan.found() || std::exchange(fused.is_noted, true)) return fused.plan.found();
  note(Fallback::convolution,
       fmt::format("cuDNN has no {} kernel for a convolution ({}) that includes the bias{}: another kernel adds it",
                   name_of(precision_), text_of(spec, batch), spec.activation == Activation::relu ? " and ReLU" : ""));
  return false;
}

void Convolutions::note(Fallback kind, const std::string& text) const {
  if (fallbacks_ != nullptr) fallbacks_->note(kind, text);
}

std::vector<ConvolutionEngine> Convolutions::engines() const {
  std::vector<ConvolutionEngine> engines;
  for (const Planned* planned : order_) {
    if (planned->times > 0) engines.push_back(engine_of(*planned));
  }
  return engines;
}

void Convolutions::run(Queue& queue, ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                       const ConvolutionMemory& memory, void* workspace) {
  Planned& planned = this->planned(pass, spec, batch);
  const ConvolutionPlan& plan = planned.plan;
  if (!plan.found()) {
    throw DeviceError(
        "cuDNN has no kernel for a convolution of this shape and precision; change its groups, dilation "
        "or channels, set precision = \"bf16\", or device = \"cpu\"");
  }
  ++planned.times;
  Signature signature;
  signature.add(&plan).add(memory.x).add(memory.w).add(memory.y).add(memory.b).add(workspace);
  const bool fused = pass == ConvolutionPass::forward_fused;
  queue.add(signature, [this, &plan, memory, workspace, fused](cudaStream_t stream) {
    std::vector<std::int64_t> names = {kX, kW, kY};
    std::vector<const void*> addresses = {memory.x, memory.w, memory.y};
    if (fused) {
      names.push_back(kBias);
      addresses.push_back(memory.b);
    }
    Descriptor variants(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    variants.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(names))
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(addresses))
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    variants.finalise();
    check(cudnn().cudnnSetStream(handle_, stream), "cudnnSetStream");
    check(cudnn().cudnnBackendExecute(handle_, plan.execution->get(), variants.get()), "cudnnBackendExecute");
  });
}

}  // namespace unisono::kernels::cuda
