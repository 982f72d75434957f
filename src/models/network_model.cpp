#include "network_model.hpp"

#include <fmt/format.h>

#include <cmath>

#include "in_place_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/nn/initialiser.hpp"

namespace unisono::models {
namespace {

nn::Shape shape_of(const ModelInputs& inputs) {
  if (inputs.kind == data::SetKind::tokens) return {.extent = {1}, .rows = inputs.context, .vocabulary = inputs.rows};
  const data::FeatureShape& features = inputs.features;
  return {.extent = {features.channels, features.height, features.width}};
}

/// Which labels or targets the network's outputs are compared with.
nn::TargetShape targets_of(const ModelInputs& inputs, const nn::Network& network) {
  const bool tokens = inputs.kind == data::SetKind::tokens, classifies = tokens && inputs.classes > 0;
  if (tokens && !classifies && !network.gives_loss()) {
    throw ConfigError(
        "model.layers: the set holds tokens; let the last layer be { kind = \"unembedding\" }, which "
        "predicts the next one, or import texts with classes (--label-column) to classify them");
  }
  if (network.gives_loss()) network.require_causal();
  if (classifies && (network.gives_loss() || network.out().rows > 1)) {
    throw ConfigError(fmt::format(
        "model.layers: the set holds texts of {}; let the last layers be {{ kind = \"sequence_pool\" }}, which makes "
        "one vector of each text, and {{ kind = \"dense\", units = {} }}",
        count_of(inputs.classes, "class"), inputs.classes));
  }
  return {.classes = inputs.classes,
          .target_size = inputs.target_size,
          .vocabulary = tokens && !classifies ? inputs.rows : 0};
}

void initialise_in(Allocator& memory, const Holding& holding, std::uint64_t seed, MutableView vector) {
  PlainValues values(memory, vector);
  nn::initialise(holding, seed, values.view());
  values.put_back();
}

constexpr Index kTopCount = 5;

// Without labels a hit is an example all of whose outputs are right: as rare as not for many outputs, so that it has a
// name of its own, and no run is judged by it.
void add_classification(const kernels::LossSums& sums, Index classes, std::vector<Metric>& metrics) {
  metrics.push_back(
      metric_of(classes > 0 ? "accuracy" : "subset_accuracy", ratio(static_cast<double>(sums.correct), sums.examples)));
  if (classes <= kTopCount) return;
  metrics.push_back(metric_of("top5_accuracy", ratio(static_cast<double>(sums.correct_top5), sums.examples)));
}

void add_regression(const kernels::LossSums& sums, std::vector<Metric>& metrics) {
  metrics.push_back(metric_of("rmse", std::sqrt(ratio(sums.squared_error, sums.values))));
  metrics.push_back(metric_of("mae", ratio(sums.absolute_error, sums.values)));
  add_r2(sums, metrics);
}

}  // namespace

NetworkModel::NetworkModel(const nn::NetworkSettings& settings, const ModelInputs& inputs, const ModelContext& context)
    : settings_(settings),
      in_(shape_of(inputs)),
      context_(context),
      network_(settings, in_, context.backend,
               {.steps_together = context.steps_together,
                .freeze = context.freeze,
                .part = context.part,
                .recomputes_blocks = context.recomputes_blocks}),
      loss_(nn::make_loss(settings, network_.out(), targets_of(inputs, network_))),
      token_bytes_(network_.gives_loss() ? inputs.token_bytes : nullptr) {}

void NetworkModel::initialise(std::uint64_t seed, ModelState state) const {
  const WholeHolding parameters(network_.parameters()), statistics(network_.statistics());
  initialise_held(seed, {parameters, statistics}, state);
}

void NetworkModel::initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const {
  initialise_in(context_.backend.memory(), held.parameters, seed, state.parameters);
  initialise_in(context_.backend.memory(), held.statistics, seed, state.statistics);
}

nn::Pass NetworkModel::pass(const data::Batch& batch, ModelState state, bool training) const {
  return {.backend = context_.backend,
          .reducer = batch.whole ? static_cast<Reducer&>(alone_) : context_.reducer,
          .parameters = state.parameters,
          .statistics = state.statistics,
          .training = training,
          .batch = batch.size,
          .examples = batch.examples,
          .epoch = batch.epoch,
          .seed = context_.seed,
          .row_numbers = row_numbers_,
          .lengths = batch.lengths,
          .tensor = context_.tensor,
          .seconds = training ? layer_seconds_ : nullptr};
}

nn::LossTerms NetworkModel::loss_terms(const data::Batch& batch, float scale, kernels::LossSums& sums) const {
  for (const std::int32_t label : token_bytes_ ? batch.labels : std::span<const std::int32_t>()) {
    if (label >= 0) sums.bytes += (*token_bytes_)[static_cast<std::size_t>(label)];
  }
  return {.labels = batch.labels, .scale = scale / static_cast<float>(in_.rows), .sums = sums};
}

nn::Targets targets_of(const data::Batch& batch) {
  return {{batch.labels, batch.other_labels, batch.other_shares}, batch.targets};
}

Inputs inputs_of(const data::Batch& batch) {
  return {.values = batch.features, .kept = batch.kept, .movements = batch.movements, .tokens = batch.tokens};
}

void number_rows(const data::Batch& batch, std::vector<std::uint64_t>& numbers) {
  numbers.clear();
  if (batch.rows == 1) return;
  const auto rows = static_cast<std::uint64_t>(batch.rows);
  for (const std::uint64_t example : batch.examples) {
    for (std::uint64_t row = 0; row < rows; ++row) numbers.push_back(example * rows + row);
  }
}

nn::Workspace NetworkModel::workspace(Index batch, bool training) {
  const auto [entry, is_new] = plans_.try_emplace({batch, training});
  nn::WorkspacePlan& plan = entry->second;
  if (is_new) plan = network_.plan(batch, training);
  return memory_for(plan);
}

nn::Workspace NetworkModel::memory_for(const nn::WorkspacePlan& plan) {
  if (plan.floats > memory_.size()) {
    memory_ = Buffer();  // gives the old memory back before it asks for more
    memory_ = Buffer(plan.floats, context_.backend.memory());
  }
  return {plan, memory_.view().first(static_cast<std::size_t>(plan.floats))};
}

/// Whether each micro-batch of the step is on one rank only, so that the ranks exchange its batch statistics at the end
/// of the step: each rank then updates its running statistics by all micro-batches, in their order. The only
/// micro-batch of a step of one example is on one rank, too.
bool NetworkModel::gathers_moments(const data::Batch& batch) const {
  const bool on_single_ranks = batch.whole && (batch.micro_batches > 1 || batch.global_size == 1);
  return on_single_ranks && network_.moments_size() > 0 && !statistics_are_local();
}

MutableView NetworkModel::moments_of(Index micro_batch) {
  const auto size = static_cast<std::size_t>(network_.moments_size());
  return moments_.view().subspan(static_cast<std::size_t>(micro_batch) * size, size);
}

void NetworkModel::make_room_for_moments(Index micro_batches) {
  const Index floats = micro_batches * network_.moments_size();
  if (moments_.size() < floats) moments_ = Buffer(floats, context_.backend.memory());
}

/// Sums the moments over the ranks and applies them. Collective. Each micro-batch's moments are zero on all ranks but
/// one, so the sums are exact.
void NetworkModel::apply_moments(const nn::Pass& pass, Index micro_batches) {
  const MutableView all = moments_.view().first(static_cast<std::size_t>(micro_batches * network_.moments_size()));
  context_.reducer.sum(as_doubles(all));
  for (Index i = 0; i < micro_batches; ++i) network_.apply_moments(pass, moments_of(i));
  context_.backend.clear(all);
}

void NetworkModel::loss_and_gradient(const data::Batch& batch, float scale, ModelState state,
                                     const GradientTarget& target, kernels::LossSums& sums) {
  number_rows(batch, row_numbers_);
  nn::Pass now = pass(batch, state, true);
  if (gathers_moments(batch)) {
    make_room_for_moments(batch.micro_batches);
    if (batch.size > 0) now.moments = moments_of(batch.micro_batch);
  }
  const nn::LossTerms terms = loss_terms(batch, scale, sums);
  now.loss = &terms;
  now.step = target.step;
  const nn::Workspace memory = workspace(batch.size, true);
  const View outputs = network_.forward(now, inputs_of(batch), memory);
  if (batch.size > 0 && !network_.gives_loss()) {
    loss_->apply(context_.backend, batch.size, outputs, targets_of(batch), {scale, batch.weights},
                 network_.output_gradient(memory), sums);
  }
  nn::TiedWeights tied;
  if (collect_tied_gradient(target, tied)) now.tied = &tied;
  if (batch.size == 0 && now.tied != nullptr && tied.complete) {  // no layer runs
    context_.backend.axpby(1, tied.gradient, 1, part(target.gradient, network_.tied_block()));
  }
  network_.backward(now, memory, target.gradient, target.write, target.ready);
  if (gathers_moments(batch) && batch.last_of_step) apply_moments(now, batch.micro_batches);
}

/// Whether the two parts of the gradient of tied weights are added up apart, since it is a sum over several batches.
bool NetworkModel::collect_tied_gradient(const GradientTarget& target, nn::TiedWeights& tied) {
  if (target.write == kernels::Write::overwrite) collects_ = false;
  if (network_.tied_floats() == 0 || (!collects_ && target.complete)) return false;
  if (tied_gradient_.size() == 0) tied_gradient_ = Buffer(network_.tied_floats(), context_.backend.memory());
  tied = {.gradient = tied_gradient_.view(),
          .write = collects_ ? kernels::Write::add : kernels::Write::overwrite,
          .complete = target.complete};
  collects_ = !target.complete;
  return true;
}

View NetworkModel::infer(const data::Batch& batch, ModelState state) {
  return network_.forward(pass(batch, state, false), inputs_of(batch), workspace(batch.size, false));
}

void NetworkModel::evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  if (batch.size == 0) return;
  if (network_.gives_loss()) return evaluate_tokens(batch, state, sums);
  loss_->apply(context_.backend, batch.size, infer(batch, state), targets_of(batch), 0, {}, sums);
  context_.backend.collect(sums);
}

