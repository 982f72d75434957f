#include "pipeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "unisono/base/svg.hpp"

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

namespace {

constexpr double kLeft = 70, kRight = 20, kTop = 40, kRow = 30, kBlock = 26, kFont = 10, kDigit = 6;
constexpr double kAxis = 36;  // height of the axis below the rows

struct KindStyle {
  OperationKind kind;
  std::array<int, 3> colour;  // red, green, blue
  const char* name;
};
// Okabe and Ito's sky blue, orange and bluish green; black numbers can be read on all of them.
constexpr KindStyle kStyles[] = {{OperationKind::forward, {86, 180, 233}, "forward"},
                                 {OperationKind::backward, {230, 159, 0}, "backward"},
                                 {OperationKind::backward_inputs, {230, 159, 0}, "backward for inputs"},
                                 {OperationKind::backward_weights, {0, 158, 115}, "backward for weights"}};

const KindStyle& style_of(OperationKind kind) {
  return *std::find_if(std::begin(kStyles), std::end(kStyles), [&](const auto& style) { return style.kind == kind; });
}

/// Later chunks are lighter: mixed with up to 60 % of white.
std::string colour_of(OperationKind kind, int chunk, int chunks) {
  const double white = 0.6 * chunk / std::max(1, chunks - 1);
  const auto mixed = [&](int part) { return static_cast<int>(std::lround(part + white * (255 - part))); };
  const auto [red, green, blue] = style_of(kind).colour;
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(red), mixed(green), mixed(blue));
}

/// 1, 2 or 5 times a power of ten, so that a length has at most 10 ticks.
double tick_of(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 10)));
  for (const double factor : {1, 2, 5}) {
    if (length <= 10 * factor * power) return factor * power;
  }
  return 10 * power;
}

class TimelineDrawing {
 public:
  TimelineDrawing(const Program& program, const Simulation& simulation)
      : program_(program),
        simulation_(simulation),
        plot_width_(plot_width(program)),
        bottom_(kTop + kRow * program.stages),
        drawing_(kLeft + plot_width_ + kRight, bottom_ + kAxis) {}

  std::string draw() {
    draw_legend();
    draw_length();
    for (int stage = 0; stage < program_.stages; ++stage) draw_stage(stage);
    draw_axis();
    return drawing_.str();
  }

 private:
  /// Some 16 pixels an operation, within what a screen shows.
  static double plot_width(const Program& program) {
    std::size_t most = 0;
    for (const auto& operations : program.ranks) most = std::max(most, operations.size());
    return std::clamp(16.0 * static_cast<double>(most), 700.0, 3000.0);
  }
  double x_of(double seconds) const {
    return kLeft + (simulation_.seconds > 0 ? plot_width_ * seconds / simulation_.seconds : 0);
  }

  void draw_legend() {
    double x = kLeft;
    for (const KindStyle& style : kStyles) {
      const bool used = std::any_of(program_.ranks.begin(), program_.ranks.end(), [&](const auto& operations) {
        return std::any_of(operations.begin(), operations.end(), [&](auto& one) { return one.kind == style.kind; });
      });
      if (!used) continue;
      for (int chunk = 0; chunk < program_.chunks; ++chunk, x += 14) {
        drawing_.rectangle({x, 12, 12, 12}, colour_of(style.kind, chunk, program_.chunks),
                           fmt::format("chunk {}", chunk));
      }
      drawing_.text({x + 4, 22}, style.name);
      x += 24 + 7 * static_cast<double>(std::string_view(style.name).size());
    }
  }

  void draw_length() {
    drawing_.text({kLeft + plot_width_, 22}, fmt::format("{:.4g} s in all", simulation_.seconds),
                  {.anchor = SvgDrawing::Anchor::end});
  }

  void draw_stage(int stage) {
    const auto rank = static_cast<std::size_t>(stage);
    const double y = kTop + kRow * stage;
    drawing_.text({kLeft - 8, y + 17}, fmt::format("stage {}", stage), {.anchor = SvgDrawing::Anchor::end});
    drawing_.rectangle({kLeft, y, plot_width_, kBlock}, "#eeeeee");
    for (std::size_t i = 0; i < program_.ranks[rank].size(); ++i) {
      draw_operation(y, program_.ranks[rank][i], simulation_.times[rank][i]);
    }
  }

  void draw_operation(double y, const Operation& operation, const SimulatedTime& time) {
    const double x = x_of(time.start), width = x_of(time.end) - x;
    const double gap = std::min(1.0, width / 10);  // between neighbours
    drawing_.rectangle({x, y, width - gap, kBlock}, colour_of(operation.kind, operation.chunk, program_.chunks),
                       fmt::format("{}: {:.4g} to {:.4g} s", text_of(operation), time.start, time.end));
    const std::string number = fmt::format("{}", operation.micro_batch);
    if (width < kDigit * static_cast<double>(number.size()) + 1) return;
    drawing_.text({x + width / 2, y + 17}, number, {.size = kFont, .anchor = SvgDrawing::Anchor::middle});
  }

  void draw_axis() {
    drawing_.line({kLeft, bottom_}, {kLeft + plot_width_, bottom_}, "black");
    if (simulation_.seconds <= 0) return;
    const double tick = tick_of(simulation_.seconds);
    for (int i = 0; i * tick <= simulation_.seconds * (1 + 1e-9); ++i) {
      const double x = x_of(i * tick);
      drawing_.line({x, bottom_}, {x, bottom_ + 5}, "black");
      drawing_.text({x, bottom_ + 20}, fmt::format("{:.6g} s", i * tick),
                    {.size = kFont, .anchor = SvgDrawing::Anchor::middle});
    }
  }

  const Program& program_;
  const Simulation& simulation_;
  double plot_width_, bottom_;
  SvgDrawing drawing_;
};

}  // namespace

std::string timeline_svg(const Program& program, const Simulation& simulation) {
  return TimelineDrawing(program, simulation).draw();
}

}  // namespace unisono::parallel
