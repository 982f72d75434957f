#include "unisono/records/recorded_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::records {
namespace {

constexpr int kMostRanks = 1 << 17;  // as many as simulation.ranks may have

/// A line of a file, whose numbers are taken by name.
class Line {
 public:
  Line(const std::string& text, std::string place) : place_(std::move(place)) {
    object_ = nlohmann::json::parse(shallow_json(text, place_), nullptr, /*allow_exceptions=*/false);
    if (!object_.is_object()) refuse("it is no JSON object, such as {\"rank\": 0, \"seconds\": 0.25}");
  }

  double seconds(const char* name) const {
    const nlohmann::json& value = number(name);
    const double seconds = value.get<double>();
    if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) {
      refuse(fmt::format("\"{}\" is {}, but must be between 0 and 1e9 seconds", name, value.dump()));
    }
    return seconds;
  }
  int integer(const char* name, int most) const {
    const nlohmann::json& value = number(name);
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > most) {
      refuse(fmt::format("\"{}\" is {}, but must be an integer between 0 and {}", name, value.dump(), most));
    }
    return value.get<int>();
  }
  int rank(const char* name) const { return integer(name, kMostRanks - 1); }
  [[noreturn]] void refuse(const std::string& reason) const { throw DataError(place_ + ": " + reason); }

 private:
  const nlohmann::json& number(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end() || !found->is_number()) refuse(fmt::format("it has no number \"{}\"", name));
    return *found;
  }

  std::string place_;
  nlohmann::json object_;
};

void read_lines(const std::string& path, const std::string& key, const std::function<void(const Line&)>& take) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw DataError(fmt::format("{}: {} is no file", key, path));
  }
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("{}: {} cannot be read: {}", key, path, std::strerror(errno)));
  std::string text;
  int lines = 0;
  while (std::getline(file, text)) {
    ++lines;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    take(Line(text, fmt::format("{}: {}:{}", key, path, lines)));
  }
  if (file.bad()) throw DataError(fmt::format("{}: {} cannot be read: {}", key, path, std::strerror(errno)));
}

void require_some(bool some, const std::string& path, const std::string& key) {
  if (!some) throw DataError(fmt::format("{}: {} has no line", key, path));
}

template <typename Value>
Value& at_rank(std::vector<Value>& by_rank, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  if (by_rank.size() <= place) by_rank.resize(place + 1);
  return by_rank[place];
}

}  // namespace

void write_gradient_times(const std::string& path, std::span<const GradientTime> times) {
  std::string text;
  for (const GradientTime& one : times) {
    text += fmt::format("{{\"rank\": {}, \"begin\": {:.9f}, \"seconds\": {:.9f}}}\n", one.rank, one.begin, one.seconds);
  }
  write_text_file(path, text);
}

std::vector<std::vector<double>> read_gradient_times(const std::string& path, const std::string& key) {
  std::vector<std::vector<double>> by_rank;
  read_lines(path, key,
             [&](const Line& line) { at_rank(by_rank, line.rank("rank")).push_back(line.seconds("seconds")); });
  require_some(!by_rank.empty(), path, key);
  return by_rank;
}

void write_message_times(const std::string& path, std::span<const comm::Arrival> times) {
  std::vector<comm::Arrival> ordered(times.begin(), times.end());
  std::ranges::stable_sort(ordered, {}, &comm::Arrival::seconds);
  std::string text;
  for (const comm::Arrival& one : ordered) {
    text += fmt::format("{{\"from\": {}, \"to\": {}, \"tag\": {}, \"seconds\": {:.9f}}}\n", one.from, one.to, one.tag,
                        one.seconds);
  }
  write_text_file(path, text);
}

std::vector<comm::Arrival> read_message_times(const std::string& path, const std::string& key) {
  std::vector<comm::Arrival> times;
  read_lines(path, key, [&](const Line& line) {
    times.push_back({.from = line.rank("from"),
                     .to = line.rank("to"),
                     .tag = line.integer("tag", 1 << 30),
                     .seconds = line.seconds("seconds")});
  });
  require_some(!times.empty(), path, key);
  std::ranges::stable_sort(times, {}, &comm::Arrival::seconds);
  return times;
}

std::vector<double> read_failure_times(const std::string& path, const std::string& key) {
  std::vector<double> times;
  read_lines(path, key, [&](const Line& line) { times.push_back(line.seconds("seconds")); });
  require_some(!times.empty(), path, key);
  std::ranges::sort(times);
  return times;
}

std::vector<double> read_start_times(const std::string& path, const std::string& key) {
  std::vector<double> by_rank;
  std::set<int> named;
  read_lines(path, key, [&](const Line& line) {
    const int rank = line.rank("rank");
    if (!named.insert(rank).second) line.refuse(fmt::format("rank {} has a line before", rank));
    at_rank(by_rank, rank) = line.seconds("seconds");
  });
  require_some(!by_rank.empty(), path, key);
  return by_rank;
}

}  // namespace unisono::records
