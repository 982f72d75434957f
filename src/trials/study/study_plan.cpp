#include "unisono/trials/study_plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::trials {

std::string StudyPlan::run_folder(const StudyTraining& training) const {
  return fmt::format("{}/runs/{}/seed-{}", folder, training.variant->folder, training.seed);
}

std::vector<StudyTraining> trainings_of(const StudyPlan& plan) {
  std::vector<StudyTraining> trainings;
  if (plan.optimum) trainings.push_back({&*plan.optimum, plan.first_seed});
  for (std::int64_t seed = plan.first_seed; seed < plan.first_seed + plan.settings.seeds; ++seed) {
    for (const Variant& variant : plan.variants) trainings.push_back({&variant, seed});
  }
  return trainings;
}

const StudyRecord* find_record(const std::vector<StudyRecord>& records, const StudyTraining& training) {
  const auto found = std::ranges::find_if(records, [&](const StudyRecord& record) {
    return record.variant == training.variant->identity && record.seed == training.seed;
  });
  return found == records.end() ? nullptr : &*found;
}

std::optional<records::TrialRun> StudyProgress::next() const {
  const auto missing = running_ || begins_no_more_ ? std::nullopt : first_missing();
  return missing ? std::optional(records::TrialRun{.trial = *missing}) : std::nullopt;
}

std::optional<std::int64_t> StudyProgress::first_missing() const {
  const auto found = std::ranges::find_if(
      trainings_, [&](const StudyTraining& training) { return find_record(records_, training) == nullptr; });
  return found == trainings_.end() ? std::nullopt : std::optional<std::int64_t>(found - trainings_.begin());
}

namespace {

nlohmann::json known(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

double number(const nlohmann::json& json) { return json.is_null() ? kUnknown : json.get<double>(); }

nlohmann::json distance_json(const ModelDistance& distance) {
  if (!distance.known) return {};
  return {{"different_parameters", distance.different},
          {"relative", known(distance.relative)},
          {"largest", known(distance.largest)},
          {"predictions", known(distance.predictions)},
          {"classes", known(distance.classes)}};
}

ModelDistance distance_from(const nlohmann::json& json) {
  if (json.is_null()) return {};
  return {.known = true,
          .different = json.at("different_parameters"),
          .relative = number(json.at("relative")),
          .largest = number(json.at("largest")),
          .predictions = number(json.at("predictions")),
          .classes = number(json.at("classes"))};
}

}  // namespace

nlohmann::json to_json(const StudyRecord& record) {
  nlohmann::json curve = nlohmann::json::array();
  for (const CurvePoint& point : record.curve)
    curve.push_back({point.updates, point.examples, point.seconds, known(point.value)});
  return {{"way", record.variant},
          {"seed", record.seed},
          {"diverged", record.diverged},
          {"message", record.message},
          {"value", known(record.value)},
          {"loss", known(record.loss)},
          {"objective", known(record.objective)},
          {"steps", record.steps},
          {"examples", record.examples},
          {"seconds", nlohmann::json(records::to_json(record.seconds))},
          {"curve", curve},
          {"distance", distance_json(record.distance)}};
}

StudyRecord study_record_from(const nlohmann::json& json) {
  StudyRecord record{.variant = json.at("way"),
                     .seed = json.at("seed"),
                     .diverged = json.at("diverged"),
                     .message = json.at("message"),
                     .value = number(json.at("value")),
                     .loss = number(json.at("loss")),
                     .objective = number(json.at("objective")),
                     .steps = json.at("steps"),
                     .examples = json.at("examples"),
                     .seconds = records::seconds_from(json.at("seconds")),
                     .distance = distance_from(json.at("distance"))};
  for (const nlohmann::json& point : json.at("curve"))
    record.curve.push_back({point.at(0), point.at(1), point.at(2), number(point.at(3))});
  return record;
}

namespace {

/// An entry of study.variants, which is a variant for each of its numbers of ranks and threads.
struct VariantSpec {
  std::string place;  ///< "configs/study.toml:20:3: study.variants[2]"
  std::string name = {};
  std::vector<std::int64_t> ranks = {}, threads = {};
  std::vector<std::string> overrides = {}, removals = {};

