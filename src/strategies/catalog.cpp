#include "unisono/strategies/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allreduce.hpp"
#include "averaging.hpp"
#include "elastic_averaging.hpp"
#include "hogwild.hpp"
#include "parameter_server.hpp"
#include "serial.hpp"
#include "stratified.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {
namespace {

constexpr std::string_view kWorkersWaited = "workers waited for messages";

/// "a, b or c"
std::string names_of_kinds() {
  std::string names;
  const auto& kinds = strategy_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i > 0) names += i + 1 == kinds.size() ? " or " : ", ";
    names += kinds[i].name;
  }
  return names;
}

}  // namespace

const std::vector<StrategyKind>& strategy_kinds() {
  static const std::vector<StrategyKind> kinds = {
      {.name = "allreduce",
       .meaning = "all ranks make every step together, with the mean gradient over the global batch",
       .make = make_allreduce,
       .traits = {.steps_together = true, .needs_gradient = true, .has_one_model = true},
       .relief = relief_of_allreduce},
      {.name = "averaging",
       .meaning = "local SGD: ranks make steps on their own and average their parameters at intervals",
       .describe = describe_averaging,
       .check = check_averaging,
       .make = make_averaging,
       .traits = {.has_one_model = true},
       .relief = relief_of_averages},
      {.name = "elastic_averaging",
       .meaning = "workers train on their own, and at intervals each is drawn towards a center that servers hold",
       .describe = describe_elastic_averaging,
       .make = make_elastic_averaging,
       .traits = {.needs_gradient = true, .has_servers = true},
       .waiting = kWorkersWaited,
       .relief = relief_of_elastic_averaging},
      {.name = "hogwild",
       .meaning =
           "lock-free: threads of a rank train on the same parameters without waiting for each other; ranks average at "
           "intervals",
       .describe = describe_hogwild,
       .make = make_hogwild,
       .traits = {.shares_model = true},
       .relief = relief_of_averages},
      {.name = "parameter_server",
       .meaning = "workers compute gradients at their own pace; servers hold shards of the parameters and update them "
                  "as gradients arrive",
       .describe = describe_parameter_server,
       .check = check_parameter_server,
       .make = make_parameter_server,
       .traits = {.has_servers = true},
       .waiting = kWorkersWaited,
       .relief = relief_of_parameter_server},
      {.name = "serial",
       .meaning = "one rank, one step after the other; the reference for the other strategies",
       .make = make_serial,
       .traits = {.steps_together = true, .has_one_model = true},
       .relief = relief_of_allreduce},
      {.name = "stratified",
       .meaning = "for factorization: all threads and ranks work on blocks of ratings that share neither users nor "
                  "items; each rank holds a part of the data and of the parameters",
       .describe = describe_stratified,
       .check = check_stratified,
       .make = make_stratified,
       .traits = {.divides_model = true, .shares_model = true},
       .waiting = "ranks waited for items from each other",
       .relief = relief_of_stratified},
  };
  return kinds;
}

std::string default_kind() { return std::string(strategy_kinds().front().name); }

const StrategyKind& kind_of(const StrategySettings& settings) {
  const auto& kinds = strategy_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const StrategyKind& kind) { return kind.name == settings.kind; });
  if (found != kinds.end()) return *found;
  throw ConfigError(fmt::format("strategy.kind is '{}'; it must be {}", settings.kind, names_of_kinds()));
}

}  // namespace unisono::strategies
