#include <functional>
#include <limits>
#include <numeric>

#include "cpu_fixture.hpp"
#include "reference_loss.hpp"

namespace unisono::kernels::cpu {
namespace {

using reference::Row;
using reference::row_of;

/// Sums as outputs, for comparisons bit by bit.
std::vector<double> listed(const LossSums& s) {
  return {s.loss,
          static_cast<double>(s.examples),
          static_cast<double>(s.correct),
          static_cast<double>(s.correct_top5),
          s.squared_error,
          s.absolute_error,
          s.target_sum,
          s.target_squared_sum,
          static_cast<double>(s.values)};
}

LossSums begun() { return {.loss = 1000, .examples = 7, .correct = 5, .correct_top5 = 6, .squared_error = 100}; }

constexpr float kLossScale = 0.25F, kSmoothing = 0.1F;

std::vector<std::int32_t> some_labels(Index batch, Index classes) {
  std::vector<std::int32_t> labels;
  for (Index n = 0; n < batch; ++n) labels.push_back(static_cast<std::int32_t>(n * 7 % classes));
  return labels;
}

Outputs softmax(CpuBackend& backend, Index classes, const Floats& logits, const std::vector<std::int32_t>& labels,
                float smoothing) {
  const Shape shape{{classes, 1, 1}, static_cast<Index>(labels.size())};
  const Buffer z = to_device(backend, shape, logits, 30);
  Buffer d = fresh(backend, shape);
  LossSums sums = begun(), without = begun();
  backend.softmax_cross_entropy(classes, shape.batch, z.view(), labels, smoothing, kLossScale, d.view(), sums);
  backend.softmax_cross_entropy(classes, shape.batch, z.view(), labels, smoothing, kLossScale, {}, without);
  CHECK(same_bits({{}, listed(sums)}, {{}, listed(without)}));  // NaN included
  CHECK(largest_unused(backend, shape, d.view()) == 0);
  return {{from_device(backend, shape, d)}, listed(sums)};
}

}  // namespace

TEST_CASE("softmax cross-entropy gives the reference's losses, hits and gradients", "[loss]") {
  for (const Index batch : kBatches) {
    for (Index classes : {1, 2, 4, 10, 1000}) {
      for (float smoothing : {0.0F, kSmoothing}) {
        INFO(batch << " × " << classes << ", smoothing " << smoothing);
        const auto size = static_cast<std::size_t>(classes);
        Floats logits = random_floats(batch * classes, 61, -8, 8);
        for (float& z : logits) z = std::round(4 * z) / 4;  // with ties
        const auto labels = some_labels(batch, classes);
        double loss = 1000;
        Index correct = 5, top5 = 6;
        Row gradient;
        const Row wide = widen(logits);
        for (std::size_t n = 0; n < labels.size(); ++n) {
          const Row z = reference::row_of(wide, n, size);
          const Row target = reference::smoothed(size, labels[n], static_cast<double>(smoothing));
          loss += reference::softmax_loss(z, target);
          correct += reference::rank_of(z, labels[n]) < 1 ? 1 : 0;
          top5 += reference::rank_of(z, labels[n]) < 5 ? 1 : 0;
          for (double d : reference::softmax_gradient(z, target))
            gradient.push_back(d * static_cast<double>(kLossScale));
        }
        in_all_layouts(
            [&](CpuBackend& backend) { return softmax(backend, classes, logits, labels, smoothing); },
            [&](const Outputs& outputs) {
              // Exponentials err by 2 u, their sum is in double; z − largest is exact for these logits. The
              // loss so errs by 2 u an example, a gradient by 5 u of softmax and 2 u of target, both ≤ 1.
              CHECK(std::abs(outputs.sums[0] - loss) <= (2 * static_cast<double>(batch) + 1e-5) * kRoundoff);
              CHECK(outputs.sums[1] == 7 + batch);
              CHECK(outputs.sums[2] == correct);
              CHECK(outputs.sums[3] == top5);
              CHECK(excess(outputs.tensors[0], gradient, 7 * kRoundoff * static_cast<double>(kLossScale)) <= 1);
            });
      }
    }
  }
}

TEST_CASE("softmax cross-entropy is stable where exponentials overflow, and says where a run diverged", "[loss]") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    // log(e⁰ + e^−2000) + 1000 − (−1000): the label's logit is 2000 below the other.
    CHECK(softmax(backend, 2, {1000, -1000}, {1}, 0).sums[0] == Approx(1000 + 2000));
    CHECK(softmax(backend, 2, {1000, -1000}, {0}, 0).sums[0] == 1000);
    CHECK(softmax(backend, 3, {-infinity, 0, 0}, {1}, 0).sums[0] == Approx(1000 + std::log(2)));
    for (const Floats& logits : {Floats{nan, 1, 2}, Floats{1, nan, 2}, Floats{1, 2, nan}, Floats{1, infinity, 2}}) {
      const Outputs outputs = softmax(backend, 3, logits, {1}, 0);
      CHECK(std::isnan(outputs.sums[0]));
    }
    CHECK(softmax(backend, 3, {0, nan, 0}, {1}, 0).sums[2] == 5);  // no hit
  }
}

