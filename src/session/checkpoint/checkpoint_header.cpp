#include "checkpoint/checkpoint_header.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "unisono/base/nesting.hpp"

// Each with the names of its fields as keys.
namespace unisono::kernels {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LossSums, loss, examples, correct, correct_top5, squared_error,
                                                absolute_error, target_sum, target_squared_sum, values, bytes)
}

namespace unisono::session {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BestEvaluation, criterion, value, step, waited)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ConfigChange, key, before, after, step)

constexpr int kVersion = 1;

namespace {

nlohmann::json to_json(const models::ModelInputs& inputs) {
  return {{"kind", static_cast<int>(inputs.kind)},
          {"rows", inputs.rows},
          {"columns", inputs.columns},
          {"mean_value", inputs.mean_value},
          {"row_values", inputs.row_values},
          {"features", {inputs.features.channels, inputs.features.height, inputs.features.width}},
          {"classes", inputs.classes},
          {"target_size", inputs.target_size},
          {"context", inputs.context}};
}

models::ModelInputs inputs_from(const nlohmann::json& json) {
  const auto& features = json.at("features");
  return {.kind = static_cast<data::SetKind>(json.at("kind").get<int>()),
          .features = {.channels = features.at(0), .height = features.at(1), .width = features.at(2)},
          .rows = json.at("rows"),
          .columns = json.at("columns"),
          .mean_value = json.at("mean_value"),
          .row_values = json.at("row_values"),
          .classes = json.at("classes"),
          .target_size = json.at("target_size"),
          .context = json.value("context", Index{0})};
}

/// Fields that checkpoints from before early stopping lack.
void parse_control(const nlohmann::json& json, CheckpointHeader& header) {
  header.best_by = json.value("best_by", BestEvaluation());
  header.stopping_by = json.value("stopping_by", BestEvaluation());
  header.reported_step = json.value("reported_step", header.step);
  const auto unreported = json.value("unreported", nlohmann::json::array());
  header.unreported = unreported.is_array() ? unreported.get<std::vector<kernels::LossSums>>()
                                            : std::vector{unreported.get<kernels::LossSums>()};  // the ranks' sum
  if (!json.contains("first_loss")) return;
  header.divergence = {
      .has_first_loss = true, .first_loss = json.at("first_loss"), .below_until = json.at("below_until")};
}

/// Doubles, stored as their bits; none where there is no such key.
std::vector<double> numbers_from(const nlohmann::json& json, const char* key) {
  std::vector<double> numbers;
  for (const auto& bits : json.value(key, nlohmann::json::array())) {
    numbers.push_back(std::bit_cast<double>(bits.get<std::uint64_t>()));
  }
  return numbers;
}

CheckpointHeader parse(const nlohmann::json& json) {
  CheckpointHeader header;
  json.at("step").get_to(header.step);
  json.at("epoch").get_to(header.cursor.epoch);
  json.at("step_in_epoch").get_to(header.cursor.step);
  if (json.contains("worker_steps")) json.at("worker_steps").get_to(header.worker_steps);
  json.at("optimizer_steps").get_to(header.optimizer_steps);
  header.method = numbers_from(json, "method");
  header.strategy = numbers_from(json, "strategy");
  json.at("seed").get_to(header.seed);
  header.inputs = inputs_from(json.at("inputs"));
  if (json.contains("preprocessing")) {
    header.preprocessing = data::preprocessing_from_json(json.at("preprocessing").dump(), "the header's preprocessing");
  }
  json.at("normalization").at("mean").get_to(header.preprocessing.normalization.mean);
  json.at("normalization").at("scale").get_to(header.preprocessing.normalization.scale);
  json.at("data_identity").get_to(header.data_identity);
  json.at("resident").get_to(header.resident);
  json.at("epoch_sums").get_to(header.epoch_sums);
  header.has_best = json.contains("best");
  if (header.has_best) json.at("best").get_to(header.best);
  parse_control(json, header);
  header.averaged = json.value("averaged", false);
  header.threads_chosen = json.value("threads_chosen", false);
  if (json.contains("threshold")) header.threshold = json.at("threshold").get<double>();
  header.names = json.value("names", std::uint64_t{0});
  header.evaluation_due = json.value("evaluation_due", false);
  header.changes = json.value("changes", std::vector<ConfigChange>());
  json.at("ranks").get_to(header.ranks);
  json.at("threads").get_to(header.threads);
  json.at("device").get_to(header.device);
  json.at("build").get_to(header.build);
  json.at("layout").get_to(header.layout);
  return header;
}

}  // namespace

