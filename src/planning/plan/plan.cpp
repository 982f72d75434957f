#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "plan/grade.hpp"
#include "plan/measure.hpp"
#include "plan/noise.hpp"
#include "plan/prediction.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::planning {
namespace {

constexpr double kAsGood = 0.9;           // of the speed of the fastest; who needs fewer hosts for it is preferred
constexpr double kWorthOtherSteps = 1.2;  // times as fast as the serial run's steps

/// A line of the table.
struct Line {
  const Way* way;
  Prediction made;
};

void require_writable(const std::string& path, bool overwrite, const char* option) {
  if (path.empty()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  std::string problem;
  if (std::filesystem::is_directory(path)) {
    problem = "it is a folder; name a file";
  } else if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    problem = fmt::format("there is no folder {}; make it, or choose another one", folder.string());
  } else if (!overwrite && std::filesystem::exists(path)) {
    problem = "the file exists already; choose another name, or set --overwrite";
  }
  if (!problem.empty()) throw ConfigError(fmt::format("{} {}: {}", option, path, problem));
}

void write_file(const std::string& path, const std::string& text) {
  if (records::try_to_write_text_file(path, text).empty()) return;
  throw ConfigError(fmt::format("{} cannot be written: check the folder and its permissions", path));
}

void require_plannable(const settings::Config& config, const models::Model& model) {
  if (config.whole_batch()) {
    throw ConfigError(
        fmt::format("plan: it predicts steps of mini-batches, but optimizer.kind = \"{}\" passes over a "
                    "whole set; train instead, and see the speed in the summary",
                    config.optimizer.kind));
  }
  if (model.in_place() != nullptr || model.staged() == nullptr) {
    throw ConfigError(
        fmt::format("plan: it predicts networks, but model.kind = \"{}\" is none; train for an epoch "
                    "instead, and see the speed in the summary",
                    config.model.kind));
  }
  if (config.replica.stages != 1 || config.replica.tensor != 1) {
    throw ConfigError(
        "plan: it predicts replicas of one rank; set replica.stages and replica.tensor to 1, or see unisono info");
  }
  if (config.needs_placement() || config.train.accumulate != 1 || config.train.micro_batches != 1) {
    throw ConfigError(
        "plan: it predicts steps of a given number of examples, each rank's at once; set train.batch_size to a number, "
        "and train.micro_batches and train.accumulate to 1");
  }
  if (config.device == settings::DeviceChoice::cuda)
    throw ConfigError("plan: it predicts CPUs only; set device = \"cpu\"");
  if (config.fault.is_on()) throw ConfigError("plan: it measures at full speed; remove [fault]");
}

/// The numbers of hosts, in ascending order; one host is always looked at.
std::vector<int> hosts_of(const PlanOptions& options, const Profile& profile) {
  std::set<int> hosts(options.hosts.begin(), options.hosts.end());
  hosts.insert(1);
  if (options.hosts.empty()) hosts.insert(static_cast<int>(profile.hosts));
  return {hosts.begin(), hosts.end()};
}

/// Numbers of examples of a rank that predictions ask for, so many that lines between them are short.
std::vector<Index> examples_to_measure(Index batch, int per_host, const std::vector<int>& hosts) {
  constexpr std::size_t kMost = 6;
  std::set<Index> wanted = {batch, std::max<Index>(1, batch / per_host)};
  for (const int number : hosts) wanted.insert(std::max<Index>(1, batch / (per_host * number)));
  std::vector<Index> all(wanted.begin(), wanted.end());
  while (all.size() > kMost) {  // leaves out what is nearest to its neighbours
    std::size_t least = 1;
    const auto ratio = [&](std::size_t i) { return static_cast<double>(all[i + 1]) / static_cast<double>(all[i - 1]); };
    for (std::size_t i = 1; i + 1 < all.size(); ++i) least = ratio(i) < ratio(least) ? i : least;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(least));
  }
  if (all.size() == 1) all.push_back(2 * all.front());
  return all;
}

