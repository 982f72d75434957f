#include "pipeline/schedules.hpp"

#include "all_schedules.hpp"

namespace unisono::parallel {
namespace {

/// "F0 F1 B0 B1" with b and W for the two halves; chunk c of micro-batch i as "F0.c".
std::string short_text(const Program& program, std::size_t stage) {
  std::string text;
  for (const Operation& operation : program.ranks.at(stage)) {
    text += text.empty() ? "" : " ";
    text += "FBbW"[static_cast<int>(operation.kind)];
    text += std::to_string(operation.micro_batch);
    if (program.chunks > 1) text += "." + std::to_string(operation.chunk);
  }
  return text;
}

}  // namespace

TEST_CASE("programs of three micro-batches, worked out by hand", "[pipeline]") {
  CHECK(short_text(naive_program(3, 3), 1) == "F0 B0 F1 B1 F2 B2");
  CHECK(short_text(gpipe_program(3, 3), 1) == "F0 F1 F2 B0 B1 B2");
  const Program alternating = one_forward_one_backward_program(3, 3);
  CHECK(short_text(alternating, 0) == "F0 F1 F2 B0 B1 B2");
  CHECK(short_text(alternating, 1) == "F0 F1 B0 F2 B1 B2");
  CHECK(short_text(alternating, 2) == "F0 B0 F1 B1 F2 B2");
  const Program split = zero_bubble_program(2, 3);
  CHECK(short_text(split, 0) == "F0 F1 b0 W0 F2 b1 W1 b2 W2");
  CHECK(short_text(split, 1) == "F0 b0 F1 b1 W0 F2 b2 W1 W2");
}

TEST_CASE("interleaved 1F1B, worked out by hand", "[pipeline]") {
  const Program two = interleaved_program(2, 2, 2);
  CHECK(short_text(two, 0) == "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  CHECK(short_text(two, 1) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
  // One group of three: stage 1 runs 3 + 0 forward passes ahead.
  CHECK(short_text(interleaved_program(2, 2, 3), 1) == "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 B0.0 B1.0 B2.0");
}

TEST_CASE("micro-batches that are left over are spread over the groups", "[pipeline]") {
  CHECK(interleaved_groups(4, 8) == std::vector{4, 4});
  CHECK(interleaved_groups(4, 11) == std::vector{6, 5});
  CHECK(interleaved_groups(8, 12) == std::vector{12});
  CHECK(interleaved_groups(8, 3) == std::vector{3});
  CHECK(interleaved_groups(1, 3) == std::vector{1, 1, 1});
}

TEST_CASE("every schedule's programs are valid", "[pipeline]") {
  for (const PipelineCase& one : all_pipeline_cases()) {
    INFO(one.text());
    REQUIRE_NOTHROW(require_valid(one.program()));
  }
  for (int stages : {11, 16}) {
    for (int m : {1, 10, 17, 31, 63, 64}) REQUIRE_NOTHROW(require_valid(interleaved_program(stages, 3, m)));
  }
}

TEST_CASE("programs of evaluation are valid and have no backward pass", "[pipeline]") {
  CHECK(short_text(forward_program(2, 2, 3), 0) == "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1");
  for (int stages = 1; stages <= 8; ++stages) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      for (int m = 1; m <= 20; ++m) {
        const Program program = forward_program(stages, chunks, m);
        REQUIRE_NOTHROW(require_valid(program));
        REQUIRE(program.ranks.front().size() == static_cast<std::size_t>(chunks * m));
      }
    }
  }
}

TEST_CASE("only interleaved has chunks", "[pipeline]") {
  CHECK(make_program(PipelineSchedule::interleaved, 2, 3, 4).chunks == 3);
  CHECK_THROWS_AS(make_program(PipelineSchedule::gpipe, 2, 2, 4), std::logic_error);
  CHECK(name_of(PipelineSchedule::one_forward_one_backward, kPipelineSchedules) == "1f1b");
}

}  // namespace unisono::parallel
