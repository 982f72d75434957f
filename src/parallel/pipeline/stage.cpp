#include "pipeline/stage.hpp"

#include <algorithm>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
namespace {

/// Messages that a stage may be ahead of the next one where both only evaluate.
constexpr std::size_t kMostAheadInEvaluation = 2;

nn::PassKind kind_of(const Program& program, const StageWork& work) {
  if (work.run == nullptr) return nn::PassKind::inference;
  const auto& operations = program.ranks.front();
  const bool halves = std::ranges::any_of(
      operations, [](const Operation& operation) { return operation.kind == OperationKind::backward_weights; });
  return halves ? nn::PassKind::halves : nn::PassKind::training;
}

/// Where a piece's part begins in g as the piece counts, and in the stage's shard of it.
struct Offsets {
  Index piece = 0, shard = 0;
  Index in_shard(Index offset) const { return offset - piece + shard; }
};

}  // namespace

/// The program that runs.
struct Stage::Now {
  const Program& program;
  const std::vector<Operation>& operations;  ///< of this stage
  MicroBatches& batches;
  const StageWork& work;
  nn::PassKind kind;
  std::size_t expected = 0;  ///< operations before this one have got their messages, or need none
  MessageOrder order = {};   ///< where messages have one; `expected` of its receives are started
};

Stage::Stage(const PipelineTerms& terms)
    : terms_(terms),
      model_(*terms.model.staged()),
      boundaries_(make_boundaries(terms.pipeline, terms.backend, terms.clock)),
      tied_(terms),
      workspaces_(terms.backend.memory()) {
  for (int number = 0; number < terms.stages.pieces(); ++number) costs_.push_back(piece(number).cost());
}

/// Makes a call that waits for other stages, and counts the time where training. Waiting for this stage's own device
/// counts as computation.
template <typename Call>
void Stage::wait(Call call) {
  const double before = waited_seconds(), device_before = terms_.backend.waited_seconds();
  call();
  if (now_->work.run == nullptr) return;
  const double device = terms_.backend.waited_seconds() - device_before;
  now_->work.run->seconds.compute += device;
  now_->work.run->seconds.bubble += waited_seconds() - before - device;
}

void Stage::run(const Program& program, MicroBatches& batches, const StageWork& work) {
  Now now{program, program.ranks[static_cast<std::size_t>(number())], batches, work, kind_of(program, work)};
  now_ = &now;
  const bool in_order = boundaries_->in_common_order();
  tied_.begin(work.state.parameters);
  if (in_order) {
    now.order = message_order(program, number());
  } else {
    expect_next();
  }
  for (std::size_t i = 0; i < now.operations.size(); ++i) {
    const Operation& operation = now.operations[i];
    if (in_order) expect_before(i);
    execute({operation, program.piece_of(number(), operation.chunk), batches[operation.micro_batch]});
  }
  wait([&] {
    boundaries_->finish();
    tied_.finish();
  });
  terms_.backend.submit();  // before the batches go
  now_ = nullptr;
}

void Stage::execute(const Task& task) {
  switch (task.operation.kind) {
    case OperationKind::forward:
      return forward(task);
    case OperationKind::backward:
    case OperationKind::backward_inputs:
    case OperationKind::backward_weights:
      return backward(task);
  }
}

// Messages ------------------------------------------------------------------------------------------------------------

Stage::Message Stage::message_of(int made_by, bool gradient, int peer, const data::Batch& batch) const {
  const nn::Shape& shape = gradient ? piece(made_by).in() : piece(made_by).out();
  return {.peer = peer,
          .piece = made_by,
          .gradient = gradient,
          .extent = shape.extent,
          .examples = batch.size * shape.rows,
          .floats = round_up_to_line(terms_.backend.activation_size(shape.extent, batch.size * shape.rows))};
}

/// What an operation needs from another stage.
std::optional<Stage::Message> Stage::message_from(const Operation& operation) const {
  const int own = now_->program.piece_of(number(), operation.chunk);
  const std::optional<int> source = now_->program.source_of(own, operation.kind);
  if (!source) return {};
  const bool gradient = operation.kind != OperationKind::forward;
  if (gradient && !piece(*source).gives_input_gradient()) return {};
  return message_of(*source, gradient, now_->program.stage_of(*source), now_->batches[operation.micro_batch]);
}