/// \param known whether the link between hosts was measured
void require_link(const PlanOptions& options, const std::vector<int>& hosts, bool known) {
  if (hosts.back() == 1 || known || options.link_mbit > 0) return;
  throw ConfigError(fmt::format(
      "plan: nothing is known of the link between {} hosts: start the command on two hosts or more, or say how fast it "
      "is (--link-mbit 1000)",
      hosts.back()));
}

/// The link that was asked for, in place of what was measured. \return whether it is as measured
bool take_link(const PlanOptions& options, Profile& profile) {
  constexpr double kUsualMicroseconds = 50, kBitsOfByte = 8;
  if (options.link_mbit == 0) return true;
  profile.between_hosts = {
      .microseconds = options.link_microseconds > 0 ? options.link_microseconds : kUsualMicroseconds,
      .megabytes_per_second = options.link_mbit / kBitsOfByte};
  return false;
}

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

/// What is predicted of a config.
class Plan {
 public:
  Plan(const settings::Config& config, const Profile& profile, const data::DatasetInfo& data, const Ways& ways)
      : config_(config), profile_(profile), data_(data), ways_(ways) {}

  void predict(const Planned& planned, const std::vector<int>& hosts);
  /// \param config_path of the recommended config, for the command that starts it
  std::string text(const std::string& config_path) const;
  nlohmann::ordered_json json() const;
  const Line& recommended() const;
  /// Says what steps are worth by the gradient's noise.
  void add(GradientNoise noise) { noise_ = std::move(noise); }
  /// \throws ConfigError where the way does not suit these ranks
  const Prediction& prediction_for(const Ranks& ranks) const;

 private:
  double epoch_seconds(const Line& line) const {
    return static_cast<double>(data_.train) / line.made.examples_per_second;
  }
  template <typename Suits>
  const Line* fastest(const Suits& suits) const;
  const Line& frugal(const Line& fastest) const;
  std::vector<std::string> reasons() const;
  std::string table() const;
  nlohmann::ordered_json json_of(const Line& line) const;

  const settings::Config& config_;
  const Profile& profile_;
  const data::DatasetInfo& data_;
  const Ways& ways_;
  std::vector<Line> lines_;  ///< the fastest first
  std::vector<UnfitWay> unfit_;
  std::optional<GradientNoise> noise_;
};

void Plan::predict(const Planned& planned, const std::vector<int>& hosts) {
  unfit_ = ways_.unfit;
  std::set<Ranks> all = {{1, 1}};
  for (const int number : hosts) {
    const Ranks ranks{number, static_cast<int>(profile_.ranks_per_host)};
    if (config_.train.batch_size >= ranks.all()) {
      all.insert(ranks);
    } else {
      unfit_.push_back(
          {ranks_text(ranks), fmt::format("a step has {}, fewer than there are ranks; raise train.batch_size",
                                          count_of(config_.train.batch_size, "example"))});
    }
  }
  for (const Way& way : ways_.fit) {
    const auto strategy = strategies::make_strategy(way.config.strategy);
    std::string why;
    bool fits = false;
    for (const Ranks& ranks : all) {
      if (ranks.all() == 1 && !strategy->traits().on_one_rank) continue;
      try {
        strategies::require_fit(*strategy, planned.model, ranks.all());
      } catch (const strategies::UnfitStrategy& error) {
        continue;
      } catch (const ConfigError& error) {
        why = error.what();
        continue;
      }
      const auto traffic = strategy->traffic(planned.model, ranks.all(), 0);
      if (!traffic) {
        why = "its messages are not known to plan";
        continue;
      }
      if (traffic->encoder &&
          std::ranges::find(profile_.encoders, way.name, &EncoderSpeed::of) == profile_.encoders.end()) {
        why = "the profile does not say how fast its messages are made";
        continue;
      }
      lines_.push_back({&way, planning::predict(planned, way, ranks)});
      fits = true;
    }
    if (!fits && !why.empty()) unfit_.push_back({way.name, why});
  }
  std::ranges::stable_sort(lines_, std::greater<>(), [](const Line& line) { return line.made.examples_per_second; });
  if (!lines_.empty()) return;
  std::string text = "plan: no way of training is possible here";
  for (const UnfitWay& way : unfit_) text += fmt::format("; {}: {}", way.name, way.why);
  throw ConfigError(text);
}

