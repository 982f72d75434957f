#include "unisono/strategies/fault.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace unisono::strategies {

void FaultSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "slow_rank", .meaning = "the rank that is slowed down; -1: none", .minimum = -1, .maximum = 1 << 20},
      slow_rank);
  visitor.field({.name = "slow_factor",
                 .meaning = "how many times its CPU time the slow rank takes; it sleeps for the rest",
                 .minimum = 1,
                 .maximum = 1e6},
                slow_factor);
  visitor.field({.name = "pause_seconds",
                 .meaning = "mean of the slow rank's random pause after each (micro-)batch (exponentially distributed)",
                 .unit = "s",
                 .minimum = 0,
                 .maximum = 3600},
                pause_seconds);
  visitor.field({.name = "emulated_seconds",
                 .meaning = "time that every rank sleeps after each (micro-)batch, to emulate computation without "
                            "using a core; the slow rank sleeps slow_factor times as long",
                 .unit = "s",
                 .minimum = 0,
                 .maximum = 3600},
                emulated_seconds);
  visitor.require("slow_factor", slow_rank >= 0 || (slow_factor == 1 && pause_seconds == 0),
                  "slow_factor and pause_seconds apply to slow_rank, which is not set; set slow_rank");
  visitor.require("slow_rank", slow_rank < 0 || slow_factor > 1 || pause_seconds > 0,
                  "slow_rank is set, but not how much slower it is: set slow_factor or pause_seconds");
}

std::string FaultSettings::text() const {
  std::string text = "SLOW ON PURPOSE ([fault]):";
  if (emulated_seconds > 0)
    text += fmt::format(" every rank sleeps {:g} s after each (micro-)batch;", emulated_seconds);
  if (slow_factor > 1) text += fmt::format(" rank {} takes {:g} times its CPU time;", slow_rank, slow_factor);
  if (pause_seconds > 0) text += fmt::format(" rank {} pauses {:g} s on average;", slow_rank, pause_seconds);
  text.back() = '.';
  return text;
}

Fault::Fault(const FaultSettings& settings, std::uint64_t seed, int rank)
    : factor_(rank == settings.slow_rank ? settings.slow_factor : 1),
      pause_seconds_(rank == settings.slow_rank ? settings.pause_seconds : 0),
      emulated_seconds_(settings.emulated_seconds),
      random_(seed, Purpose::pauses) {}

void Fault::after(double cpu_seconds) {
  const double pause = -pause_seconds_ * std::log1p(-static_cast<double>(random_.uniform()));
  const double seconds = (factor_ - 1) * cpu_seconds + factor_ * emulated_seconds_ + pause;
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace unisono::strategies
