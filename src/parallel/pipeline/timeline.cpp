#include "pipeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace unisono::parallel {
namespace {

constexpr char kIdle = '.';
constexpr std::string_view kDigits[] = {"0123456789", "abcdefghij", "ABCDEFGHIJ"};  // of chunks 0, 1, 2; 3 as 0, …

char mark_of(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::backward:
      return '#';
    case OperationKind::backward_inputs:
      return '<';
    case OperationKind::backward_weights:
      return '=';
    default:
      return kDigits[operation.chunk % 3][static_cast<std::size_t>(operation.micro_batch % 10)];
  }
}

std::string line_of(const std::vector<Operation>& operations, const std::vector<SimulatedTime>& times, int columns,
                    double seconds_per_column) {
  std::string line;
  std::size_t next = 0;  // the first operation that has not ended
  for (int column = 0; column < columns; ++column) {
    const double now = (column + 0.5) * seconds_per_column;
    while (next < times.size() && times[next].end <= now) ++next;
    const bool runs = next < times.size() && times[next].start <= now;
    line += runs ? mark_of(operations[next]) : kIdle;
  }
  return line;
}

bool has(const Program& program, OperationKind kind) {
  return std::any_of(program.ranks.begin(), program.ranks.end(), [&](const auto& operations) {
    return std::any_of(operations.begin(), operations.end(), [&](const auto& one) { return one.kind == kind; });
  });
}

std::string legend_of(const Program& program) {
  std::string text = "0-9 forward (last digit of the micro-batch";
  if (program.chunks > 1) text += program.chunks > 2 ? "; a-j, A-J in chunks 1, 2" : "; a-j in chunk 1";
  text += ")";
  if (has(program, OperationKind::backward)) text += "  # backward";
  if (has(program, OperationKind::backward_inputs)) text += "  < backward for inputs";
  if (has(program, OperationKind::backward_weights)) text += "  = for weights";
  return text + "  . idle";
}

}  // namespace

std::string timeline_text(const Program& program, const Simulation& simulation, int columns) {
  const auto label_of = [](int stage) { return fmt::format("stage {} ", stage); };
  const std::size_t label_width = label_of(program.stages - 1).size();
  const int width = std::max(columns, 20) - static_cast<int>(label_width);
  const double seconds_per_column = simulation.seconds / width;
  std::string text;
  for (int stage = 0; stage < program.stages; ++stage) {
    const auto rank = static_cast<std::size_t>(stage);
    text += fmt::format("{:{}}{}\n", label_of(stage), label_width,
                        line_of(program.ranks[rank], simulation.times[rank], width, seconds_per_column));
  }
  return text + fmt::format("{}\n{:.4g} s in all, {:.3g} s a column\n", legend_of(program), simulation.seconds,
                            seconds_per_column);
}

}  // namespace unisono::parallel
