#include "machine/shared_staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {
namespace {

constexpr int kQuestionTag = 0, kStateTag = 1, kBytesTag = 2;
/// Bytes of the longest answer: on a slow network, gradients wait until it has passed.
constexpr std::size_t kLongestAnswer = 128 << 10;

/// Bytes [at, at + count) of the set's file, please. count 0: no more questions will come.
struct Question {
  std::uint64_t at = 0, count = 0;
};

/// What comes before the answer: 0, and the bytes follow; or the length of a message, which follows.
using AnswerState = std::uint64_t;

}  // namespace

/// Asks the first ranks of other nodes for bytes of a set and, on such a rank, answers.
/// Cost of a question: three messages. A rank that answers keeps a receive open for each rank of the other nodes.
class NeighbourCopies final : public data::StageNeighbours {
 public:
  NeighbourCopies(comm::Communicator& world, data::StagedSet& set);
  ~NeighbourCopies() override;

  void read(int node, std::uint64_t at, std::span<std::byte> bytes) override;

 private:
  /// A rank that may ask, and its next question.
  struct Asker {
    int rank;
    Question question = {};
    comm::RequestPtr receive = {};  ///< null: it asks no more
  };
  void ask(int peer, std::uint64_t at, std::span<std::byte> bytes);
  void answer_all();
  bool answer_next(Asker& asker);
  void answer(const Asker& asker);
  void receive_from(Asker& asker) {
    asker.receive = group_->start_patient_receive(comm::bytes_of(asker.question), asker.rank, kQuestionTag);
  }

  std::unique_ptr<comm::Communicator> group_;  ///< for these messages alone
  data::StagedSet& set_;
  std::vector<int> first_ranks_;  ///< by node
  std::mutex asking_;
  /// The ranks of other nodes, where this rank is the first one of its node. They stay in place, since receives write
  /// into them.
  std::vector<Asker> askers_;
  std::atomic<bool> stopped_ = false;
  Threads thread_{"answering other nodes that ask for parts of the set"};
};

NeighbourCopies::NeighbourCopies(comm::Communicator& world, data::StagedSet& set)
    : group_(world.split(0, world.rank())), set_(set) {
  const auto nodes = group_->all_gather_joined(std::vector<std::int64_t>{group_->node()});
  for (int rank = 0; rank < group_->size(); ++rank) {
    const std::int64_t node = nodes[static_cast<std::size_t>(rank)];
    if (node == std::ssize(first_ranks_)) first_ranks_.push_back(rank);
    if (group_->node_rank() == 0 && node != group_->node()) askers_.push_back({.rank = rank});
  }
  for (Asker& asker : askers_) receive_from(asker);
  if (!askers_.empty()) thread_.start([this] { answer_all(); });
}

/// Ends when all ranks have said that they ask no more; where the job fails, at once.
NeighbourCopies::~NeighbourCopies() {
  stopped_ = std::uncaught_exceptions() > 0;
  const Question last;
  try {
    for (int node = 0; node < std::ssize(first_ranks_) && !stopped_; ++node) {
      if (node == group_->node()) continue;
      group_->send(std::as_bytes(std::span(&last, 1)), first_ranks_[static_cast<std::size_t>(node)], kQuestionTag);
    }
  } catch (const std::exception&) {
    stopped_ = true;  // another rank has failed, and says so
  }
  thread_.join();
}

void NeighbourCopies::read(int node, std::uint64_t at, std::span<std::byte> bytes) {
  const std::lock_guard one_at_a_time(asking_);
  const int peer = first_ranks_[static_cast<std::size_t>(node)];
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kLongestAnswer)), at += kLongestAnswer) {
    ask(peer, at, bytes.first(std::min(bytes.size(), kLongestAnswer)));
  }
}

void NeighbourCopies::ask(int peer, std::uint64_t at, std::span<std::byte> bytes) {
  const Question question{at, bytes.size()};
  group_->send(std::as_bytes(std::span(&question, 1)), peer, kQuestionTag);
  AnswerState state = 0;
  group_->receive(comm::bytes_of(state), peer, kStateTag);
  if (state == 0) return group_->receive(bytes, peer, kBytesTag);
  std::string message(state, '\0');
  group_->receive(std::as_writable_bytes(std::span(message)), peer, kBytesTag);
  throw DataError(message);
}

/// \return whether there was a question
bool NeighbourCopies::answer_next(Asker& asker) {
  if (asker.receive == nullptr || !asker.receive->test()) return false;
  std::exchange(asker.receive, nullptr)->wait();
  if (asker.question.count == 0) return true;
  answer(asker);
  receive_from(asker);
  return true;
}

void NeighbourCopies::answer(const Asker& asker) {
  std::vector<std::byte> bytes(asker.question.count);
  AnswerState state = 0;
  try {
    set_.read_here(asker.question.at, bytes);
  } catch (const DataError& error) {
    const std::string_view message = error.what();
    state = message.size();
    bytes.assign(std::as_bytes(std::span(message)).begin(), std::as_bytes(std::span(message)).end());
  }
  group_->send(comm::bytes_of(state), asker.rank, kStateTag);
  group_->send(bytes, asker.rank, kBytesTag);
}

/// Looks for questions instead of waiting for them: a wait has a time limit, but hours may lie between two questions.
void NeighbourCopies::answer_all() {
  using std::chrono::microseconds;
  constexpr microseconds kShortest{20}, kLongest{4000};
  microseconds pause = kShortest;
  try {
    const auto may_ask = [](const Asker& asker) { return asker.receive != nullptr; };
    while (std::ranges::any_of(askers_, may_ask) && !stopped_) {
      bool asked = false;
      for (Asker& asker : askers_) asked = answer_next(asker) || asked;
      pause = asked ? kShortest : std::min(2 * pause, kLongest);
      std::this_thread::sleep_for(pause);
    }
  } catch (const std::exception&) {
    // A rank or the network has failed: whoever waits for it says so.
  }
}

SharedStaging::SharedStaging(comm::Communicator& world, const data::DataSettings& settings, Log& log) {
  const bool divided = settings.partition != data::Partition::fixed;
  const auto nodes = static_cast<int>(world.max(world.node()) + 1);
  const int parts = divided ? nodes : std::max(1, world.size() / world.node_size());
  set_ = data::stage_set(settings, share_of(world),
                         {.parts = parts, .warn = [&log](const std::string& text) { log.warning(text); }});
  const bool all_have_it = world.max(set_ ? 0 : 1) == 0;
  if (!all_have_it) {
    set_.reset();
    return;
  }
  if (divided && nodes > 1) divide(world, nodes, log);
  log.info(
      fmt::format("{} is staged in {}: {}", on_one_line(settings.path), on_one_line(settings.stage), set_->text()));
}

void SharedStaging::divide(comm::Communicator& world, int nodes, Log& log) {
  const auto identities = world.all_gather_joined(std::vector<std::uint64_t>{set_->identity()});
  if (std::ranges::adjacent_find(identities, std::ranges::not_equal_to{}) != identities.end()) {
    if (world.is_root())
      log.warning(
          "data.stage: the nodes see different times or paths of the set's file, so that each keeps all it reads");
    return;
  }
  neighbours_ = std::make_unique<NeighbourCopies>(world, *set_);
  set_->divide(world.node(), nodes, neighbours_.get());
}

SharedStaging::~SharedStaging() {
  if (neighbours_) set_->divide(0, 1, nullptr);
}

}  // namespace unisono::session