/// The fastest line that `suits`; null: none does.
template <typename Suits>
const Line* Plan::fastest(const Suits& suits) const {
  const auto found = std::ranges::find_if(lines_, suits);
  return found == lines_.end() ? nullptr : &*found;
}

/// Of the lines with such steps that are about as fast, the one with the fewest hosts, and then ranks.
const Line& Plan::frugal(const Line& fastest) const {
  const Line* best = &fastest;
  for (const Line& line : lines_) {
    const bool alike = line.made.makes_serial_steps || line.way == fastest.way;
    const bool as_good = line.made.examples_per_second >= kAsGood * fastest.made.examples_per_second;
    const auto size = [](const Line& one) { return std::pair(one.made.ranks.hosts, one.made.ranks.all()); };
    if (alike && as_good && size(line) < size(*best)) best = &line;
  }
  return *best;
}

bool makes_serial_steps(const Line& line) { return line.made.makes_serial_steps; }
bool is_close(const Line& line) { return line.made.makes_serial_steps || line.way->is_close; }
bool is_alone(const Line& line) { return line.made.ranks.all() == 1; }

const Line& Plan::recommended() const {
  const Line *const close = fastest(is_close), *const serial = fastest(makes_serial_steps);
  const Line& any = close == nullptr ? lines_.front() : *close;
  const bool worth =
      serial == nullptr || any.made.examples_per_second > kWorthOtherSteps * serial->made.examples_per_second;
  return frugal(worth ? any : *serial);
}

const Prediction& Plan::prediction_for(const Ranks& ranks) const {
  const Line* const found = fastest([&](const Line& line) { return line.made.ranks == ranks; });
  if (found != nullptr) return found->made;
  throw ConfigError(fmt::format("--grade: nothing is predicted of {}{}", ranks_text(ranks),
                                unfit_.empty() ? "" : fmt::format("; {}: {}", unfit_[0].name, unfit_[0].why)));
}

