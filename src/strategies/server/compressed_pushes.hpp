#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// How pushes to one server are encoded; see compressed_pushes.cpp. A worker and the server each have one.
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
