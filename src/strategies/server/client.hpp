#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/shards.hpp"
#include "server/wire.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What a worker asks one server for, or gives it.
struct ShardPart {
  MutableView values;
  std::span<const std::uint32_t> rows = {};
};

/// Of a vector of θ's size, what each server has. \param shards their places
std::vector<ShardPart> parts_of(MutableView vector, const std::vector<comm::Slice>& shards);

/// What a pull brought beside the values.
struct Pulled {
  std::int64_t granted = 0;   ///< steps that the worker may make
  std::int64_t complete = 0;  ///< of every worker, so many steps are in the values
};

/// A worker's end of the wire: one pull and one push at a time, each of all servers.
class Client {
 public:
  Client(Wire& wire, int worker, int servers, Index statistics);

  /// \param parts by server, to be filled until finish_pull \param clock of the step that will read
  void start_pull(std::int64_t clock, std::int64_t steps, std::vector<ShardPart> parts, MutableView statistics);
  Pulled finish_pull();

  /// Waits for the push before. \param terms what the question says of it, but for `read`
  /// \param parts by server; they stay as they are until finish_push
  void start_push(const Question& terms, const std::vector<ShardPart>& parts, View statistics);
  void finish_push();

  void leave();

  /// Seconds waited so far: for messages, and for other workers' pushes.
  double message_seconds() const { return message_seconds_; }
  double held_seconds() const { return held_seconds_; }

 private:
  struct Server {
    Question pull, push;
    Answer pulled, pushed;
    std::int64_t read = 0;  ///< version that the worker computes on
    std::vector<comm::RequestPtr> pulling, pushing;
  };
  void wait(std::vector<comm::RequestPtr>& requests);

  Wire& wire_;
  int worker_;
  bool has_statistics_;
  std::vector<Server> servers_;
  double message_seconds_ = 0, held_seconds_ = 0;
};

}  // namespace unisono::strategies
