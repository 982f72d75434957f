#include "pipeline/program.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "all_schedules.hpp"
#include "pipeline/schedules.hpp"
#include "unisono/base/random.hpp"

namespace unisono::parallel {
namespace {

SimulatedCosts random_costs(const Program& program, RandomStream& random) {
  SimulatedCosts costs;
  for (int piece = 0; piece < program.pieces(); ++piece) {
    costs.pieces.push_back({random.uniform(), random.uniform(), random.uniform()});
    if (piece > 0) costs.boundaries.push_back({100, random.uniform(), 100 + 900 * random.uniform()});
  }
  for (int i = 0; i < program.micro_batches; ++i) costs.shares.push_back(random.uniform(0.1F, 1.0F));
  return costs;
}

/// Whether each operation starts after the one before it and after its message.
bool keeps_order(const Program& program, const SimulatedCosts& costs, const Simulation& simulation) {
  std::map<std::tuple<int, bool, int>, double> ends;  // of each piece, direction and micro-batch
  const auto for_each = [&](auto visit) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
        const Operation& operation = program.ranks[rank][i];
        visit(program.piece_of(static_cast<int>(rank), operation.chunk), operation, simulation.times[rank][i]);
      }
    }
  };
  for_each([&](int piece, const Operation& operation, const SimulatedTime& time) {
    if (operation.kind != OperationKind::backward_weights) {
      ends[{piece, operation.kind == OperationKind::forward, operation.micro_batch}] = time.end;
    }
  });
  bool kept = true;
  for_each([&](int piece, const Operation& operation, const SimulatedTime& time) {
    const auto source = program.source_of(piece, operation.kind);
    if (!source) return;
    const BoundaryCost& boundary = costs.boundaries[static_cast<std::size_t>(std::min(piece, *source))];
    const double share = costs.shares[static_cast<std::size_t>(operation.micro_batch)];
    const bool local = program.stage_of(*source) == program.stage_of(piece);
    const double message = local ? 0 : boundary.latency + share * boundary.bytes / boundary.bandwidth;
    kept = kept && time.start >= ends[{*source, operation.kind == OperationKind::forward, operation.micro_batch}] +
                                     message - 1e-12;
  });
  for (const auto& times : simulation.times) {
    for (std::size_t i = 1; i < times.size(); ++i) kept = kept && times[i].start >= times[i - 1].end;
  }
  return kept;
}

}  // namespace

TEST_CASE("a step of two unequal stages with messages, worked out by hand", "[pipeline]") {
  const Program program = gpipe_program(2, 1);
  const SimulatedCosts costs{.pieces = {{1, 2, 3}, {4, 5, 6}}, .boundaries = {{20, 0.5, 10}}};  // 2.5 s a message
  const Simulation simulation = simulate(program, costs);
  // Forward 0–1, message to 3.5, forward 3.5–7.5, backward 7.5–18.5, message to 21, backward 21–26.
  CHECK(simulation.seconds == 26);
  CHECK(simulation.times[1][1].start == 7.5);
  CHECK(simulation.times[0][1].start == 21);
  CHECK(simulation.stages[0].busy == 6);
  CHECK(simulation.stages[0].idle == 20);
  CHECK(simulation.stages[1].busy == 15);
  CHECK(simulation.stages[0].bytes_sent == 20);
  CHECK(simulation.stages[1].bytes_sent == 20);
}

TEST_CASE("a smaller micro-batch takes its share of the time and of the bytes", "[pipeline]") {
  const SimulatedCosts costs{.pieces = {{1, 1, 1}, {1, 1, 1}}, .boundaries = {{100, 1, 100}}, .shares = {1, 0.5}};
  const Simulation simulation = simulate(gpipe_program(2, 2), costs);
  CHECK(simulation.stages[0].busy == 4.5);
  CHECK(simulation.stages[0].bytes_sent == 150);
  CHECK(simulation.times[1][0].start == 3);    // 1 s forward, 1 s latency, 1 s transfer
  CHECK(simulation.times[1][1].start == 4);    // there since 3, but the stage is busy
  CHECK(simulation.times[0][2].start == 8.5);  // 4.5 + 2 + the message's 2
}

