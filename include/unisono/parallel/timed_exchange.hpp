#pragma once

#include <memory>
#include <utility>

#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// Wraps another exchange and adds the time that it blocks to the run's Seconds: waiting for messages and for other
/// ranks. Waiting for a device to finish the gradient counts as computation.
class TimedExchange final : public GradientExchange {
 public:
  /// \param backend in whose memory the gradient lies
  TimedExchange(const kernels::Backend& backend, Seconds& seconds, std::unique_ptr<GradientExchange> exchange)
      : backend_(backend), seconds_(seconds), exchange_(std::move(exchange)) {}

  GradientTarget target(const MicroBatchPlace& place) override { return exchange_->target(place); }
  /// Called inside the backward pass, whose time counts as computation: subtracts the time that the exchange blocks.
  void ready(const MicroBatchPlace& place, Index first, Index last) override;
  void finish() override;
  BlockedSeconds blocked() const override { return exchange_->blocked(); }

 private:
  /// Seconds of each kind that one call took.
  struct Elapsed {
    BlockedSeconds blocked;
    double device = 0;
  };
  template <typename Call>
  Elapsed count(Call call);

  const kernels::Backend& backend_;
  Seconds& seconds_;
  std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace unisono::parallel
