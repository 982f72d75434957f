#include "run/schedule_span.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::session {
namespace {

std::int64_t number_of(const std::string& config, const std::string& key) {
  return std::strtoll(settings::value_of_key(config, key).c_str(), nullptr, 10);
}

/// Of the checkpoint's run.
std::int64_t span_before(const ResumedAt& at) {
  const std::int64_t epochs = number_of(at.config, "schedule.epochs");  // 0, too, before there was such a key
  return epochs > 0 ? epochs : number_of(at.config, "train.epochs");
}

optim::Schedule schedule_over(const settings::Config& config, std::int64_t epochs, std::int64_t steps_per_epoch) {
  return {config.schedule, config.optimizer.learning_rate, epochs * steps_per_epoch, steps_per_epoch};
}

/// The learning rate from the last step on.
double last_rate(const settings::Config& config, std::int64_t epochs, std::int64_t steps_per_epoch) {
  return schedule_over(config, epochs, steps_per_epoch).rate(epochs * steps_per_epoch - 1);
}

bool is_other_span(const settings::Config& config, const ResumedAt& at) {
  return config.schedule.depends_on_length() && span_before(at) > 0 && span_before(at) != config.schedule_epochs();
}

}  // namespace

optim::Schedule schedule_of(const settings::Config& config, std::int64_t steps_per_epoch) {
  return schedule_over(config, config.schedule_epochs(), steps_per_epoch);
}

void require_chosen_span(const settings::Config& config, const ResumedAt& at) {
  if (config.schedule.epochs > 0 || !is_other_span(config, at)) return;
  const std::int64_t before = span_before(at), now = config.train.epochs;
  const double last = last_rate(config, before, at.steps_per_epoch);
  const std::string later =
      now > before ? fmt::format(" (it stays at {:.3g} after epoch {})", last, before) : std::string();
  throw ConfigError(fmt::format(
      "{}: train.epochs = {} would change the learning rate, which falls over {} (schedule.kind = \"{}\"); "
      "use --set schedule.epochs={} to continue from {:.3g} as planned{}, or --set schedule.epochs={} to "
      "let it fall over {} and continue from {:.3g}, or start a new run with --output DIR",
      config.run_folder(), now, count_of(before, "epoch"), name_of(config.schedule.kind, optim::kScheduleKinds), before,
      schedule_over(config, before, at.steps_per_epoch).rate(at.step), later, now, count_of(now, "epoch"),
      schedule_over(config, now, at.steps_per_epoch).rate(at.step)));
}

std::string change_of_span(const settings::Config& config, const ResumedAt& at) {
  if (!is_other_span(config, at)) return "";
  return fmt::format("the learning rate now falls over {} instead of {}: it continues from {:.3g} instead of {:.3g}",
                     count_of(config.schedule_epochs(), "epoch"), span_before(at),
                     schedule_of(config, at.steps_per_epoch).rate(at.step),
                     schedule_over(config, span_before(at), at.steps_per_epoch).rate(at.step));
}

std::string span_note(const settings::Config& config, std::int64_t steps_per_epoch) {
  const std::int64_t span = config.schedule_epochs(), epochs = config.train.epochs;
  if (!config.schedule.depends_on_length() || span == epochs) return "";
  const optim::Schedule schedule = schedule_of(config, steps_per_epoch);
  if (span < epochs) {
    const double last = last_rate(config, span, steps_per_epoch);
    return fmt::format("schedule: the learning rate falls over {} of {} and then stays at {:.3g}{}", span,
                       count_of(epochs, "epoch"), last, last == 0 ? ", so that nothing more is learned" : "");
  }
  return fmt::format("schedule: the learning rate falls over {}; the run ends after {}, at a rate of {:.3g}",
                     count_of(span, "epoch"), grouped(epochs), schedule.rate(epochs * steps_per_epoch - 1));
}

std::string way_to_go_on(const settings::Config& config, std::int64_t steps_per_epoch) {
  if (!config.schedule.depends_on_length()) return "a larger train.epochs makes it longer";
  const std::int64_t span = config.schedule_epochs();
  return fmt::format(
      "to make it longer, set train.epochs and schedule.epochs: schedule.epochs = {} keeps the learning "
      "rate at {:.3g} from now on, and a larger one makes it rise again before it falls",
      span, last_rate(config, span, steps_per_epoch));
}

}  // namespace unisono::session
