#include <array>
#include <barrier>
#include <thread>
#include <tuple>

#include "cpu_fixture.hpp"
#include "expect.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr float kHeadScale = 0.25F;

/// Rows of a head. Values are multiples of 1/8, so that logits are exact, and have ties.
struct HeadCase {
  HeadSpec spec;
  Floats x, w, before;  ///< before: what dW holds
  std::vector<std::int32_t> labels;

  /// Every fifth row has no label.
  HeadCase(const HeadSpec& spec_, Index rows)
      : spec(spec_),
        x(eighths(rows * spec.units, 91)),
        w(eighths(spec.vocabulary * spec.units, 92)),
        before(random_floats(spec.vocabulary * spec.units, 93)) {
    for (Index i = 0; i < rows; ++i) {
      labels.push_back(i % 5 == 3 ? -1 : static_cast<std::int32_t>(i * 7919 % spec.vocabulary));
    }
  }
  static Floats eighths(Index count, std::uint64_t stream) {
    Floats values = random_floats(count, stream);
    for (float& v : values) v = std::round(8 * v) / 8;
    return values;
  }
  Shape shape() const { return {{spec.units, 1, 1}, static_cast<Index>(labels.size())}; }
};

std::vector<double> head_sums(const LossSums& s) {
  return {s.loss, static_cast<double>(s.examples), static_cast<double>(s.correct), static_cast<double>(s.correct_top5)};
}

/// dx, dW; loss and counts.
Outputs head(CpuBackend& backend, const HeadCase& c, Write write, TensorGroup* group = nullptr) {
  const Buffer x = to_device(backend, c.shape(), c.x, 30);
  const Index rows = c.shape().batch;
  Buffer dx = fresh(backend, c.shape());
  Floats dw = c.before;
  if (write == Write::overwrite) std::ranges::fill(dw, std::nanf(""));
  LossSums sums{.loss = 1000, .examples = 7, .correct = 5, .correct_top5 = 6}, without = sums;
  const HeadInputs inputs{rows, x.view(), c.w, c.labels};
  backend.head_loss(c.spec, inputs, {kHeadScale, dx.view(), dw, write}, group, sums);
  backend.head_loss(c.spec, inputs, {.scale = kHeadScale, .write = write}, group, without);
  EXPECT(head_sums(sums) == head_sums(without));
  EXPECT(largest_unused(backend, c.shape(), dx.view()) == 0);
  return {{from_device(backend, c.shape(), dx), dw}, head_sums(sums)};
}

void check_head(const HeadCase& c, Write write) {
  INFO(c.labels.size() << " × " << c.spec.units << " × " << c.spec.vocabulary << ", smoothing " << c.spec.smoothing);
  const auto expected = reference::head_loss(c.spec, widen(c.x), widen(c.w), c.labels);
  const auto scale = static_cast<double>(kHeadScale), rows = static_cast<double>(c.labels.size());
  const auto classes = static_cast<double>(c.spec.vocabulary);
  reference::Values dx = expected.dx, dw = expected.dw;
  for (double& v : dx) v *= scale;
  for (std::size_t i = 0; i < dw.size(); ++i) {
    dw[i] = scale * dw[i] + (write == Write::add ? static_cast<double>(c.before[i]) : 0);
  }
  everywhere([&](CpuBackend& backend) { return head(backend, c, write); },
             [&](const Outputs& outputs) {
               // An exponential p errs by 6 u, and by u |ln p|, where the mean of |ln p| is below 10; sums of them in
               // runs of 32 by 32 u. So the loss of a row errs by 50 u, and p by 60 u.
               CHECK(std::abs(outputs.sums[0] - 1000 - expected.loss) <= (50 * rows + 1e-4) * kRoundoff);
               CHECK(outputs.sums[1] == 7 + static_cast<double>(expected.rows));
               CHECK(outputs.sums[2] == 5 + static_cast<double>(expected.correct));
               CHECK(outputs.sums[3] == 6 + static_cast<double>(expected.correct_top5));
               // dW is a sum of the rows' terms, and of what was there, below 1.
               // dz errs by 60 u p + 3 u, of which a row's Σ |w| is at most 63 u, and the sum itself by V roundings of
               // Σ |dz| ≤ 2.
               const double row = (63 + 3 * classes / 100 + 2 * classes) * kRoundoff * scale;
               CHECK(excess(outputs.tensors[0], dx, row) <= 1);
               CHECK(excess(outputs.tensors[1], dw, [&](std::size_t i) {
                       const double mass = expected.mass[i / static_cast<std::size_t>(c.spec.units)];
                       return kRoundoff * (scale * 63 * mass + rows * (scale * mass + 1));
                     }) <= 1);
             });
}

}  // namespace