TEST_CASE("the label's rank counts larger logits and equal ones before it", "[loss]") {
  CpuBackend backend({});
  const Floats logits{3, 1, 3, 2, 3, 5, 1, 0};  // ranks 1 5 2 4 3 0 6 7
  const int expected[] = {1, 5, 2, 4, 3, 0, 6, 7};
  for (std::int32_t label = 0; label < 8; ++label) {
    const Outputs outputs = softmax(backend, 8, logits, {label}, 0);
    CHECK(outputs.sums[2] == 5 + (expected[label] < 1 ? 1 : 0));
    CHECK(outputs.sums[3] == 6 + (expected[label] < 5 ? 1 : 0));
  }
}

TEST_CASE("sigmoid cross-entropy and squared error give the reference's losses and gradients", "[loss][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const auto size = static_cast<std::size_t>(shape.extent.size());
    const Floats z = random_floats(shape.size(), 62, -8, 8), targets = random_floats(shape.size(), 63, 0, 1);
    std::vector<double> sums(9), gradient;
    double sigmoid_loss = 1000;
    Row sigmoid_gradient;
    const Row wide = widen(z), wide_targets = widen(targets);
    for (std::size_t n = 0; n < static_cast<std::size_t>(shape.batch); ++n) {
      const Row y = reference::row_of(wide, n, size), t = reference::row_of(wide_targets, n, size);
      sums[0] += reference::error_loss({}, y, t);
      for (double d : reference::error_gradient({}, y, t)) gradient.push_back(d * static_cast<double>(kLossScale));
      sigmoid_loss += reference::sigmoid_loss(y, t, static_cast<double>(kSmoothing));
      for (double d : reference::sigmoid_gradient(y, t, static_cast<double>(kSmoothing))) {
        sigmoid_gradient.push_back(d * static_cast<double>(kLossScale));
      }
      for (std::size_t k = 0; k < size; ++k) {
        sums[4] += std::pow(y[k] - t[k], 2);
        sums[5] += std::abs(y[k] - t[k]);
        sums[6] += t[k];
        sums[7] += t[k] * t[k];
      }
    }
    const LossSums before = begun();
    in_all_layouts(
        [&](CpuBackend& backend) {
          const Buffer device = to_device(backend, shape, z, 30);
          Buffer d = fresh(backend, shape), d_sigmoid = fresh(backend, shape);
          LossSums s = before, s_sigmoid = before, without = before, without_sigmoid = before;
          backend.error_loss({shape.extent}, shape.batch, device.view(), targets, kLossScale, d.view(), s);
          backend.error_loss({shape.extent}, shape.batch, device.view(), targets, kLossScale, {}, without);
          backend.sigmoid_cross_entropy(shape.extent, shape.batch, device.view(), {}, targets, kSmoothing, kLossScale,
                                        d_sigmoid.view(), s_sigmoid);
          backend.sigmoid_cross_entropy(shape.extent, shape.batch, device.view(), {}, targets, kSmoothing, kLossScale,
                                        {}, without_sigmoid);
          CHECK(listed(s) == listed(without));
          CHECK(listed(s_sigmoid) == listed(without_sigmoid));
          CHECK(largest_unused(backend, shape, d.view()) == 0);
          CHECK(largest_unused(backend, shape, d_sigmoid.view()) == 0);
          Outputs outputs{{from_device(backend, shape, d), from_device(backend, shape, d_sigmoid)}, listed(s)};
          outputs.sums.push_back(s_sigmoid.loss);
          outputs.sums.push_back(static_cast<double>(s_sigmoid.examples));
          return outputs;
        },
        [&](const Outputs& outputs) {
          // Differences below 9 are rounded once, gradients three times more; squares are summed in double, where the
          // 1000 and 100 that the sums began with cost 2⁻⁵³ of them a rounding.
          const auto count = static_cast<double>(shape.batch);
          CHECK(excess(outputs.tensors[0], gradient, 4 * kRoundoff * 2 * 9 * 0.25 / static_cast<double>(size)) <= 1);
          CHECK(std::abs(outputs.sums[0] - (1000 + sums[0])) <= 2 * kRoundoff * sums[0] + 1e-12);
          CHECK(outputs.sums[1] == 7 + shape.batch);
          CHECK(std::abs(outputs.sums[4] - (100 + sums[4])) <= 2 * kRoundoff * sums[4] + 1e-12);
          for (std::size_t i : {5U, 6U, 7U}) CHECK(std::abs(outputs.sums[i] - sums[i]) <= kRoundoff * sums[i] + 1e-12);
          CHECK(outputs.sums[8] == shape.size());
          // σ errs by 5 u, t by 2 u. A loss is the difference of numbers up to 8, of 6, 3 and 1 roundings.
          CHECK(excess(outputs.tensors[1], sigmoid_gradient, 9 * kRoundoff * 0.25 / static_cast<double>(size)) <= 1);
          CHECK(std::abs(outputs.sums[9] - sigmoid_loss) <= 10 * 8 * kRoundoff * count + 1e-12);
          CHECK(outputs.sums[10] == 7 + shape.batch);
        });
  }
}