std::vector<std::string> Plan::reasons() const {
  const Line &chosen = recommended(), &any = lines_.front();
  const Line *const serial = fastest(makes_serial_steps), *const alone = fastest(is_alone);
  std::vector<std::string> reasons;
  const auto ratio = [](const Line& a, const Line& b) {
    return a.made.examples_per_second / b.made.examples_per_second;
  };
  if (alone != nullptr && &chosen != alone)
    reasons.push_back(fmt::format("{:.2g} times as fast as one rank alone", ratio(chosen, *alone)));
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

std::string Plan::table() const {
  const bool epochs = data_.train > 0;
  std::string text =
      fmt::format("  {:>14} {:>12} {:>10}{} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}  {}\n", "hosts × ranks",
                  "examples/s", "a step", epochs ? fmt::format(" {:>10}", "an epoch") : "", "computing", "messages",
                  "waiting", "sent", "memory", "of ranks", "way");
  for (const Line& line : lines_) {
    const Prediction& made = line.made;
    text += fmt::format(
        "  {:>14} {:>12} {:>10}{} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6.0f} %  {}\n",
        fmt::format("{} × {}", made.ranks.hosts, made.ranks.per_host), grouped(std::llround(made.examples_per_second)),
        seconds_text(made.seconds()), epochs ? fmt::format(" {:>10}", seconds_text(epoch_seconds(line))) : "",
        seconds_text(made.gradient + made.update), seconds_text(made.messages), seconds_text(made.exposed),
        session::bytes_text(made.sent_bytes), session::bytes_text(static_cast<double>(made.memory_bytes)),
        100 * made.efficiency, line.way->name);
  }
  return text;
}

std::string Plan::text(const std::string& config_path) const {
  const Line& chosen = recommended();
  std::string text =
      fmt::format("{}: {} a step, ranks of {} on {}; predictions, the fastest first\n", config_.name,
                  count_of(config_.train.batch_size, "example"), count_of(profile_.threads, "thread"), profile_.cpu);
  text += table();
  text +=
      "  messages: compressing, mixing and copying them; sent: by a host to others, in a step; of ranks: of the speed "
      "of so many ranks that are each as fast as one alone\n";
  for (const UnfitWay& way : unfit_) text += fmt::format("  not possible here: {}: {}\n", way.name, way.why);
  text += fmt::format("recommended: {} on {}{}\n", chosen.way->name, ranks_text(chosen.made.ranks),
                      data_.train > 0 ? fmt::format(", {} an epoch", seconds_text(epoch_seconds(chosen))) : "");
  for (const std::string& reason : reasons()) text += fmt::format("  {}\n", reason);
  if (noise_) text += fmt::format("  {}\n", noise_->text(static_cast<double>(config_.train.batch_size)));
  for (const std::string& key : chosen.way->settings) text += fmt::format("  --set '{}'\n", key);
  return text + fmt::format("  start it by: {}unisono train {}", launcher(chosen.made.ranks), config_path);
}

nlohmann::ordered_json Plan::json_of(const Line& line) const {
  const Prediction& made = line.made;
  nlohmann::ordered_json json = {{"way", line.way->name},
                                 {"as_configured", line.way->is_asked_for},
                                 {"result", line.way->result},
                                 {"result_is_close", line.way->is_close || made.makes_serial_steps},
                                 {"settings", line.way->settings},
                                 {"hosts", made.ranks.hosts},
                                 {"ranks_per_host", made.ranks.per_host},
                                 {"threads", profile_.threads},
                                 {"serial_steps", made.makes_serial_steps},
                                 {"examples_per_second", made.examples_per_second},
                                 {"seconds",
                                  {{"step", made.seconds()},
                                   {"gradient", made.gradient},
                                   {"update", made.update},
                                   {"messages", made.messages},
                                   {"waiting", made.exposed}}},
                                 {"sent_bytes_per_host", made.sent_bytes},
                                 {"memory_bytes", made.memory_bytes},
                                 {"efficiency", made.efficiency}};
  if (data_.train > 0) {
    json["epoch_seconds"] = epoch_seconds(line);
    json["node_hours_per_epoch"] = epoch_seconds(line) * made.ranks.hosts / 3600;
  }
  return json;
}

nlohmann::ordered_json Plan::json() const {
  nlohmann::ordered_json json = {{"name", config_.name}, {"batch_size", config_.train.batch_size}};
  json["predictions"] = nlohmann::ordered_json::array();
  for (const Line& line : lines_) json["predictions"].push_back(json_of(line));
  json["not_possible"] = nlohmann::ordered_json::array();
  for (const UnfitWay& way : unfit_) json["not_possible"].push_back({{"way", way.name}, {"why", way.why}});
  json["recommended"] = json_of(recommended());
  json["reasons"] = reasons();
  if (noise_) json["gradient_noise"] = noise_->json();
  return json;
}

/// Ranks must be as many as the run had, so that what they measure is what it met.
void require_ranks_of_run(const Happened& happened, const Profile& profile) {
  const Ranks now{static_cast<int>(profile.hosts), static_cast<int>(profile.ranks_per_host)};
  const bool alike = now.per_host == happened.ranks.per_host && profile.threads == happened.threads;
  if (alike && (now.hosts == happened.ranks.hosts || profile.between_hosts.megabytes_per_second > 0)) return;
  throw ConfigError(fmt::format("--grade {}: the run had {} × {} of {}, but these are {} × {} of {}; start as many",
                                happened.folder, count_of(happened.ranks.hosts, "host"),
                                count_of(happened.ranks.per_host, "rank"), count_of(happened.threads, "thread"),
                                count_of(now.hosts, "host"), count_of(now.per_host, "rank"),
                                count_of(profile.threads, "thread")));
}

void give_grade(const Grade& grade, const PlanOptions& options, Log& log) {
  log.info(options.json ? records::json_line(grade.json()) : grade.text());
  write_file(options.grade + "/prediction.json", grade.json().dump(2) + "\n");
}

}  // namespace

