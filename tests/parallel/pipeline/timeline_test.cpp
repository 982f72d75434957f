#include "pipeline/timeline.hpp"

#include "all_schedules.hpp"

namespace unisono::parallel {
namespace {

using Catch::Matchers::Contains;

std::string picture(const Program& program, const PassSeconds& seconds, int columns) {
  return timeline_text(program, simulate(program, equal_costs(program.stages, program.chunks, seconds)), columns);
}

}  // namespace

TEST_CASE("timelines of two stages and two micro-batches, drawn by hand", "[pipeline]") {
  CHECK(picture(one_forward_one_backward_program(2, 2), {1, 1, 1}, 8 + 18) ==
        "stage 0 0011....####..####\n"
        "stage 1 ..00####11####....\n"
        "0-9 forward (last digit of the micro-batch)  # backward  . idle\n"
        "9 s in all, 0.5 s a column\n");
  CHECK(picture(zero_bubble_program(2, 2), {1, 1, 1}, 8 + 14) ==
        "stage 0 0011..<<==<<==\n"
        "stage 1 ..00<<11<<====\n"
        "0-9 forward (last digit of the micro-batch)  < backward for inputs  = for weights  . idle\n"
        "7 s in all, 0.5 s a column\n");
  CHECK(picture(interleaved_program(2, 2, 2), {2, 2, 2}, 8 + 30) ==
        "stage 0 0011aabb....####..############\n"
        "stage 1 ..0011aa####bb############....\n"
        "0-9 forward (last digit of the micro-batch; a-j in chunk 1)  # backward  . idle\n"
        "15 s in all, 0.5 s a column\n");
}

TEST_CASE("a timeline of evaluation has forward passes alone", "[pipeline]") {
  CHECK(picture(forward_program(2, 1, 3), {1, 1, 1}, 8 + 12) ==
        "stage 0 000111222...\n"
        "stage 1 ...000111222\n"
        "0-9 forward (last digit of the micro-batch)  . idle\n"
        "4 s in all, 0.333 s a column\n");
}

TEST_CASE("timelines fit their width", "[pipeline]") {
  for (const auto& [name, value] : {std::pair{PipelineSchedule::zero_bubble, 1}, {PipelineSchedule::interleaved, 3}}) {
    const std::string text = picture(make_program(name, 8, value, 32), {1, 1, 1}, 100);
    std::size_t first = 0;
    for (int line = 0; line < 9; ++line) {
      const std::size_t end = text.find('\n', first);
      CHECK(end - first <= 100);
      first = end + 1;
    }
  }
}

TEST_CASE("a drawn timeline has a block for each operation, an axis and a legend", "[pipeline]") {
  const Program program = zero_bubble_program(2, 2);
  const std::string drawing = timeline_svg(program, simulate(program, equal_costs(2, 1, {1, 1, 1})));
  CHECK_THAT(drawing, Contains("<title>backward pass for weights of micro-batch 1 in chunk 0: 6 to 7 s</title>"));
  CHECK_THAT(drawing, Contains(">stage 1</text>"));
  CHECK_THAT(drawing, Contains(">backward for inputs</text>"));
  CHECK_THAT(drawing, Contains(">7 s</text>"));
  CHECK_THAT(drawing, Contains(">7 s in all</text>"));
  CHECK_THAT(drawing, !Contains(">backward</text>"));
  std::size_t blocks = 0;
  for (std::size_t at = 0; (at = drawing.find(" of micro-batch ", at)) != std::string::npos; ++at) ++blocks;
  CHECK(blocks == 12);
}

}  // namespace unisono::parallel
