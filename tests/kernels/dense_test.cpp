#include "product_case.hpp"

namespace unisono::kernels::cpu {
namespace {

void check_dense(const DenseSpec& spec, const ProductOptions& options) {
  INFO("batch " << options.batch << ", " << spec.in.channels << " × " << spec.in.height << " × " << spec.in.width
                << " → " << spec.units);
  const ProductCase c(reference::as_convolution(spec), options);
  const ProductReference reference(c);
  in_all_layouts([&](CpuBackend& backend) { return run(backend, c, dense_layer(backend, c)); },
                 [&](const Outputs& outputs) { check(c, reference, outputs); });
}

}  // namespace

TEST_CASE("a dense layer gives the reference's outputs and gradients for any batch", "[dense]") {
  for (const Index batch : kBatches) check_dense({{70, 1, 1}, 50}, {.batch = batch});
}

TEST_CASE("… for any number of inputs and units", "[dense]") {
  for (Index in : {1, 3, 5, 16, 20, 63, 64, 65, 129}) {
    for (Index units : {1, 2, 5, 6, 7, 16, 20, 49, 100}) check_dense({{in, 1, 1}, units}, {.batch = 17});
  }
}

TEST_CASE("… for images, whose values are flattened in canonical order", "[dense]") {
  check_dense({{3, 4, 5}, 7}, {.batch = 18});
  check_dense({{20, 2, 3}, 10}, {.batch = 65});
}

TEST_CASE("… for sums long enough to be taken in parts", "[dense]") {
  check_dense({{2100, 1, 1}, 9}, {.batch = 3});
  check_dense({{9, 1, 1}, 2100}, {.batch = 3});
}

TEST_CASE("… with fused relu, without bias, and added to what is there (dense)", "[dense]") {
  for (Activation activation : {Activation::none, Activation::relu}) {
    for (bool bias : {false, true}) {
      for (Write write : {Write::overwrite, Write::add}) {
        check_dense({{30, 1, 1}, 21, activation}, {.batch = 70, .bias = bias, .write = write});
      }
    }
  }
}

TEST_CASE("large layers are right, whatever the number of examples", "[long][dense]") {
  for (Index batch : {1, 20, 130}) {
    for (const auto& [in, units] : {std::pair<Index, Index>{300, 70}, {33, 500}, {700, 32}}) {
      check_dense({{in, 1, 1}, units, Activation::relu}, {.batch = batch});
      check_dense({{in, 1, 1}, units}, {.batch = batch, .bias = false, .write = Write::add});
    }
  }
}

TEST_CASE("a gradient of so many weights that it is written past the caches is right", "[long][dense]") {
  check_dense({{1040, 1, 1}, 2020}, {.batch = 1});
}

TEST_CASE("an example's outputs and gradients do not depend on how many there are beside it", "[dense]") {
  const auto outputs = [](InstructionSet set, const DenseSpec& spec, Index batch) {
    ProductCase c(reference::as_convolution(spec), {.batch = batch});
    CpuBackend backend({.threads = 2, .instruction_set = set});
    return run(backend, c, dense_layer(backend, c));
  };
  const std::vector<DenseSpec> specs = {
      {{300, 1, 1}, 70, Activation::none}, {{1100, 1, 1}, 33, Activation::relu}, {{5, 1, 1}, 3, Activation::relu}};
  for (InstructionSet set : available_instruction_sets()) {
    for (const DenseSpec& spec : specs) {
      const Outputs many = outputs(set, spec, 70);
      for (Index batch : {1, 2, 3, 4, 5, 8, 9}) {
        INFO(loops_for(set).name << ", " << spec.in.channels << " → " << spec.units << ", batch " << batch);
        const Outputs some = outputs(set, spec, batch);
        for (std::size_t tensor : {0, 2}) {
          const Floats& first = some.tensors[tensor];
          CHECK(std::equal(first.begin(), first.end(), many.tensors[tensor].begin()));
        }
      }
    }
  }
}

TEST_CASE("where parameters are fixed, few examples have the same outputs", "[dense]") {
  for (const auto& [in, units] : {std::pair<Index, Index>{300, 70}, {2100, 5}, {7, 130}}) {
    for (Index batch : {0, 1, 3, 8, 9}) {
      const DenseSpec spec{{in, 1, 1}, units, Activation::relu};
      const ProductCase c(reference::as_convolution(spec), {.batch = batch});
      for (InstructionSet set : available_instruction_sets()) {
        const auto outputs = [&](bool fixed) {
          CpuBackend backend({.threads = 2, .instruction_set = set});
          if (fixed) backend.fix_parameters();
          const Buffer x = to_device(backend, c.in(), c.x);
          Buffer y = fresh(backend, c.out());
          backend.dense_forward(spec, batch, x.view(), c.w, c.b, y.view());
          return from_device(backend, c.out(), y);
        };
        CHECK(outputs(true) == outputs(false));
      }
    }
  }
}

TEST_CASE("NaNs pass through a large layer, and those of what is overwritten do not", "[dense]") {
  ProductCase c(reference::as_convolution({{300, 1, 1}, 70, Activation::relu}), {.batch = 2});
  c.x[0] = std::nanf("");
  for (float& weight : c.dw) weight = std::nanf("");
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.instruction_set = set});
    const Outputs outputs = run(backend, c, dense_layer(backend, c));  // y is full of NaNs before
    for (std::size_t i = 0; i < 140; ++i) CHECK(std::isnan(outputs.tensors[0][i]) == (i < 70));
    const Floats& dw = outputs.tensors[3];  // [units][in]
    for (std::size_t i = 0; i < dw.size(); ++i) CHECK(std::isnan(dw[i]) == (i % 300 == 0));
  }
}

TEST_CASE("infinities and NaNs of a diverged run pass through a dense layer", "[dense]") {
  ProductCase c(reference::as_convolution({{4, 1, 1}, 3, Activation::relu}), {.batch = 2});
  c.x[0] = std::nanf("");
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.instruction_set = set});
    const Floats y = run(backend, c, dense_layer(backend, c)).tensors[0];
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i < 3));  // of the first example
  }
}

}  // namespace unisono::kernels::cpu
