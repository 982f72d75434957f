#include "unisono/comm/communicator.hpp"

#include <catch2/catch.hpp>

#include "expect.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::comm {
namespace {

struct MailCounters {
  std::int64_t letters = 0, size = 0, hidden = 0;
  double seconds = 0;
  Histogram delays = {};

  void describe(CounterVisitor& visitor) {
    visitor.count({.name = "letters"}, letters);
    visitor.count({.name = "size", .combine = Combine::same}, size);
    visitor.count({.name = "hidden", .shown = Shown::everywhere, .hidden = true}, hidden);
    visitor.number({.name = "seconds", .shown = Shown::in_metrics}, seconds);
    visitor.histogram({.name = "delays", .shown = Shown::everywhere}, delays);
  }
};

/// As counted by a rank: the delays of rank 1 are longer than those of rank 0.
CounterSet counted_by(int rank) {
  CounterSet counters;
  counters.of<MailCounters>() = {.letters = 10 + rank, .size = 5, .hidden = 1 + rank, .seconds = 0.5 * (1 + rank)};
  for (int delay = 0; delay <= 2 * rank; ++delay) counters.of<MailCounters>().delays.add(delay);
  return counters;
}

TEST_CASE("the ranks' counters are combined as they are declared", "[counters]") {
  run_as_threads(3, [](Communicator& group) {
    const auto all = combine(group, counted_by(group.rank()), Shown::in_summary).get<MailCounters>();
    EXPECT(all.letters == 33);
    EXPECT(all.size == 5);
    EXPECT(all.hidden == 6);                          // for figures
    EXPECT(all.seconds == 0.5 * (1 + group.rank()));  // only metrics show it
    EXPECT(all.delays.counts == std::vector<std::int64_t>{3, 2, 2, 1, 1});
  });
}

TEST_CASE("metrics combine what they show", "[counters]") {
  run_as_threads(2, [](Communicator& group) {
    const auto all = combine(group, counted_by(group.rank()), Shown::in_metrics).get<MailCounters>();
    EXPECT(all.letters == 10 + group.rank());  // only the summary shows it
    EXPECT(all.hidden == 3);
    EXPECT(all.seconds == 1.5);
    EXPECT(all.delays.counts == std::vector<std::int64_t>{2, 1, 1});
  });
}

TEST_CASE("nobody counts anything", "[counters]") {
  run_as_threads(
      2, [](Communicator& group) { EXPECT(combine(group, {}, Shown::in_summary).find<MailCounters>() == nullptr); });
}

TEST_CASE("ranks that count different things are told so", "[counters]") {
  CHECK_THROWS_AS(run_as_threads(2,
                                 [](Communicator& group) {
                                   combine(group, group.is_root() ? CounterSet() : counted_by(1), Shown::in_summary);
                                 }),
                  LaunchError);
}

TEST_CASE("the ranks' mean seconds add up to the mean total", "[counters]") {
  run_as_threads(2, [](Communicator& group) {
    const Seconds own{.compute = 1.0 + group.rank(),
                      .exposed_communication = 2,
                      .straggler_wait = 0.5,
                      .bubble = 0.125,
                      .input = 0.25,
                      .optimizer = 3,
                      .evaluation = 4,
                      .checkpoint = 5,
                      .other = 1.0 - group.rank()};
    const Seconds mean = mean_seconds(group, own);
    EXPECT(mean.compute == 1.5);
    EXPECT(mean.other == 0.5);
    EXPECT(mean.sum() == own.sum());
    EXPECT((mean - own).sum() == 0);
    EXPECT((mean - own).compute == 0.5 - group.rank());
    EXPECT(mean_seconds(group, own, /*trains=*/group.is_root()).compute == 1);
  });
}

}  // namespace
}  // namespace unisono::comm
