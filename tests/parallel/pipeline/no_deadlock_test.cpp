// Programs on real ranks, with synchronous sends and random delays: what the executor relies on.
#include <chrono>
#include <deque>
#include <thread>

#include "all_schedules.hpp"
#include "expect.hpp"
#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::parallel {
namespace {

/// The value of a boundary: what it says is checked where it is received.
struct BoundaryValue {
  int piece, micro_batch;
  bool forward;
  bool operator==(const BoundaryValue&) const = default;
};

void delay(RandomStream& random) {
  const auto choice = random.below(64);
  if (choice == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(100)));
  if (choice % 8 == 1) std::this_thread::yield();
}

/// Runs a rank's list: receives where a value is consumed, waits for sends at the end alone.
class RankOfProgram {
 public:
  RankOfProgram(const Program& program, comm::Communicator& ranks, RandomStream random)
      : program_(program), ranks_(ranks), random_(random) {}

  void run() {
    for (const Operation& operation : program_.ranks[static_cast<std::size_t>(ranks_.rank())]) {
      const int piece = program_.piece_of(ranks_.rank(), operation.chunk);
      const bool forward = operation.kind == OperationKind::forward;
      const auto is_other = [&](std::optional<int> peer) { return peer && program_.stage_of(*peer) != ranks_.rank(); };
      const auto source = program_.source_of(piece, operation.kind), target = program_.target_of(piece, operation.kind);
      if (is_other(source)) receive({*source, operation.micro_batch, forward});
      delay(random_);
      if (is_other(target)) send({piece, operation.micro_batch, forward}, program_.stage_of(*target));
    }
    for (const auto& request : requests_) request->wait();
  }

 private:
  static int tag_of(const BoundaryValue& value) { return 2 * value.piece + (value.forward ? 0 : 1); }

  void receive(const BoundaryValue& expected) {
    BoundaryValue value{};
    ranks_.receive(std::as_writable_bytes(std::span(&value, 1)), program_.stage_of(expected.piece), tag_of(expected));
    EXPECT(value == expected);
  }
  void send(const BoundaryValue& value, int stage) {
    sent_.push_back(value);
    requests_.push_back(ranks_.start_send(std::as_bytes(std::span(&sent_.back(), 1)), stage, tag_of(value)));
  }

  const Program& program_;
  comm::Communicator& ranks_;
  RandomStream random_;
  std::deque<BoundaryValue> sent_;
  std::vector<comm::RequestPtr> requests_;
};

}  // namespace

TEST_CASE("300 random programs end, with synchronous sends and random delays", "[long][pipeline]") {
  RandomStream random(1, Purpose::test);
  const auto cases = all_pipeline_cases();
  for (std::uint32_t i = 0; i < 300; ++i) {
    const PipelineCase& one = cases[random.below(cases.size())];
    INFO(one.text());
    const Program program = one.program();
    REQUIRE_NOTHROW(comm::run_as_threads(one.stages, [&](comm::Communicator& ranks) {
      RankOfProgram(program, ranks, RandomStream(2, Purpose::test, i, static_cast<std::uint32_t>(ranks.rank()))).run();
    }));
  }
}

}  // namespace unisono::parallel