TEST_CASE("an element-wise loss of a diverged output is NaN", "[loss]") {
  const Shape shape{{2, 1, 1}, 3};
  const Floats outputs{0, 0, 0, std::nanf(""), 0, 0}, targets(6, 0.5F);
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const Buffer device = to_device(backend, shape, outputs);
    LossSums squared, sigmoid;
    for (const ErrorLoss loss : {ErrorLoss::absolute, ErrorLoss::huber, ErrorLoss::squared}) {
      squared = {};
      backend.error_loss({shape.extent, loss}, 3, device.view(), targets, 1, {}, squared);
      CHECK(std::isnan(squared.loss));
    }
    backend.sigmoid_cross_entropy(shape.extent, 3, device.view(), {}, targets, 0, 1, {}, sigmoid);
    CHECK(std::isnan(squared.absolute_error));
    CHECK(std::isnan(sigmoid.loss));
  }
}

TEST_CASE("sigmoid cross-entropy takes labels as one-hot targets, and hits where the label's logit is the largest",
          "[loss][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const auto size = static_cast<std::size_t>(shape.extent.size());
    Floats logits = random_floats(shape.size(), 66, -2, 2), one_hot(logits.size(), 0.0F);
    for (float& z : logits) z = std::round(4 * z) / 4;  // with ties
    const auto labels = some_labels(shape.batch, shape.extent.size());
    Index correct = 5, top5 = 6;
    const Row wide = widen(logits);
    for (std::size_t n = 0; n < labels.size(); ++n) {
      if (size > 1) one_hot[n * size + static_cast<std::size_t>(labels[n])] = 1;  // of one output: its target is 0
      if (size == 1) correct += logits[n] <= 0 ? 1 : 0;
      if (size == 1) continue;
      const int rank = reference::rank_of(reference::row_of(wide, n, size), labels[n]);
      correct += rank < 1 ? 1 : 0;
      top5 += rank < 5 ? 1 : 0;
    }
    in_all_layouts(
        [&](CpuBackend& backend) {
          const Buffer z = to_device(backend, shape, logits, 30);
          Buffer d = fresh(backend, shape), d_targets = fresh(backend, shape);
          LossSums sums = begun(), of_targets = begun();
          backend.sigmoid_cross_entropy(shape.extent, shape.batch, z.view(), labels, {}, kSmoothing, kLossScale,
                                        d.view(), sums);
          backend.sigmoid_cross_entropy(shape.extent, shape.batch, z.view(), {}, one_hot, kSmoothing, kLossScale,
                                        d_targets.view(), of_targets);
          CHECK(sums.loss == of_targets.loss);
          CHECK(from_device(backend, shape, d) == from_device(backend, shape, d_targets));
          CHECK(largest_unused(backend, shape, d.view()) == 0);
          return Outputs{{from_device(backend, shape, d)}, listed(sums)};
        },
        [&](const Outputs& outputs) {
          CHECK(outputs.sums[1] == 7 + shape.batch);
          CHECK(outputs.sums[2] == correct);
          CHECK(outputs.sums[3] == top5);
        });
  }
}

