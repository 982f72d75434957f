#include "unisono/records/metrics_log.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::records {
namespace {

/// The lines whose step is at most `step`. A last line that was cut short is dropped, too.
/// \param evaluated false: evaluations after that step are dropped
std::string lines_until(const std::string& path, std::int64_t step, bool evaluated) {
  std::istringstream lines(read_text_file(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(shallow_json(line, path), nullptr, false);
    if (!json.is_object() || json.value("step", step + 1) > step) continue;
    if (!evaluated && json.value("step", step) == step && json.value("event", "") == "evaluation") continue;
    kept += line + "\n";
  }
  return kept;
}

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kHead = 12, kTail = 4;  // bytes of a record before and after its content

/// Little-endian.
template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

template <typename Number>
Number number_from(std::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(Number));
  return number;
}

std::uint32_t masked(std::uint32_t sum) { return (sum >> 15U | sum << 17U) + 0xa282ead8U; }

// Fields of protobuf messages: a key, which is the field's number and its encoding, then the value.
enum Encoding : unsigned { varint = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

std::string key_of(unsigned field, Encoding encoding) {
  return std::string(1, static_cast<char>(field << 3U | encoding));
}

std::string varint_of(std::uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7U) bytes.push_back(static_cast<char>((number & 127U) | 128U));
  bytes.push_back(static_cast<char>(number));
  return bytes;
}

std::string text_field(unsigned field, const std::string& content) {
  return key_of(field, text) + varint_of(content.size()) + content;
}

/// Event {double wall_time = 1; int64 step = 2; …}
std::string event_of(std::int64_t step, const std::string& what) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return key_of(1, eight_bytes) + bytes_of(now.count()) + key_of(2, varint) +
         varint_of(static_cast<std::uint64_t>(step)) + what;
}

std::string version_event() { return event_of(0, text_field(3, "brain.Event:2")); }

/// Summary {repeated Value value = 1}; Value {string tag = 1; float simple_value = 2}
void add_scalars(const Json& object, const std::string& path, std::string& summary) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_scalars(value, path + name + "/", summary);
    if (!value.is_number() ||
        (path.find('/') == path.size() - 1 && (name == "step" || name == "epoch" || name == "steps_per_epoch")))
      continue;
    summary += text_field(1, text_field(1, path + name) + key_of(2, four_bytes) + bytes_of(value.get<float>()));
  }
}

std::uint64_t varint_from(std::string_view bytes, std::size_t& at) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; at < bytes.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    number |= std::uint64_t{byte & 127U} << shift;
    if (byte < 128) break;
  }
  return number;
}

/// The step of an event that `event_of` made.
std::int64_t step_of(std::string_view event) {
  std::size_t at = 1 + sizeof(double) + 1;  // after the time, and the key of the step
  return static_cast<std::int64_t>(varint_from(event, at));
}

/// The length of the records whose steps are at most `step`; a last one that was cut short, or is damaged, is left out.
std::size_t length_until(std::string_view file, std::int64_t step) {
  std::size_t end = 0;
  while (file.size() - end >= kHead + kTail) {
    const auto length = number_from<std::uint64_t>(file.substr(end, 8));
    if (length > file.size() - end - kHead - kTail) break;
    const std::string_view content = file.substr(end + kHead, length);
    const bool whole = number_from<std::uint32_t>(file.substr(end + 8, 4)) == masked(crc32c(file.substr(end, 8))) &&
                       number_from<std::uint32_t>(file.substr(end + kHead + length, 4)) == masked(crc32c(content));
    if (!whole || step_of(content) > step) break;
    end += kHead + length + kTail;
  }
  return end;
}

[[noreturn]] void fail_tensorboard(const std::string& path, const std::string& reason) {
  throw OutputError(fmt::format("{}: cannot be written: {}; {}", path, reason,
                                advice_about(path, advice_on(reason) + " and continue with --resume")));
}

}  // namespace

nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics) {
  auto json = nlohmann::ordered_json::object();
  for (const models::Metric& metric : metrics) json[metric.name] = metric.value;
  return json;
}

