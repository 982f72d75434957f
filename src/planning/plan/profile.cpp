#include "plan/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::planning {
namespace {

constexpr double kLongest = 1e6;  // seconds

/// Whether lists have as many possible seconds as `places`.
bool are_possible(const std::vector<double>& places, std::initializer_list<const std::vector<double>*> lists) {
  return std::ranges::all_of(lists, [&](const std::vector<double>* list) {
    const auto possible = [](double seconds) { return seconds > 0 && seconds <= kLongest; };
    return list->size() == places.size() && std::ranges::all_of(*list, possible);
  });
}

/// Whether lists have as many possible seconds as `sizes`, which ascend.
bool are_measured(const std::vector<double>& sizes, std::initializer_list<const std::vector<double>*> lists) {
  const bool ascend = std::ranges::adjacent_find(sizes, std::greater_equal<>()) == sizes.end();
  return ascend && (sizes.empty() || sizes.front() > 0) && are_possible(sizes, lists);
}

}  // namespace

double Curve::at(double size) const {
  if (sizes.size() == 1) return seconds.front() * size / sizes.front();
  auto right = std::ranges::lower_bound(sizes, size) - sizes.begin();
  right = std::clamp<std::ptrdiff_t>(right, 1, std::ssize(sizes) - 1);
  const auto b = static_cast<std::size_t>(right), a = b - 1;
  const double slope = (seconds[b] - seconds[a]) / (sizes[b] - sizes[a]);
  const double on_line = seconds[a] + slope * (size - sizes[a]);
  const double least = size < sizes.front()  ? seconds.front() * size / sizes.front()
                       : size > sizes.back() ? seconds.back()
                                             : 0;
  return std::max(on_line, least);
}

void Link::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "microseconds",
                 .meaning = "from the start of a short message to its arrival",
                 .unit = "µs",
                 .range = at_least(0).at_most(1e7)},
                microseconds);
  visitor.field({.name = "megabytes_per_second",
                 .meaning = "of long messages, in each direction; 0: unknown",
                 .unit = "MB/s",
                 .range = at_least(0).at_most(1e7)},
                megabytes_per_second);
  visitor.require("megabytes_per_second", megabytes_per_second == 0 || megabytes_per_second >= 1e-3,
                  "megabytes_per_second must be 0, or 0.001 or more");
}

void StepCurves::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "examples", .meaning = "examples of a rank in a step, in ascending order"}, examples);
  visitor.field({.name = "gradient", .meaning = "seconds of the gradient of a step of so many", .unit = "s"}, gradient);
  visitor.field({.name = "whole",
                 .meaning = "seconds of a whole step, its update included, as one rank makes it by itself",
                 .unit = "s"},
                whole);
  visitor.field({.name = "update", .meaning = "seconds of an update by itself", .unit = "s"}, update);
  visitor.require(
      "examples", are_measured(examples, {&gradient, &whole, &update}),
      "examples must ascend, and each needs its gradient, whole and update seconds, above 0 and at most 1e6");
}

void WaitingCosts::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "seconds", .meaning = "seconds of a wait, in ascending order", .unit = "s"}, seconds);
  visitor.field({.name = "factor", .meaning = "how many times as long computing takes beside waits of so long"},
                factor);
  visitor.require("seconds", are_measured(seconds, {&factor}),
                  "seconds must ascend, and each needs its factor, above 0 and at most 1e6");
}

double WaitingCosts::factor_at(double wait) const {
  if (seconds.empty()) return 1;
  if (seconds.size() == 1) return std::max(factor.front(), 1.0);
  Curve by_logarithm{.sizes = {}, .seconds = factor};
  for (const double one : seconds) by_logarithm.sizes.push_back(std::log(one));
  return std::max(by_logarithm.at(std::log(std::clamp(wait, seconds.front(), seconds.back()))), 1.0);
}

