#include "unisono/nn/loss.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "reference_backend.hpp"
#include "unisono/base/errors.hpp"
#include "value_of.hpp"

namespace unisono::nn {
namespace {

using Catch::Matchers::Equals;

NetworkSettings with_loss(const std::string& loss, double smoothing = 0) {
  return {.loss = value_of(loss, kLossKinds), .label_smoothing = smoothing, .layers = {}};
}

std::string loss_error(const NetworkSettings& settings, const Shape& out, const TargetShape& data) {
  try {
    make_loss(settings, out, data);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("a loss and the data must fit each other", "[loss]") {
  const Shape ten{{10, 1, 1}}, image{{10, 2, 2}};
  CHECK(loss_error(with_loss("softmax_cross_entropy"), ten, {.classes = 10}) == "none");
  CHECK_THAT(loss_error(with_loss("softmax_cross_entropy"), ten, {.classes = 12}),
             Equals("model.loss: the last layer has 10 outputs but the data have 12 classes; give it 12 units"));
  CHECK_THAT(loss_error(with_loss("softmax_cross_entropy"), ten, {.target_size = 3}),
             Equals("model.loss: softmax_cross_entropy needs labels, but the data have none; use mean_squared_error "
                    "for targets, sigmoid_cross_entropy for several labels of an example (targets of 0 and 1), or data "
                    "with labels"));
  CHECK_THAT(
      loss_error(with_loss("softmax_cross_entropy"), image, {.classes = 10}),
      Equals("model.loss: softmax_cross_entropy needs one output per class, but the last layer gives 10×2×2; end "
             "with a global_average_pool or a dense layer"));
  CHECK(loss_error(with_loss("mean_squared_error"), image, {.target_size = 40}) == "none");
  CHECK_THAT(loss_error(with_loss("mean_squared_error"), ten, {.target_size = 1}),
             Equals("model.loss: mean_squared_error needs one output per target value, but the last layer gives 10 and "
                    "a target has 1; set the number of outputs to 1"));
  CHECK_THAT(loss_error(with_loss("mean_squared_error"), ten, {.classes = 10}),
             Equals("model.loss: mean_squared_error needs targets, but the data have none; use softmax_cross_entropy "
                    "for labels, or data.targets = \"features\" for an autoencoder"));
  CHECK_THAT(
      loss_error(with_loss("mean_squared_error", 0.1), ten, {.target_size = 10}),
      Equals(
          "model.label_smoothing: mean_squared_error has no labels to smooth; remove it, or use a cross-entropy loss"));
  CHECK(loss_error(with_loss("sigmoid_cross_entropy"), ten, {.classes = 10}) == "none");
  CHECK(loss_error(with_loss("sigmoid_cross_entropy"), ten, {.target_size = 10}) == "none");
  CHECK_THAT(loss_error(with_loss("sigmoid_cross_entropy"), ten, {}),
             Equals("model.loss: sigmoid_cross_entropy needs targets or labels, but the data have neither"));
  CHECK(loss_error(with_loss("multiclass_hinge"), ten, {.classes = 10}) == "none");
  CHECK_THAT(loss_error(with_loss("multiclass_hinge"), ten, {.classes = 12}),
             Equals("model.loss: the last layer has 10 outputs but the data have 12 classes; give it 12 units"));
  CHECK_THAT(loss_error(with_loss("multiclass_hinge"), ten, {.target_size = 3}),
             Equals("model.loss: multiclass_hinge needs labels, but the data have none; use mean_squared_error for "
                    "targets, sigmoid_cross_entropy for several labels of an example (targets of 0 and 1), or data "
                    "with labels"));
  CHECK_THAT(
      loss_error(with_loss("multiclass_hinge", 0.1), ten, {.classes = 10}),
      Equals("model.label_smoothing: multiclass_hinge does not support it; remove it, or use a cross-entropy loss"));
  for (const std::string loss : {"mean_absolute_error", "huber"}) {
    CHECK(loss_error(with_loss(loss), image, {.target_size = 40}) == "none");
    CHECK_THAT(loss_error(with_loss(loss), ten, {.classes = 10}),
               Equals("model.loss: " + loss +
                      " needs targets, but the data have none; use softmax_cross_entropy for labels, or data.targets "
                      "= \"features\" for an autoencoder"));
  }
}

TEST_CASE("one output of sigmoid cross-entropy tells two classes apart, and no more", "[loss]") {
  const Shape one{{1, 1, 1}};
  CHECK(loss_error(with_loss("sigmoid_cross_entropy"), one, {.classes = 2}) == "none");
  CHECK_THAT(loss_error(with_loss("sigmoid_cross_entropy"), one, {.classes = 3}),
             Equals("model.loss: sigmoid_cross_entropy with one output tells two classes apart, but the data have 3; "
                    "give the last layer 3 units, one for each class"));
  // σ(log 3) = ¾: −log ¾ where the label is 1, −log ¼ where it is 0.
  ReferenceBackend backend;
  const auto loss = make_loss(with_loss("sigmoid_cross_entropy"), one, {.classes = 2});
  CHECK(loss->classes() == 2);
  CHECK(loss->prediction_size() == 2);
  const std::vector<float> outputs = {std::log(3.0F), std::log(3.0F)};
  const std::vector<std::int32_t> labels = {1, 0};
  std::vector<float> slopes(2);
  kernels::LossSums sums;
  loss->apply(backend, 2, outputs, {labels, {}}, 1, slopes, sums);
  CHECK(sums.loss == Approx(std::log(4.0 / 3) + std::log(4.0)).epsilon(0x1p-20));
  CHECK(slopes[0] == Approx(-0.25).epsilon(0x1p-20));
  CHECK(slopes[1] == Approx(0.75).epsilon(0x1p-20));
  CHECK(sums.correct == 1);
  // The probabilities of both classes, for which there is room behind the outputs.
  std::vector<float> predictions = {std::log(3.0F), 0, -std::log(3.0F), -1, -1, -1};
  loss->to_predictions(predictions);
  CHECK(predictions[0] == Approx(0.25).epsilon(0x1p-22));
  CHECK(predictions[1] == Approx(0.75).epsilon(0x1p-22));
  CHECK(predictions[2] == 0.5F);
  CHECK(predictions[3] == 0.5F);
  CHECK(predictions[4] == Approx(0.75).epsilon(0x1p-22));
  CHECK(predictions[5] == Approx(0.25).epsilon(0x1p-22));
}

TEST_CASE("the multiclass hinge, by hand", "[loss]") {
  // Label 0 leads 2.5 by 0.5 only: 1 + 2 − 2.5. Label 2 leads by 3: nothing. Label 1 ties with both: the first of them.
  ReferenceBackend backend;
  const auto loss = make_loss(with_loss("multiclass_hinge"), {{3, 1, 1}}, {.classes = 3});
  const std::vector<float> outputs = {2.5F, 1, 2, /**/ 0, 1, 4, /**/ 1, 1, 1};
  const std::vector<std::int32_t> labels = {0, 2, 1};
  std::vector<float> slopes(9);
  kernels::LossSums sums;
  loss->apply(backend, 3, outputs, {labels, {}}, 0.5F, slopes, sums);
  CHECK(sums.loss == 0.5 + 0 + 1);
  CHECK(slopes == std::vector<float>{-0.5F, 0, 0.5F, /**/ 0, 0, 0, /**/ 0.5F, -0.5F, 0});
  CHECK(sums.correct == 2);
  std::vector<float> predictions = outputs;
  loss->to_predictions(predictions);
  CHECK(predictions == outputs);  // scores
}

TEST_CASE("softmax cross-entropy with smoothing, by hand", "[loss]") {
  // Logits log 1, log 2, log 5: p = 1/8, 2/8, 5/8. Label 2, smoothing 0.3: q = 0.1, 0.1, 0.8.
  ReferenceBackend backend;
  const auto loss = make_loss(with_loss("softmax_cross_entropy", 0.3), {{3, 1, 1}}, {.classes = 3});
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F)};
  const std::vector<std::int32_t> labels = {2};
  std::vector<float> slopes(3);
  kernels::LossSums sums;
  loss->apply(backend, 1, logits, {labels, {}}, 2, slopes, sums);
  CHECK(sums.loss == Approx(0.1 * std::log(8.0) + 0.1 * std::log(4.0) + 0.8 * std::log(1.6)).epsilon(0x1p-20));
  CHECK(slopes[0] == Approx(2 * (0.125 - 0.1)).epsilon(0x1p-20));
  CHECK(slopes[1] == Approx(2 * (0.25 - 0.1)).epsilon(0x1p-20));
  CHECK(slopes[2] == Approx(2 * (0.625 - 0.8)).epsilon(0x1p-20));
  CHECK(sums.correct == 1);
  CHECK(sums.examples == 1);

  std::vector<float> predictions = {0, std::log(2.0F), std::log(5.0F), 7, 7, 7};
  loss->to_predictions(predictions);
  CHECK(predictions[1] == Approx(0.25).epsilon(0x1p-22));
  CHECK(predictions[5] == Approx(1.0 / 3).epsilon(0x1p-22));
}

TEST_CASE("sigmoid cross-entropy takes labels as one-hot targets", "[loss]") {
  // σ(0) = ½ and σ(log 3) = ¾. Label 1: −(log(1 − ½) + log ¾)/2.
  ReferenceBackend backend;
  const std::vector<float> logits = {0, std::log(3.0F)}, one_hot = {0, 1};
  const std::vector<std::int32_t> labels = {1};
  kernels::LossSums by_labels, by_targets;
  std::vector<float> slopes(2);
  make_loss(with_loss("sigmoid_cross_entropy"), {{2, 1, 1}}, {.classes = 2})
      ->apply(backend, 1, logits, {labels, {}}, 1, slopes, by_labels);
  CHECK(by_labels.loss == Approx((std::log(2.0) + std::log(4.0 / 3)) / 2).epsilon(0x1p-20));
  CHECK(slopes[0] == Approx(0.25).epsilon(0x1p-22));
  CHECK(slopes[1] == Approx(-0.125).epsilon(0x1p-20));
  const auto with_targets = make_loss(with_loss("sigmoid_cross_entropy"), {{2, 1, 1}}, {.target_size = 2});
  with_targets->apply(backend, 1, logits, {{}, one_hot}, 1, slopes, by_targets);
  CHECK(by_targets.loss == by_labels.loss);
  CHECK(by_labels.correct == 1);
  CHECK(by_targets.correct == 1);

  std::vector<float> predictions = {0, std::log(3.0F)};
  with_targets->to_predictions(predictions);
  CHECK(predictions[0] == 0.5F);
  CHECK(predictions[1] == Approx(0.75).epsilon(0x1p-22));
}

TEST_CASE("hits of sigmoid cross-entropy: the label's output is the largest, or all outputs are on their sides",
          "[loss]") {
  ReferenceBackend backend;
  const std::vector<float> logits = {0.5F, 2, -1, /**/ 3, 3, -1, /**/ -2, -1, 5};
  kernels::LossSums by_labels, by_targets;
  const std::vector<std::int32_t> labels = {0, 0, 2};  // second largest; first of equals; largest
  make_loss(with_loss("sigmoid_cross_entropy"), {{3, 1, 1}}, {.classes = 3})
      ->apply(backend, 3, logits, {labels, {}}, 0, {}, by_labels);
  CHECK(by_labels.correct == 2);
  CHECK(by_labels.correct_top5 == 3);
  const std::vector<float> targets = {1, 1, 0, /**/ 1, 0, 0, /**/ 0, 0, 0.75F};  // the second's second is wrong
  make_loss(with_loss("sigmoid_cross_entropy"), {{3, 1, 1}}, {.target_size = 3})
      ->apply(backend, 3, logits, {{}, targets}, 0, {}, by_targets);
  CHECK(by_targets.correct == 2);
}

TEST_CASE("a NaN hits nothing", "[loss]") {
  ReferenceBackend backend;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {nan, nan}, targets = {0, 0};
  const std::vector<std::int32_t> labels = {0};
  kernels::LossSums sums;
  make_loss(with_loss("sigmoid_cross_entropy"), {{2, 1, 1}}, {.classes = 2})
      ->apply(backend, 1, logits, {labels, {}}, 0, {}, sums);
  make_loss(with_loss("sigmoid_cross_entropy"), {{2, 1, 1}}, {.target_size = 2})
      ->apply(backend, 1, logits, {{}, targets}, 0, {}, sums);
  CHECK(sums.correct == 0);
}

TEST_CASE("mean squared error is the mean over an example's outputs", "[loss]") {
  // (1 − 0)² + (3 − 5)² = 5, over 2.
  ReferenceBackend backend;
  const auto loss = make_loss(with_loss("mean_squared_error"), {{2, 1, 1}}, {.target_size = 2});
  const std::vector<float> outputs = {1, 3}, targets = {0, 5};
  std::vector<float> slopes(2);
  kernels::LossSums sums;
  loss->apply(backend, 1, outputs, {{}, targets}, 0.5F, slopes, sums);
  CHECK(sums.loss == 2.5);
  CHECK(slopes == std::vector<float>{0.5F, -1.0F});
  CHECK(sums.values == 2);
  CHECK(sums.absolute_error == 3);
  std::vector<float> predictions = {1, 3};
  loss->to_predictions(predictions);
  CHECK(predictions == outputs);
}

TEST_CASE("absolute and Huber errors, by hand", "[loss]") {
  // Errors 1 and −3: (1 + 3)/2. With δ = 2: ½ · 1² and 2 · (3 − 1), over 2.
  ReferenceBackend backend;
  const std::vector<float> outputs = {1, 2}, targets = {0, 5};
  std::vector<float> slopes(2);
  kernels::LossSums absolute, huber;
  make_loss(with_loss("mean_absolute_error"), {{2, 1, 1}}, {.target_size = 2})
      ->apply(backend, 1, outputs, {{}, targets}, 1, slopes, absolute);
  CHECK(absolute.loss == 2);
  CHECK(slopes == std::vector<float>{0.5F, -0.5F});
  NetworkSettings settings = with_loss("huber");
  settings.delta = 2;
  make_loss(settings, {{2, 1, 1}}, {.target_size = 2})->apply(backend, 1, outputs, {{}, targets}, 1, slopes, huber);
  CHECK(huber.loss == (0.5 + 4) / 2);
  CHECK(slopes == std::vector<float>{0.5F, -1});
  CHECK(huber.squared_error == 10);
  CHECK(huber.absolute_error == 4);
}

TEST_CASE("an example's weight multiplies its loss and its gradient", "[loss]") {
  // Squares 1 and 4, with weights 3 and ½: 3 + 2. Slopes 2 · error · weight.
  ReferenceBackend backend;
  const std::vector<float> outputs = {1, 3}, targets = {0, 5}, weights = {3, 0.5F};
  std::vector<float> slopes(2);
  kernels::LossSums sums;
  make_loss(with_loss("mean_squared_error"), {{1, 1, 1}}, {.target_size = 1})
      ->apply(backend, 2, outputs, {{}, targets}, {0.5F, weights}, slopes, sums);
  CHECK(sums.loss == 5);
  CHECK(slopes == std::vector<float>{3, -1});
  CHECK(sums.squared_error == 5);  // of rmse, which has no weights: 1 + 4
}

}  // namespace
}  // namespace unisono::nn