  [[noreturn]] void fail(const std::string& what) const { throw ConfigError(place + ": " + what); }
};

/// What a variant may not set, and why.
constexpr std::pair<std::string_view, std::string_view> kRefused[] = {
    {"seed", "all ways are trained with the same seeds: see study.seeds"},
    {"output", "runs are written below the study's folder: see --output"},
    {"study", "a variant has no study of its own"},
    {"train.threads", "write threads = [2] as a key of the variant"}};

std::vector<std::int64_t> numbers(const VariantSpec& spec, const std::string& key, const ConfigValue& value) {
  std::vector<std::int64_t> found;
  const auto add = [&](const ConfigValue& one) {
    const auto* number = std::get_if<std::int64_t>(&one.value);
    if (number == nullptr || *number < 1)
      spec.fail(fmt::format("{} = {}: whole numbers above 0 are expected, as in [1, 2, 4]", key, toml_text(value)));
    if (std::ranges::find(found, *number) != found.end())
      spec.fail(fmt::format("{} = {}: {} is there twice", key, toml_text(value), *number));
    found.push_back(*number);
  };
  if (value.array() == nullptr) {
    add(value);
  } else {
    for (const ConfigValue& one : *value.array()) add(one);
  }
  if (found.empty()) spec.fail(fmt::format("{} = []: names none; leave it out for 1", key));
  return found;
}

/// Adds overrides for a key and what is in it. A table with a kind is a whole; of another, each key is one.
void add_overrides(VariantSpec& spec, const std::string& key, const ConfigValue& value) {
  for (const auto& [refused, why] : kRefused) {
    if (key == refused) spec.fail(fmt::format("'{}': {}; remove it", key, why));
  }
  if (value.table() == nullptr || value.find("kind") != nullptr || value.table()->empty()) {
    spec.overrides.push_back(key + "=" + toml_text(value));
    return;
  }
  for (const auto& [inner, part] : *value.table()) add_overrides(spec, key + "." + inner, part);
}

/// "averaging (period 16)", "learning_rate 5", from what is changed.
std::string name_for(const ConfigValue::Table& table) {
  std::string kind, rest;
  const auto add = [&rest](const std::string& key, const ConfigValue& value) {
    const auto* word = std::get_if<std::string>(&value.value);
    rest += fmt::format("{}{} {}", rest.empty() ? "" : ", ", key, word != nullptr ? *word : toml_text(value));
  };
  const auto visit = [&](const auto& self, const std::string& key, const ConfigValue& value) -> void {
    if (value.table() == nullptr) return add(key, value);
    for (const auto& [inner, part] : *value.table()) {
      const auto* word = std::get_if<std::string>(&part.value);
      if (inner == "kind" && key == "strategy" && word != nullptr) {
        kind = *word;
      } else {
        self(self, inner == "kind" ? key : inner, part);
      }
    }
  };
  for (const auto& [key, value] : table) {
    if (key != "name" && key != "ranks" && key != "threads" && key != "unset") visit(visit, key, value);
  }
  if (kind.empty()) return rest.empty() ? "as the config says" : rest;
  return rest.empty() ? kind : fmt::format("{} ({})", kind, rest);
}

/// The keys of unset = ["train.batch_size"].
std::vector<std::string> keys_of(const VariantSpec& spec, const ConfigValue& value) {
  std::vector<std::string> keys;
  const ConfigValue::Array one = {value};
  for (const ConfigValue& key : value.array() != nullptr ? *value.array() : one) {
    const auto* name = std::get_if<std::string>(&key.value);
    if (name == nullptr) spec.fail("unset: keys of the config are expected, as in [\"train.batch_size\"]");
    keys.push_back(*name);
  }
  return keys;
}

/// A variant, for messages. \param more after the first number of ranks
std::string example(const char* more = "") {
  return fmt::format("{{ strategy = {{ kind = \"{}\" }}, ranks = [2{}] }}", strategies::default_kind(), more);
}

VariantSpec spec_of(const ConfigValue& value, std::size_t number, const std::string& path) {
  VariantSpec spec{.place = fmt::format("{}: study.variants[{}]", value.place.empty() ? path : value.place, number)};
  if (value.table() == nullptr) spec.fail("a table is expected, as in " + example(", 4"));
  for (const auto& [key, part] : *value.table()) {
    if (key == "name") {
      const auto* name = std::get_if<std::string>(&part.value);
      if (name == nullptr || name->empty()) spec.fail("name is a text that is not empty");
      spec.name = *name;
    } else if (key == "unset") {
      spec.removals = keys_of(spec, part);
    } else if (key == "ranks" || key == "threads") {
      (key == "ranks" ? spec.ranks : spec.threads) = numbers(spec, key, part);
    } else {
      const std::string nearest = nearest_name(key, {"name", "ranks", "threads", "unset"});
      if (!nearest.empty()) spec.fail(fmt::format("unknown key '{}'; did you mean '{}'?", key, nearest));
      add_overrides(spec, key, part);
    }
  }
  if (spec.name.empty()) spec.name = name_for(*value.table());
  if (spec.ranks.empty()) spec.ranks = {1};
  return spec;
}

/// "averaging (period 16), 4 ranks" → "averaging-period-16-4-ranks"
std::string folder_for(const std::string& text, std::set<std::string>& taken) {
  std::string folder;
  for (const char letter : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.';
    if (plain) {
      folder += letter;
    } else if (!folder.empty() && folder.back() != '-') {
      folder += '-';
    }
  }
  constexpr std::size_t kLongest = 80;
  folder.resize(std::min(folder.size(), kLongest));
  while (!folder.empty() && (folder.back() == '-' || folder.back() == '.')) folder.pop_back();
  if (folder.empty() || folder.front() == '.') folder = "way" + folder;
  std::string unique = folder;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}-{}", folder, i);
  return unique;
}

/// The key and value of an override in a message are the variant's, and not a --set of the user's.
std::string without_set(std::string message) {
  for (const std::string_view option : {"--set ", "--un"}) {
    if (message.starts_with(option)) message.erase(0, option == "--un" ? 2 : option.size());
  }
  return message;
}

using strategies::StrategyTraits;

/// The override that takes the strategy with a trait.
std::string strategy_with(bool StrategyTraits::*trait) {
  return fmt::format("strategy={{ kind = \"{}\" }}", strategies::kind_with(trait));
}

/// What the serial run is called.
std::string name_of_reference() { return strategies::kind_with(&StrategyTraits::on_one_rank); }

Variant variant_of(const ConfigText& text, const models::ModelKinds& models, std::string name, int ranks) {
  Variant variant{.name = std::move(name),
                  .folder = {},
                  .config = settings::parse_config(text, models),
                  .ranks = ranks,
                  .identity = {}};
  variant.identity =
      fmt::format("{:016x}", hash_bytes(settings::effective_config(variant.config) + fmt::format("ranks = {}", ranks)));
  return variant;
}

void require_numbers(const settings::Config& config, const std::string& path) {
  if (!config.is_placed_automatically()) return;
  throw ConfigError(path +
                    ": a study compares the same steps: give numbers for train.batch_size and train.micro_batches, and "
                    "leave the placement to nobody (replica.stages, replica.placement)");
}

/// Measured anew for each training, it would be another one each time.
void require_given_time(const settings::Config& config, const std::string& path) {
  if (!config.simulation.is_on() || config.simulation.microseconds_per_example > 0) return;
  throw ConfigError(path +
                    ": simulated trainings that are compared need the same simulation.microseconds_per_example: "
                    "set it, e.g. to what `unisono simulate` measures");
}

void require_ranks(const VariantSpec& spec, std::int64_t needed, int ranks) {
  if (needed <= ranks) return;
  spec.fail(fmt::format("ranks = {}, but this job has {}: start it with mpirun -n {}, or ask for fewer", needed,
                        count_of(ranks, "rank"), needed));
}

/// The variants of all entries.
class Variants {
 public:
  Variants(const ConfigText& text, const models::ModelKinds& models, int ranks)
      : text_(text), models_(models), ranks_(ranks) {
    const settings::Config base = settings::parse_config(text, models);
    require_numbers(base, text.path);
    study_ = study_of(text, models);
    threads_ = std::max<std::int64_t>(1, base.train.threads);
    ConfigText serial = with({"replica={}", fmt::format("train.threads={}", threads_)});
    if (!base.whole_batch()) serial.overrides.push_back(strategy_with(&StrategyTraits::on_one_rank));
    if (base.simulation.is_on()) serial.overrides.emplace_back("simulation.ranks=1");  // its time is simulated, too
    add(variant_of(serial, models, name_of_reference(), 1));
  }

