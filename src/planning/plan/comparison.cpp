#include "plan/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "plan/passes.hpp"
#include "plan/pipelines.hpp"
#include "plan/shared_layers.hpp"
#include "plan/workers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/session/abilities.hpp"

namespace unisono::planning {
namespace {

constexpr double kAsGood = 0.9;           // of the speed of the fastest; who needs fewer hosts for it is preferred
constexpr double kWorthOtherSteps = 1.2;  // times as fast as the serial run's steps

std::string seconds_text(double seconds) {
  if (seconds < 120) return duration_text(seconds);
  return seconds < 7200 ? fmt::format("{:.3g} min", seconds / 60) : fmt::format("{:.3g} h", seconds / 3600);
}

std::string ranks_text(const Ranks& ranks) {
  return fmt::format("{} × {}", count_of(ranks.hosts, "host"), count_of(ranks.per_host, "rank"));
}

/// What starts the program on some ranks; empty for one rank.
std::string launcher(const Ranks& ranks) {
  if (ranks.all() == 1) return "";
  if (ranks.hosts == 1) return fmt::format("mpirun -n {} ", ranks.all());
  return fmt::format("mpirun -n {} --map-by ppr:{}:node ", ranks.all(), ranks.per_host);
}

bool makes_serial_steps(const Line& line) { return line.made.makes_serial_steps; }
bool is_close(const Line& line) { return line.made.makes_serial_steps || line.way->is_close; }
bool is_divided(const Line& line) { return line.made.stages * line.made.tensor > 1; }
bool is_alone(const Line& line) {
  return line.made.ranks.all() == 1 && line.made.makes_serial_steps && line.made.threads == 0;
}

Prediction predicted(const Planned& planned, const Way& way, const Ranks& ranks) {
  if (strategies::make_strategy(way.config.strategy)->has_workers(planned.model)) return predict_workers(planned, way);
  if (way.config.whole_batch()) return predict_pass(planned, way, ranks);
  if (way.config.stages() > 1) return predict_pipeline(planned, way, ranks);
  return way.config.replica.tensor > 1 ? predict_shared_layers(planned, way, ranks) : predict(planned, way, ranks);
}

}  // namespace

void Comparison::add(const Way& way, const Prediction& made) {
  const Line line{&way, made};
  (fits(line) ? lines_ : over_limit_).push_back(line);
}

/// On all numbers of ranks that suit it.
void Comparison::predict(const Planned& planned, const Way& way, const std::set<Ranks>& all) {
  const auto strategy = strategies::make_strategy(way.config.strategy);
  const int stages = way.config.stages(), of_replica = way.config.ranks_of_replica();
  std::string why;
  bool fits = false;
  for (const Ranks& ranks : all) {
    if (ranks.all() % of_replica != 0) {
      why = fmt::format("its {} do not divide {}",
                        stages > 1 ? count_of(stages, "stage") : count_of(of_replica, "rank") + " that share layers",
                        ranks_text(ranks));
      continue;
    }
    const int replicas = ranks.all() / of_replica;
    const bool has_workers = strategy->has_workers(planned.model);
    const bool suits_one = strategy->traits().on_one_rank || strategy->traits().whole_batch || has_workers;
    if (ranks.all() == 1 && !suits_one) continue;
    if (ranks.all() > 1 && has_workers) {
      why = "threads that make steps of their own are known to plan on one rank only";
      continue;
    }
    try {
      strategies::require_fit(*strategy, planned.model, replicas);
    } catch (const strategies::UnfitStrategy& error) {
      continue;
    } catch (const ConfigError& error) {
      why = error.what();
      continue;
    }
    const auto traffic = strategy->traffic(planned.model, replicas, 0, planned.data);
    if (!traffic) {
      why = "its messages are not known to plan";
      continue;
    }
    if (traffic->encoder &&
        std::ranges::find(profile_.encoders, way.name, &EncoderSpeed::of) == profile_.encoders.end()) {
      why = "the profile does not say how fast its messages are made";
      continue;
    }
    if (of_replica > 1) {
      why = obstacle_to_division(planned, way.config, replicas);
      if (!why.empty()) continue;
    }
    try {
      add(way, predicted(planned, way, ranks));
      fits = true;
    } catch (const ConfigError& error) {
      if (stages > 1) throw;
      why = error.what();
    }
  }
  if (!fits && !why.empty()) unfit_.push_back({way.name, why});
}

/// The first way whose replicas may be several ranks, and which makes the serial run's steps; null: there is none.
const Way* Comparison::way_to_divide(const Planned& planned, const std::set<Ranks>& all) const {
  const auto suits = [&](const Way& way) {
    const auto strategy = strategies::make_strategy(way.config.strategy);
    const auto traffic = strategy->traffic(planned.model, all.rbegin()->all(), 0, planned.data);
    return way.config.ranks_of_replica() == 1 && !strategy->traits().on_one_rank && traffic &&
           traffic->makes_serial_steps && obstacle_to_division(planned, way.config, 2).empty();
  };
  const auto way = std::ranges::find_if(ways_.fit, suits);
  return way == ways_.fit.end() ? nullptr : &*way;
}

void Comparison::propose_pipelines(const Planned& planned, const Way& way, const std::set<Ranks>& all) {
  const int segments = static_cast<int>(planned.model.staged()->network().cut_points().size()) + 1;
  for (const Ranks& ranks : all) {
    for (const int stages : stages_to_propose(ranks, segments / static_cast<int>(way.config.replica.chunks))) {
      if (!obstacle_to_division(planned, way.config, ranks.all() / stages).empty()) continue;
      try {
        auto proposed = propose_pipeline(planned, way, ranks, stages);
        if (!proposed) continue;
        add(proposed_.emplace_back(std::move(proposed->way)), proposed->made);
      } catch (const ConfigError& error) {
        unfit_.push_back({fmt::format("pipelines of {} stages", stages), error.what()});
      }
    }
  }
}

void Comparison::propose_shared_layers(const Planned& planned, const Way& way, const std::set<Ranks>& all) {
  if (!has_layers_to_share(planned, config_)) return;
  for (const Ranks& ranks : all) {
    for (const int tensor : tensor_ranks_to_propose(ranks)) {
      if (!obstacle_to_division(planned, way.config, ranks.all() / tensor).empty()) continue;
      Way shared = share_layers(way, ranks, tensor);
      if (settings::effective_config(shared.config) == settings::effective_config(config_)) continue;
      try {
        const Prediction made = predict_shared_layers(planned, shared, ranks);
        add(proposed_.emplace_back(std::move(shared)), made);
      } catch (const ConfigError& error) {
        unfit_.push_back({shared.name, error.what()});
      }
    }
  }
}

/// One rank with all cores of a host, in place of several ranks.
void Comparison::propose_whole_host(const Planned& planned) {
  const auto is_alone = [](const Way& way) {
    return strategies::make_strategy(way.config.strategy)->traits().on_one_rank && way.config.ranks_of_replica() == 1;
  };
  const auto one_rank = std::ranges::find_if(ways_.fit, is_alone);
  if (profile_.whole_host_threads == 0 || config_.train.threads > 0 || one_rank == ways_.fit.end()) return;
  Profile host = profile_;
  host.one_rank = profile_.whole_host;
  settings::Config config = one_rank->config;
  config.train.threads = profile_.whole_host_threads;
  Way way = with_config(*one_rank, std::move(config));
  way.name = fmt::format("one rank of {}", count_of(profile_.whole_host_threads, "thread"));
  Prediction made = planning::predict(
      {host, planned.model, planned.backend, planned.data, planned.process_bytes, planned.measured_links}, way, {1, 1});
  made.threads = profile_.whole_host_threads;
  add(proposed_.emplace_back(std::move(way)), made);
}

void Comparison::predict(const Planned& planned, const std::vector<int>& hosts, bool proposes) {
  unfit_ = ways_.unfit;
  std::set<Ranks> all = {{1, 1}};
  for (const int number : hosts) {
    const Ranks ranks{number, static_cast<int>(profile_.ranks_per_host)};
    if (step_examples() >= ranks.all()) {
      all.insert(ranks);
    } else {
      unfit_.push_back({ranks_text(ranks),
                        fmt::format("a step has {}, fewer than there are ranks{}", count_of(step_examples(), "example"),
                                    config_.whole_batch() ? "" : "; raise train.batch_size")});
    }
  }
  for (const Way& way : ways_.fit) predict(planned, way, all);
  if (proposes) propose_whole_host(planned);
  const Way* const divisible = proposes ? way_to_divide(planned, all) : nullptr;
  if (divisible != nullptr) {
    propose_pipelines(planned, *divisible, all);
    propose_shared_layers(planned, *divisible, all);
  }
  for (std::vector<Line>* lines : {&lines_, &over_limit_}) {
    std::ranges::stable_sort(*lines, std::greater<>(), [](const Line& line) { return line.made.examples_per_second; });
  }
  if (!lines_.empty()) return;
  require_memory();
  std::string text = "plan: no way of training is possible here";
  for (const UnfitWay& way : unfit_) text += fmt::format("; {}: {}", way.name, way.why);
  throw ConfigError(text);
}

/// \throws ConfigError where all that could be done needs too much
void Comparison::require_memory() const {
  if (over_limit_.empty()) return;
  const Line& least =
      *std::ranges::min_element(over_limit_, {}, [](const Line& line) { return line.made.memory_bytes; });
  throw ConfigError(fmt::format(
      "plan: a rank may take {}, but every way of training needs more; {} on {} needs least, {}: look at more hosts "
      "(--hosts), start fewer ranks on each, or set a smaller {}train.evaluation_batch_size",
      session::bytes_text(profile_.memory_limit()), least.way->name, ranks_text(least.made.ranks),
      session::bytes_text(static_cast<double>(least.made.memory_bytes)),
      config_.whole_batch() ? "" : "train.batch_size or "));
}

/// The fastest line that `suits`; null: none does.
template <typename Suits>
const Line* Comparison::fastest(const Suits& suits) const {
  const auto found = std::ranges::find_if(lines_, suits);
  return found == lines_.end() ? nullptr : &*found;
}

/// Of the lines with such steps that are about as fast, the one with the fewest hosts, and then ranks.
const Line& Comparison::frugal(const Line& fastest) const {
  const Line* best = &fastest;
  for (const Line& line : lines_) {
    const bool alike = line.made.makes_serial_steps || line.way == fastest.way;
    const bool as_good = line.made.examples_per_second >= kAsGood * fastest.made.examples_per_second;
    const auto size = [](const Line& one) { return std::pair(one.made.ranks.hosts, one.made.ranks.all()); };
    if (alike && as_good && size(line) < size(*best)) best = &line;
  }
  return *best;
}

const Line& Comparison::recommended() const {
  const Line *const close = fastest(is_close), *const serial = fastest(makes_serial_steps);
  const Line& any = close == nullptr ? lines_.front() : *close;
  const bool worth =
      serial == nullptr || any.made.examples_per_second > kWorthOtherSteps * serial->made.examples_per_second;
  return frugal(worth ? any : *serial);
}

const Prediction& Comparison::prediction_for(const Ranks& ranks) const {
  const Line* const found = fastest([&](const Line& line) { return line.made.ranks == ranks; });
  if (found != nullptr) return found->made;
  throw ConfigError(fmt::format("--grade: nothing is predicted of {}{}", ranks_text(ranks),
                                unfit_.empty() ? "" : fmt::format("; {}: {}", unfit_[0].name, unfit_[0].why)));
}

/// Bytes that a rank with the whole model needs at least, where no rank can hold that.
std::optional<double> Comparison::least_whole() const {
  const auto is_whole = [](const Line& line) { return !is_divided(line); };
  std::optional<double> least;
  if (std::ranges::any_of(lines_, is_whole)) return least;
  for (const Line& line : over_limit_) {
    const auto bytes = static_cast<double>(line.made.memory_bytes);
    if (is_whole(line) && (!least || bytes < *least)) least = bytes;
  }
  return least;
}

std::vector<std::string> Comparison::reasons() const {
  const Line &chosen = recommended(), &any = lines_.front();
  const Line *const serial = fastest(makes_serial_steps), *const alone = fastest(is_alone);
  std::vector<std::string> reasons;
  const auto ratio = [](const Line& a, const Line& b) {
    return a.made.examples_per_second / b.made.examples_per_second;
  };
  if (alone != nullptr && &chosen != alone)
    reasons.push_back(fmt::format("{:.2g} times as fast as one rank alone", ratio(chosen, *alone)));
  if (const auto least = least_whole(); least && is_divided(chosen)) {
    reasons.push_back(
        fmt::format("no rank can hold the whole model: it would need {} or more, and may take {}; each {} holds a part",
                    session::bytes_text(*least), session::bytes_text(profile_.memory_limit()),
                    chosen.made.stages > 1 ? "stage" : "rank"));
  }
  if (!chosen.made.makes_serial_steps && serial != nullptr) {
    reasons.push_back(fmt::format("{:.2g} times as fast as {} on {}, the fastest with the serial run's steps",
                                  ratio(chosen, *serial), serial->way->name, ranks_text(serial->made.ranks)));
    const Line* const there =
        fastest([&](const Line& line) { return line.made.makes_serial_steps && line.made.ranks == chosen.made.ranks; });
    if (there != nullptr && there != serial) {
      reasons.push_back(fmt::format("{} on {} would wait for links {:.0f} % of the time", there->way->name,
                                    ranks_text(there->made.ranks), 100 * there->made.exposed / there->made.seconds()));
    }
    reasons.push_back(fmt::format("compare the results (unisono study), because steps differ: {}", chosen.way->result));
  }
  if (!is_close(any) && ratio(any, chosen) > 1) {
    reasons.push_back(fmt::format("{} on {} would be {:.2g} times as fast, but may end with worse results: {}",
                                  any.way->name, ranks_text(any.made.ranks), ratio(any, chosen), any.way->result));
  } else if (chosen.made.makes_serial_steps && !any.made.makes_serial_steps && ratio(any, chosen) > 1) {
    reasons.push_back(fmt::format("it makes the serial run's steps; {} on {} would be {:.2g} times as fast: {}",
                                  any.way->name, ranks_text(any.made.ranks), ratio(any, chosen), any.way->result));
  }
  const Line* most = nullptr;
  for (const Line& line : lines_) {
    if (!is_close(line)) continue;
    if (most == nullptr || line.made.ranks.hosts > most->made.ranks.hosts) most = &line;
  }
  if (most != nullptr && most->made.ranks.hosts > chosen.made.ranks.hosts) {
    reasons.push_back(fmt::format("{}: on {}, the fastest such way ({}) would be {:.2g} times as fast",
                                  chosen.made.ranks.hosts == 1 ? "do not distribute" : "fewer hosts do",
                                  ranks_text(most->made.ranks), most->way->name, ratio(*most, chosen)));
  }
  return reasons;
}

std::string Comparison::table() const {
  const bool epochs = knows_epochs();
  std::vector<Line> lines = lines_;
  lines.insert(lines.end(), over_limit_.begin(), over_limit_.end());
  const bool pipelines = std::ranges::any_of(lines, [](const Line& line) { return line.made.stages > 1; });
  std::string text = fmt::format(
      "  {:>14} {:>12} {:>10}{} {:>10} {:>10} {:>10}{} {:>10} {:>10} {:>8}  {}\n", "hosts × ranks", "examples/s",
      fmt::format("a {}", step_text()), epochs ? fmt::format(" {:>10}", "an epoch") : "", "computing", "messages",
      "waiting", pipelines ? fmt::format(" {:>10}", "bubble") : "", "sent", "memory", "of ranks", "way");
  for (const Line& line : lines) {
    const Prediction& made = line.made;
    text += fmt::format(
        "  {:>14} {:>12} {:>10}{} {:>10} {:>10} {:>10}{} {:>10} {:>10} {:>6.0f} %  {}{}\n",
        fmt::format("{} × {}", made.ranks.hosts, made.ranks.per_host), grouped(std::llround(made.examples_per_second)),
        seconds_text(made.seconds()), epochs ? fmt::format(" {:>10}", seconds_text(epoch_seconds(line))) : "",
        seconds_text(made.gradient + made.update), seconds_text(made.messages),
        seconds_text(made.exposed + made.boundaries),
        pipelines ? fmt::format(" {:>10}", seconds_text(made.bubble)) : "", session::bytes_text(made.sent_bytes),
        session::bytes_text(static_cast<double>(made.memory_bytes)), 100 * made.efficiency, line.way->name,
        fits(line) ? "" : ": does not fit into a rank's memory");
  }
  return text;
}

std::string Comparison::text(const std::string& config_path) const {
  const Line& chosen = recommended();
  std::string text = fmt::format("{}: {} a {}, ranks of {} on {}; predictions, the fastest first\n", config_.name,
                                 count_of(step_examples(), "example"), step_text(),
                                 count_of(profile_.threads, "thread"), profile_.cpu);
  text += table();
  text += fmt::format(
      "  messages: compressing, mixing and copying them; sent: by a host to others, in a {}; of ranks: of the speed "
      "of so many ranks that are each as fast as one alone\n",
      step_text());
  if (config_.whole_batch()) {
    text +=
        "  an iteration takes more than one pass where its line search goes on, or it asks for products with the "
        "Hessian\n";
  }
  for (const UnfitWay& way : unfit_) text += fmt::format("  not possible here: {}: {}\n", way.name, way.why);
  text += fmt::format("recommended: {} on {}{}\n", chosen.way->name, ranks_text(chosen.made.ranks),
                      knows_epochs() ? fmt::format(", {} an epoch", seconds_text(epoch_seconds(chosen))) : "");
  for (const std::string& reason : reasons()) text += fmt::format("  {}\n", reason);
  if (noise_) text += fmt::format("  {}\n", noise_->text(static_cast<double>(config_.train.batch_size)));
  for (const std::string& key : chosen.way->settings) text += fmt::format("  --set '{}'\n", key);
  return text + fmt::format("  start it by: {}unisono train {}", launcher(chosen.made.ranks), config_path);
}

nlohmann::ordered_json Comparison::json_of(const Line& line) const {
  const Prediction& made = line.made;
  nlohmann::ordered_json json = {{"way", line.way->name},
                                 {"as_configured", line.way->is_asked_for},
                                 {"result", line.way->result},
                                 {"result_is_close", line.way->is_close || made.makes_serial_steps},
                                 {"settings", line.way->settings},
                                 {"hosts", made.ranks.hosts},
                                 {"ranks_per_host", made.ranks.per_host},
                                 {"stages", made.stages},
                                 {"tensor", made.tensor},
                                 {"micro_batches", line.way->config.train.micro_batches},
                                 {"threads", made.threads > 0 ? made.threads : profile_.threads},
                                 {"serial_steps", made.makes_serial_steps},
                                 {"examples_per_second", made.examples_per_second},
                                 {"seconds",
                                  {{"step", made.seconds()},
                                   {"gradient", made.gradient},
                                   {"update", made.update},
                                   {"messages", made.messages},
                                   {"waiting", made.exposed + made.boundaries},
                                   {"bubble", made.bubble}}},
                                 {"sent_bytes_per_host", made.sent_bytes},
                                 {"layer_bytes_per_rank", made.layer_bytes},
                                 {"memory_bytes", made.memory_bytes},
                                 {"fits", fits(line)},
                                 {"efficiency", made.efficiency}};
  if (knows_epochs()) {
    json["epoch_seconds"] = epoch_seconds(line);
    json["node_hours_per_epoch"] = epoch_seconds(line) * made.ranks.hosts / 3600;
  }
  return json;
}

nlohmann::ordered_json Comparison::json() const {
  nlohmann::ordered_json json = {{"name", config_.name}, {"batch_size", step_examples()}};
  json["predictions"] = nlohmann::ordered_json::array();
  for (const auto* lines : {&lines_, &over_limit_}) {
    for (const Line& line : *lines) json["predictions"].push_back(json_of(line));
  }
  json["not_possible"] = nlohmann::ordered_json::array();
  for (const UnfitWay& way : unfit_) json["not_possible"].push_back({{"way", way.name}, {"why", way.why}});
  json["recommended"] = json_of(recommended());
  json["reasons"] = reasons();
  if (noise_) json["gradient_noise"] = noise_->json();
  return json;
}

}  // namespace unisono::planning