TEST_CASE("with targets a hit is every logit on its target's side", "[loss]") {
  // Rows of three: all on their sides; 0 counts as below; the last is on the wrong side; above ½ is above.
  const Shape shape{{3, 1, 1}, 4};
  const Floats logits{1, -1, 2, /**/ 0, 0, 0, /**/ 1, -1, 2, /**/ 1, -1, std::nanf("")};
  const Floats targets{1, 0, 0.75F, /**/ 0, 0.5F, 0.25F, /**/ 1, 0, 0.5F, /**/ 1, 0, 1};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const Buffer device = to_device(backend, shape, logits, 1);
    LossSums sums = begun();
    backend.sigmoid_cross_entropy(shape.extent, shape.batch, device.view(), {}, targets, 0, 1, {}, sums);
    CHECK(sums.correct == 5 + 2);
    CHECK(sums.correct_top5 == 6);
  }
}

TEST_CASE("a label of one logit is its target: two classes with one output", "[loss]") {
  // Logits 2, −1, 0, 3 of labels 1, 1, 0, 0: hits are the first and, 0 being the first class', the third.
  const Shape shape{{1, 1, 1}, 4};
  const Floats logits{2, -1, 0, 3}, targets{1, 1, 0, 0};
  const std::vector<std::int32_t> labels{1, 1, 0, 0};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const Buffer device = to_device(backend, shape, logits);
    Buffer by_label = fresh(backend, shape), by_target = fresh(backend, shape);
    LossSums sums, expected;
    backend.sigmoid_cross_entropy(shape.extent, 4, device.view(), labels, {}, 0, 1, by_label.view(), sums);
    backend.sigmoid_cross_entropy(shape.extent, 4, device.view(), {}, targets, 0, 1, by_target.view(), expected);
    CHECK(sums.loss == expected.loss);
    CHECK(sums.correct == 2);
    CHECK(from_device(backend, shape, by_label) == from_device(backend, shape, by_target));
  }
}

TEST_CASE("the multiclass hinge gives the reference's losses, hits and gradients", "[loss]") {
  for (Index batch : {0, 1, 3, 16, 17, 65, 130}) {
    for (Index classes : {1, 2, 4, 10, 300}) {
      INFO(batch << " × " << classes);
      const Shape shape{{classes, 1, 1}, batch};
      Floats scores = random_floats(batch * classes, 67, -2, 2);
      for (float& z : scores) z = std::round(4 * z) / 4;  // with ties, and margins of exactly 0; all sums are exact
      const auto labels = some_labels(batch, classes);
      double loss = 1000;
      Index correct = 5, top5 = 6;
      Row gradient;
      const Row wide = widen(scores);
      for (std::size_t n = 0; n < labels.size(); ++n) {
        const Row z = reference::row_of(wide, n, static_cast<std::size_t>(classes));
        loss += reference::hinge_loss(z, labels[n]);
        correct += reference::rank_of(z, labels[n]) < 1 ? 1 : 0;
        top5 += reference::rank_of(z, labels[n]) < 5 ? 1 : 0;
        for (double d : reference::hinge_gradient(z, labels[n]))
          gradient.push_back(d * static_cast<double>(kLossScale));
      }
      in_all_layouts(
          [&](CpuBackend& backend) {
            const Buffer z = to_device(backend, shape, scores, 30);
            Buffer d = fresh(backend, shape);
            LossSums sums = begun(), without = begun();
            backend.multiclass_hinge(classes, batch, z.view(), labels, kLossScale, d.view(), sums);
            backend.multiclass_hinge(classes, batch, z.view(), labels, kLossScale, {}, without);
            CHECK(listed(sums) == listed(without));
            CHECK(largest_unused(backend, shape, d.view()) == 0);
            return Outputs{{from_device(backend, shape, d)}, listed(sums)};
          },
          [&](const Outputs& outputs) {
            CHECK(outputs.sums[0] == loss);
            CHECK(outputs.sums[1] == 7 + batch);
            CHECK(outputs.sums[2] == correct);
            CHECK(outputs.sums[3] == top5);
            CHECK(excess(outputs.tensors[0], gradient, 0x1p-60) <= 1);
          });
    }
  }
}

