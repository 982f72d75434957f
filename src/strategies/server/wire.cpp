#include "server/wire.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::strategies {

/// A tag that is different for all messages between the same two ranks.
int Wire::tag(int worker, int server, Channel channel) const {
  const int channels = static_cast<int>(Channel::pulled_statistics) + 1;
  return (roles_.place_of_worker(worker) * most_servers_ + roles_.place_of_server(server)) * channels +
         static_cast<int>(channel);
}

comm::RequestPtr Wire::send_to_server(int worker, int server, Channel channel, std::span<const std::byte> bytes) {
  return communicator_.start_send(bytes, roles_.rank_of_server(server), tag(worker, server, channel));
}

comm::RequestPtr Wire::receive_from_server(int worker, int server, Channel channel, std::span<std::byte> bytes) {
  return communicator_.start_receive(bytes, roles_.rank_of_server(server), tag(worker, server, channel));
}

comm::RequestPtr Wire::send_to_worker(int worker, int server, Channel channel, std::span<const std::byte> bytes) {
  return communicator_.start_send(bytes, roles_.rank_of_worker(worker), tag(worker, server, channel));
}

comm::RequestPtr Wire::receive_from_worker(int worker, int server, Channel channel, std::span<std::byte> bytes) {
  return communicator_.start_receive(bytes, roles_.rank_of_worker(worker), tag(worker, server, channel));
}

Roles Roles::of_ranks(int ranks, int servers) {
  return servers == 0 ? Roles(ranks, ranks, ranks, false) : Roles(ranks, ranks - servers, servers, false);
}

Roles Roles::dealt(int ranks, int workers, int servers) { return Roles(ranks, workers, servers, true); }

/// Servers are spaced evenly, so if ranks are numbered node by node, every node gets its share. Rank 0 always has a
/// worker.
int Roles::rank_of_server(int server) const {
  if (dealt_) return (workers_ + server) % ranks_;
  if (!has_dedicated()) return server;
  const long long share = static_cast<long long>(server + 1) * ranks_;
  return static_cast<int>((share + servers_ - 1) / servers_) - 1;
}

int Roles::rank_of_worker(int worker) const {
  if (dealt_) return worker % ranks_;
  int rank = worker;
  for (int server = 0; has_dedicated() && server < servers_ && rank_of_server(server) <= rank; ++server) ++rank;
  return rank;
}

std::vector<int> Roles::workers_of(int rank) const {
  std::vector<int> workers;
  if (dealt_) {
    for (int worker = rank; worker < workers_; worker += ranks_) workers.push_back(worker);
    return workers;
  }
  if (!has_dedicated()) return {rank};
  int before = 0;  // servers on lower ranks
  while (before < servers_ && rank_of_server(before) < rank) ++before;
  if (before == servers_ || rank_of_server(before) != rank) workers.push_back(rank - before);
  return workers;
}

std::vector<int> Roles::servers_of(int rank) const {
  if (!dealt_ && !has_dedicated()) return {rank};
  std::vector<int> servers;
  for (int server = 0; server < servers_; ++server) {
    if (rank_of_server(server) == rank) servers.push_back(server);
  }
  return servers;
}

// Compressed pushes to parameter servers, with error feedback.
//     e ← g + residual                            g: what worker w has to push, its gradient or the sum of several
//     message, residual ← encode(e)               e = what the message says + residual
//     the server: ĝ ← decode(message), and the update that it makes of every push
//   So Σ over pushes of ĝ + residual = Σ g, up to rounding: nothing is lost, only sent later. Each block of the model
//   is encoded by itself, or each part of it where shards cut it. Biases, norms and chosen blocks are sent as they are.
//   Random rounding depends on the worker and its step alone, so that a replay rounds as the recorded run did. A worker
//   that had no examples has nothing to push, and sends none of its residual, since a server makes no update of it.
//   Seide et al., "1-bit stochastic gradient descent", Interspeech 2014, for error feedback; Strom, "Scalable
//   distributed DNN training", Interspeech 2015, for thresholds; Lin et al., "Deep gradient compression", ICLR 2018.
// Cost per push, all servers together, of n compressed floats in b blocks or parts of blocks:
//     bf16, eight_bit, one_bit   2 n, 258 / 256 · n, 40 / 256 · n bytes
//     threshold                  4 c bytes for c sent values, at most n / 4
//     top_k                      8 d n bytes at density d; (4 d + 1/8) n where that is less
//   and 4 bytes for each exact float; of lengths, of encoded blocks that are not full and to fill up words, up to 56 b
//   bytes more.
//   Memory: a worker's residual, 4N bytes, and one push's messages, instead of a second gradient; at a server, a
//   message of each worker.