void plan(comm::Communicator& world, const settings::Config& asked, const PlanOptions& options, Log& log) {
  settings::Config given = asked;
  std::optional<Happened> happened;
  if (!options.grade.empty()) {
    if (!options.hosts.empty() || !options.write.empty() || options.data) {
      throw ConfigError(
          "--grade compares with a run on its own hosts and data: leave --hosts, --write, --features and --vocabulary "
          "out");
    }
    happened = read_happened(options.grade, static_cast<double>(given.train.batch_size));
    if (given.train.threads == 0) given.train.threads = happened->threads;
  }
  if (!options.noise.empty() && options.data) {
    throw ConfigError("--noise-scale reads the run's training examples: leave --features and --vocabulary out");
  }
  if (world.is_root()) {
    require_writable(options.write, options.overwrite, "--write");
    require_writable(options.save_profile, options.overwrite, "--save-profile");
  }
  if (!options.write.empty() && options.data) {
    throw ConfigError(
        "--write: the config would have no data, because shapes are given in their place; leave --features or "
        "--vocabulary out, or set the keys that plan prints");
  }
  const models::ModelInputs inputs = shapes_of(given, options.data);
  const data::DatasetInfo data = options.data ? session::set_like(inputs) : data::inspect_dataset(given.data);
  const settings::Config config = session::settle(given, data).config;
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer alone;
  const models::ModelContext context = session::model_context(*backend, alone, true, config);
  const auto model = models::make_model(config.model, inputs, context);
  require_plannable(config, *model);
  Ways ways = ways_of(config, options.models);
  if (happened) {
    ways.unfit.clear();
    ways.fit.resize(1);  // the run's own
  }

  const std::int64_t process_bytes = world.max(session::resident_memory_bytes());
  std::optional<GradientNoise> noise;
  if (!options.noise.empty()) noise = measure_noise(world, config, options.noise, log);
  std::optional<Profile> profile;
  if (!options.profile.empty()) profile = read_profile(options.profile);
  const int per_host = profile ? static_cast<int>(profile->ranks_per_host) : world.node_size();
  const Profile started{.hosts = world.size() / per_host};
  const std::vector<int> hosts =
      happened ? std::vector<int>{1, happened->ranks.hosts} : hosts_of(options, profile ? *profile : started);
  require_link(options, hosts, profile ? profile->between_hosts.megabytes_per_second > 0 : started.hosts > 1);
  const Measured measured{config, inputs, *model, examples_to_measure(config.train.batch_size, per_host, hosts),
                          ways.fit};
  Log silent(world.rank(), /*terminal=*/false);
  if (!profile) profile = measure_profile(world, measured, options.json ? silent : log);
  if (!world.is_root()) return;
  require_same_model(*profile, options.profile, measured);
  const std::int64_t wanted = config.train.threads;
  if (wanted > 0 && wanted != profile->threads) {
    throw ConfigError(
        fmt::format("--profile {}: it is of ranks with {}, but train.threads is {}; set it alike, or measure",
                    options.profile, count_of(profile->threads, "thread"), wanted));
  }
  if (!options.save_profile.empty()) write_file(options.save_profile, text_of(*profile));
  const bool measured_links = take_link(options, *profile);
  if (happened) require_ranks_of_run(*happened, *profile);
  Plan made(config, *profile, data, ways);
  if (noise) made.add(*noise);
  made.predict({*profile, *model, *backend, data, process_bytes, measured_links}, hosts);
  if (happened) return give_grade(Grade(made.prediction_for(happened->ranks), *happened, profile->cpu), options, log);
  log.info(options.json ? records::json_line(made.json())
                        : made.text(options.write.empty() ? "CONFIG" : options.write));
  if (!options.write.empty()) write_file(options.write, settings::effective_config(made.recommended().way->config));
}

}  // namespace unisono::planning
