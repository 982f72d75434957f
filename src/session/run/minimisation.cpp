#include "run/minimisation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace unisono::session {
namespace {

using optim::BatchEnd;

struct EndName {
  BatchEnd end;
  std::string_view name, meaning;
  std::string_view way_on;  ///< what lets a run that ended so continue
};

constexpr std::string_view kNoFurther = "no setting of this method brings it closer to the minimum";

constexpr EndName kEnds[] = {
    {BatchEnd::none, "epochs", "train.epochs iterations were made", "more train.epochs let it continue"},
    {BatchEnd::gradient, "gradient_tolerance", "no element of the gradient is larger than optimizer.gradient_tolerance",
     "a smaller optimizer.gradient_tolerance lets it continue"},
    {BatchEnd::function, "function_tolerance", "the loss changed by less than optimizer.function_tolerance",
     "a smaller optimizer.function_tolerance lets it continue"},
    {BatchEnd::passes, "passes", "optimizer.passes were made; more of them may lower the loss further",
     "more optimizer.passes let it continue"},
    {BatchEnd::no_decrease, "no_decrease",
     "no step lowers the loss by more than rounding errors; if the gradient is still large, the features' scales "
     "differ "
     "too much",
     kNoFurther},
    {BatchEnd::stalled, "stalled",
     "neither the loss nor its gradient has become smaller for many iterations: rounding errors are larger than what "
     "is "
     "left to gain",
     kNoFurther},
    {BatchEnd::constant, "constant",
     "the gradient is zero at the start: the loss does not depend on the parameters, or they are at a minimum",
     kNoFurther},
    {BatchEnd::not_finite, "not_finite", "the loss or its gradient was not finite at the start", kNoFurther}};

constexpr EndName kInterrupted = {BatchEnd::none, "interrupted", "the run was interrupted", ""};
constexpr EndName kStoppedEarly = {BatchEnd::none, "early_stopping", "train.early_stopping; the best weights are kept",
                                   "a larger train.early_stopping.patience lets it continue"};
constexpr EndName kSeparable = {
    BatchEnd::gradient, "separable",
    "all training examples are classified correctly, so that without a penalty the loss has no minimum and weights "
    "grow without end: set model.l2",
    "set model.l2, in a new run, to give the loss a minimum"};

const EndName& end_of(const Minimisation& minimisation) {
  if (minimisation.stopped_early) return kStoppedEarly;
  if (minimisation.interrupted) return kInterrupted;
  if (minimisation.separable && minimisation.last.end != BatchEnd::none) return kSeparable;
  return *std::ranges::find(kEnds, minimisation.last.end, &EndName::end);
}

}  // namespace

bool Minimisation::has_converged() const {
  return !separable && (last.end == BatchEnd::gradient || last.end == BatchEnd::function);
}

std::string Minimisation::ended_by() const { return std::string(end_of(*this).name); }

nlohmann::ordered_json to_json(const optim::BatchIteration& iteration) {
  nlohmann::ordered_json json = {{"objective", iteration.value}};
  if (iteration.gradient_magnitude >= 0) json["gradient_magnitude"] = iteration.gradient_magnitude;
  if (iteration.step_length >= 0) json["step_length"] = iteration.step_length;
  json["evaluations"] = iteration.evaluations;
  if (iteration.products > 0) json["hessian_products"] = iteration.products;
  if (iteration.hessians > 0) json["hessians"] = iteration.hessians;
  return json;
}

nlohmann::ordered_json to_json(const Minimisation& minimisation) {
  nlohmann::ordered_json json = {{"ended_by", minimisation.ended_by()}};
  if (!minimisation.stopped_early) json["objective"] = minimisation.last.value;
  const double gradient = minimisation.last.gradient_magnitude;
  if (!minimisation.stopped_early && gradient >= 0) json["gradient_magnitude"] = gradient;
  json["passes"] = minimisation.last.passes;
  return json;
}

namespace {

std::string end_in(const nlohmann::ordered_json& summary) {
  const auto found = summary.find("minimisation");
  return found == summary.end() ? std::string() : found->value("ended_by", std::string());
}

}  // namespace

bool ended_by_itself(const nlohmann::ordered_json& summary) {
  const std::string end = end_in(summary);
  return !end.empty() && end != kEnds[0].name && end != kInterrupted.name && end != kStoppedEarly.name;
}

std::string way_on(const nlohmann::ordered_json& summary) {
  const std::string end = end_in(summary);
  for (const EndName& one : {kStoppedEarly, kSeparable}) {
    if (one.name == end) return std::string(one.way_on);
  }
  const auto* const found = std::ranges::find(kEnds, end, &EndName::name);
  return std::string((found == std::end(kEnds) ? kEnds[0] : *found).way_on);
}

std::string to_text(const Minimisation& minimisation) {
  const double gradient = minimisation.last.gradient_magnitude;
  const EndName& end = end_of(minimisation);
  std::string reached;  // of the weights that are kept
  if (!minimisation.stopped_early) reached = fmt::format("objective {:.8g}, ", minimisation.last.value);
  if (!reached.empty() && gradient >= 0) reached += fmt::format("largest element of the gradient {:.3g}, ", gradient);
  std::string text = fmt::format("  minimum     {}{} passes; ended by {}: {}\n", reached, minimisation.last.passes,
                                 end.name, end.meaning);
  if (minimisation.separable && end.name == kEnds[0].name)
    text += fmt::format("              {}\n", kSeparable.meaning);
  return text;
}

}  // namespace unisono::session