namespace {

constexpr Index kWord = 8;  // at multiples of so many bytes lengths and encoded blocks begin

Index words(Index bytes) { return (bytes + kWord - 1) / kWord * kWord; }

std::span<std::byte> from(std::span<std::byte> message, Index at) {
  return message.subspan(static_cast<std::size_t>(at));
}

std::vector<FloatRange> parts_in(comm::Slice shard, const std::vector<FloatRange>& ranges) {
  std::vector<FloatRange> parts;
  for (const FloatRange& range : ranges) {
    const FloatRange common = parallel::common_part(range, {shard.first, shard.last});
    if (common.first < common.last) parts.push_back(common);
  }
  return parts;
}

}  // namespace

PushCode::PushCode(const ParameterLayout& layout, comm::Slice shard, const parallel::CompressionSettings& settings)
    : shard_(shard), encoder_(parallel::make_encoder(settings)) {
  const parallel::CompressedBlocks blocks = parallel::divide_blocks(layout, settings);
  exact_ = parts_in(shard, blocks.exact);
  compressed_ = parts_in(shard, blocks.compressed);
  most_bytes_ = words(parallel::size_of(exact_) * Index{sizeof(float)});
  for (const FloatRange& range : compressed_) {
    most_bytes_ += kWord + words(encoder_->most_bytes(range.last - range.first));
  }
}

/// The exact floats; then for each other range the length of its encoding, and that, filled up to whole words.
Index PushCode::encode(MutableView vector, kernels::EncodingPlace place, std::span<std::byte> message) {
  Index at = 0;
  for (const FloatRange& range : exact_) {
    const MutableView values = part(vector, range);
    std::memcpy(from(message, at).data(), values.data(), values.size_bytes());
    std::ranges::fill(values, 0.0F);
    at += static_cast<Index>(values.size_bytes());
  }
  at = words(at);
  for (const FloatRange& range : compressed_) {
    place.first = range.first;
    const std::int64_t bytes = encoder_->encode(part(vector, range), place, from(message, at + kWord));
    std::memcpy(from(message, at).data(), &bytes, sizeof bytes);
    at += kWord + words(bytes);
  }
  return at;
}

/// Begins with −0, to which every value may be added without a change of its bits.
void PushCode::decode(std::span<const std::byte> message, MutableView values) const {
  std::ranges::fill(values, -0.0F);
  if (message.empty()) return;
  const auto in_shard = [&](const FloatRange& range) {
    return part(values, FloatRange{range.first - shard_.first, range.last - shard_.first});
  };
  Index at = 0;
  for (const FloatRange& range : exact_) {
    const MutableView to = in_shard(range);
    std::memcpy(to.data(), message.data() + at, to.size_bytes());
    at += static_cast<Index>(to.size_bytes());
  }
  at = words(at);
  for (const FloatRange& range : compressed_) {
    std::int64_t bytes = 0;
    std::memcpy(&bytes, message.data() + at, sizeof bytes);
    encoder_->add(message.subspan(static_cast<std::size_t>(at + kWord), static_cast<std::size_t>(bytes)),
                  in_shard(range));
    at += kWord + words(bytes);
  }
}

CompressedPushes::CompressedPushes(const ParameterLayout& layout, const std::vector<comm::Slice>& shards,
                                   const parallel::CompressionSettings& settings, int worker, MutableView residual,
                                   kernels::Backend& backend)
    : worker_(worker), residual_(residual), backend_(backend) {
  const parallel::CompressedBlocks blocks = parallel::divide_blocks(layout, settings);
  sent_ = blocks.compressed;
  sent_.insert(sent_.end(), blocks.exact.begin(), blocks.exact.end());
  for (const comm::Slice& shard : shards) {
    codes_.emplace_back(layout, shard, settings);
    messages_.emplace_back(static_cast<std::size_t>(codes_.back().most_bytes()));
  }
}

std::vector<std::span<const std::byte>> CompressedPushes::encode(View gradient, float scale, std::int64_t step) {
  for (const FloatRange& range : sent_) backend_.axpby(scale, part(gradient, range), 1, part(residual_, range));
  backend_.submit();
  const kernels::EncodingPlace place{.step = static_cast<std::uint64_t>(step),
                                     .sender = static_cast<std::uint32_t>(worker_)};
  std::vector<std::span<const std::byte>> messages;
  for (std::size_t i = 0; i < size(); ++i) {
    const Index bytes = codes_[i].encode(residual_, place, messages_[i]);
    messages.push_back(std::span<const std::byte>(messages_[i]).first(static_cast<std::size_t>(bytes)));
  }
  return messages;
}

}  // namespace unisono::strategies