TEST_CASE("a multiclass hinge of diverged scores is NaN", "[loss]") {
  const float nan = std::nanf("");
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    for (const Floats& scores : {Floats{nan, 1, 2}, Floats{1, nan, 2}, Floats{1, 2, nan}}) {
      LossSums sums;
      backend.multiclass_hinge(3, 1, to_device(backend, {{3, 1, 1}, 1}, scores).view(), std::vector<std::int32_t>{1}, 1,
                               {}, sums);
      CHECK(std::isnan(sums.loss));
      CHECK(sums.correct == 0);
    }
  }
}

TEST_CASE("absolute and Huber errors give the reference's losses and gradients", "[loss][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const auto size = static_cast<std::size_t>(shape.extent.size());
    const Floats y = random_floats(shape.size(), 68, -4, 4), targets = random_floats(shape.size(), 69, -1, 1);
    const Row wide = widen(y), wide_targets = widen(targets);
    for (const ErrorSpec& spec :
         {ErrorSpec{shape.extent, ErrorLoss::absolute}, ErrorSpec{shape.extent, ErrorLoss::huber},
          ErrorSpec{shape.extent, ErrorLoss::huber, 0.25F}}) {
      double loss = 1000;
      Row gradient;
      for (std::size_t n = 0; n < static_cast<std::size_t>(shape.batch); ++n) {
        const Row outputs = reference::row_of(wide, n, size), t = reference::row_of(wide_targets, n, size);
        loss += reference::error_loss(spec, outputs, t);
        for (double d : reference::error_gradient(spec, outputs, t))
          gradient.push_back(d * static_cast<double>(kLossScale));
      }
      in_all_layouts(
          [&](CpuBackend& backend) {
            const Buffer device = to_device(backend, shape, y, 30);
            Buffer d = fresh(backend, shape);
            LossSums sums = begun(), without = begun(), squared = begun();
            backend.error_loss(spec, shape.batch, device.view(), targets, kLossScale, d.view(), sums);
            backend.error_loss(spec, shape.batch, device.view(), targets, kLossScale, {}, without);
            CHECK(listed(sums) == listed(without));
            CHECK(largest_unused(backend, shape, d.view()) == 0);
            backend.error_loss({shape.extent}, shape.batch, device.view(), targets, kLossScale, {}, squared);
            squared.loss = sums.loss;
            CHECK(listed(sums) == listed(squared));  // the other figures are those of every loss of errors
            return Outputs{{from_device(backend, shape, d)}, listed(sums)};
          },
          [&](const Outputs& outputs) {
            // A difference below 5 is rounded once, and so is the gradient three times more.
            const auto count = static_cast<double>(shape.batch);
            CHECK(std::abs(outputs.sums[0] - loss) <= count * 5 * 5 * kRoundoff + 1e-12);
            CHECK(excess(outputs.tensors[0], gradient, 4 * kRoundoff * 5 * 0.25 / static_cast<double>(size)) <= 1);
          });
    }
  }
}

