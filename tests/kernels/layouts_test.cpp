#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {

TEST_CASE("lanes hold every example once, in blocks of at most 64 lanes", "[lanes]") {
  for (Index batch = 1; batch <= 400; ++batch) {
    const Lanes lanes(batch);
    CHECK((lanes.width == Lanes::kNarrow || lanes.width % Lanes::kVector == 0));
    CHECK(lanes.width <= Lanes::kMaximum);
    Index used = 0;
    for (Index block = 0; block < lanes.blocks; ++block) {
      CHECK(lanes.used(block) > 0);
      used += lanes.used(block);
    }
    CHECK(used == batch);
    CHECK(lanes.blocks * lanes.width - batch < 16 * lanes.blocks + 16);  // less than a register a block is wasted
  }
}

TEST_CASE("a batch of 65 is a block of 48 and one of 17 examples; none is a block of empty lanes", "[lanes]") {
  CHECK(Lanes(65).blocks == 2);
  CHECK(Lanes(65).width == 48);
  CHECK(Lanes(65).used(0) == 48);
  CHECK(Lanes(65).used(1) == 17);
  CHECK(Lanes(0).blocks == 1);
  CHECK(Lanes(0).width == 8);
  CHECK(Lanes(0).used(0) == 0);
}

TEST_CASE("images of 16 channels, or of few examples, have their channels innermost; features their examples",
          "[layouts]") {
  const Methods methods;
  for (Index batch : {0, 1, 4, 5, 64}) {
    CHECK(methods.innermost_of({32, 4, 1}, batch) == Innermost::channels);
    CHECK(methods.innermost_of({32, 1, 1}, batch) == Innermost::examples);
    CHECK(methods.innermost_of({20, 4, 4}, batch) == (batch <= 4 ? Innermost::channels : Innermost::examples));
  }
}

TEST_CASE("load puts [example][c][y][x] at [block][y][x][c][lane], zeros beside it; store is its inverse",
          "[layouts][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const Extent& e = shape.extent;
    Lanes lanes(0);
    const Floats values = random_floats(shape.size(), 1);
    const auto run = [&](CpuBackend& backend) {
      lanes = lanes_of(backend, shape);
      Buffer x = fresh(backend, shape);
      backend.load(e, shape.batch, values, x.view());
      return Outputs{{Floats(x.data(), x.data() + x.size()), from_device(backend, shape, x)}, {}};
    };
    in_all_layouts(run, [&](const Outputs& outputs) {
      const Floats& x = outputs.tensors[0];
      bool right = static_cast<Index>(x.size()) == lanes.size(e);
      for (std::size_t i = 0; right && i < x.size(); ++i) {
        const auto at = static_cast<Index>(i);
        const Index lane = at % lanes.width, c = at / lanes.width % e.channels;
        const Index pixel = at / lanes.width / e.channels % (e.height * e.width);
        const Index block = at / lanes.width / e.size(), example = block * lanes.width + lane;
        const bool real = block < lanes.blocks && lane < lanes.used(block);
        const Index from = (example * e.channels + c) * e.height * e.width + pixel;
        right = x[i] == (real ? values[static_cast<std::size_t>(from)] : 0.0F);
      }
      CHECK(right);
      CHECK(outputs.tensors[1] == values);
    });
  }
}

TEST_CASE("stored weights are [O][KH][KW][I], features [y][x][c]: in the order of activations", "[layouts]") {
  const CpuBackend backend({});
  CHECK(backend.dense_weight_axes() == std::vector<int>{0, 2, 3, 1});
  CHECK(backend.convolution_weight_axes() == std::vector<int>{0, 2, 3, 1});
  CHECK(backend.feature_axes() == std::vector<int>{1, 2, 0});
}

}  // namespace unisono::kernels::cpu
