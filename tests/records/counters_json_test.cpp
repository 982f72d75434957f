#include "unisono/records/metrics_log.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

namespace unisono::records {
namespace {

struct PostCounters {
  std::int64_t letters = 3, lost = 1;
  Histogram delays = {{1, 0, 2}};

  void describe(CounterVisitor& visitor) {
    visitor.count({.name = "letters", .unit = "letters", .shown = Shown::everywhere}, letters);
    const CounterGroup group(visitor, "post");
    visitor.count({.name = "lost", .hidden = true}, lost);
    visitor.figure({.name = "lost_share", .unit = "share"}, static_cast<double>(lost) / static_cast<double>(letters));
    visitor.figure({.name = "undefined"}, std::numeric_limits<double>::quiet_NaN());
    visitor.histogram({.name = "delays", .unit = "days", .shown = Shown::in_metrics}, delays);
    for (const std::int64_t size : {4, 5}) {
      visitor.begin_element("boxes");
      visitor.figure({.name = "size", .unit = "bytes"}, size);
      visitor.end();
    }
  }
};

/// Another struct whose counters are in the same group.
struct ParcelCounters {
  std::int64_t parcels = 2;
  void describe(CounterVisitor& visitor) {
    const CounterGroup group(visitor, "post");
    visitor.count({.name = "parcels"}, parcels);
  }
};

CounterSet post() {
  CounterSet counters;
  counters.of<PostCounters>();
  counters.of<ParcelCounters>();
  return counters;
}

TEST_CASE("each file has the counters that it shows, in their groups", "[counters_json]") {
  CHECK(to_json(post(), Shown::in_metrics).dump() ==
        R"({"letters":3,"post":{"delays":{"mean":1.3333333333333333,"largest":2,"counts":[1,0,2]}}})");
  CHECK(to_json(post(), Shown::in_summary).dump() ==
        R"({"letters":3,"post":{"lost_share":0.3333333333333333,"boxes":[{"size":4},{"size":5}],"parcels":2}})");
  CHECK(to_json(CounterSet(), Shown::in_summary).dump() == "{}");
}

TEST_CASE("units are given by path", "[counters_json]") {
  CHECK(units_json(post(), Shown::in_summary).dump() ==
        R"({"letters":"letters","post.lost_share":"share","post.boxes.size":"bytes","post.parcels":""})");
}

TEST_CASE("seconds are read as they were written; what an older version did not measure is 0", "[counters_json]") {
  const Seconds seconds{.compute = 1, .bubble = 2, .other = 4};
  const Seconds read = seconds_from(nlohmann::json(to_json(seconds)));
  CHECK(read.compute == 1);
  CHECK(read.bubble == 2);
  CHECK(read.sum() == 7);
  CHECK(seconds_from(nlohmann::json{{"compute", 3}}).sum() == 3);
  CHECK_THROWS_AS(seconds_from(nlohmann::json{{"compute", "much"}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace unisono::records