TEST_CASE("two labels of an example share its loss and its gradient, and the first one has the hit", "[loss]") {
  for (const Index batch : kBatches) {
    for (const Index classes : {1, 2, 10, 33}) {
      INFO(batch << " × " << classes);
      const Shape shape{{classes, 1, 1}, batch};
      const Floats logits = random_floats(shape.size(), 72, -4, 4), weights = random_floats(batch, 73, 0, 2);
      Floats shares = random_floats(batch, 74, 0, 1);
      if (batch > 2) shares[2] = 0;
      const auto first = some_labels(batch, classes);
      std::vector<std::int32_t> second;
      for (Index n = 0; n < batch; ++n) second.push_back(static_cast<std::int32_t>(n * 5 % classes));  // some are equal
      Floats of_first, of_second;                                                                      // weights
      for (std::size_t n = 0; n < weights.size(); ++n) {
        of_first.push_back(weights[n] * (1 - shares[n]));
        of_second.push_back(weights[n] * shares[n]);
      }
      using Apply = std::function<void(CpuBackend&, View, const Labels&, View, MutableView, LossSums&)>;
      const std::vector<Apply> losses = {
          [&](CpuBackend& b, View y, const Labels& labels, View w, MutableView d, LossSums& s) {
            b.softmax_cross_entropy(classes, batch, y, labels, kSmoothing, {kLossScale, w}, d, s);
          },
          [&](CpuBackend& b, View y, const Labels& labels, View w, MutableView d, LossSums& s) {
            b.sigmoid_cross_entropy(shape.extent, batch, y, labels, {}, kSmoothing, {kLossScale, w}, d, s);
          }};
      for (const Apply& apply : losses) {
        in_all_layouts(
            [&](CpuBackend& backend) {
              const Buffer z = to_device(backend, shape, logits);
              Buffer d = fresh(backend, shape), d_first = fresh(backend, shape), d_second = fresh(backend, shape);
              LossSums sums, sums_of_first, sums_of_second;
              apply(backend, z.view(), {first, second, shares}, weights, d.view(), sums);
              apply(backend, z.view(), first, of_first, d_first.view(), sums_of_first);
              apply(backend, z.view(), second, of_second, d_second.view(), sums_of_second);
              // Each loss errs by a few units of its size, at most 9, times the weight.
              const double expected = sums_of_first.loss + sums_of_second.loss;
              CHECK(std::abs(sums.loss - expected) <= 2 * 9 * 8 * static_cast<double>(batch) * kRoundoff);
              sums.loss = sums_of_first.loss;
              CHECK(listed(sums) == listed(sums_of_first));
              CHECK(largest_unused(backend, shape, d.view()) == 0);
              Row gradient = widen(from_device(backend, shape, d_first));
              const Row more = widen(from_device(backend, shape, d_second));
              for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += more[i];
              CHECK(excess(from_device(backend, shape, d), gradient, 2 * 16 * kRoundoff * kLossScale) <= 1);
              return Outputs{{from_device(backend, shape, d)}, listed(sums)};
            },
            [](const Outputs&) {});
      }
    }
  }
}

