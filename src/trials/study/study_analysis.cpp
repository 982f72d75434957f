#include "unisono/trials/study_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "unisono/base/median.hpp"

namespace unisono::trials {
namespace {

/// The known ones of some figures.
class Figures {
 public:
  void add(double value) {
    if (std::isfinite(value)) values_.push_back(value);
  }
  double mean() const { return values_.empty() ? kUnknown : records::mean_of(values_); }
  double median() const { return values_.empty() ? kUnknown : median_of(values_); }
  double largest() const { return values_.empty() ? kUnknown : std::ranges::max(values_); }
  std::int64_t count() const { return std::ssize(values_); }

 private:
  std::vector<double> values_;
};

/// A variant's trainings, seed by seed; null where there is none, or it diverged.
using Trainings = std::vector<const StudyRecord*>;

Trainings trainings_of(const StudyPlan& plan, const std::vector<StudyRecord>& records, const Variant& variant) {
  Trainings trainings;
  for (std::int64_t i = 0; i < plan.settings.seeds; ++i) {
    const StudyRecord* record = find_record(records, {&variant, plan.first_seed + i});
    trainings.push_back(record == nullptr || record->diverged ? nullptr : record);
  }
  return trainings;
}

records::Pairs pairs_of(const Trainings& variant, const Trainings& serial) {
  records::Pairs pairs{.same_bits = true, .within_rounding = true};
  for (std::size_t i = 0; i < serial.size(); ++i) {
    if (serial[i] == nullptr) continue;
    if (variant[i] == nullptr) {
      ++pairs.diverged;
      continue;
    }
    pairs.variant.push_back(variant[i]->value);
    pairs.reference.push_back(serial[i]->value);
    const ModelDistance& distance = variant[i]->distance;
    pairs.same_bits = pairs.same_bits && distance.known && distance.different == 0;
    pairs.within_rounding = pairs.within_rounding && is_rounding(distance, variant[i]->steps);
  }
  if (pairs.variant.empty()) pairs.same_bits = pairs.within_rounding = false;
  return pairs;
}

void add_distances(const Trainings& own, const Trainings& serial, double optimum, VariantResult& result) {
  Figures relative, largest, predictions, classes, losses, above;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] == nullptr) continue;
    const ModelDistance& distance = own[i]->distance;
    result.different = std::max(result.different, distance.different);
    relative.add(distance.relative);
    largest.add(distance.largest);
    predictions.add(distance.predictions);
    classes.add(distance.classes);
    if (serial[i] != nullptr && own != serial) losses.add(own[i]->loss - serial[i]->loss);
    above.add(own[i]->objective - optimum);
  }
  result.relative = relative.mean();
  result.largest = largest.largest();
  result.predictions = predictions.mean();
  result.classes = classes.mean();
  result.loss_difference = losses.mean();
  result.above_optimum = above.mean();
}

/// At which updates, examples and seconds variants are compared: the most that every training reaches.
void set_common(const std::vector<Trainings>& all, StudyResult& result) {
  const auto least = [&](double CurvePoint::*axis) {
    double found = HUGE_VAL;
    for (const Trainings& trainings : all) {
      for (const StudyRecord* record : trainings) {
        if (record != nullptr && !record->curve.empty()) found = std::min(found, record->curve.back().*axis);
      }
    }
    return std::isfinite(found) ? found : kUnknown;
  };
  result.updates = least(&CurvePoint::updates);
  result.examples = least(&CurvePoint::examples);
  result.seconds = least(&CurvePoint::seconds);
}

void add_course(const Trainings& own, const StudyResult& study, bool larger_is_better, VariantResult& result) {
  Figures updates, examples, seconds, to_target, total;
  for (const StudyRecord* record : own) {
    if (record == nullptr) continue;
    updates.add(value_at(record->curve, &CurvePoint::updates, study.updates));
    examples.add(value_at(record->curve, &CurvePoint::examples, study.examples));
    seconds.add(value_at(record->curve, &CurvePoint::seconds, study.seconds));
    to_target.add(seconds_to(record->curve, study.target, larger_is_better));
    total.add(record->training_seconds());
  }
  result.at_updates = updates.mean();
  result.at_examples = examples.mean();
  result.at_seconds = seconds.mean();
  result.to_target = to_target.median();
  result.reached = to_target.count();
  result.seconds = total.median();
  for (const StudyRecord* record : own) {
    if (record != nullptr) result.parts += (1.0 / static_cast<double>(total.count())) * record->seconds;
  }
}

