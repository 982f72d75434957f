#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layers.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/parallel/placement.hpp"
#include "unisono/tensor/holding.hpp"

// Models whose layers are divided among ranks (nn::TensorPart), on threads of this process.

namespace unisono::parallel {

using nn::layer;

constexpr Index kTokens = 23, kContext = 7, kSequences = 5;  // a vocabulary that no number of parts divides

inline nn::LayerSettings block(std::vector<nn::LayerSettings> layers) { return nn::residual(std::move(layers)); }

inline std::vector<nn::LayerSettings> gpt() {
  return {layer("embedding", "units = 24"),
          block({layer("layer_norm"), layer("attention", "heads = 4, dropout = 0.2"), nn::dropout(0.1)}),
          block({layer("layer_norm"), nn::dense(29), layer("gelu_tanh"), nn::dropout(0.2), nn::dense(24)}),
          layer("layer_norm"), layer("unembedding", "tied = true")};
}

inline std::vector<nn::LayerSettings> llama() {
  return {layer("embedding", "units = 16, positions = 'none'"),
          block({layer("rms_norm"), layer("attention", "heads = 8, key_heads = 4, rotary = true, bias = false")}),
          block({layer("rms_norm"), layer("swiglu", "units = 26"), nn::dense(16, "bias = false")}), layer("rms_norm"),
          layer("unembedding")};
}

/// Layers of which only some are divided: those between the first two dense layers.
inline std::vector<nn::LayerSettings> perceptron() {
  return {nn::dense(30), layer("relu"), nn::dropout(0.3), nn::dense(20), layer("batch_norm"), nn::dense(kTokens)};
}

struct Example {
  std::vector<nn::LayerSettings> layers;
  bool of_tokens = true;
  std::vector<std::string> freeze = {};

  models::ModelInputs inputs() const {
    if (of_tokens) return {.kind = data::SetKind::tokens, .rows = kTokens, .context = kContext};
    return {.features = {kContext}, .classes = kTokens};
  }
};

/// The examples of a step.
struct Examples {
  Examples() {
    for (Index i = 0; i < kSequences * kContext; ++i) {
      tokens.push_back(static_cast<std::int32_t>(5 * i % kTokens));
      labels.push_back(i % 9 == 4 ? -1 : static_cast<std::int32_t>((7 * i + 3) % kTokens));
      features.push_back(std::sin(static_cast<float>(i)));
    }
    for (std::uint64_t i = 0; i < kSequences; ++i) numbers.push_back(100 + i);
  }
  data::Batch batch(bool of_tokens) const {
    data::Batch batch{
        .size = kSequences, .micro_batch_size = kSequences, .global_size = kSequences, .examples = numbers};
    batch.rows = of_tokens ? kContext : 1;
    if (of_tokens) {
      batch.tokens = tokens;
      batch.labels = labels;
    } else {
      batch.features = features;
      batch.labels = std::span(tokens).first(kSequences);
    }
    return batch;
  }

  std::vector<std::int32_t> tokens, labels;
  std::vector<float> features;
  std::vector<std::uint64_t> numbers;
};

/// What a step gives, of all ranks.
struct Result {
  std::vector<float> theta, gradient;  ///< whole vectors
  double loss = 0, evaluated = 0;
  std::int64_t hits = 0;
};

inline models::ModelSettings settings_of(const Example& example) {
  models::ModelSettings settings;
  settings.network = {.label_smoothing = 0.1, .layers = example.layers};
  return settings;
}

/// How a rank computes.
struct WithBackend {
  std::function<std::unique_ptr<kernels::Backend>(int rank)> make = [](int) { return kernels::make_cpu_backend(1); };
  comm::DeviceTransport transport = comm::DeviceTransport::staged;

