#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "plan/comparison.hpp"
#include "plan/grade.hpp"
#include "plan/measure.hpp"
#include "plan/noise.hpp"
#include "plan/pipelines.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::planning {
namespace {

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
    if (model.alternating() != nullptr) {
      throw ConfigError(
          fmt::format("plan: it does not know optimizer.kind = \"{}\"; train for an epoch instead, and see the speed "
                      "in the summary",
                      config.optimizer.kind));
    }
  } else if (model.in_place() != nullptr || model.staged() == nullptr) {
    throw ConfigError(
        fmt::format("plan: it predicts networks, but model.kind = \"{}\" is none; train for an epoch "
                    "instead, and see the speed in the summary",
                    config.model.kind));
  }
  if (config.divides_layers() && (config.replica.tensor == 1 || config.stages() > 1)) {
    throw ConfigError(
        "plan: it predicts layers that ranks share, without pipelines; set replica.tensor to 2 or more and "
        "replica.stages to 1, or replica.tensor to 1 and replica.tensor_leaves to 0");
  }
  if (config.is_placed_automatically()) {
    throw ConfigError(
        "plan: it chooses the stages of pipelines by itself; set train.batch_size, train.micro_batches and "
        "replica.stages to numbers, and remove replica.recompute = \"auto\", and memory and speed of "
        "[replica.placement]");
  }
  if (config.train.accumulate != 1 || (config.replica.stages == 1 && config.train.micro_batches != 1)) {
    throw ConfigError(
        "plan: it predicts steps whose examples each rank takes at once, or those of pipelines; set "
        "train.micro_batches and train.accumulate to 1, or replica.stages to 2 or more");
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
/// \param segments of the network; those of one alone are no pipelines
std::vector<Index> examples_to_measure(const settings::Config& config, int segments, int per_host,
                                       const std::vector<int>& hosts) {
  constexpr std::size_t kMost = 6;
  if (config.whole_batch()) return {};  // portions of the set are
  const Index batch = config.train.batch_size;
  std::set<Index> wanted = {batch, std::max<Index>(1, batch / per_host)};
  if (config.replica.tensor > 1) {
    for (const int number : hosts) {
      wanted.insert(std::clamp<Index>(batch * config.replica.tensor / (per_host * number), 1, batch));
    }
  }
  if (config.replica.stages > 1) wanted.insert(std::max<Index>(1, batch / config.train.micro_batches));
  for (const int number : hosts) {
    const int ranks = per_host * number;
    wanted.insert(std::max<Index>(1, batch / ranks));
    if (ranks > 1 && segments > 1) wanted.insert(std::max<Index>(1, batch / (kMostMicroBatches * ranks)));
  }
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

/// Threads of a rank, as the config names them; 0: it leaves them open.
std::int64_t& threads_of(settings::Config& config) {
  return strategies::traits_of(config.strategy).shares_model ? config.strategy.threads : config.train.threads;
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
    if (given.simulation.is_on()) {
      throw ConfigError(
          fmt::format("--grade {}: its ranks were simulated, but plan predicts real ones; name a run of unisono train",
                      options.grade));
    }
  }
  if (!options.noise.empty() && options.data) {
    throw ConfigError("--noise-scale reads the run's training examples: leave --features and --vocabulary out");
  }
  if (given.whole_batch()) {
    if (options.data) {
      throw ConfigError(
          "plan: it measures portions of the training set, which a whole-batch method passes over: leave --features "
          "and --vocabulary out");
    }
    if (!options.noise.empty()) {
      throw ConfigError(
          fmt::format("--noise-scale: it says how many examples a step should have, but a step of optimizer.kind = "
                      "\"{}\" takes the whole set; leave it out",
                      given.optimizer.kind));
    }
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
  if (!options.grade.empty()) {
    happened = read_happened(options.grade, static_cast<double>(examples_of_step(given, data)));
    if (threads_of(given) == 0) threads_of(given) = happened->threads;
  }
  settings::Config config = session::settle(given, data).config;
  const bool is_simulated = config.simulation.is_on();
  config.simulation = {};  // what is predicted is real ranks
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer alone;
  const models::ModelContext context = session::model_context(*backend, alone, true, config);
  const auto model = models::make_model(config.model, inputs, context);
  require_plannable(config, *model);
  session::require_method(config, *model, data);
  Ways ways = ways_of(config, options.models);
  for (Way& way : ways.fit) {
    if (is_simulated) way.settings.insert(way.settings.begin(), "simulation.ranks=0");
  }
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
  const int segments =
      model->staged() == nullptr ? 1 : static_cast<int>(model->staged()->network().cut_points().size()) + 1;
  const std::int64_t memory_bytes =
      profile ? 0
              : world.max(memory_of_rank(planning::alone(config), {}, *backend, data, process_bytes, /*tries=*/false));
  const Measured measured{config,   inputs,      data, *model, examples_to_measure(config, segments, per_host, hosts),
                          ways.fit, memory_bytes};
  Log silent(world.rank(), /*terminal=*/false);
  if (!profile) profile = measure_profile(world, measured, options.json ? silent : log);
  if (!world.is_root()) return;
  require_same_model(*profile, options.profile, measured);
  const std::int64_t wanted = threads_of(given);
  if (wanted > 0 && wanted != profile->threads) {
    throw ConfigError(
        fmt::format("--profile {}: it is of ranks with {}, but the config asks for {}; set it alike, or measure",
                    options.profile, count_of(profile->threads, "thread"), wanted));
  }
  if (!options.save_profile.empty()) write_file(options.save_profile, text_of(*profile));
  const bool measured_links = take_link(options, *profile);
  if (happened) require_ranks_of_run(*happened, *profile);
  Comparison made(config, *profile, data, ways);
  if (noise) made.add(*noise);
  if (happened) profile->memory_mebibytes = 0;  // a run that has ended had what it needed
  made.predict({*profile, *model, *backend, data, process_bytes, measured_links}, hosts, !happened);
  if (happened) return give_grade(Grade(made.prediction_for(happened->ranks), *happened, profile->cpu), options, log);
  log.info(options.json ? records::json_line(made.json())
                        : made.text(options.write.empty() ? "CONFIG" : options.write));
  if (!options.write.empty()) write_file(options.write, settings::effective_config(made.recommended().way->config));
}

}  // namespace unisono::planning
