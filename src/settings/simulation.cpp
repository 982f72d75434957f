#include "unisono/settings/simulation.hpp"

namespace unisono::settings {
namespace {

constexpr Named<StepTimes> kStepTimes[] = {
    {StepTimes::constant, "constant", "each step of a rank takes as long as the others"},
    {StepTimes::lognormal, "lognormal", "factors of mean 1 whose logarithms are normally distributed"},
    {StepTimes::pareto, "pareto", "factors of mean 1 with rare, very long steps (Pareto distribution)"}};

void describe_speeds(SimulationSettings& own, ConfigVisitor& visitor) {
  visitor.field({.name = "microseconds_per_example",
                 .meaning = "what the forward and backward pass of an example takes on a rank of mean speed; 0: it is "
                            "measured on this machine before the simulation begins",
                 .unit = "µs",
                 .range = at_least(0).at_most(1e9)},
                own.microseconds_per_example);
  visitor.field({.name = "nanoseconds_per_update",
                 .meaning = "what an optimizer's step takes for each parameter, on a rank or a server",
                 .unit = "ns",
                 .range = at_least(0).at_most(1e9)},
                own.nanoseconds_per_update);
  visitor.field({.name = "speed_spread",
                 .meaning = "how much ranks differ: the standard deviation of the logarithm of what an example takes; "
                            "0: all ranks are equally fast",
                 .range = at_least(0).at_most(3)},
                own.speed_spread);
  visitor.field({.name = "slow_share",
                 .meaning = "share of the ranks that are slower than the others by slow_factor, drawn at random",
                 .range = at_least(0).at_most(1)},
                own.slow_share);
  visitor.field({.name = "slow_factor",
                 .meaning = "how many times the others' time these ranks take",
                 .range = at_least(1).at_most(1e6)},
                own.slow_factor);
  visitor.require("slow_share", (own.slow_share > 0) == (own.slow_factor > 1),
                  "slow_share and slow_factor work together: set both, or none");
  const auto spread = [&own](ConfigVisitor& inner) {
    const bool pareto = own.step_times == StepTimes::pareto;
    inner.field({.name = "step_spread",
                 .meaning = pareto ? "1 / shape of the distribution" : "standard deviation of the factors' logarithm",
                 .range = above(0).at_most(pareto ? 0.99 : 3)},
                own.step_spread);
  };
  visitor.variant({.name = "step_times", .meaning = "how a rank's steps vary"}, own.step_times, kStepTimes,
                  {{StepTimes::lognormal, spread}, {StepTimes::pareto, spread}});
}

void describe_starts(SimulationSettings& own, ConfigVisitor& visitor) {
  visitor.field({.name = "late_share",
                 .meaning = "share of the ranks that begin their first step later than the others, drawn at random",
                 .range = at_least(0).at_most(1)},
                own.late_share);
  visitor.field({.name = "late_seconds",
                 .meaning = "by how much on average; exponentially distributed",
                 .unit = "s",
                 .range = at_least(0).at_most(1e7)},
                own.late_seconds);
  visitor.require("late_share", (own.late_share > 0) == (own.late_seconds > 0),
                  "late_share and late_seconds work together: set both, or none");
  visitor.field({.name = "start_times",
                 .meaning = "a file that says which ranks begin later; each line is one, as {\"rank\": 7, \"seconds\": "
                            "60}; \"\": none"},
                own.start_times);
  visitor.require("start_times", own.start_times.empty() || own.late_share == 0,
                  "start_times says which ranks begin later: remove late_share and late_seconds");
}

void describe_recorded(SimulationSettings& own, ConfigVisitor& visitor) {
  visitor.field({.name = "gradient_times",
                 .meaning = "a file that says how long each gradient of a rank takes, such as gradients.jsonl of a run "
                            "with communication.record_times; each line is one, as {\"rank\": 0, \"seconds\": 0.25}. "
                            "Ranks and gradients beyond it begin from its first ones again; \"\": none"},
                own.gradient_times);
  visitor.require("gradient_times", own.gradient_times.empty() || own.microseconds_per_example == 0,
                  "gradient_times says what gradients take: remove microseconds_per_example "
                  "(--unset simulation.microseconds_per_example)");
  visitor.field({.name = "message_times",
                 .meaning = "a file that says when messages arrive: messages.jsonl of a run with "
                            "communication.record_times, which is repeated; \"\": as the links say"},
                own.message_times);
}

void describe_network(SimulationSettings& own, ConfigVisitor& visitor) {
  const auto link = [&visitor](std::string_view name, std::string_view meaning, double& value, std::string_view unit) {
    visitor.field({.name = name, .meaning = meaning, .unit = unit, .range = above(0).at_most(1e9)}, value);
  };
  link("link_mbit", "speed of a host's link in each direction, which all of its ranks share", own.link_mbit, "Mbit/s");
  link("link_microseconds", "how long a short message between hosts takes", own.link_microseconds, "µs");
  link("in_host_mbit", "speed of messages between ranks of a host", own.in_host_mbit, "Mbit/s");
  link("in_host_microseconds", "how long a short message between ranks of a host takes", own.in_host_microseconds,
       "µs");
  visitor.field({.name = "sum_factor",
                 .meaning = "how many times as long sums over hosts take as their bytes on the links",
                 .range = at_least(0.01).at_most(1000)},
                own.sum_factor);
}

void describe_failures(SimulationSettings& own, ConfigVisitor& visitor) {
  visitor.field({.name = "hours_between_failures",
                 .meaning = "mean time until one of all hosts fails, which ends the run; it starts again, from its "
                            "newest checkpoint, on as many ranks; 0: no host fails",
                 .unit = "hours",
                 .range = at_least(0).at_most(1e7)},
                own.hours_between_failures);
  visitor.field({.name = "failure_times",
                 .meaning = "a file that says when hosts fail, in place of hours_between_failures; each line is a "
                            "failure, as {\"seconds\": 3600}; \"\": none"},
                own.failure_times);
  visitor.require("failure_times", own.failure_times.empty() || own.hours_between_failures == 0,
                  "failure_times says when hosts fail: remove hours_between_failures");
  visitor.field({.name = "spare_hosts",
                 .meaning = "hosts beyond those of the ranks, which take the place of failed ones",
                 .range = at_least(0).at_most(1 << 17)},
                own.spare_hosts);
  visitor.field({.name = "repair_hours",
                 .meaning = "how long a failed host is missing; without a spare one, the run starts again on fewer "
                            "ranks. 0: it is there again when the run starts again",
                 .unit = "hours",
                 .range = at_least(0).at_most(1e7)},
                own.repair_hours);
  visitor.require("spare_hosts", own.spare_hosts == 0 || own.repair_hours > 0,
                  "spare_hosts take the place of hosts that are missing: set repair_hours, too");
  visitor.require("repair_hours", own.repair_hours == 0 || own.has_failures(),
                  "no host fails that could be repaired: set hours_between_failures or failure_times, too");
  const auto seconds = [&visitor](std::string_view name, std::string_view meaning, double& value) {
    visitor.field({.name = name, .meaning = meaning, .unit = "s", .range = at_least(0).at_most(1e7)}, value);
  };
  seconds("restart_seconds", "from a failure until the ranks train again: it is noticed, and they start",
          own.restart_seconds);
  seconds("checkpoint_seconds", "how long all ranks stand still for a checkpoint", own.checkpoint_seconds);
}

}  // namespace

void SimulationSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "ranks",
                 .meaning = "number of simulated ranks; 0: nothing is simulated",
                 .range = at_least(0).at_most(1 << 17)},
                ranks);
  visitor.field({.name = "ranks_per_host",
                 .meaning = "how many of them share a host, its memory and its link",
                 .range = at_least(1).at_most(1 << 17)},
                ranks_per_host);
  describe_speeds(*this, visitor);
  describe_recorded(*this, visitor);
  describe_starts(*this, visitor);
  describe_network(*this, visitor);
  describe_failures(*this, visitor);
}

}  // namespace unisono::settings
