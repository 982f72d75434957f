#include "recommend/recommender.hpp"

#include <catch2/catch.hpp>

#include "scratch_folder.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::apply {
namespace {

using testing::ScratchFolder;

/// Two users and four items; user 1 has rated items 3 and 0 for training.
std::unique_ptr<data::Dataset> ratings(const std::string& path) {
  {
    data::hdf5::File file(path, data::hdf5::File::Mode::create);
    file.write("train/users", std::vector<std::uint32_t>{1, 1});
    file.write("train/items", std::vector<std::uint32_t>{3, 0});
    file.write("train/ratings", std::vector<float>{5, 4});
    file.write("test/users", std::vector<std::uint32_t>{0});
    file.write("test/items", std::vector<std::uint32_t>{2});
    file.write("test/ratings", std::vector<float>{5});
    file.flush();
  }
  data::DataSettings settings;
  settings.path = path;
  return data::open_dataset(settings, 1);
}

/// Predicts 10 · user + θ[item].
class Tens final : public models::Model {
 public:
  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return layout_; }
  void initialise(std::uint64_t, models::ModelState) const override {}
  void loss_and_gradient(const data::Batch&, float, models::ModelState, const models::GradientTarget&,
                         kernels::LossSums&) override {}
  void evaluate(const data::Batch&, models::ModelState, kernels::LossSums&) override {}
  void predict(const data::Batch& batch, models::ModelState state, MutableView outputs) override {
    const auto entries = std::get<data::SparseEntries>(*batch.set);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      outputs[i] = 10 * static_cast<float>(entries[i].row) + state.parameters[entries[i].column];
    }
  }
  Index output_size() const override { return 1; }
  std::vector<models::Metric> metrics(const kernels::LossSums&) const override { return {}; }
  std::vector<models::LayerSummary> summary(Index) const override { return {}; }
  double flops_per_example() const override { return 0; }
  Index workspace_bytes(Index) const override { return 0; }

 private:
  ParameterLayout layout_;
};

TEST_CASE("what a user rated for training is known, and nothing else", "[rated_items]") {
  const ScratchFolder folder;
  const auto set = ratings(folder.path("set.h5"));
  const RatedItems rated(*set, 3);
  CHECK(rated.of(0).empty());
  CHECK(std::vector<std::uint32_t>(rated.of(1).begin(), rated.of(1).end()) == std::vector<std::uint32_t>{0, 3});
  CHECK(rated.of(2).empty());
  const RatedItems liked(*set, 3, data::Split::train, 4.5), tested(*set, 3, data::Split::test);
  CHECK(std::vector<std::uint32_t>(liked.of(1).begin(), liked.of(1).end()) == std::vector<std::uint32_t>{3});
  CHECK(tested.of(0).size() == 1);
  CHECK(tested.of(1).empty());
}

TEST_CASE("a user's best items are those that the user has not rated", "[recommender]") {
  const ScratchFolder folder;
  const auto set = ratings(folder.path("set.h5"));
  const RatedItems rated(*set, 2);
  Tens model;
  std::vector<float> theta = {4, 1, 2, 3};
  const Recommender recommender(model, {.parameters = theta, .statistics = {}}, 4, rated, 3);
  std::vector<Recommendation> chosen(6);
  const std::vector<std::int32_t> users = {1, 0};
  recommender.recommend(users, chosen);
  const auto is = [&](std::size_t i, std::int32_t item, float score) {
    return chosen[i].item == item && chosen[i].score == score;
  };
  CHECK(is(0, 2, 12));
  CHECK(is(1, 1, 11));
  CHECK(chosen[2].item == -1);  // there are but two left
  CHECK(is(3, 0, 4));
  CHECK(is(4, 3, 3));
  CHECK(is(5, 2, 2));
}

}  // namespace
}  // namespace unisono::apply