/// What another stage needs of an operation.
std::optional<Stage::Message> Stage::message_to(const Operation& operation) const {
  const int own = now_->program.piece_of(number(), operation.chunk);
  const std::optional<int> target = now_->program.target_of(own, operation.kind);
  if (!target) return {};
  const bool gradient = operation.kind != OperationKind::forward;
  if (gradient && !piece(own).gives_input_gradient()) return {};
  return message_of(own, gradient, now_->program.stage_of(*target), now_->batches[operation.micro_batch]);
}

/// Starts to receive the message of the next operation that needs one. It reads no batch ahead of its first forward
/// pass, which needs its features: where the first piece waits for a gradient, the batch has been read.
void Stage::expect_next() {
  for (std::size_t& i = now_->expected; i < now_->operations.size();) {
    if (const auto message = message_from(now_->operations[i++])) return expect(*message);
  }
}

/// Starts the receives that come before an operation in the common order. Of a micro-batch whose features this stage
/// needs, there is none before its first pass.
void Stage::expect_before(std::size_t operation) {
  while (now_->expected < now_->order.before[operation]) {
    const std::size_t receiver = now_->order.receives[now_->expected++];
    if (const auto message = message_from(now_->operations[receiver])) expect(*message);
  }
}

void Stage::expect(const Message& message) {
  wait([&] { boundaries_->expect(message); });
}

/// \pre the operation needs a message
void Stage::receive(const Operation& operation, MutableView values) {
  const Message message = message_from(operation).value();
  wait([&] { boundaries_->receive(message, values); });
  if (!boundaries_->in_common_order()) expect_next();
}

// Passes --------------------------------------------------------------------------------------------------------------

/// \param again whether the forward pass is made anew, for the backward pass
nn::Pass Stage::pass_of(const Task& task, bool again) const {
  const StageWork& work = now_->work;
  const nn::Piece& piece = this->piece(task.piece);
  const bool training = work.run != nullptr;
  return {.backend = terms_.backend,
          .reducer = alone_,
          .parameters = work.state.parameters,
          .statistics = work.state.statistics,
          .training = training,
          .batch = task.batch.size,
          .examples = task.batch.examples,
          .epoch = task.batch.epoch,
          .seed = model_.mask_seed(),
          .first_parameter = piece.parameters().first - terms_.stages.local_parameter(task.piece),
          .first_statistic = piece.statistics().first - terms_.stages.local_statistic(task.piece),
          .updates_statistics = !again,
          .moments = training && !again ? moments_of(task.piece, task.batch.micro_batch) : MutableView{},
          .row_numbers = now_->batches.row_numbers(task.operation.micro_batch),
          .lengths = task.batch.lengths,
          .tensor = terms_.tensor_group};
}

double Stage::flops_of(const Task& task, OperationKind kind) const {
  const nn::PieceCost& cost = costs_[static_cast<std::size_t>(task.piece)];
  double flops = 0;
  if (kind == OperationKind::forward) flops += cost.forward;
  if (kind == OperationKind::backward || kind == OperationKind::backward_inputs) {
    flops += cost.backward_inputs + cost.again;
  }
  if (kind == OperationKind::backward || kind == OperationKind::backward_weights) flops += cost.backward_weights;
  return flops * static_cast<double>(task.batch.size);
}

nn::Workspace Stage::begin(const Task& task) {
  return workspaces_.begin(task.piece, task.operation.micro_batch, piece(task.piece), task.batch.size, now_->kind);
}

void Stage::forward(const Task& task) {
  const bool training = now_->work.run != nullptr;
  const nn::Workspace workspace = begin(task);
  if (task.piece > 0) receive(task.operation, piece(task.piece).input(workspace));
  if (recomputes() && training) keep_input(task, workspace);
  if (training && task.batch.micro_batches > 0) make_room_for_moments(task.piece, task.batch.micro_batches);
  const View outputs = run_forward(task, workspace, /*again=*/false);
  if (const auto message = message_to(task.operation)) boundaries_->send(*message, outputs);
  if (!training && terms_.stages.chunks() == 1) boundaries_->wait_for_sends(kMostAheadInEvaluation);
  if (!training || recomputes()) workspaces_.end(task.piece, task.operation.micro_batch);
}