void PortionSeconds::describe(ConfigVisitor& visitor) {
  const auto seconds = [&](std::string_view name, std::string_view meaning, double& value) {
    visitor.field({.name = name, .meaning = meaning, .unit = "s", .range = at_least(0).at_most(kLongest)}, value);
  };
  visitor.field({.name = "examples",
                 .meaning = "examples of a portion that was timed, on average",
                 .range = at_least(0).at_most(1e12)},
                examples);
  seconds("one_rank", "of a portion, while no other rank computes", one_rank);
  seconds("one_host", "while all ranks of its host compute", one_host);
  seconds("all_hosts", "while all ranks of all hosts compute", all_hosts);
  visitor.field({.name = "float_ns",
                 .meaning = "to read or write a float of a vector",
                 .unit = "ns",
                 .range = at_least(0).at_most(1e6)},
                float_ns);
  visitor.require("one_rank",
                  std::ranges::all_of(std::array{one_host, all_hosts, examples},
                                      [this](double one) { return (one > 0) == (one_rank > 0); }),
                  "examples, one_rank, one_host and all_hosts belong together: set all, or remove all");
}

void SegmentSeconds::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "forward", .meaning = "seconds of one example's forward pass, of each segment", .unit = "s"},
                forward);
  visitor.field({.name = "backward_inputs", .meaning = "of its backward pass for the inputs", .unit = "s"},
                backward_inputs);
  visitor.field({.name = "backward_weights", .meaning = "of its backward pass for the weights", .unit = "s"},
                backward_weights);
  visitor.require("forward", are_possible(forward, {&forward, &backward_inputs, &backward_weights}),
                  "each segment needs the seconds of its three passes, above 0 and at most 1e6");
}

std::vector<parallel::PassSeconds> SegmentSeconds::passes() const {
  std::vector<parallel::PassSeconds> passes;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    passes.push_back({forward[i], backward_inputs[i], backward_weights[i]});
  }
  return passes;
}

void SumCurve::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "bytes", .meaning = "bytes of the vectors that are added up, in ascending order"}, bytes);
  visitor.field({.name = "seconds", .meaning = "seconds of each", .unit = "s"}, seconds);
  visitor.require("bytes", are_measured(bytes, {&seconds}),
                  "bytes must ascend, and each needs its seconds, above 0 and at most 1e6");
}

void EncoderSpeed::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "of", .meaning = "the line of the table of ways whose messages are made so", .required = true},
                of);
  visitor.field({.name = "encode_ns", .meaning = "to compress a float", .unit = "ns", .range = above(0).at_most(1e6)},
                encode_ns);
  visitor.field({.name = "add_ns",
                 .meaning = "to add a message to a sum, for each of its floats",
                 .unit = "ns",
                 .range = above(0).at_most(1e6)},
                add_ns);
  visitor.field({.name = "bytes_per_float",
                 .meaning = "bytes of a message for each float that it is about",
                 .unit = "bytes",
                 .range = above(0).at_most(64)},
                bytes_per_float);
  visitor.field(
      {.name = "in_host_ns",
       .meaning = "what a sum over the ranks of a host adds to a step, for each of its floats; 0: not measured",
       .unit = "ns",
       .range = at_least(0).at_most(1e6)},
      in_host_ns);
  visitor.field({.name = "of_all_ns",
                 .meaning = "what a sum over all ranks of all hosts adds to a step; 0: not measured",
                 .unit = "ns",
                 .range = at_least(0).at_most(1e6)},
                of_all_ns);
}