void NetworkModel::evaluate_tokens(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  nn::Pass now = pass(batch, state, /*training=*/false);
  const nn::LossTerms terms = loss_terms(batch, 0, sums);
  now.loss = &terms;
  network_.forward(now, inputs_of(batch), workspace(batch.size, /*training=*/false));
  context_.backend.collect(sums);
}

void NetworkModel::evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                                        PredictionReader& reader) {
  if (batch.size == 0) return;
  if (network_.gives_loss()) return evaluate_tokens(batch, state, sums);  // which has no predictions to read
  const View outputs = infer(batch, state);
  loss_->apply(context_.backend, batch.size, outputs, targets_of(batch), 0, {}, sums);
  context_.backend.collect(sums);
  read_predictions(context_.backend, *this, batch, outputs, reader);
}

void NetworkModel::predict_layer(const std::string& layer) {
  layer_ = nn::Network::up_to(layer, settings_, in_, context_.backend);
}

Prediction NetworkModel::prediction() const {
  if (layer_) return Prediction::values;
  if (loss_->gives_probabilities()) return Prediction::probabilities;
  return loss_->classes() > 0 ? Prediction::margins : Prediction::values;
}

void NetworkModel::predict(const data::Batch& batch, ModelState state, MutableView outputs) {
  if (batch.size == 0) return;
  if (layer_) {
    const nn::WorkspacePlan plan = layer_->plan(batch.size, /*training=*/false);
    const View values = layer_->forward(pass(batch, state, /*training=*/false), inputs_of(batch), memory_for(plan));
    const nn::Shape& out = layer_->out();
    return context_.backend.store(out.extent, batch.size * out.rows, values, outputs);
  }
  if (network_.gives_loss()) {
    throw ConfigError(
        "the model is a language model, which predicts the next token of a text; use evaluate for its "
        "loss, or predict --layer for the vectors of a layer");
  }
  const kernels::Extent& out = network_.out().extent;
  const auto raw = outputs.first(static_cast<std::size_t>(batch.size * out.size()));
  context_.backend.store(out, batch.size, infer(batch, state), raw);
  loss_->to_predictions(outputs);
}