/// \return the outputs
View Stage::run_forward(const Task& task, const nn::Workspace& workspace, bool again) {
  std::optional<ComputeScope> computes;
  if (now_->work.run != nullptr) computes.emplace(*now_->work.run, flops_of(task, OperationKind::forward));
  const nn::Piece& piece = this->piece(task.piece);
  nn::Pass pass = pass_of(task, again);
  // A head gives the losses of an evaluation now, those of training in its backward pass.
  std::optional<nn::LossTerms> loss;
  if (piece.gives_loss() && now_->work.run == nullptr) {
    pass.loss = &loss.emplace(model_.loss_terms(task.batch, 0, now_->work.sums));
    pass.tied = tied_.of_head({}, task.batch.size);
  }
  const View outputs =
      task.piece == 0 ? piece.forward(pass, inputs_of(task, again), workspace) : piece.forward(pass, workspace);
  if (loss) terms_.backend.collect(now_->work.sums);
  if (task.piece + 1 == terms_.stages.pieces() && !piece.gives_loss()) add_losses(task, outputs, workspace, again);
  return outputs;
}

Inputs Stage::inputs_of(const Task& task, bool again) {
  Inputs inputs = models::inputs_of(task.batch);
  if (again && inputs.kept == nullptr) inputs.values = inputs_.at({task.piece, task.operation.micro_batch}).view();
  return inputs;
}

/// Adds the losses of the last piece's outputs and, where training, writes the gradient with respect to these.
void Stage::add_losses(const Task& task, View outputs, const nn::Workspace& workspace, bool again) {
  const data::Batch& batch = task.batch;
  if (batch.size == 0) return;
  const nn::Targets wanted = models::targets_of(batch);
  const StageWork& work = now_->work;
  if (work.run == nullptr) {
    model_.loss_function().apply(terms_.backend, batch.size, outputs, wanted, 0, {}, work.sums);
    terms_.backend.collect(work.sums);
    if (work.reader != nullptr) models::read_predictions(terms_.backend, model_, batch, outputs, *work.reader);
    return;
  }
  kernels::LossSums& sums = again ? counted_before_ : work.sums;
  model_.loss_function().apply(terms_.backend, batch.size, outputs, wanted,
                               {scale_of(batch, work.mean_over), batch.weights},
                               piece(task.piece).output_gradient(workspace), sums);
  if (work.run->leaves > 0 && !again) settle(*work.run);
}

SumPlace Stage::sum_place_of(const Task& task) const {
  const MicroBatchPlace place = place_of(task.batch, task.operation.micro_batch == 0);
  const GradientExchange* const exchange = now_->work.exchange;
  return exchange != nullptr ? exchange->sum_place(place) : SumPlace{place.first, place.last};
}

/// For a backward pass.
const nn::TiedWeights* Stage::tied_weights_of(const Task& task) {
  const nn::TiedWeights* tied = nullptr;
  const bool weights = task.operation.kind != OperationKind::backward_inputs;
  const bool inputs = task.operation.kind != OperationKind::backward_weights;
  wait([&] {
    if (piece(task.piece).gives_loss() && inputs) tied = tied_.of_head(sum_place_of(task), task.batch.size);
    if (task.piece == 0 && weights) tied = tied_.of_embedding(sum_place_of(task));
  });
  return tied;
}

nn::LossTerms Stage::loss_terms_of(const Task& task, kernels::LossSums& sums) const {
  if (!piece(task.piece).gives_loss()) return {.labels = {}, .sums = sums};
  return model_.loss_terms(task.batch, scale_of(task.batch, now_->work.mean_over), sums);
}

/// After a backward pass that may have added losses.
void Stage::settle_losses(const nn::Piece& piece) const {
  if (piece.gives_loss() && now_->work.run->leaves > 0) settle(*now_->work.run);
}