TEST_CASE("the head gives the reference's losses, hits and gradients for any number of rows", "[head_loss]") {
  for (Index rows : {1, 3, 8, 9, 16, 17, 64, 65, 100, 130}) {
    const Write write = rows % 2 == 0 ? Write::overwrite : Write::add;
    for (float smoothing : {0.0F, 0.1F}) check_head(HeadCase({20, 65, smoothing}, rows), write);
  }
}

TEST_CASE("… for any number of units and classes", "[head_loss]") {
  for (Index units : {1, 6, 64, 70}) {
    for (Index classes : {1, 2, 24, 119, 120, 121, 300}) {
      check_head(HeadCase({units, classes, 0.1F}, 20), classes % 2 == 0 ? Write::overwrite : Write::add);
    }
  }
}

TEST_CASE("… for so many classes that rows are taken in chunks, and classes in ranges", "[long][head_loss]") {
  check_head(HeadCase({5, 33000, 0.1F}, 150), Write::overwrite);  // a chunk has 127 rows: one block, of 48
  check_head(HeadCase({4, 70000, 0}, 70), Write::add);            // a block has more than a chunk should
}

TEST_CASE("a row's gradient does not depend on how many rows there are", "[head_loss]") {
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.instruction_set = set});
    for (Index classes : {50, 5000}) {  // the latter in two ranges
      const HeadCase many({10, classes}, 100);
      HeadCase few = many;
      few.x.resize(50);
      few.labels.resize(5);
      const Floats all = head(backend, many, Write::overwrite).tensors[0];
      const Floats first = head(backend, few, Write::overwrite).tensors[0];
      CHECK(std::equal(first.begin(), first.end(), all.begin()));
    }
  }
}

TEST_CASE("no rows have no loss, and overwrite the gradient of the weights with zero, or add none", "[head_loss]") {
  const HeadCase c({3, 5}, 0);
  everywhere([&](CpuBackend& backend) { return head(backend, c, Write::overwrite); },
             [&](const Outputs& outputs) { CHECK(outputs.tensors[1] == Floats(15, 0.0F)); });
  everywhere([&](CpuBackend& backend) { return head(backend, c, Write::add); },
             [&](const Outputs& outputs) {
               CHECK(outputs.tensors[1] == c.before);
               CHECK(outputs.sums == std::vector<double>{1000, 7, 5, 6});
             });
}

TEST_CASE("rows without labels have no gradient, whatever they hold", "[head_loss]") {
  HeadCase c({6, 10}, 20);
  std::ranges::fill(c.labels, -1);
  everywhere([&](CpuBackend& backend) { return head(backend, c, Write::overwrite); },
             [&](const Outputs& outputs) {
               CHECK(outputs.tensors[0] == Floats(120, 0.0F));
               CHECK(outputs.tensors[1] == Floats(60, 0.0F));
               CHECK(outputs.sums == std::vector<double>{1000, 7, 5, 6});
             });
}

TEST_CASE("gradients of the head's weights and of its inputs can be had apart", "[head_loss]") {
  const HeadCase c({10, 300}, 30);
  CpuBackend backend({.threads = 2});
  const Outputs both = head(backend, c, Write::overwrite);
  const Buffer x = to_device(backend, c.shape(), c.x);
  Buffer dx = fresh(backend, c.shape());
  Floats dw(c.w.size());
  LossSums sums;
  const HeadInputs inputs{30, x.view(), c.w, c.labels};
  backend.head_loss(c.spec, inputs, {.scale = kHeadScale, .dx = dx.view()}, nullptr, sums);
  backend.head_loss(c.spec, inputs, {.scale = kHeadScale, .dw = dw}, nullptr, sums);
  CHECK(from_device(backend, c.shape(), dx) == both.tensors[0]);
  CHECK(dw == both.tensors[1]);
}

