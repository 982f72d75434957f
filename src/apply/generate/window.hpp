#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// The tokens of a text, and those of them that the model sees: at most its context T. Where that is full, the window
/// moves on: the last T / 2 tokens stay, and are computed anew, at positions from 0.
class Window {
 public:
  /// \param tokens the last T of them are seen; at least one \param context T
  Window(std::vector<std::int32_t> tokens, Index context)
      : tokens_(std::move(tokens)), context_(context), first_(std::max<Index>(0, std::ssize(tokens_) - context)) {}

  const std::vector<std::int32_t>& tokens() const { return tokens_; }  ///< all of the text
  /// The position of the first token that is not computed, and these tokens.
  Index position() const { return computed_; }
  std::span<const std::int32_t> pending() const {
    return std::span(tokens_).subspan(static_cast<std::size_t>(first_ + computed_));
  }
  void computed() { computed_ = std::ssize(tokens_) - first_; }  ///< all tokens are
  void append(std::int32_t token) {
    tokens_.push_back(token);
    if (std::ssize(tokens_) - first_ <= context_) return;
    first_ = std::ssize(tokens_) - std::max<Index>(1, context_ / 2);
    computed_ = 0;
  }

 private:
  std::vector<std::int32_t> tokens_;
  Index context_, first_, computed_ = 0;
};

}  // namespace unisono::apply
