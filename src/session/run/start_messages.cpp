#include "run/start_messages.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "run/schedule_span.hpp"
#include "run/summary.hpp"
#include "unisono/base/text.hpp"
#include "unisono/session/rank_texts.hpp"
#include "unisono/session/selection.hpp"

namespace unisono::session {
namespace {

std::string examples_on_device(std::size_t kept_bytes) {
  if (kept_bytes == 0) return "examples are copied to the GPU batch by batch";
  return fmt::format("the GPU keeps the training set: {:.1f} MiB", static_cast<double>(kept_bytes) / (1 << 20));
}

void say_size(const StartOfRun& run, Log& log) {
  log.info(fmt::format("{}: {}, {}, {} an epoch, {}", run.plan.config.name,
                       count_of(run.parts.model->layout().parameters(), "parameter"),
                       count_of(run.source.examples_per_epoch(), "training example"),
                       count_of(run.source.steps_per_epoch(), "step"),
                       count_of(run.plan.config.train.epochs, "epoch")));
}

void say_ranks(const StartOfRun& run, Log& log) {
  const ModelParts& parts = run.parts;
  const int stages = parts.grid.shape().stages;
  log.info(fmt::format("{} on {} × {} ({}), a {}'s batch: {}", run.plan.config.strategy.kind,
                       ranks_text(run.plan.config, parts.grid.all().size(), parts.workers(), stages),
                       count_of(parts.placement.threads, "thread"), parts.device(), stages > 1 ? "replica" : "rank",
                       local_batch_text(run.plan.config, parts.workers())));
  if (!run.threads_text.empty()) log.info(run.threads_text);
  if (!parts.placement.quota_text.empty()) log.info(parts.placement.quota_text);
  for (int stage = 0; stage < stages && parts.stages; ++stage) {
    log.info(fmt::format("stage {}: {}", stage, parts.stages->text_of(stage)));
  }
}

}  // namespace

void say_start(const StartOfRun& run, Log& log) {
  const ModelParts& parts = run.parts;
  say_size(run, log);
  say_ranks(run, log);
  for (const std::string& note : {note_on_best(run.plan.config, run.plan.data().info()),
                                  span_note(run.plan.config, run.source.steps_per_epoch())}) {
    if (!note.empty()) log.info(note);
  }
  for (const std::string& note : parts.model->notes()) log.info(note);
  if (run.training.average) log.info("evaluations and predictions use averaged weights (train.weight_average)");
  if (parts.backend->device() != nullptr) log.info(examples_on_device(parts.backend->kept_bytes()));
  if (run.plan.config.fault.is_on() && parts.grid.all().is_root()) log.warning(run.plan.config.fault.text());
}

}  // namespace unisono::session