void Profile::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "cpu", .meaning = "the CPU of the hosts", .required = true}, cpu);
  visitor.field(
      {.name = "model", .meaning = "the model that was trained; others need another profile", .required = true}, model);
  visitor.field({.name = "hosts",
                 .meaning = "hosts on which this was measured",
                 .range = at_least(1).at_most(1 << 16),
                 .required = true},
                hosts);
  visitor.field({.name = "ranks_per_host",
                 .meaning = "ranks on each of them",
                 .range = at_least(1).at_most(4096),
                 .required = true},
                ranks_per_host);
  visitor.field(
      {.name = "threads", .meaning = "threads of each rank", .range = at_least(1).at_most(1 << 16), .required = true},
      threads);
  visitor.field({.name = "memory_mebibytes",
                 .meaning = "that a rank may take; 0: unknown",
                 .unit = "MiB",
                 .range = at_least(0).at_most(1e9)},
                memory_mebibytes);
  visitor.section({.name = "one_rank", .meaning = "steps of a rank while no other one computes"}, one_rank);
  visitor.section({.name = "one_host", .meaning = "steps of a rank while all ranks of its host compute"}, one_host);
  visitor.section({.name = "all_hosts", .meaning = "steps of a rank while all ranks of all hosts compute"}, all_hosts);
  visitor.field({.name = "whole_host_threads",
                 .meaning = "threads of a single rank with all cores of its host; 0: not measured",
                 .range = at_least(0).at_most(1 << 16)},
                whole_host_threads);
  visitor.section({.name = "whole_host", .meaning = "steps of such a rank; empty: not measured"}, whole_host);
  visitor.require("whole_host_threads", (whole_host_threads > 0) == !whole_host.examples.empty(),
                  "whole_host_threads and [whole_host] belong together: set both, or remove both");
  visitor.section({.name = "workers",
                   .meaning = "steps of a thread of one rank, while each of its threads makes steps of its own; empty: "
                              "not measured"},
                  workers);
  visitor.section({.name = "portions",
                   .meaning = "portions of the training set, of whole-batch methods, which have no steps of so many "
                              "examples; 0: not measured"},
                  portions);
  visitor.section(
      {.name = "waiting",
       .meaning = "how long computing takes while each rank has a thread that waits for messages; empty: as "
                  "long as without"},
      waiting);
  visitor.section({.name = "segments",
                   .meaning = "passes of the network's segments for one example; empty: flops decide in pipelines"},
                  segments);
  visitor.section({.name = "sums_in_host", .meaning = "sums over the ranks of a host; empty: it has one"},
                  sums_in_host);
  visitor.section({.name = "sums_of_all", .meaning = "sums over all ranks of all hosts; empty: there is one host"},
                  sums_of_all);
  visitor.section(
      {.name = "sums_of_layers",
       .meaning = "sums over the ranks of a host of what their layers compute, if they share these; empty: messages "
                  "between them decide"},
      sums_of_layers);
  visitor.section({.name = "in_host", .meaning = "messages between ranks of a host"}, in_host);
  visitor.section({.name = "between_hosts", .meaning = "messages between hosts"}, between_hosts);
  visitor.field({.name = "busy_link_share",
                 .meaning = "of the speed between hosts, what messages get while the ranks compute; 1: not measured",
                 .range = above(0).at_most(1)},
                busy_link_share);
  visitor.field({.name = "crowded_link_share",
                 .meaning = "of that speed, what messages get while each host sends to all others; 1: not measured",
                 .range = above(0).at_most(1)},
                crowded_link_share);
  visitor.list({.name = "encoders", .meaning = "what compressing takes"}, encoders);
  std::set<std::string> names;
  for (const EncoderSpeed& encoder : encoders) names.insert(encoder.of);
  visitor.require("encoders", names.size() == encoders.size(), "each way of training may have one encoder; remove one");
  visitor.require("in_host", ranks_per_host == 1 || in_host.megabytes_per_second > 0,
                  "megabytes_per_second must be above 0 where a host has several ranks");
  for (const auto& [name, examples] : {std::pair("one_rank", &one_rank.examples),
                                       {"one_host", &one_host.examples},
                                       {"all_hosts", &all_hosts.examples}}) {
    visitor.require(name, portions.one_rank > 0 || !examples->empty(),
                    fmt::format("[{}] is missing, or has no examples: measure the profile again", name));
  }
  visitor.require("sums_in_host", ranks_per_host == 1 || !sums_in_host.bytes.empty(),
                  "[sums_in_host] is missing, but a host has several ranks: measure the profile again");
  visitor.require("sums_of_all", hosts == 1 || !sums_of_all.bytes.empty(),
                  "[sums_of_all] is missing, but there are several hosts: measure the profile again");
}

double Profile::memory_limit() const {
  return memory_mebibytes > 0 ? memory_mebibytes * (1 << 20) : std::numeric_limits<double>::infinity();
}

Profile read_profile(const std::string& path) {
  Profile profile;
  parse_config(read_config(path), [&](ConfigVisitor& visitor) { profile.describe(visitor); });
  return profile;
}

std::string text_of(const Profile& profile) {
  Profile copy = profile;  // visitors take what they only read by reference, too
  return effective_config([&](ConfigVisitor& visitor) { copy.describe(visitor); });
}

}  // namespace unisono::planning