std::string to_json(const CheckpointHeader& header) {
  nlohmann::ordered_json json = {
      {"format", "unisono checkpoint"},
      {"version", kVersion},
      {"step", header.step},
      {"epoch", header.cursor.epoch},
      {"step_in_epoch", header.cursor.step},
      {"optimizer_steps", header.optimizer_steps},
      {"seed", header.seed},
      {"inputs", to_json(header.inputs)},
      {"normalization",
       {{"mean", header.preprocessing.normalization.mean}, {"scale", header.preprocessing.normalization.scale}}},
      {"data_identity", header.data_identity},
      {"resident", header.resident},
      {"epoch_sums", nlohmann::json(header.epoch_sums)},
      {"ranks", header.ranks},
      {"threads", header.threads},
      {"device", header.device},
      {"build", header.build},
      {"layout", header.layout}};
  if (header.preprocessing.known)
    json["preprocessing"] = nlohmann::ordered_json::parse(data::to_json(header.preprocessing));
  if (header.has_best) json["best"] = header.best;
  if (!header.best_by.criterion.empty()) json["best_by"] = nlohmann::json(header.best_by);
  if (!header.stopping_by.criterion.empty()) json["stopping_by"] = nlohmann::json(header.stopping_by);
  if (header.divergence.has_first_loss) {
    json["first_loss"] = header.divergence.first_loss;
    json["below_until"] = header.divergence.below_until;
  }
  json["reported_step"] = header.reported_step;
  if (!header.unreported.empty()) json["unreported"] = nlohmann::json(header.unreported);
  if (!header.worker_steps.empty()) json["worker_steps"] = header.worker_steps;
  for (const double number : header.method) json["method"].push_back(std::bit_cast<std::uint64_t>(number));
  for (const double number : header.strategy) json["strategy"].push_back(std::bit_cast<std::uint64_t>(number));
  if (header.averaged) json["averaged"] = true;
  if (header.threads_chosen) json["threads_chosen"] = true;
  if (header.threshold) json["threshold"] = *header.threshold;
  if (header.names != 0) json["names"] = header.names;
  if (header.evaluation_due) json["evaluation_due"] = true;
  if (!header.changes.empty()) json["changes"] = nlohmann::json(header.changes);
  return json.dump(1);
}

CheckpointHeader header_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(shallow_json(text, "its header"));
    if (json.at("version") != kVersion) {
      throw CheckpointError(
          fmt::format("has format version {}, but this unisono reads version {}", json.at("version").dump(), kVersion));
    }
    return parse(json);
  } catch (const DataError& error) {
    throw DamagedCheckpoint(fmt::format("has a header that cannot be read: {}", error.what()));
  } catch (const nlohmann::json::exception& error) {
    throw DamagedCheckpoint(fmt::format("has a header that cannot be read: {}", error.what()));
  }
}

namespace {

constexpr double kRounding = 1e-3;  // relative to a standard deviation or a scale

bool differ(const data::Normalization& before, const data::Normalization& now) {
  if (before.mean.size() != now.mean.size() || before.scale.size() != now.scale.size()) return true;
  for (std::size_t i = 0; i < now.scale.size(); ++i) {
    const double scale = now.scale[i];
    if (std::abs(before.scale[i] - scale) > kRounding * std::abs(scale)) return true;
    if (i < now.mean.size() && std::abs(double{before.mean[i]} - now.mean[i]) * std::abs(scale) > kRounding)
      return true;
  }
  return false;
}

bool have_other_levels(const data::FittedColumn& before, const data::FittedColumn& now) {
  return before.kind != now.kind || before.levels != now.levels || before.other != now.other;
}

/// A value to fill in, measured in standard deviations where those are known.
bool have_other_fill(const data::FittedColumn& before, const data::FittedColumn& now) {
  if (!before.fill || !now.fill) return false;  // nothing was missing in the training examples
  const double range = std::max(std::abs(*now.fill), now.high - now.low);
  return std::abs(*before.fill - *now.fill) > kRounding * range;
}

std::vector<std::string> names_of_features(const data::Preprocessing& preprocessing) {
  return preprocessing.columns.empty() ? preprocessing.feature_names : preprocessing.encoded_names();
}

}  // namespace

std::string other_feature(const data::Preprocessing& before, const data::Preprocessing& now) {
  const auto there = names_of_features(before), here = names_of_features(now);
  if (there.empty() || here.empty() || there.size() != here.size()) return "";
  const auto [old_name, name] = std::mismatch(there.begin(), there.end(), here.begin());
  if (name == here.end()) return "";
  return fmt::format("feature {} is '{}', but '{}' there", name - here.begin() + 1, *name, *old_name);
}

std::string other_form(const data::Preprocessing& before, const data::Preprocessing& now) {
  if (before.known) {
    if (before.columns.size() != now.columns.size()) return "the columns";
    for (std::size_t i = 0; i < now.columns.size(); ++i) {
      const data::FittedColumn &old_column = before.columns[i], &column = now.columns[i];
      if (old_column.name != column.name) return "the order or names of the columns";
      if (have_other_levels(old_column, column)) return fmt::format("the categories of column '{}'", column.name);
      if (have_other_fill(old_column, column)) return fmt::format("what replaces missing values of '{}'", column.name);
    }
    if (!other_feature(before, now).empty()) return "the order or names of the features";
    const auto &old_base = before.recipe.base, &base = now.recipe.base;
    if (old_base && base && *old_base != *base) return "the index of the first column";
    const bool named = !before.class_names.empty() && !now.class_names.empty();
    if (named && before.class_names != now.class_names) return "the names of the classes";
    if (before.label_names != now.label_names) return "the names of the labels";
  }
  return differ(before.normalization, now.normalization) ? "the scaling of the features" : "";
}

}  // namespace unisono::session