std::pair<std::optional<data::Split>, std::string> split_and_metric(const std::string& text) {
  for (const data::Split split : data::kSplits) {
    const std::string_view name = data::name_of(split);
    const bool named = text.starts_with(name) && text.size() > name.size() + 1 &&
                       (text[name.size()] == '.' || text[name.size()] == ' ');
    if (named) return {split, text.substr(name.size() + 1)};
  }
  return {std::nullopt, text};
}

bool is_report_field(std::string_view name) {
  static constexpr std::string_view kFields[] = {
      "step",        "epoch",     "learning_rate",      "examples_per_second", "gradient_norm",    "parameter_norm",
      "seconds",     "objective", "gradient_magnitude", "evaluations",         "hessian_products", "hessians",
      "step_length", "passes",    "weights_of_step",    "steps_per_epoch",     "threshold"};
  return std::ranges::find(kFields, name) != std::end(kFields);
}

std::string metric_text(double value, int digits) {
  return std::isnan(value) ? "undefined" : fmt::format("{:.{}g}", value, digits);
}

MetricsLog::MetricsLog(std::string path, std::int64_t step, bool evaluated) : path_(std::move(path)) {
  if (std::filesystem::is_regular_file(path_)) write_text_file(path_, lines_until(path_, step, evaluated));
  file_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  errno = 0;
  file_ << line.dump() << std::endl;
  if (!file_) {
    const int error = errno;
    throw OutputError(fmt::format("{}: cannot be written: {}; {}", path_, std::strerror(error),
                                  advice_about(path_, advice_on(error) + " and continue with --resume")));
  }
  if (tensorboard_) tensorboard_->write(line);
}

nlohmann::ordered_json MetricsLine::fields() const {
  auto fields = nlohmann::ordered_json::parse(text_, nullptr, /*allow_exceptions=*/false);
  return fields.is_object() ? fields : nlohmann::ordered_json::object();
}

MetricsReader::MetricsReader(const std::string& run_folder) : path_(run_folder + "/metrics.jsonl") {}

std::optional<MetricsLine> MetricsReader::next() {
  if (!file_.is_open()) file_.open(path_);
  std::string line;
  const std::streampos begin = file_.tellg();
  std::getline(file_, line);
  if (!file_.eof() && !file_.fail()) {
    shallow_json(line, path_);
    return MetricsLine(std::move(line));
  }
  if (file_.is_open()) {  // the line may be complete at the next call
    file_.clear();
    file_.seekg(begin);
  }
  return std::nullopt;
}

nlohmann::ordered_json read_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return nlohmann::ordered_json::object();
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto object = nlohmann::ordered_json::parse(shallow_json(text, path), nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : nlohmann::ordered_json::object();
}

nlohmann::ordered_json read_summary(const std::string& run_folder) { return read_object(run_folder + "/summary.json"); }

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t sum = i;
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1U ^ ((sum & 1U) != 0 ? 0x82f63b78U : 0);
      table[i] = sum;
    }
    return table;
  }();
  std::uint32_t sum = ~0U;
  for (const char byte : bytes) sum = sum >> 8U ^ kTable[(sum ^ static_cast<unsigned char>(byte)) & 255U];
  return ~sum;
}

TensorboardLog::TensorboardLog(const std::string& folder, std::int64_t step)
    : path_(folder + "/events.out.tfevents.unisono") {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_tensorboard(folder, error.message());
  std::size_t kept = 0;
  if (fs::is_regular_file(path_)) {
    std::ifstream file(path_, std::ios::binary);
    const std::string earlier(std::istreambuf_iterator<char>(file), {});
    kept = length_until(earlier, step);
    fs::resize_file(path_, kept, error);
    if (error) fail_tensorboard(path_, error.message());
  }
  file_.open(path_, std::ios::binary | std::ios::app);
  if (kept == 0) write_record(version_event());
}

void TensorboardLog::write(const Json& line) {
  const bool evaluated = line.value("event", "") == "evaluation";
  std::string summary;
  add_scalars(line, (evaluated ? line.value("split", "test") : "train") + "/", summary);
  write_record(event_of(line.value("step", std::int64_t{0}), text_field(5, summary)));
}