/// Adds up what two threads have.
class TwoThreads {
 public:
  class Group final : public TensorGroup {
   public:
    Group(TwoThreads& both, int own) : both_(both), own_(own) {}
    void sum(std::span<double> values) override {
      both_.given_[own_].assign(values.begin(), values.end());
      both_.meet_.arrive_and_wait();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = both_.given_[0][i] + both_.given_[1][i];
      both_.meet_.arrive_and_wait();
    }
    void sum_leaves(MutableView) override { FAIL("a head adds up no activations"); }

   private:
    TwoThreads& both_;
    std::size_t own_;
  };

 private:
  std::array<std::vector<double>, 2> given_;
  std::barrier<> meet_{2};
};

TEST_CASE("a head whose vocabulary two ranks share gives the bits of one rank with the same leaves", "[head_loss]") {
  struct Division {
    int units, vocabulary, leaves;
  };
  for (const Division& d : {Division{10, 301, 2}, Division{7, 2500, 4}, Division{5, 4, 2}}) {
    const int units = d.units, vocabulary = d.vocabulary, leaves = d.leaves;
    INFO(units << " × " << vocabulary << ", " << leaves << " leaves");
    HeadCase whole({units, vocabulary, 0.125F}, 70), all = whole;
    all.spec.leaves = all.spec.count = leaves;
    CpuBackend backend({.threads = 2});
    const Outputs undivided = head(backend, whole, Write::add), one = head(backend, all, Write::add);
    CHECK(one.sums[0] == Approx(undivided.sums[0]).epsilon(1e-6));
    CHECK(std::vector(one.sums.begin() + 1, one.sums.end()) ==
          std::vector(undivided.sums.begin() + 1, undivided.sums.end()));
    // Exponentials are divided by a sum in another order, which is rounded to a float: some 2 u of each probability.
    for (std::size_t i = 0; i < one.tensors[1].size(); ++i) {
      CHECK(std::abs(one.tensors[1][i] - undivided.tensors[1][i]) < 1e-6F);
    }

    TwoThreads both;
    std::array<Outputs, 2> parts;
    const auto compute = [&](int rank) {
      HeadCase own = all;
      own.spec.count = leaves / 2;
      own.spec.first = rank * own.spec.count;
      const auto first = own.spec.token(own.spec.first) * units, size = own.spec.held() * units;
      own.w = Floats(all.w.begin() + first, all.w.begin() + first + size);
      own.before = Floats(all.before.begin() + first, all.before.begin() + first + size);
      TwoThreads::Group group(both, rank);
      CpuBackend mine({.threads = 1});
      parts[static_cast<std::size_t>(rank)] = head(mine, own, Write::add, &group);
    };
    std::thread second([&] { compute(1); });
    compute(0);
    second.join();
    CHECK(parts[0].sums == one.sums);
    CHECK(parts[1].sums == one.sums);
    Floats dx = parts[0].tensors[0], dw = parts[0].tensors[1];
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += parts[1].tensors[0][i];
    dw.insert(dw.end(), parts[1].tensors[1].begin(), parts[1].tensors[1].end());
    CHECK(dx == one.tensors[0]);
    CHECK(dw == one.tensors[1]);
  }
}

TEST_CASE("the head's losses are finite where exponentials overflow, and NaN where a run diverged", "[head_loss]") {
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.instruction_set = set});
    HeadCase c({1, 2}, 1);
    c.labels = {1};
    c.w = {1000, -1000};
    c.x = {1};
    CHECK(head(backend, c, Write::overwrite).sums[0] == Approx(1000 + 2000));  // the label's logit is 2000 below
    c.x = {std::nanf("")};
    const Buffer x = to_device(backend, c.shape(), c.x);
    LossSums sums;
    backend.head_loss(c.spec, {1, x.view(), c.w, c.labels}, {.scale = 1}, nullptr, sums);
    CHECK(std::isnan(sums.loss));
    CHECK(sums.correct == 0);
  }
}

}  // namespace unisono::kernels::cpu
