#include "plan/grade.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "unisono/base/errors.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/session/abilities.hpp"

namespace unisono::planning {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text_of(double value, const std::string& unit) {
  if (unit == "seconds") return duration_text(value);
  return unit == "bytes" ? session::bytes_text(value) : grouped(std::llround(value));
}

}  // namespace

Happened read_happened(const std::string& run_folder, double batch) {
  const Json summary = records::read_summary(run_folder);
  const Json seconds = summary.value("seconds", Json::object());
  const auto sum = [&](std::initializer_list<const char*> names) {
    double all = 0;
    for (const char* name : names) all += number(seconds, name);
    return all;
  };
  Happened happened{.folder = run_folder, .examples_per_second = number(summary, "examples_per_second")};
  happened.computing = sum({"compute", "optimizer"});
  happened.exchange = sum({"exposed_communication", "straggler_wait"});
  happened.bubble = sum({"bubble"});
  happened.other = sum({"input", "other"});
  if (!(happened.examples_per_second > 0) || !(happened.step() > 0)) {
    throw CheckpointError(
        fmt::format("{}: has no summary of steps; --grade compares with a run that has ended", run_folder));
  }
  const double scale = batch / happened.examples_per_second / happened.step();
  for (double* part : {&happened.computing, &happened.exchange, &happened.bubble, &happened.other}) *part *= scale;
  const auto ranks = static_cast<int>(std::max(1.0, number(summary, "ranks")));
  const auto hosts = static_cast<int>(std::max(1.0, number(summary, "hosts")));
  if (ranks % hosts != 0) {
    throw ConfigError(fmt::format("plan: it predicts equally many ranks on all hosts, but {} had {} on {}", run_folder,
                                  count_of(ranks, "rank"), count_of(hosts, "host")));
  }
  happened.ranks = {hosts, ranks / hosts};
  happened.threads = static_cast<int>(std::max(1.0, number(summary, "threads")));
  happened.memory_bytes = number(summary, "peak_memory_bytes");
  happened.device = summary.value("device", "");
  return happened;
}

Grade::Grade(const Prediction& predicted, const Happened& happened, const std::string& cpu) {
  title_ =
      fmt::format("predicted for {} × {} of {}, beside what happened in {}", count_of(happened.ranks.hosts, "host"),
                  count_of(happened.ranks.per_host, "rank"), count_of(happened.threads, "thread"), happened.folder);
  parts_ = {{"a step", "seconds", predicted.seconds(), happened.step()},
            {"computing", "seconds", predicted.gradient + predicted.update, happened.computing},
            {"messages and waiting", "seconds", predicted.messages + predicted.exposed, happened.exchange},
            {"reading examples, and the rest", "seconds", -1, happened.other},
            {"examples a second", "", predicted.examples_per_second, happened.examples_per_second},
            {"memory of a rank", "bytes", static_cast<double>(predicted.memory_bytes), happened.memory_bytes}};
  if (predicted.stages > 1) {
    parts_.insert(parts_.begin() + 3,
                  {"waiting for other stages", "seconds", predicted.bubble + predicted.boundaries, happened.bubble});
  }
  if (!happened.device.starts_with(cpu))
    note_ = fmt::format("measured on {}, but the run was on {}", cpu, happened.device);
}

std::string Grade::text() const {
  std::string text = fmt::format("{}\n  {:<32} {:>12} {:>12} {:>12}\n", title_, "", "predicted", "happened", "off by");
  for (const Part& part : parts_) {
    const bool known = part.predicted >= 0;
    const bool comparable = known && part.happened > 0;
    text += fmt::format("  {:<32} {:>12} {:>12} {:>12}\n", part.name, known ? text_of(part.predicted, part.unit) : "–",
                        text_of(part.happened, part.unit),
                        comparable ? fmt::format("{:+.0f} %", 100 * (part.predicted / part.happened - 1)) : "");
  }
  if (!note_.empty()) text += fmt::format("  {}\n", note_);
  text.pop_back();
  return text;
}

Json Grade::json() const {
  Json parts = Json::array();
  for (const Part& part : parts_) {
    Json one = {{"part", part.name}, {"unit", part.unit}, {"happened", part.happened}};
    if (part.predicted >= 0) one["predicted"] = part.predicted;
    parts.push_back(std::move(one));
  }
  return {{"title", title_}, {"parts", std::move(parts)}, {"note", note_}};
}

}  // namespace unisono::planning
