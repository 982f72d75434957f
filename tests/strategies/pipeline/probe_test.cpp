#include "unisono/parallel/pipeline.hpp"

#include <catch2/catch.hpp>

#include "../small_network.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::strategies {
namespace {

/// Each look takes a second longer than the one before, so that every measured pass takes longer than the one before.
class SlowingClock final : public Clock {
 public:
  double seconds() const override { return now_ += ++looks_; }

 private:
  mutable double now_ = 0, looks_ = 0;
};

TEST_CASE("each segment between two cut points is timed", "[probe]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const Examples examples = small_images(4);
  const auto model =
      small_network(/*batch_norm=*/true)(models::ModelInputs{.features = examples.shape, .classes = examples.classes},
                                         {.backend = *backend, .reducer = reducer, .steps_together = true});
  const std::size_t segments = model->staged()->network().cut_points().size() + 1;
  REQUIRE(segments > 2);

  // Six rounds a segment, of which the first is not counted; three passes a round, two looks at the clock a pass.
  const auto seconds = parallel::time_segments(*model->staged(), *backend, 2, SlowingClock());
  REQUIRE(seconds.size() == segments);
  for (std::size_t i = 0; i < segments; ++i) {
    const double median_round = 6.0 * static_cast<double>(i) + 3, before = 6 * median_round;
    CHECK(seconds[i].forward == before + 2);
    CHECK(seconds[i].backward_inputs == before + 4);
    CHECK(seconds[i].backward_weights == before + 6);
  }
  for (const parallel::PassSeconds& one : parallel::time_segments(*model->staged(), *backend, 3)) {
    CHECK(one.forward > 0);
    CHECK(one.backward_weights >= 0);
  }
}

}  // namespace
}  // namespace unisono::strategies
