#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// Which rank runs which workers and servers. A rank may run several.
class Roles {
 public:
  /// \param servers dedicated ones, fewer than ranks, spread evenly over them; 0: every rank runs a worker and a server
  static Roles of_ranks(int ranks, int servers);
  /// So many workers and servers, assigned to the ranks round-robin: for replays on another number of ranks.
  static Roles dealt(int ranks, int workers, int servers);

  int workers() const { return workers_; }
  int servers() const { return servers_; }
  int rank_of_worker(int worker) const;
  int rank_of_server(int server) const;
  /// Its number among the workers, or servers, of the same rank.
  int place_of_worker(int worker) const { return dealt_ ? worker / ranks_ : 0; }
  int place_of_server(int server) const { return dealt_ ? server / ranks_ : 0; }
  int most_servers_of_a_rank() const { return dealt_ ? (servers_ + ranks_ - 1) / ranks_ : 1; }
  std::vector<int> workers_of(int rank) const;
  std::vector<int> servers_of(int rank) const;

 private:
  Roles(int ranks, int workers, int servers, bool dealt)
      : ranks_(ranks), workers_(workers), servers_(servers), dealt_(dealt) {}
  /// Whether some ranks only serve.
  bool has_dedicated() const { return !dealt_ && workers_ < ranks_; }

  int ranks_, workers_, servers_;
  bool dealt_;  ///< round-robin
};

/// What each worker and each server needs, in bytes.
struct RoleBytes {
  std::int64_t worker = 0, server = 0;
  /// The most that a rank needs. \param both whether each rank runs one of each
  std::int64_t of_rank(bool both) const { return both ? worker + server : std::max(worker, server); }
  std::int64_t of_all(const Roles& roles) const { return roles.workers() * worker + roles.servers() * server; }
};

// The protocol between workers and servers. A worker sends questions, in messages of known length, and gets one answer
// to each pull and push. At each server at most one of its pulls and one of its pushes are unanswered:
//
//     worker                                       server
//       pull   Question, [rows]            →
//              Answer, values, [statistics]  ←     as soon as the consistency allows
//       push   Question, values, [statistics] →
//              Answer                      ←       once it is applied to θ
//       leave  Question                    →       no more questions in this segment
//
// The rows are sent if the model is updated in place; a push is then of the rows of the previous pull. A push's values
// may be encoded: see wire.cpp. Running statistics are exchanged with server 0 only.

/// What a worker asks for.
enum class Ask : std::int32_t { pull, push, leave };

/// A worker's message; comments name the questions that use a member.
struct Question {
  Ask ask = Ask::leave;
  std::int32_t padding = 0;
  std::int64_t clock = 0;     ///< pull: the worker's step that will use the values; push: its steps in θ after it
  std::int64_t steps = 0;     ///< pull: how many the worker would make before its next pull
  std::int64_t rows = 0;      ///< pull: how many rows are requested
  std::int64_t read = 0;      ///< push: the shard's version on which it was computed
  std::int64_t examples = 0;  ///< push: on which it was computed
  std::int64_t bytes = 0;     ///< push: of the values that follow
  double rate = 0;            ///< push: learning rate
  double weight = 0;          ///< push: its share of the step's examples over all workers
  float gradient_scale = 1;   ///< push: factor of the gradient, from clipping
  std::int32_t more_padding = 0;
};

/// A server's answer to a pull or a push.
struct Answer {
  std::int64_t version = 0;   ///< of the shard: number of its updates
  std::int64_t complete = 0;  ///< pull: the shard contains at least so many steps of each worker
  std::int64_t granted = 0;   ///< pull, server 0: steps that the worker may make
  double held_seconds = 0;    ///< pull: how long it was held back for the consistency
};

enum class Channel { question, rows, values, statistics, push_answer, pull_answer, pulled_values, pulled_statistics };

/// Point-to-point messages between workers and servers, wherever they run. Thread-safe.
class Wire {
 public:
  /// \param communicator used by nothing else \param runtime measures waiting for messages
  Wire(comm::Communicator& communicator, const Roles& roles, const Runtime& runtime = machine_runtime())
      : communicator_(communicator),
        roles_(roles),
        most_servers_(roles.most_servers_of_a_rank()),
        runtime_(runtime),
        fate_(communicator) {}

  comm::RequestPtr send_to_server(int worker, int server, Channel channel, std::span<const std::byte> bytes);
  comm::RequestPtr receive_from_server(int worker, int server, Channel channel, std::span<std::byte> bytes);
  comm::RequestPtr send_to_worker(int worker, int server, Channel channel, std::span<const std::byte> bytes);
  comm::RequestPtr receive_from_worker(int worker, int server, Channel channel, std::span<std::byte> bytes);

  // As in CommonFate, for this rank's workers and servers.
  void wait(comm::Request& request) { fate_.wait(request); }
  parallel::Awaited awaited() { return {communicator_, fate_}; }
  void give_up(std::exception_ptr cause) { fate_.give_up(std::move(cause)); }
  void rethrow_cause() { fate_.rethrow_cause(); }

  const Runtime& runtime() const { return runtime_; }
  bool is_between_ranks(int worker, int server) const {
    return roles_.rank_of_worker(worker) != roles_.rank_of_server(server);
  }

 private:
  int tag(int worker, int server, Channel channel) const;

  comm::Communicator& communicator_;
  const Roles& roles_;
  int most_servers_;  ///< on one rank
  const Runtime& runtime_;
  parallel::CommonFate fate_;
};

/// How pushes to one server are encoded; see wire.cpp. A worker and the server each have one.
class PushCode {
 public:
  /// \param shard the server's range in θ
  PushCode(const ParameterLayout& layout, comm::Slice shard, const parallel::CompressionSettings& settings);

  /// How long a message can be, in bytes.
  Index most_bytes() const { return most_bytes_; }
  /// message ← the shard's part of `vector`, which keeps what the message does not say.
  /// \param vector of θ's size \param message [most_bytes()] \return bytes of the message in use
  Index encode(MutableView vector, kernels::EncodingPlace place, std::span<std::byte> message);
  /// values ← what the message says: 0 where it is empty. \param values of the shard
  void decode(std::span<const std::byte> message, MutableView values) const;

 private:
  comm::Slice shard_;
  std::unique_ptr<kernels::Encoder> encoder_;
  std::vector<FloatRange> exact_, compressed_;  ///< of the shard, as ranges of θ
  Index most_bytes_ = 0;
};

/// A worker's messages to all servers, and what they have not said.
class CompressedPushes {
 public:
  /// \param shards of all servers, as ranges of θ \param residual of θ's size, in the backend's memory
  CompressedPushes(const ParameterLayout& layout, const std::vector<comm::Slice>& shards,
                   const parallel::CompressionSettings& settings, int worker, MutableView residual,
                   kernels::Backend& backend);

  /// residual ← residual + scale · gradient, and then what the messages do not say.
  /// \param step of the worker; no other push has it \return a message to each server, valid up to the next call
  std::vector<std::span<const std::byte>> encode(View gradient, float scale, std::int64_t step);
  /// Messages that say nothing, and leave the residual as it is.
  std::vector<std::span<const std::byte>> nothing() const { return std::vector<std::span<const std::byte>>(size()); }

 private:
  std::size_t size() const { return codes_.size(); }

  int worker_;
  MutableView residual_;
  kernels::Backend& backend_;
  std::vector<FloatRange> sent_;  ///< all ranges of θ that are
  std::vector<PushCode> codes_;
  std::vector<std::vector<std::byte>> messages_;
};

}  // namespace unisono::strategies
