#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/boundaries.hpp"
#include "pipeline/program.hpp"
#include "pipeline/tied_stages.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/nn/piece.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/parallel/step.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::parallel {

/// The memory of a stage's flights: a workspace for each micro-batch that is in one of its pieces. Memory is reused,
/// and grows to what the most flights at a time need.
class Workspaces {
 public:
  /// \param memory the backend's
  explicit Workspaces(Allocator& memory) : memory_(memory) {}

  /// The workspace of a new flight.
  /// \param owner the piece's number in the network
  nn::Workspace begin(int owner, int micro_batch, const nn::Piece& piece, Index examples, nn::PassKind kind);
  /// That of a flight which has begun.
  nn::Workspace of(int owner, int micro_batch);
  /// The flight is over.
  void end(int owner, int micro_batch);

  Index floats() const;  ///< of all the memory

 private:
  struct Flight {
    const nn::WorkspacePlan* plan;
    Buffer memory;
  };

  Allocator& memory_;
  std::map<std::tuple<int, Index, nn::PassKind>, nn::WorkspacePlan> plans_;  ///< by (piece, examples, kind)
  std::map<std::pair<int, int>, Flight> flights_;                            ///< by (piece, micro-batch)
  std::map<int, std::vector<Buffer>> free_;                                  ///< by piece
};

/// The micro-batches of a step, or the batches of an evaluation, that a stage has in flight. They are read in their
/// order, each when it is first asked for.
class MicroBatches {
 public:
  using Next = std::function<data::Batch()>;

  /// \param next reads the next one
  explicit MicroBatches(Next next) : next_(std::move(next)) {}

  /// Batch i, with all that it has but its features: of these, only the newest batch's are valid.
  const data::Batch& operator[](int i);
  /// nn::Pass::row_numbers of a batch that has been read.
  std::span<const std::uint64_t> row_numbers(int i) const { return kept_[static_cast<std::size_t>(i)]->row_numbers; }
  int read() const { return static_cast<int>(kept_.size()); }

 private:
  /// A batch and copies of what it points to.
  struct Kept {
    data::Batch batch;
    std::vector<std::uint64_t> examples;
    std::vector<Movement> movements;
    std::vector<std::int32_t> labels, other_labels;
    std::vector<std::int32_t> tokens, lengths;
    std::vector<std::uint64_t> row_numbers;
    std::vector<float> targets, weights, other_shares;
  };
  void read_one();

  Next next_;
  std::vector<std::unique_ptr<Kept>> kept_;
};

/// What the passes of a program work on.
struct StageWork {
  models::ModelState state;                    ///< this stage's shards
  kernels::LossSums& sums;                     ///< the last stage adds the losses
  models::PredictionReader* reader = nullptr;  ///< the last stage tells it what is predicted; null: nobody asks
  StepTerms* run = nullptr;                    ///< the training; null: the program evaluates
  MeanOver mean_over = MeanOver::all_replicas;
  GradientExchange* exchange = nullptr;  ///< may be null
};

/// A rank of a pipeline: runs its operations of a program, on the pieces of the network that it holds.
class Stage {
 public:
  explicit Stage(const PipelineTerms& terms);

  /// Runs one program. Collective over the pipeline.
  void run(const Program& program, MicroBatches& batches, const StageWork& work);
  /// Updates the running statistics by all micro-batches of a step, in their order.
  /// \param count of the step, on all replicas \param on_all_replicas whether each micro-batch is on one of several
  /// replicas: their batch statistics are gathered. Collective over the replicas then.
  void apply_moments(Index count, bool on_all_replicas, models::ModelState state);

  int number() const { return terms_.pipeline.rank(); }
  double waited_seconds() const { return boundaries_->waited_seconds() + tied_.waited_seconds(); }
  std::int64_t sent_bytes() const { return boundaries_->sent_bytes() + tied_.sent_bytes(); }
  /// The most memory that activations have taken so far, and inputs that are kept to compute them anew.
  Index most_floats() const { return workspaces_.floats() + most_inputs_; }

 private:
  /// One operation and what it works on.
  struct Task {
    Operation operation;
    int piece;
    const data::Batch& batch;
  };
  struct Now;  // the program that runs
  using Message = Boundaries::Message;

  void execute(const Task& task);
  void forward(const Task& task);
  View run_forward(const Task& task, const nn::Workspace& workspace, bool again);
  Inputs inputs_of(const Task& task, bool again);
  void copy_input(const Task& task, View from, MutableView to) const;
  void add_losses(const Task& task, View outputs, const nn::Workspace& workspace, bool again);
  void backward(const Task& task);
  void run_backward(const Task& task, const nn::Workspace& workspace);
  SumPlace sum_place_of(const Task& task) const;
  const nn::TiedWeights* tied_weights_of(const Task& task);
  nn::LossTerms loss_terms_of(const Task& task, kernels::LossSums& sums) const;
  void settle_losses(const nn::Piece& piece) const;
  nn::Workspace begin(const Task& task);
  nn::Workspace revive(const Task& task);
  bool recomputes() const;
  void keep_input(const Task& task, const nn::Workspace& workspace);

  std::optional<Message> message_to(const Operation& operation) const;
  std::optional<Message> message_from(const Operation& operation) const;
  Message message_of(int piece, bool gradient, int peer, const data::Batch& batch) const;
  void expect_next();
  void expect_before(std::size_t operation);
  void expect(const Message& message);
  void receive(const Operation& operation, MutableView values);
  template <typename Call>
  void wait(Call call);

  const nn::Piece& piece(int number) const { return terms_.stages.piece(number); }
  double flops_of(const Task& task, OperationKind kind) const;
  nn::Pass pass_of(const Task& task, bool again) const;
  std::optional<ComputeScope> compute_scope() const;
  MutableView moments_of(int number, Index micro_batch) const;
  void make_room_for_moments(int number, Index micro_batches);

  PipelineTerms terms_;
  const models::Staged& model_;
  std::vector<nn::PieceCost> costs_;  ///< of all pieces
  mutable LocalReducer alone_;
  std::unique_ptr<Boundaries> boundaries_;
  TiedStages tied_;
  Workspaces workspaces_;
  mutable std::map<int, Buffer> moments_;         ///< by piece: batch statistics of the step's micro-batches
  std::map<std::pair<int, int>, Buffer> inputs_;  ///< by (piece, micro-batch): kept where activations are not
  Index kept_inputs_ = 0, most_inputs_ = 0;       ///< floats of these
  kernels::LossSums counted_before_;              ///< losses of passes that are made anew: nobody reads them
  Now* now_ = nullptr;
};

}  // namespace unisono::parallel
