#include "pipeline/program.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

namespace unisono::parallel {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Message;

constexpr auto forward = OperationKind::forward;
constexpr auto backward = OperationKind::backward;
constexpr auto backward_inputs = OperationKind::backward_inputs;
constexpr auto backward_weights = OperationKind::backward_weights;

/// One stage, one chunk, two micro-batches.
Program of_one_stage(std::vector<Operation> operations) { return {1, 1, 2, {std::move(operations)}}; }

/// Interleaved 1F1B as it is defined for m that S divides, with a smaller last group.
Program with_a_smaller_last_group(int stages, int chunks, int micro_batches) {
  std::vector<Operation> order;
  for (int first = 0; first < micro_batches; first += stages) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < std::min(first + stages, micro_batches); ++i) order.push_back({forward, chunk, i});
    }
  }
  Program program{stages, chunks, micro_batches, {}};
  for (int s = 0; s < stages; ++s) {
    const auto ahead = std::min(order.size(), static_cast<std::size_t>((chunks - 1) * stages + 2 * (stages - s - 1)));
    std::vector<Operation>& list = program.ranks.emplace_back(order.begin(), order.begin() + std::ptrdiff_t(ahead));
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (k + ahead < order.size()) list.push_back(order[k + ahead]);
      list.push_back({backward, chunks - 1 - order[k].chunk, order[k].micro_batch});
    }
  }
  return program;
}

}  // namespace

TEST_CASE("pieces are numbered through the stages, chunk by chunk", "[pipeline]") {
  const Program program{4, 2, 1, {}};
  CHECK(program.pieces() == 8);
  CHECK(program.piece_of(3, 1) == 7);
  CHECK(program.stage_of(6) == 2);
  CHECK(program.chunk_of(6) == 1);
  CHECK_FALSE(program.source_of(0, forward));
  CHECK(program.target_of(3, forward) == 4);  // of chunk 1, on stage 0
  CHECK_FALSE(program.target_of(7, forward));
  CHECK_FALSE(program.source_of(7, backward));
  CHECK(program.source_of(3, backward_inputs) == 4);
  CHECK(program.target_of(4, backward) == 3);
  CHECK_FALSE(program.source_of(3, backward_weights));
  CHECK_FALSE(program.target_of(3, backward_weights));
}

TEST_CASE("a program runs each pass once and in order", "[pipeline]") {
  CHECK_NOTHROW(require_valid(of_one_stage({{forward, 0, 0}, {forward, 0, 1}})));  // evaluation
  CHECK_NOTHROW(require_valid(of_one_stage({{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}})));
  // The kinds of backward pass may differ between micro-batches.
  CHECK_NOTHROW(require_valid(of_one_stage(
      {{forward, 0, 0}, {forward, 0, 1}, {backward_inputs, 0, 0}, {backward_weights, 0, 0}, {backward, 0, 1}})));
}

TEST_CASE("a wrong operation is named", "[pipeline]") {
  const auto check = [](std::vector<Operation> operations, const std::string& message) {
    CHECK_THROWS_WITH(require_valid(of_one_stage(std::move(operations))), Contains(message));
  };
  check({{forward, 0, 0}, {forward, 0, 0}}, "stage 0: the forward pass of micro-batch 0 in chunk 0 is out of order");
  check({{forward, 0, 1}, {forward, 0, 0}}, "the forward pass of micro-batch 1 in chunk 0 is out of order");
  check({{forward, 0, 0}}, "the forward pass of micro-batch 1 in chunk 0 is missing");
  check({{forward, 1, 0}}, "the forward pass of micro-batch 0 in chunk 1 is out of order or out of range");
  check({{forward, 0, 0}, {forward, 0, 1}, {forward, 0, 2}},
        "micro-batch 2 in chunk 0 is out of order or out of range");
  check({{backward, 0, 0}, {forward, 0, 0}}, "the backward pass of micro-batch 0");
  check({{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}},
        "backward pass for inputs of micro-batch 1 in chunk 0 is m");
  check({{forward, 0, 0},
         {forward, 0, 1},
         {backward_inputs, 0, 0},
         {backward_inputs, 0, 1},
         {backward_weights, 0, 1},
         {backward_weights, 0, 0}},
        "backward pass for weights of micro-batch 1 in chunk 0 is out of order");
  check({{forward, 0, 0}, {forward, 0, 1}, {backward_inputs, 0, 0}, {backward_inputs, 0, 1}, {backward_weights, 0, 0}},
        "backward pass for weights of micro-batch 1 in chunk 0 is missing");
  check({{forward, 0, 0}, {backward_weights, 0, 0}}, "the backward pass for weights of micro-batch 0");
  check({{forward, 0, 0}, {forward, 0, 1}, {backward_inputs, 0, 0}, {backward, 0, 0}},
        "the backward pass of micro-batch 0");
  CHECK_THROWS_WITH(require_valid({2, 1, 1, {{}}}), Contains("2 stages, 1 chunks, 1 micro-batches and 1 lists"));
  CHECK_THROWS_WITH(require_valid({1, 1, 0, {{}}}), Contains("0 micro-batches"));
}

TEST_CASE("an operation that waits for ever is named", "[pipeline]") {
  // Stage 0 runs its second forward pass after the first backward pass, stage 1 wants it before.
  Program program{2, 1, 2, {}};
  program.ranks = {{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}},
                   {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}}};
  CHECK_THROWS_WITH(require_valid(program),
                    "pipeline: stage 0 waits for ever before the backward pass of micro-batch 0 in chunk 0");
}

TEST_CASE("interleaved 1F1B with a smaller last group deadlocks", "[pipeline]") {
  CHECK_NOTHROW(require_valid(with_a_smaller_last_group(8, 2, 16)));
  CHECK_THROWS_WITH(require_valid(with_a_smaller_last_group(8, 2, 12)), Contains("waits for ever"));
}

TEST_CASE("the execution order follows the needs of each operation", "[pipeline]") {
  Program program{2, 1, 1, {{{forward, 0, 0}, {backward, 0, 0}}, {{forward, 0, 0}, {backward, 0, 0}}}};
  std::vector<int> stages;
  for (const OperationPlace& place : execution_order(program)) stages.push_back(place.stage);
  CHECK(stages == std::vector{0, 1, 1, 0});
}

}  // namespace unisono::parallel
