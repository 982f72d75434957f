#pragma once

#include <memory>
#include <utility>

#include "exchange/exchange.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Another exchange, whose seconds are counted as the run's: what it waited for messages and for other ranks. What it
/// waited for a device's gradient is computation.
class TimedExchange final : public GradientExchange {
 public:
  /// \param backend in whose memory the gradient lies
  TimedExchange(const kernels::Backend& backend, Seconds& seconds, std::unique_ptr<GradientExchange> exchange)
      : backend_(backend), seconds_(seconds), exchange_(std::move(exchange)) {}

  /// Called from within a pass, whose seconds are counted as computation: takes back what it held that up.
  void ready(Index first, Index last) override;
  void finish() override;
  HeldUp held_up() const override { return exchange_->held_up(); }

 private:
  /// What it took of each kind since the last call.
  struct Took {
    HeldUp held_up;
    double device = 0;
  };
  template <typename Call>
  Took count(Call call);

  const kernels::Backend& backend_;
  Seconds& seconds_;
  std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace unisono::strategies