  /// Of ranks with devices; null: of ranks without.
  std::unique_ptr<comm::Communicator> device_world(comm::Communicator& world, kernels::Backend& backend) const {
    if (backend.device() == nullptr) return nullptr;
    comm::CommunicationSettings settings;
    settings.device_transport = transport;
    return comm::make_device_communicator(world, *backend.device(), settings);
  }
};

/// What one rank of those that share all layers computes.
class DividedRank {
 public:
  DividedRank(const Example& example, comm::Communicator& plain, int leaves, const WithBackend& with)
      : example_(example),
        backend_(with.make(plain.rank())),
        device_world_(with.device_world(plain, *backend_)),
        world_(device_world_ ? *device_world_ : plain),
        group_(world_),
        squares_(world_) {
    settings_.tensor = world_.size();
    settings_.tensor_leaves = leaves;
    whole_ = make({});
    DividedModel divided{.whole = *whole_, .parts = {}, .own = world_.rank()};
    for (int part = 0; part < world_.size(); ++part) {
      parts_.push_back(make(settings_.part(part)));
      divided.parts.push_back(parts_.back()->staged());
    }
    stages_ = std::make_unique<Stages>(divided, settings_, 1);
  }

  Result result() {
    models::Model& model = *parts_[static_cast<std::size_t>(world_.rank())];
    const MapHolding parameters(stages_->parameters(), world_.rank(), squares_);
    const MapHolding statistics(stages_->statistics(), world_.rank(), squares_);
    Allocator& memory = backend_->memory();
    Buffer theta(parameters.size(), memory), gradient(parameters.size(), memory), running(statistics.size(), memory);
    const models::ModelState state{theta.view(), running.view()};
    model.initialise_held(3, {parameters, statistics}, state);

    const Examples examples;
    kernels::LossSums sums, evaluated;
    backend_->clear(gradient.view());
    model.loss_and_gradient(examples.batch(example_.of_tokens), 0.25F, state, {.gradient = gradient.view()}, sums);
    backend_->submit();
    backend_->collect(sums);
    model.evaluate(examples.batch(example_.of_tokens), state, evaluated);
    return {.theta = gathered(parameters, theta),
            .gradient = gathered(parameters, gradient),
            .loss = sums.loss,
            .evaluated = evaluated.loss,
            .hits = sums.correct};
  }

 private:
  std::unique_ptr<models::Model> make(const nn::TensorPart& part) {
    models::ModelContext context{.backend = *backend_, .reducer = alone_, .seed = 5, .freeze = example_.freeze};
    context.part = part;
    context.tensor = world_.size() > 1 ? &group_ : nullptr;
    return models::make_model(settings_of(example_), example_.inputs(), context);
  }
  std::vector<float> gathered(const Holding& holding, Buffer& own) {
    std::vector<float> whole(static_cast<std::size_t>(holding.layout().size()), 0.0F);
    PlainValues values(own.allocator(), own.view());
    comm::gather(world_, holding, values.view(), whole);
    return whole;
  }

  const Example& example_;
  std::unique_ptr<kernels::Backend> backend_;
  LocalReducer alone_;
  std::unique_ptr<comm::Communicator> device_world_;
  comm::Communicator& world_;
  comm::CommunicatorTensorGroup group_;
  comm::CommunicatorSquares squares_;
  ReplicaSettings settings_;
  std::unique_ptr<models::Model> whole_;
  std::vector<std::unique_ptr<models::Model>> parts_;
  std::unique_ptr<Stages> stages_;
};

/// On ranks that share all layers. \param leaves 1: layers are not divided
inline Result result_of(const Example& example, int ranks, int leaves, const WithBackend& with = {}) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    results[static_cast<std::size_t>(world.rank())] = DividedRank(example, world, leaves, with).result();
  });
  for (const Result& one : results) {  // all ranks count the same losses
    CHECK(one.loss == results.front().loss);
    CHECK(one.evaluated == results.front().evaluated);
    CHECK(one.hits == results.front().hits);
  }
  return results.front();
}

inline double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

}  // namespace unisono::parallel
