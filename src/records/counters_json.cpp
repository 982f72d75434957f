#include "unisono/records/counters_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace unisono::records {
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