TEST_CASE("weights multiply each example's loss and gradient, and nothing else", "[loss]") {
  // Powers of two and 0: products are exact, so that gradients are the unweighted ones times the weights bit for bit.
  std::vector<Shape> rows;
  for (const Index batch : kBatches) {
    for (const Index values : kChannels) rows.push_back({{values, 1, 1}, batch});
  }
  for (const Shape& shape : rows) {
    INFO(shape.text());
    const Index classes = shape.extent.size();
    const Floats z = random_floats(shape.size(), 70, -3, 3), targets = random_floats(shape.size(), 71, 0, 1);
    const auto labels = some_labels(shape.batch, classes);
    Floats weights;
    for (Index n = 0; n < shape.batch; ++n) weights.push_back(std::vector<float>{2, 0, 0.25F, 1}[n % 4]);
    const ErrorSpec huber{shape.extent, ErrorLoss::huber, 0.5F};
    using Apply =
        std::function<void(CpuBackend&, View, std::size_t, std::size_t, const LossScale&, MutableView, LossSums&)>;
    const auto of = [&](std::size_t first, std::size_t count) { return std::span(labels).subspan(first, count); };
    const auto values_of = [&](std::size_t first, std::size_t count) {
      return View(targets).subspan(first * static_cast<std::size_t>(classes),
                                   count * static_cast<std::size_t>(classes));
    };
    const std::vector<Apply> losses = {
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) {
          b.softmax_cross_entropy(classes, static_cast<Index>(n), y, of(first, n), kSmoothing, scale, d, s);
        },
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) { b.multiclass_hinge(classes, static_cast<Index>(n), y, of(first, n), scale, d, s); },
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) {
          b.sigmoid_cross_entropy(shape.extent, static_cast<Index>(n), y, of(first, n), {}, kSmoothing, scale, d, s);
        },
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) {
          b.sigmoid_cross_entropy(shape.extent, static_cast<Index>(n), y, {}, values_of(first, n), 0, scale, d, s);
        },
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) { b.error_loss({shape.extent}, static_cast<Index>(n), y, values_of(first, n), scale, d, s); },
        [&](CpuBackend& b, View y, std::size_t first, std::size_t n, const LossScale& scale, MutableView d,
            LossSums& s) { b.error_loss(huber, static_cast<Index>(n), y, values_of(first, n), scale, d, s); }};
    for (std::size_t which = 0; which < losses.size(); ++which) {
      INFO("loss " << which);
      const Apply& apply = losses[which];
      in_all_layouts(
          [&](CpuBackend& backend) {
            const auto count = static_cast<std::size_t>(shape.batch), size = static_cast<std::size_t>(classes);
            const Buffer device = to_device(backend, shape, z);
            Buffer d = fresh(backend, shape), plain = fresh(backend, shape);
            LossSums weighted, unweighted;
            apply(backend, device.view(), 0, count, {kLossScale, weights}, d.view(), weighted);
            apply(backend, device.view(), 0, count, kLossScale, plain.view(), unweighted);
            double loss = 0;
            for (std::size_t n = 0; n < count; ++n) {
              const Shape one{shape.extent, 1};
              const Floats row(z.begin() + static_cast<std::ptrdiff_t>(n * size),
                               z.begin() + static_cast<std::ptrdiff_t>((n + 1) * size));
              LossSums own;
              apply(backend, to_device(backend, one, row).view(), n, 1, kLossScale, {}, own);
              loss += static_cast<double>(weights[n]) * own.loss;
            }
            CHECK(weighted.loss == Approx(loss).epsilon(1e-13).margin(1e-13));  // sums of doubles in another order
            weighted.loss = unweighted.loss;
            CHECK(listed(weighted) == listed(unweighted));
            CHECK(largest_unused(backend, shape, d.view()) == 0);
            Floats expected = from_device(backend, shape, plain);
            for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= weights[i / size];
            CHECK(from_device(backend, shape, d) == expected);
            return Outputs{{from_device(backend, shape, d)}, listed(weighted)};
          },
          [](const Outputs&) {});
    }
  }
}

TEST_CASE("the reference's gradients of losses are central differences", "[loss]") {
  const Row z = widen(random_floats(6, 64, -2, 2)), t = widen(random_floats(6, 65, 0, 1));
  const Row target = reference::smoothed(6, 2, 0.1);
  CHECK(std::accumulate(target.begin(), target.end(), 0.0) == Approx(1));
  CHECK(gradient_error([&](const Row& at) { return reference::softmax_loss(at, target); }, z,
                       reference::softmax_gradient(z, target)) < 1e-8);
  CHECK(gradient_error([&](const Row& at) { return reference::sigmoid_loss(at, t, 0.1); }, z,
                       reference::sigmoid_gradient(z, t, 0.1)) < 1e-8);
  for (const ErrorLoss loss : {ErrorLoss::squared, ErrorLoss::absolute, ErrorLoss::huber}) {
    const ErrorSpec spec{.extent = {6, 1, 1}, .loss = loss, .delta = 0.75F};
    CHECK(gradient_error([&](const Row& at) { return reference::error_loss(spec, at, t); }, z,
                         reference::error_gradient(spec, z, t)) < 1e-8);
  }
  for (std::int32_t label = 0; label < 6; ++label) {
    CHECK(gradient_error([&](const Row& at) { return reference::hinge_loss(at, label); }, z,
                         reference::hinge_gradient(z, label)) < 1e-8);
  }
}

}  // namespace unisono::kernels::cpu