double target_of(const StudyPlan& plan, const Trainings& serial) {
  if (!plan.settings.target.empty()) return plan.settings.target.front();
  Figures values;
  for (const StudyRecord* record : serial) {
    if (record != nullptr) values.add(record->value);
  }
  return values.mean() + (plan.metric.larger_is_better ? -1 : 1) * plan.settings.margin;
}

void set_power(const StudyPlan& plan, StudyResult& result) {
  Figures deviations;
  for (const VariantResult& one : result.variants) {
    const records::Verdict verdict = one.judgement.verdict;
    const bool is_tested = verdict == records::Verdict::better || verdict == records::Verdict::worse ||
                           verdict == records::Verdict::unclear || verdict == records::Verdict::equivalent;
    if (is_tested && one.judgement.difference.pairs > 1) deviations.add(one.judgement.difference.deviation);
  }
  result.deviation = deviations.median();
  if (!std::isfinite(result.deviation) || plan.settings.margin == 0) return;
  const std::set<std::int64_t> seeds = {5, 10, 20, plan.settings.seeds};
  for (const std::int64_t count : seeds)
    result.power.emplace_back(count, records::power_of_pairs(plan.settings.margin, result.deviation, count));
}

}  // namespace

double value_at(const std::vector<CurvePoint>& curve, double CurvePoint::*axis, double x) {
  if (curve.empty() || !(x >= curve.front().*axis)) return kUnknown;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (x >= after.*axis) continue;
    const double share = (x - before.*axis) / (after.*axis - before.*axis);
    return before.value + share * (after.value - before.value);
  }
  return curve.back().value;
}

double seconds_to(const std::vector<CurvePoint>& curve, double target, bool larger_is_better) {
  const double sign = larger_is_better ? 1 : -1;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!(sign * (curve[i].value - target) >= 0)) continue;
    if (i == 0 || curve[i].value == curve[i - 1].value) return curve[i].seconds;
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (!std::isfinite(before.value)) return after.seconds;
    const double share = (target - before.value) / (after.value - before.value);
    return before.seconds + share * (after.seconds - before.seconds);
  }
  return kUnknown;
}

bool is_rounding(const ModelDistance& distance, std::int64_t steps) {
  constexpr double kUnit = 0x1p-24, kMost = 1e-4;
  return distance.known && distance.relative <= std::min(static_cast<double>(steps) * kUnit, kMost);
}

StudyResult analyse(const StudyPlan& plan, const std::vector<StudyRecord>& records) {
  StudyResult result;
  std::vector<Trainings> all;
  std::vector<records::Pairs> pairs;
  for (const Variant& variant : plan.variants) all.push_back(trainings_of(plan, records, variant));
  const Trainings& serial = all.front();
  result.target = target_of(plan, serial);
  if (plan.optimum) {
    const StudyRecord* optimum = find_record(records, {&*plan.optimum, plan.first_seed});
    if (optimum != nullptr) result.optimum = optimum->objective;
  }
  set_common(all, result);
  for (std::size_t i = 0; i < all.size(); ++i) {
    VariantResult one{.variant = &plan.variants[i]};
    for (const StudyRecord* record : all[i]) {
      ++one.trainings;
      if (record == nullptr) {
        ++one.diverged;
      } else {
        one.values.push_back(record->value);
      }
    }
    add_distances(all[i], serial, result.optimum, one);
    add_course(all[i], result, plan.metric.larger_is_better, one);
    if (i > 0) pairs.push_back(pairs_of(all[i], serial));
    result.variants.push_back(std::move(one));
  }
  const std::vector<records::Judgement> judgements =
      records::judge(pairs, plan.settings.margin, plan.metric.larger_is_better);
  const double serial_seconds = result.variants.front().seconds;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    VariantResult& one = result.variants[i];
    one.judgement = i == 0 ? records::Judgement{.verdict = records::Verdict::reference} : judgements[i - 1];
    one.speed_up = serial_seconds / one.seconds;
    one.efficiency = one.speed_up * plan.variants.front().cores() / one.variant->cores();
  }
  set_power(plan, result);
  return result;
}

}  // namespace unisono::trials
