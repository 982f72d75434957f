#include "unisono/parallel/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "pipeline/priced.hpp"
#include "unisono/base/random.hpp"

namespace unisono::parallel {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

/// A segment's price on a rank of speed 1, and its bytes.
struct Segment {
  double forward = 1;
  double vectors = 0, workspace = 0, boundary = 0;
};

/// The prices of ResNet-20's segments on 3×32×32 images: a convolution, nine blocks, pooling and a dense layer. Seconds
/// are multiply-adds / 10⁶, bytes are numbers of values.
std::vector<Segment> resnet20() {
  std::vector<Segment> segments = {{0.44, 432, 65536, 16384}};
  for (int block = 0; block < 9; ++block) {
    const int part = block / 3;
    const double values = 16384 >> part, width = 16 << part;
    const bool narrows = part > 0 && block % 3 == 0;
    segments.push_back({narrows ? 3.5 : 4.7, 18 * width * width, 5 * values, values});
  }
  segments.push_back({0.001, 650, 128, 0});
  return segments;
}

std::vector<Segment> mlp(int layers) {
  return std::vector<Segment>(static_cast<std::size_t>(layers),
                              {.forward = 1, .vectors = 4, .workspace = 1, .boundary = 0.1});
}

/// \param bandwidth of messages, in values a second of a rank of speed 1
PlacementProblem problem_of(const std::vector<Segment>& segments, const std::vector<double>& speeds,
                            PipelineSchedule schedule, int micro_batches, double bandwidth = kAny) {
  PlacementProblem problem{.settings = {.stages = std::ssize(speeds), .schedule = schedule, .placement = {}},
                           .micro_batches = micro_batches,
                           .limits = std::vector<double>(speeds.size(), kAny),
                           .any_order = true};
  for (const double speed : speeds) {
    auto& seconds = problem.seconds.emplace_back();
    for (const Segment& one : segments) {
      seconds.push_back({one.forward / speed, one.forward / speed, 0.9 * one.forward / speed});
    }
  }
  for (const Segment& one : segments) problem.boundaries.push_back({.bytes = one.boundary, .bandwidth = bandwidth});
  problem.boundaries.pop_back();
  problem.memory = [segments](int first, int last) {
    PieceMemory memory;
    for (int i = first; i < last; ++i) {
      const Segment& one = segments[static_cast<std::size_t>(i)];
      memory.vectors += one.vectors;
      memory.workspace += one.workspace;
    }
    memory.input = first == 0 ? 3072 : segments[static_cast<std::size_t>(first) - 1].boundary;
    return memory;
  };
  return problem;
}

/// The best of all placements, by trying each.
Placement best_of_all(const PlacementProblem& problem, Recompute recompute) {
  const Prices prices(problem, recompute);
  const Better better{problem};
  Placement best;
  std::vector<int> ranks(static_cast<std::size_t>(problem.stages()));
  const int n = problem.segments();
  for (unsigned chosen = 0; chosen < 1U << (n - 1); ++chosen) {
    std::vector<int> cuts = {0};
    for (int i = 1; i < n; ++i) {
      if ((chosen >> (i - 1) & 1U) != 0) cuts.push_back(i);
    }
    cuts.push_back(n);
    if (std::ssize(cuts) != problem.pieces() + 1) continue;
    std::iota(ranks.begin(), ranks.end(), 0);
    do {
      Placement one = prices.priced({.cuts = cuts, .ranks = ranks});
      if (best.cuts.empty() || better(one, best)) best = std::move(one);
    } while (problem.any_order && std::ranges::next_permutation(ranks).found);
  }
  return best;
}

/// Checks that the placement that is found is nearly as fast as the best of all.
void require_near_best(const PlacementProblem& problem, double factor = 1.02) {
  const Placement best = best_of_all(problem, Recompute::none), found = place(problem);
  REQUIRE_FALSE(best.lack(problem.limits));
  REQUIRE_FALSE(found.lack(problem.limits));
  INFO(fmt::format("found {} on {}, best {} on {}, schedule {}, m {}", fmt::join(found.cuts, " "),
                   fmt::join(found.ranks, " "), fmt::join(best.cuts, " "), fmt::join(best.ranks, " "),
                   name_of(problem.settings.schedule, kPipelineSchedules), problem.micro_batches));
  CHECK(found.seconds <= factor * best.seconds);
  CHECK(found.seconds >= best.seconds * (1 - 1e-9));
}

constexpr PipelineSchedule kWhole[] = {PipelineSchedule::naive, PipelineSchedule::gpipe,
                                       PipelineSchedule::one_forward_one_backward, PipelineSchedule::zero_bubble};

TEST_CASE("placement of ResNet-20 on ranks of speeds 1 and 3 is that of trying all", "[long][placement]") {
  for (const PipelineSchedule schedule : kWhole) {
    for (const int micro_batches : {1, 4, 16}) {
      for (const auto& speeds : {std::vector<double>{1, 3}, {3, 1, 1}, {1, 3, 3, 1}}) {
        INFO(name_of(schedule, kPipelineSchedules) << ", " << micro_batches << ", " << speeds.size());
        require_near_best(problem_of(resnet20(), speeds, schedule, micro_batches));
        require_near_best(problem_of(resnet20(), speeds, schedule, micro_batches, 20000));
      }
    }
  }
}

TEST_CASE("placement of an MLP of 18 layers is that of trying all", "[placement]") {
  for (const PipelineSchedule schedule : kWhole) {
    require_near_best(problem_of(mlp(18), {1, 3}, schedule, 8));
    PlacementProblem problem = problem_of(mlp(18), {1, 3, 1}, schedule, 8, 1);
    require_near_best(problem);
    problem.limits = {40, 50, 60};
    if (schedule == PipelineSchedule::one_forward_one_backward) require_near_best(problem);
  }
}

TEST_CASE("placement keeps to unequal limits of memory", "[placement]") {
  PlacementProblem problem = problem_of(resnet20(), {3, 1}, PipelineSchedule::one_forward_one_backward, 8);
  const Placement free = place(problem);
  const std::size_t first = free.ranks[0] == 0 ? 0 : 1;  // stage of the fast rank
  problem.limits[0] = 0.7 * free.bytes[first];           // which would take most layers
  require_near_best(problem);
  CHECK(place(problem).seconds > free.seconds);
  problem.any_order = false;
  require_near_best(problem);
}

TEST_CASE("random placements are near the best of all", "[placement]") {
  RandomStream random(11, Purpose::order);
  int tried = 0;
  for (int trial = 0; trial < 120; ++trial) {
    std::vector<Segment> segments;
    const int n = 4 + static_cast<int>(random.uniform() * 6);
    for (int i = 0; i < n; ++i)
      segments.push_back({random.uniform(), random.uniform(), random.uniform(), random.uniform()});
    std::vector<double> speeds;
    const int stages = 2 + static_cast<int>(random.uniform() * 2.99);
    for (int i = 0; i < stages; ++i) speeds.push_back(1 + std::floor(3 * random.uniform()));
    PlacementProblem problem =
        problem_of(segments, speeds, kWhole[trial % 4], 1 + trial % 7, trial % 2 == 0 ? kAny : 20);
    problem.any_order = trial % 3 != 0;
    for (double& limit : problem.limits) limit = 2 + 8 * random.uniform();
    if (best_of_all(problem, Recompute::none).lack(problem.limits)) {
      CHECK(place(problem).lack(problem.limits));
    } else {
      require_near_best(problem, 1.04);  // with fewer micro-batches than stages, too
      ++tried;
    }
  }
  CHECK(tried > 40);
}

TEST_CASE("stages of several pieces are placed, too", "[placement]") {
  for (const int micro_batches : {2, 4, 8}) {
    PlacementProblem problem = problem_of(resnet20(), {1, 3}, PipelineSchedule::interleaved, micro_batches);
    problem.settings.chunks = 2;
    const Placement best = best_of_all(problem, Recompute::none), found = place(problem);
    CHECK(found.cuts.size() == 5);
    CHECK(found.seconds <= 1.1 * best.seconds);
  }
}

TEST_CASE("activations are computed anew only where the model does not fit otherwise, or is slower", "[placement]") {
  PlacementProblem problem = problem_of(mlp(8), {1, 1}, PipelineSchedule::gpipe, 8);
  problem.settings.recompute = Recompute::automatic;
  CHECK(place(problem).recompute == Recompute::none);
  problem.memory = [](int first, int last) {
    return PieceMemory{.vectors = 0, .workspace = 1.0 * (last - first), .input = 0.1};
  };
  problem.limits = {8, 8};
  const Placement placed = place(problem);
  CHECK(placed.recompute == Recompute::all);
  CHECK_FALSE(placed.lack(problem.limits));
  CHECK(placed.bytes[0] == Approx(4 + 8 * 0.1));
}

TEST_CASE("a model that does not fit is placed where it lacks least", "[placement]") {
  PlacementProblem problem = problem_of(mlp(6), {1, 1}, PipelineSchedule::naive, 4);
  problem.limits = {8, 9};
  problem.bytes_of_each = 1;
  const Placement placed = place(problem);
  const auto lack = placed.lack(problem.limits);
  REQUIRE(lack);
  CHECK(lack->bytes == Approx(8));  // three layers of 5, and 1, on the rank with 8
  CHECK(placed.ranks[static_cast<std::size_t>(lack->stage)] == 0);
}

TEST_CASE("ranks that are alike keep their order", "[placement]") {
  const Placement placed = place(problem_of(mlp(8), {1, 1, 1, 1}, PipelineSchedule::one_forward_one_backward, 8));
  CHECK(placed.ranks == std::vector{0, 1, 2, 3});
  CHECK(placed.cuts == std::vector{0, 2, 4, 6, 8});
}

TEST_CASE("a forecast says how a step of a placement goes", "[placement]") {
  const PlacementProblem problem = problem_of(mlp(8), {1, 1, 1, 1}, PipelineSchedule::one_forward_one_backward, 8);
  const Forecast told = forecast(problem, place(problem));
  CHECK(told.seconds == Approx((8 + 3) * 2 * 2.9));
  CHECK(told.formula.value() == Approx(told.seconds));
  CHECK(told.bubble == Approx(3.0 / 11));
  CHECK(told.bytes_sent[0] == Approx(0.8));
  CHECK(told.timeline.find('\n') != std::string::npos);
  CHECK(told.svg.starts_with("<"));
}

}  // namespace
}  // namespace unisono::parallel
