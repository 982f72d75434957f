#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/search/search.hpp"

namespace unisono::search {

/// The settings of a table [search], as TOML.
inline SearchSettings search_settings(const std::string& text) {
  SearchSettings settings;
  unisono::parse_config({"s.toml", text, {}}, [&](ConfigVisitor& visitor) {
    visitor.section({.name = "search", .meaning = "a search"}, settings);
  });
  return settings;
}

inline Space space_of(const std::string& entries) {
  return Space(search_settings("[search]\nmethod = \"grid\"\n[search.space]\n" + entries).space);
}

/// What some work complains of; empty where it does not.
template <typename Work>
std::string complaint_of(Work work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// A search over two numbers in [0, 1). \param keys of [search]
inline std::unique_ptr<SearchMethod> method_of(const std::string& keys, std::uint64_t seed = 1,
                                               std::int64_t epochs = 27) {
  const SearchSettings settings =
      search_settings("[search]\n" + keys + "\n[search.space]\nx = { linear = [0, 1] }\ny = { linear = [0, 1] }\n");
  return make_search_method(settings, Space(settings.space), seed, epochs);
}

struct SearchEvent {
  bool is_start = true;
  SearchStep step;
  double loss = 0;
};
using LossOf = std::function<double(const SearchStep& step, const Point& point)>;

/// (x − 0.3)² + (y − 0.7)², and less the longer the training. The last decimals tell trials apart.
inline double quadratic(const SearchStep& step, const Point& point) {
  const double rest = step.epochs == 0 ? 0 : 1 / static_cast<double>(step.epochs);
  return std::pow(point[0] - 0.3, 2) + std::pow(point[1] - 0.7, 2) + rest;
}

/// Runs a method to its end with so many workers, whose steps end in a random order, one or several at a time.
inline std::vector<SearchEvent> simulate(SearchMethod& method, std::size_t workers, const LossOf& loss,
                                         RandomStream order) {
  std::vector<SearchEvent> events;
  std::vector<SearchStep> running;
  for (;;) {
    while (running.size() < workers) {
      const auto step = method.next();
      if (!step) break;
      method.started(*step);
      events.push_back({true, *step, 0});
      running.push_back(*step);
    }
    if (running.empty()) return events;
    for (std::uint64_t ends = 1 + order.below(running.size()); ends > 0; --ends) {
      const auto at = running.begin() + static_cast<std::ptrdiff_t>(order.below(running.size()));
      events.push_back({false, *at, loss(*at, method.point(at->trial))});
      running.erase(at);
      method.ended(events.back().step, events.back().loss);
    }
  }
}

inline RandomStream order_of(std::uint64_t seed) { return {seed, Purpose::test}; }

inline void apply(SearchMethod& method, const SearchEvent& event) {
  if (event.is_start) {
    method.started(event.step);
  } else {
    method.ended(event.step, event.loss);
  }
}

/// The steps that have ended, each started just before, as a journal of ends gives them; then what was running.
inline std::vector<SearchEvent> as_journal(const std::vector<SearchEvent>& events) {
  std::vector<SearchEvent> journal;
  std::vector<SearchStep> running;
  for (const SearchEvent& event : events) {
    if (event.is_start) {
      running.push_back(event.step);
    } else {
      std::erase(running, event.step);
      journal.push_back({true, event.step, 0});
      journal.push_back(event);
    }
  }
  for (const SearchStep& step : running) journal.push_back({true, step, 0});
  return journal;
}

/// Checks that a new method that is given the first events, also as a journal of ends, goes on as the old one did.
/// \return the number of events from which the next start was another one
inline int wrong_restarts(const std::function<std::unique_ptr<SearchMethod>()>& make,
                          const std::vector<SearchEvent>& events) {
  int wrong = 0;
  for (std::size_t made = 0; made < events.size(); ++made) {
    if (!events[made].is_start) continue;
    const std::vector<SearchEvent> first(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(made));
    for (const auto& replayed : {first, as_journal(first)}) {
      const auto method = make();
      for (const SearchEvent& event : replayed) apply(*method, event);
      if (method->next() != events[made].step) ++wrong;
    }
  }
  return wrong;
}

}  // namespace unisono::search
