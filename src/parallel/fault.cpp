#include "unisono/parallel/fault.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace unisono::parallel {

void FaultSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "slow_rank",
                 .meaning = "the rank that is slowed down; -1: none",
                 .range = at_least(-1).at_most(1 << 20)},
                slow_rank);
  visitor.field({.name = "slow_factor",
                 .meaning = "how many times its CPU time the slow rank takes; it sleeps for the rest",
                 .range = at_least(1).at_most(1e6)},
                slow_factor);
  visitor.field({.name = "pause_seconds",
                 .meaning = "mean of the slow rank's random pause after each (micro-)batch (exponentially distributed)",
                 .unit = "s",
                 .range = at_least(0).at_most(3600)},
                pause_seconds);
  visitor.field({.name = "emulated_seconds",
                 .meaning = "time that every rank sleeps after each (micro-)batch, to emulate computation without "
                            "using a core; the slow rank sleeps slow_factor times as long",
                 .unit = "s",
                 .range = at_least(0).at_most(3600)},
                emulated_seconds);
  visitor.field(
      {.name = "emulated_gflops",
       .meaning = "speeds that ranks pretend to have, one for each rank or one for all: after each pass of a "
                  "(micro-)batch, a rank sleeps for the rest of the time that the pass would take; for passes "
                  "of 10 ms or more, by networks",
       .unit = "GFLOP/s"},
      emulated_gflops);
  const bool positive = std::ranges::all_of(emulated_gflops, [](double speed) { return speed > 0; });
  visitor.require("emulated_gflops", positive, "speeds must be above 0");
  visitor.require("slow_factor", slow_rank >= 0 || (slow_factor == 1 && pause_seconds == 0),
                  "slow_factor and pause_seconds apply to slow_rank, which is not set; set slow_rank");
  visitor.require("slow_rank", slow_rank < 0 || slow_factor > 1 || pause_seconds > 0,
                  "slow_rank is set, but not how much slower it is: set slow_factor or pause_seconds");
}

std::string FaultSettings::text() const {
  std::string text = "SLOW ON PURPOSE ([fault]):";
  if (emulated_seconds > 0)
    text += fmt::format(" every rank sleeps {:g} s after each (micro-)batch;", emulated_seconds);
  if (!emulated_gflops.empty())
    text += fmt::format(" ranks pretend to compute at {} GFLOP/s;", fmt::join(emulated_gflops, ", "));
  if (slow_factor > 1) text += fmt::format(" rank {} takes {:g} times its CPU time;", slow_rank, slow_factor);
  if (pause_seconds > 0) text += fmt::format(" rank {} pauses {:g} s on average;", slow_rank, pause_seconds);
  text.back() = '.';
  return text;
}

namespace {

double flops_per_second(const std::vector<double>& gflops, int rank) {
  if (gflops.empty()) return 0;
  return 1e9 * (gflops.size() == 1 ? gflops.front() : gflops.at(static_cast<std::size_t>(rank)));
}

}  // namespace

Fault::Fault(const FaultSettings& settings, std::uint64_t seed, int rank)
    : factor_(rank == settings.slow_rank ? settings.slow_factor : 1),
      pause_seconds_(rank == settings.slow_rank ? settings.pause_seconds : 0),
      emulated_seconds_(settings.emulated_seconds),
      flops_per_second_(flops_per_second(settings.emulated_gflops, rank)),
      random_(seed, Purpose::pauses) {}

void Fault::after(const Work& work) {
  const double pause = -pause_seconds_ * std::log1p(-static_cast<double>(random_.uniform()));
  double seconds = (factor_ - 1) * work.cpu_seconds + factor_ * emulated_seconds_ + pause;
  if (flops_per_second_ > 0 && work.flops > 0) {
    seconds += std::max(0.0, factor_ * work.flops / flops_per_second_ - work.seconds);
  }
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace unisono::parallel