void TensorboardLog::write_record(const std::string& event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size()));
  errno = 0;
  file_ << length << bytes_of(masked(crc32c(length))) << event << bytes_of(masked(crc32c(event))) << std::flush;
  if (!file_) fail_tensorboard(path_, std::strerror(errno));
}

namespace {

using Json = nlohmann::ordered_json;

/// Goes through groups, and hands out the figures that a file shows.
class ShownFigures : public CounterVisitor {
 public:
  explicit ShownFigures(Shown file) : file_(file) {}

  void count(const Counter& counter, std::int64_t& value) override { show(counter, value); }
  void number(const Counter& counter, double& value) override { show(counter, value); }
  void histogram(const Counter& counter, Histogram& value) override { figure(counter, value); }
  void figure(const Counter& figure, std::int64_t value) override { show(figure, value); }
  void figure(const Counter& figure, double value) override {
    if (!std::isnan(value)) show(figure, value);
  }
  void figure(const Counter& figure, const Histogram& value) override {
    show(figure, {{"mean", value.mean()}, {"largest", value.largest()}, {"counts", value.counts}});
  }
  void figure(const Counter& figure, const std::vector<std::int64_t>& values) override { show(figure, values); }
  void figure(const Counter& figure, const std::vector<double>& values) override { show(figure, values); }

 protected:
  virtual void write(const Counter& figure, Json value) = 0;

 private:
  void show(const Counter& figure, Json value) {
    if (!figure.hidden && is_in(figure.shown, file_)) write(figure, std::move(value));
  }

  Shown file_;
};

/// Writes them as members of objects.
class Values final : public ShownFigures {
 public:
  using ShownFigures::ShownFigures;

  void begin(std::string_view name) override { open_.push_back({std::string(name), false, Json::object()}); }
  void begin_element(std::string_view array) override { open_.push_back({std::string(array), true, Json::object()}); }
  void end() override {
    Group group = std::move(open_.back());
    open_.pop_back();
    if (group.values.empty()) return;
    Json& within = innermost();
    if (group.is_element) {
      within[group.name].push_back(std::move(group.values));
    } else {
      within[group.name].update(group.values);
    }
  }
  Json take() { return std::move(all_); }

 private:
  struct Group {
    std::string name;
    bool is_element;
    Json values;
  };

  void write(const Counter& figure, Json value) override { innermost()[std::string(figure.name)] = std::move(value); }
  Json& innermost() { return open_.empty() ? all_ : open_.back().values; }

  Json all_ = Json::object();
  std::vector<Group> open_;
};

/// Writes their units by their paths, once for all elements of an array.
class Units final : public ShownFigures {
 public:
  using ShownFigures::ShownFigures;

  void begin(std::string_view name) override { open_.emplace_back(name); }
  void begin_element(std::string_view array) override { open_.emplace_back(array); }
  void end() override { open_.pop_back(); }
  Json take() { return std::move(all_); }

 private:
  void write(const Counter& figure, Json) override {
    std::string path;
    for (const std::string& group : open_) path += group + ".";
    all_[path + std::string(figure.name)] = figure.unit;
  }

  Json all_ = Json::object();
  std::vector<std::string> open_;
};

}  // namespace

Json to_json(CounterSet counters, Shown file) {
  Values values(file);
  counters.describe(values);
  return values.take();
}

Json units_json(CounterSet counters, Shown file) {
  Units units(file);
  counters.describe(units);
  return units.take();
}

Json to_json(const Seconds& seconds) {
  Json json = {{"total", seconds.sum()}};
  for (const SecondsPart& part : kSecondsParts) json[std::string(part.name)] = seconds.*part.value;
  return json;
}

Seconds seconds_from(const nlohmann::json& json) {
  Seconds seconds;
  for (const SecondsPart& part : kSecondsParts) {
    const auto found = json.find(part.name);
    if (found != json.end()) seconds.*part.value = found->get<double>();
  }
  return seconds;
}

}  // namespace unisono::records