TEST_CASE("messages of a stage leave one after the other", "[pipeline]") {
  // Three micro-batches of a second, whose messages take four.
  const SimulatedCosts costs{.pieces = {{1, 1, 1}, {1, 1, 1}}, .boundaries = {{100, 0.5, 25}}};
  const Simulation simulation = simulate(gpipe_program(2, 3), costs);
  CHECK(simulation.times[0][2].end == 3);  // sending holds nobody up
  CHECK(simulation.times[1][0].start == 5.5);
  CHECK(simulation.times[1][1].start == 9.5);
  CHECK(simulation.times[1][2].start == 13.5);
  // Gradients, each of two seconds, go back from 16.5 on.
  CHECK(simulation.times[0][3].start == 21);
  CHECK(simulation.times[0][4].start == 25);
  CHECK(simulation.times[0][5].start == 29);
}

TEST_CASE("bytes are 2m boundaries for each cut between stages", "[pipeline]") {
  for (const PipelineCase& one : all_pipeline_cases()) {
    if (one.micro_batches % 5 != 0) continue;
    INFO(one.text());
    const Program program = one.program();
    SimulatedCosts costs = equal_costs(one.stages, one.chunks, {1, 1, 1});
    costs.boundaries.resize(static_cast<std::size_t>(program.pieces() - 1), {.bytes = 7});
    double bytes = 0;
    for (const SimulatedStage& stage : simulate(program, costs).stages) bytes += stage.bytes_sent;
    const int cuts = one.stages == 1 ? 0 : program.pieces() - 1;  // chunks of one stage send nothing
    REQUIRE(bytes == 7.0 * 2 * one.micro_batches * cuts);
  }
}

TEST_CASE("random times and messages keep the order of every program", "[pipeline]") {
  RandomStream random(1, Purpose::test);
  const auto cases = all_pipeline_cases();
  for (int i = 0; i < 1000; ++i) {
    const PipelineCase& one = cases[random.below(cases.size())];
    INFO(one.text());
    const Program program = one.program();
    const SimulatedCosts costs = random_costs(program, random);
    const Simulation simulation = simulate(program, costs);
    REQUIRE(keeps_order(program, costs, simulation));
    for (const SimulatedStage& stage : simulation.stages) {
      REQUIRE(stage.idle >= 0);
      REQUIRE(stage.busy + stage.idle == Approx(simulation.seconds));
    }
  }
}

TEST_CASE("flights by chunk, and weighted with bytes", "[pipeline]") {
  const Program program{1,
                        2,
                        2,
                        {{{OperationKind::forward, 0, 0},
                          {OperationKind::forward, 0, 1},
                          {OperationKind::forward, 1, 0},
                          {OperationKind::backward, 1, 0},
                          {OperationKind::backward, 0, 0},
                          {OperationKind::forward, 1, 1},
                          {OperationKind::backward, 1, 1},
                          {OperationKind::backward, 0, 1}}}};
  require_valid(program);
  CHECK(peak_of_flights(program, 0) == 3);
  CHECK(peak_of_flights(program, 0, 0) == 2);
  CHECK(peak_of_flights(program, 0, 1) == 1);
  CHECK(peak_of_flights(program, 0, std::vector{10.0, 100.0}) == 120);
  CHECK(simulate(program, equal_costs(1, 2, {1, 1, 1})).stages[0].chunk_flights == std::vector{2, 1});
}

TEST_CASE("costs must fit the program", "[pipeline]") {
  const Program program = gpipe_program(2, 2);
  SimulatedCosts costs = equal_costs(2, 1, {1, 1, 1});
  costs.shares = {1};
  CHECK_THROWS_AS(simulate(program, costs), std::logic_error);
  CHECK_THROWS_AS(simulate(program, equal_costs(3, 1, {1, 1, 1})), std::logic_error);
}

}  // namespace unisono::parallel
