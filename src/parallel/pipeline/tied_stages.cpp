#include "pipeline/tied_stages.hpp"

namespace unisono::parallel {

TiedStages::TiedStages(const PipelineTerms& terms)
    : terms_(terms), floats_(terms.stages.stages() > 1 ? terms.model.staged()->network().tied_floats() : 0) {
  if (floats_ == 0) return;
  const Block& block = terms.model.staged()->network().tied_block();
  offset_ = terms.stages.local_parameter(0) + block.offset - terms.stages.piece(0).parameters().first;
  if (!is_first() && !is_last()) return;
  gradient_ = Buffer(floats_, terms.backend.memory());
  if (is_last()) weights_ = Buffer(floats_, terms.backend.memory());
  if (is_plain()) return;
  plain_gradient_ = Buffer(floats_);
  plain_weights_ = Buffer(floats_);
}

TiedStages::~TiedStages() = default;

/// \param plain a copy of the values is sent from here where these are not in plain memory
comm::RequestPtr TiedStages::send(MutableView values, Buffer& plain, int peer, int tag) {
  if (!is_plain()) terms_.backend.memory().copy(values, plain.view());
  const View from = is_plain() ? View(values) : View(plain.view());
  sent_bytes_ += static_cast<std::int64_t>(from.size_bytes());
  return terms_.pipeline.start_send(std::as_bytes(from), peer, tag);
}

comm::RequestPtr TiedStages::start_receive(Buffer& to, Buffer& plain, int peer, int tag) {
  return terms_.pipeline.start_receive(std::as_writable_bytes(is_plain() ? to.view() : plain.view()), peer, tag);
}

void TiedStages::wait(comm::RequestPtr& request) {
  if (!request) return;
  const ScopedTimer timer(waited_seconds_, terms_.clock);
  request->wait();
  request.reset();
}

/// After a receive.
void TiedStages::arrived(Buffer& to, Buffer& plain) {
  if (!is_plain()) terms_.backend.memory().copy(plain.view(), to.view());
}

void TiedStages::begin(MutableView parameters) {
  const auto size = static_cast<std::size_t>(floats_);
  const int last = terms_.pipeline.size() - 1;
  if (is_first()) {
    weights_under_way_ =
        send(parameters.subspan(static_cast<std::size_t>(offset_), size), plain_weights_, last, weights_tag());
  }
  if (is_last()) weights_under_way_ = start_receive(weights_, plain_weights_, 0, weights_tag());
}

const nn::TiedWeights* TiedStages::of_head(const SumPlace& place, Index examples) {
  if (!is_last()) return nullptr;
  if (weights_under_way_) {
    wait(weights_under_way_);
    arrived(weights_, plain_weights_);
  }
  if (place.begins) wait(gradient_under_way_);
  if (place.begins && examples == 0) terms_.backend.clear(gradient_.view());
  tied_ = {.weight = weights_.view(),
           .gradient = gradient_.view(),
           .write = place.begins ? kernels::Write::overwrite : kernels::Write::add,
           .complete = place.completes};
  return &tied_;
}

void TiedStages::head_done(const SumPlace& place) {
  if (is_last() && place.completes) gradient_under_way_ = send(gradient_.view(), plain_gradient_, 0, gradient_tag());
}

const nn::TiedWeights* TiedStages::of_embedding(const SumPlace& place) {
  if (!is_first()) return nullptr;
  if (place.completes) {
    comm::RequestPtr request = start_receive(gradient_, plain_gradient_, terms_.pipeline.size() - 1, gradient_tag());
    wait(request);
    arrived(gradient_, plain_gradient_);
  }
  tied_ = {.gradient = gradient_.view(), .complete = place.completes};
  return &tied_;
}

void TiedStages::add_without_pass(const nn::TiedWeights& tied, const GradientTarget& target) const {
  // Where the gradient is overwritten, it becomes 0, and the sum has no examples either.
  if (!is_first() || !tied.complete || target.write == kernels::Write::overwrite) return;
  const MutableView of_weights = part(target.gradient, FloatRange{offset_, offset_ + floats_});
  terms_.backend.axpby(1, tied.gradient, 1, of_weights);
}

void TiedStages::finish() {
  wait(weights_under_way_);
  wait(gradient_under_way_);
}

}  // namespace unisono::parallel