  std::vector<Variant> all() {
    const ConfigValue::Array* variants = study_.variants.array();
    if (variants == nullptr && study_.variants.table() == nullptr) {
      throw ConfigError(text_.path + ": study.variants must be a list of tables, as in\n  [study]\n  variants = [" +
                        example() + "]");
    }
    if (variants == nullptr || variants->empty()) {
      throw ConfigError(text_.path + ": the study has no variants; add some, as in\n  [study]\n  variants = [" +
                        example() + "]");
    }
    for (std::size_t i = 0; i < variants->size(); ++i) add_spec(spec_of((*variants)[i], i, text_.path));
    return std::move(variants_);
  }

 private:
  ConfigText with(const std::vector<std::string>& overrides, const std::vector<std::string>& removals = {}) const {
    ConfigText text = text_;
    text.removals.insert(text.removals.end(), removals.begin(), removals.end());
    text.overrides.insert(text.overrides.end(), overrides.begin(), overrides.end());
    return text;
  }

  void add_spec(const VariantSpec& spec) {
    for (const std::int64_t ranks : spec.ranks) {
      require_ranks(spec, ranks, ranks_);
      const auto threads = spec.threads.empty() ? std::vector{threads_} : spec.threads;
      for (const std::int64_t count : threads) add_one(spec, static_cast<int>(ranks), count);
    }
  }