void read_predictions(kernels::Backend& backend, const Staged& model, const data::Batch& batch, View outputs,
                      PredictionReader& reader) {
  const kernels::Extent& out = model.network().out().extent;
  const Index width = reader.wants_predictions() ? model.loss_function().prediction_size() : out.size();
  std::vector<float> rows(static_cast<std::size_t>(batch.size * width));
  backend.store(out, batch.size, outputs, MutableView(rows).first(static_cast<std::size_t>(batch.size * out.size())));
  if (reader.wants_predictions()) model.loss_function().to_predictions(rows);
  reader.read(rows, answers_of(batch), {});
}

std::vector<LayerSummary> NetworkModel::summary(Index batch) const {
  std::vector<LayerSummary> summary;
  for (const nn::LayerRow& row : network_.rows(batch)) {
    summary.push_back({.name = row.name,
                       .kind = row.kind,
                       .output = row.output,
                       .parameters = row.parameters,
                       .flops_per_example = row.flops,
                       .activation_bytes = row.activation * static_cast<Index>(sizeof(float))});
  }
  return summary;
}

std::vector<std::string> NetworkModel::notes() const { return network_.notes(); }

double NetworkModel::flops_per_example() const {
  double flops = 0;
  for (const nn::LayerRow& row : network_.rows(1)) flops += row.flops;
  return flops;
}

Index NetworkModel::workspace_bytes(Index batch) const {
  return network_.plan(batch, true).floats * static_cast<Index>(sizeof(float));
}

Index NetworkModel::inference_workspace_bytes(Index batch) const {
  return network_.plan(batch, false).floats * static_cast<Index>(sizeof(float));
}

/// Of smoothed losses no perplexity follows.
void NetworkModel::add_token_metrics(const kernels::LossSums& sums, std::vector<Metric>& metrics) const {
  if (settings_.label_smoothing > 0) return;
  metrics.push_back(metric_of("perplexity", std::exp(ratio(sums.loss, sums.examples))));
  if (token_bytes_ && sums.bytes > 0)
    metrics.push_back(metric_of("bits_per_byte", ratio(sums.loss, sums.bytes) / std::log(2.0)));
}

std::vector<Metric> NetworkModel::metrics(const kernels::LossSums& sums) const {
  std::vector<Metric> metrics = {metric_of("loss", ratio(sums.loss, sums.examples))};
  if (network_.gives_loss()) add_token_metrics(sums, metrics);
  const Index classes = network_.gives_loss() ? loss_->prediction_size() : loss_->classes();
  if (loss_->counts_hits()) add_classification(sums, classes, metrics);
  if (sums.values > 0 && !network_.gives_loss()) add_regression(sums, metrics);
  return metrics;
}

}  // namespace unisono::models