void Stage::backward(const Task& task) {
  const bool first_half = task.operation.kind != OperationKind::backward_weights;
  const nn::Workspace workspace = first_half ? revive(task) : workspaces_.of(task.piece, task.operation.micro_batch);
  if (first_half && message_from(task.operation)) receive(task.operation, piece(task.piece).output_gradient(workspace));
  run_backward(task, workspace);
  if (const auto message = message_to(task.operation); first_half && message) {
    boundaries_->send(*message, piece(task.piece).input_gradient(workspace));
  }
  if (first_half && piece(task.piece).gives_loss()) tied_.head_done(sum_place_of(task));
  if (task.operation.kind != OperationKind::backward_inputs) {
    workspaces_.end(task.piece, task.operation.micro_batch);
  }
}

void Stage::run_backward(const Task& task, const nn::Workspace& workspace) {
  nn::Pass pass = pass_of(task, /*again=*/true);
  pass.tied = tied_weights_of(task);
  const ComputeScope computes(*now_->work.run, flops_of(task, task.operation.kind));
  const nn::Piece& piece = this->piece(task.piece);
  const StageWork& work = now_->work;
  const bool first_half = task.operation.kind != OperationKind::backward_weights;
  kernels::LossSums counted_before;
  const nn::LossTerms loss = loss_terms_of(task, first_half ? work.sums : counted_before);
  pass.loss = &loss;
  if (task.operation.kind == OperationKind::backward_inputs) {
    piece.backward_inputs(pass, workspace);
    return settle_losses(piece);
  }
  const GradientTarget target =
      target_of(*work.run, place_of(task.batch, task.operation.micro_batch == 0), work.exchange);
  if (pass.tied != nullptr && task.batch.size == 0) tied_.add_without_pass(*pass.tied, target);
  const Offsets offsets{piece.parameters().first, terms_.stages.local_parameter(task.piece)};
  const auto in_shard = [&](Index first, Index last) { target.ready(offsets.in_shard(first), offsets.in_shard(last)); };
  const GradientReady ready = target.ready ? GradientReady(in_shard) : GradientReady();
  if (task.operation.kind == OperationKind::backward) {
    piece.backward(pass, workspace, target.gradient, target.write, ready);
    settle_losses(piece);
  } else {
    piece.backward_weights(pass, workspace, target.gradient, target.write, ready);
  }
}

// Activations that are made anew --------------------------------------------------------------------------------------

bool Stage::recomputes() const { return terms_.settings.recompute == Recompute::all; }

/// to = from, in the backend's memory and order.
void Stage::copy_input(const Task& task, View from, MutableView to) const {
  if (task.batch.size == 0) return;
  const nn::Shape& in = piece(task.piece).in();
  terms_.backend.activation_forward(kernels::Activation::none, in.extent, task.batch.size * in.rows, from, to);
}

/// Of the network's inputs, the features; where a device keeps these, nothing.
void Stage::keep_input(const Task& task, const nn::Workspace& workspace) {
  Buffer& kept = inputs_[{task.piece, task.operation.micro_batch}];
  if (task.piece == 0) {
    if (!task.batch.features.empty()) kept = Buffer(std::ssize(task.batch.features), terms_.backend.batch_memory());
    std::ranges::copy(task.batch.features, kept.data());
  } else {
    const MutableView input = piece(task.piece).input(workspace);
    kept = Buffer(std::ssize(input), terms_.backend.memory());
    copy_input(task, input, kept.view());
  }
  kept_inputs_ += kept.size();
  most_inputs_ = std::max(most_inputs_, kept_inputs_);
}

/// The workspace of a flight whose backward pass begins, with all activations in it.
nn::Workspace Stage::revive(const Task& task) {
  if (!recomputes()) return workspaces_.of(task.piece, task.operation.micro_batch);
  const nn::Workspace workspace = begin(task);
  const auto kept = inputs_.find({task.piece, task.operation.micro_batch});
  if (task.piece > 0) copy_input(task, kept->second.view(), piece(task.piece).input(workspace));
  run_forward(task, workspace, /*again=*/true);
  if (task.piece == 0) terms_.backend.submit();  // then the features have been read
  kept_inputs_ -= kept->second.size();
  inputs_.erase(kept);
  return workspace;
}

// Batch statistics ----------------------------------------------------------------------------------------------------