  /// Simulated seconds are compared with simulated ones alone.
  void require_alike(bool simulated, const VariantSpec& spec) const {
    const bool reference = variants_.front().config.simulation.is_on();
    if (simulated && ranks_ > 1) {
      spec.fail("its ranks are simulated, in one process: start the study without mpirun");
    }
    if (simulated == reference) return;
    spec.fail(simulated
                  ? "its time is simulated, but that of the serial run is not: add [simulation] with ranks = 1 to "
                    "the config"
                  : "its time is not simulated, but that of the serial run is: give it simulation.ranks, or remove "
                    "[simulation]");
  }

  void add_one(const VariantSpec& spec, int ranks, std::int64_t threads) {
    std::vector<std::string> overrides = spec.overrides;
    overrides.push_back(fmt::format("train.threads={}", threads));
    try {
      Variant variant = variant_of(with(overrides, spec.removals), models_, spec.name, ranks);
      if (traits_of(variant.config.strategy).shares_model &&
          (!spec.threads.empty() || variant.config.strategy.threads == 0)) {
        overrides.push_back(fmt::format("strategy.threads={}", threads));
        variant = variant_of(with(overrides, spec.removals), models_, spec.name, ranks);
      }
      require_numbers(variant.config, spec.place);
      require_given_time(variant.config, spec.place);
      require_alike(variant.config.simulation.is_on(), spec);
      settings::grid_shape(variant.config, ranks);
      for (const Variant& other : variants_) {
        if (other.identity == variant.identity)
          spec.fail(fmt::format("it is the same training as '{}'; remove one of them", other.text()));
      }
      add(std::move(variant));
    } catch (const ConfigError& error) {
      if (std::string(error.what()).starts_with(spec.place)) throw;
      spec.fail(without_set(error.what()));
    }
  }

  void add(Variant variant) {
    variant.folder = folder_for(variant.text(), folders_);
    variants_.push_back(std::move(variant));
  }

  ConfigText text_;
  const models::ModelKinds& models_;
  int ranks_;
  settings::StudySettings study_;
  std::int64_t threads_ = 1;  ///< of a rank, where a variant does not say
  std::set<std::string> folders_;
  std::vector<Variant> variants_;
};

}  // namespace

int Variant::threads() const {
  const bool own = traits_of(config.strategy).shares_model;
  return static_cast<int>(own ? config.strategy.threads : config.train.threads);
}

std::string Variant::text() const {
  if (name == name_of_reference() && cores() == 1) return name;
  return fmt::format("{}, {}{}", name, count_of(trained_ranks(), config.simulation.is_on() ? "simulated rank" : "rank"),
                     threads() > 1 ? fmt::format(" of {}", count_of(threads(), "thread")) : "");
}

settings::StudySettings study_of(const ConfigText& text, const models::ModelKinds& models) {
  return settings::parse_plans(text, models).plans.study.value_or(settings::StudySettings{});
}

std::vector<Variant> variants_of(const ConfigText& text, const models::ModelKinds& models, int ranks) {
  return Variants(text, models, ranks).all();
}

std::optional<Variant> optimum_of(const Variant& serial, std::string& why) {
  const settings::Config& config = serial.config;
  if (config.model.kind != "linear") {
    why = "only linear models have a minimum that can be computed";
  } else if (config.train.class_weights != settings::ClassWeights::none || !config.train.class_weight_list.empty()) {
    why = "with train.class_weights the loss that is reported is not the one that is minimised";
  }
  if (!why.empty()) return std::nullopt;
  // The effective config has every key, so that those that mean nothing here can be removed.
  const ConfigText text{
      .path = "the study's optimum",
      .text = settings::effective_config(config),
      .overrides = {"optimizer={ kind = \"lbfgs\", gradient_tolerance = 1e-7 }",
                    fmt::format("optimizer.weight_decay={}", config.optimizer.weight_decay),
                    strategy_with(&StrategyTraits::whole_batch), "train.epochs=2000", "train.evaluate_every_epochs=0",
                    "train.early_stopping={}", "checkpoint={ every_epochs = 500, keep = 1, keep_best = false }"}};
  ConfigText shorter = text;
  for (const std::string key : {"schedule", "train.steps", "train.evaluate_every_steps", "train.batch_size",
                                "train.accumulate", "train.micro_batches", "train.last_batch"}) {
    if (key == "schedule" ? !config.whole_batch() : !settings::value_of_key(text.text, key).empty())
      shorter.removals.push_back(key);
  }
  try {
    Variant variant = variant_of(shorter, {}, "optimum", 1);
    variant.folder = "optimum";
    return variant;
  } catch (const ConfigError& error) {
    why = error.what();
    return std::nullopt;
  }
}

}  // namespace unisono::trials
