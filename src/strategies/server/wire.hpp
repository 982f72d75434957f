#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include "server/roles.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

// What a worker and a server say to each other. A worker asks, in messages of known length, and each question gets one
// answer; it has one pull and one push at a server at most that were not answered:
//
//     worker                                       server
//       pull   Question, [rows]            →
//              Answer, values, [statistics]  ←     as soon as the consistency allows
//       push   Question, values, [statistics] →
//              Answer                      ←       once it is in θ
//       leave  Question                    →       no more of them until the next segment
//
// Rows are named where the model is updated in place; a push is then of the rows of the pull before. Running statistics
// go to and come from server 0.

/// What a worker asks for.
enum class Ask : std::int32_t { pull, push, leave };

struct Question {
  Ask ask = Ask::leave;
  std::int32_t padding = 0;
  std::int64_t clock = 0;     ///< pull: the step that will read; push: the worker's steps that are in θ then
  std::int64_t steps = 0;     ///< pull: how many the worker would make before its next pull
  std::int64_t rows = 0;      ///< pull: how many are named
  std::int64_t read = 0;      ///< push: the shard's version that the parameters were of
  std::int64_t examples = 0;  ///< push: that it comes from
  double rate = 0;            ///< push: learning rate
  double weight = 0;          ///< push: its share of the step's examples over all workers
  float gradient_scale = 1;   ///< push: from clipping
  std::int32_t more_padding = 0;
};

struct Answer {
  std::int64_t version = 0;   ///< of the shard: updates that it has had
  std::int64_t complete = 0;  ///< pull: of every worker, so many steps are in it
  std::int64_t granted = 0;   ///< pull, server 0: steps that the worker may make
  double held_seconds = 0;    ///< pull: how long the consistency forbade to answer
};

/// As it is sent.
template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

enum class Channel { question, rows, values, statistics, push_answer, pull_answer, pulled_values, pulled_statistics };

/// Messages between roles. Any number of threads may use it at the same time.
class Wire {
 public:
  /// \param communicator that nobody else uses \param clock of who waits for messages
  Wire(comm::Communicator& communicator, const Roles& roles, const Clock& clock = steady_clock())
      : communicator_(communicator), roles_(roles), most_servers_(roles.most_servers_of_a_rank()), clock_(clock) {}

  comm::RequestPtr send_to_server(int worker, int server, Channel channel, std::span<const std::byte> bytes);
  comm::RequestPtr receive_from_server(int worker, int server, Channel channel, std::span<std::byte> bytes);
  comm::RequestPtr send_to_worker(int worker, int server, Channel channel, std::span<const std::byte> bytes);
  comm::RequestPtr receive_from_worker(int worker, int server, Channel channel, std::span<std::byte> bytes);

  /// Waits for a request. \throws PeerFailure where a thread of this rank gave up
  void wait(comm::Request& request);
  /// Waits until one of these, of which there is one at least, is done. \return the places of those that are
  std::vector<std::size_t> wait_any(std::span<comm::Request* const> requests);
  /// This thread cannot go on, so that no other of this rank need wait for it.
  void give_up(std::exception_ptr cause);
  /// Throws what the first thread gave up for: what the others throw is a consequence.
  void rethrow_cause();

  const Clock& clock() const { return clock_; }

 private:
  int tag(int worker, int server, Channel channel) const;

  comm::Communicator& communicator_;
  const Roles& roles_;
  int most_servers_;  ///< of a rank
  const Clock& clock_;
  std::atomic<bool> gave_up_ = false;
  std::mutex mutex_;
  std::exception_ptr cause_;
};

}  // namespace unisono::strategies