/// [floats] those of one micro-batch; zero where it is on another replica.
MutableView Stage::moments_of(int number, Index micro_batch) const {
  const auto size = static_cast<std::size_t>(piece(number).moments_size());
  return moments_.at(number).view().subspan(static_cast<std::size_t>(micro_batch) * size, size);
}

void Stage::make_room_for_moments(int number, Index micro_batches) {
  Buffer& moments = moments_[number];
  const Index floats = micro_batches * piece(number).moments_size();
  if (moments.size() < floats) moments = Buffer(floats, terms_.backend.memory());
}

void Stage::apply_moments(Index count, bool on_all_replicas, models::ModelState state) {
  for (int number = this->number(); number < terms_.stages.pieces(); number += terms_.stages.stages()) {
    if (piece(number).moments_size() == 0) continue;
    make_room_for_moments(number, count);
    const auto floats = static_cast<std::size_t>(count * piece(number).moments_size());
    const MutableView all = moments_.at(number).view().first(floats);
    if (on_all_replicas) terms_.statistics.sum(as_doubles(all));
    const nn::Pass pass{
        .backend = terms_.backend,
        .reducer = alone_,
        .parameters = {},
        .statistics = state.statistics.subspan(static_cast<std::size_t>(terms_.stages.local_statistic(number))),
        .examples = {},
        .first_statistic = piece(number).statistics().first};
    for (Index i = 0; i < count; ++i) piece(number).apply_moments(pass, moments_of(number, i));
    terms_.backend.clear(all);
  }
}

nn::Workspace Workspaces::begin(int owner, int micro_batch, const nn::Piece& piece, Index examples, nn::PassKind kind) {
  const auto [entry, is_new] = plans_.try_emplace({owner, examples, kind});
  if (is_new) entry->second = piece.plan(examples, kind);
  Buffer buffer;
  std::vector<Buffer>& unused = free_[owner];
  if (!unused.empty()) {
    buffer = std::move(unused.back());
    unused.pop_back();
  }
  if (buffer.size() < entry->second.floats) {
    buffer = Buffer();  // gives the old memory back before it asks for more
    buffer = Buffer(entry->second.floats, memory_);
  }
  flights_.insert_or_assign({owner, micro_batch}, Flight{&entry->second, std::move(buffer)});
  return of(owner, micro_batch);
}

nn::Workspace Workspaces::of(int owner, int micro_batch) {
  Flight& flight = flights_.at({owner, micro_batch});
  return {*flight.plan, flight.memory.view().first(static_cast<std::size_t>(flight.plan->floats))};
}

void Workspaces::end(int owner, int micro_batch) {
  const auto flight = flights_.find({owner, micro_batch});
  free_[owner].push_back(std::move(flight->second.memory));
  flights_.erase(flight);
}

Index Workspaces::floats() const {
  Index floats = 0;
  for (const auto& [owner, buffers] : free_) {
    for (const Buffer& buffer : buffers) floats += buffer.size();
  }
  for (const auto& [place, flight] : flights_) floats += flight.memory.size();
  return floats;
}

namespace {

/// The values in memory of `copy`.
template <typename Value>
std::span<const Value> kept_in(std::vector<Value>& copy, std::span<const Value> values) {
  copy.assign(values.begin(), values.end());
  return copy;
}

}  // namespace

const data::Batch& MicroBatches::operator[](int i) {
  while (read() <= i) read_one();
  return kept_[static_cast<std::size_t>(i)]->batch;
}

void MicroBatches::read_one() {
  auto kept = std::make_unique<Kept>();
  data::Batch& batch = kept->batch;
  batch = next_();
  batch.examples = kept_in(kept->examples, batch.examples);
  batch.movements = kept_in(kept->movements, batch.movements);
  batch.labels = kept_in(kept->labels, batch.labels);
  batch.other_labels = kept_in(kept->other_labels, batch.other_labels);
  batch.other_shares = kept_in(kept->other_shares, batch.other_shares);
  batch.tokens = kept_in(kept->tokens, batch.tokens);
  batch.lengths = kept_in(kept->lengths, batch.lengths);
  models::number_rows(batch, kept->row_numbers);
  batch.targets = kept_in(kept->targets, batch.targets);
  batch.weights = kept_in(kept->weights, batch.weights);
  kept_.push_back(std::move(kept));
}

}  // namespace unisono::parallel
