#include "figures/recommendation.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "recommend/recommender.hpp"
#include "unisono/base/text.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/records/progress.hpp"

namespace unisono::apply {
namespace {

/// The relevant items of each user, ascending, without duplicates and without items that cannot be recommended.
class Relevant {
 public:
  Relevant(const RatedItems& liked, const RatedItems& excluded) : liked_(liked), excluded_(excluded) {}

  std::vector<std::uint32_t> of(Index user) const {
    std::vector<std::uint32_t> items(liked_.of(user).begin(), liked_.of(user).end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    std::vector<std::uint32_t> left;
    const auto rated = excluded_.of(user);
    std::set_difference(items.begin(), items.end(), rated.begin(), rated.end(), std::back_inserter(left));
    return left;
  }

 private:
  const RatedItems& liked_;
  const RatedItems& excluded_;
};

/// Computes three figures for each of users [first, last), at `figures` + 3 · user, and sets `counted` to 1 for those
/// with relevant items.
void judge(const Recommender& recommender, const Relevant& relevant, comm::Slice users, std::size_t k,
           std::vector<double>& figures, std::vector<std::int64_t>& counted) {
  std::vector<Recommendation> chosen(k);
  std::vector<std::int32_t> items(k);
  for (Index user = users.first; user < users.last; ++user) {
    const auto liked = relevant.of(user);
    if (liked.empty()) continue;
    const auto number = static_cast<std::int32_t>(user);
    recommender.recommend(std::span(&number, 1), chosen);
    std::transform(chosen.begin(), chosen.end(), items.begin(), [](const Recommendation& one) { return one.item; });
    const TopFigures found = top_figures(items, liked, k);
    const auto at = static_cast<std::size_t>(user);
    figures[3 * at] = found.precision;
    figures[3 * at + 1] = found.recall;
    figures[3 * at + 2] = found.ndcg;
    counted[at] = 1;
  }
}

/// What a relevant item at a place adds, 0 being the first. Järvelin & Kekäläinen, TOIS 20(4), 2002.
double gain(std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

}  // namespace

RecommendationFigures recommend_split(TrainedModel& model, comm::Communicator& replicas, std::int64_t k,
                                      std::optional<double> least) {
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  RecommendationFigures result{.k = k, .least = least.value_or(inputs.mean_value), .users = 0, .mean = {}};
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const RatedItems excluded(**model.data, inputs.rows, data::Split::train,
                            model.split == data::Split::train ? kNone : -kNone);
  const RatedItems liked(**model.data, inputs.rows, model.split, result.least);
  const auto places = static_cast<std::size_t>(k);
  const Recommender recommender(*model.parts->model, model.parts->state(), inputs.columns, excluded, places);
  const Relevant relevant(liked, excluded);

  std::vector<double> figures(3 * static_cast<std::size_t>(inputs.rows));
  std::vector<std::int64_t> counted(static_cast<std::size_t>(inputs.rows));
  const comm::Slice own = comm::slice_of(inputs.rows, replicas.rank(), replicas.size());
  ThreadTeam team(model.parts->placement.threads);
  team.run([&](int thread) {
    const comm::Slice part = comm::slice_of(own.last - own.first, thread, team.size());
    judge(recommender, relevant, {own.first + part.first, own.first + part.last}, places, figures, counted);
  });
  replicas.allreduce_sum(std::span(figures));  // a user's figures are 0 on all ranks but one
  replicas.allreduce_sum(std::span(counted));
  for (std::size_t user = 0; user < counted.size(); ++user) {
    result.users += counted[user];
    result.mean.precision += figures[3 * user];
    result.mean.recall += figures[3 * user + 1];
    result.mean.ndcg += figures[3 * user + 2];
  }
  const auto users = static_cast<double>(std::max<std::int64_t>(1, result.users));
  result.mean = {result.mean.precision / users, result.mean.recall / users, result.mean.ndcg / users};
  return result;
}

nlohmann::ordered_json to_json(const RecommendationFigures& figures) {
  return {{fmt::format("precision_at_{}", figures.k), figures.mean.precision},
          {fmt::format("recall_at_{}", figures.k), figures.mean.recall},
          {fmt::format("ndcg_at_{}", figures.k), figures.mean.ndcg},
          {"relevant_from", figures.least},
          {"users_with_relevant_items", figures.users}};
}

std::vector<std::string> to_text(const RecommendationFigures& figures) {
  const auto line = [&](const char* name, double value) {
    return fmt::format("  {:15} {:.6g}", fmt::format("{}@{}", name, figures.k), value);
  };
  return {
      fmt::format("  ranking, for {} with relevant items (rated {:.4g} or higher):", count_of(figures.users, "user"),
                  figures.least),
      line("precision", figures.mean.precision), line("recall", figures.mean.recall), line("ndcg", figures.mean.ndcg)};
}

TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k) {
  double hits = 0, found = 0, most = 0;
  for (std::size_t place = 0; place < std::min(k, recommended.size()); ++place) {
    const std::int32_t item = recommended[place];
    if (item < 0 || !std::binary_search(relevant.begin(), relevant.end(), static_cast<std::uint32_t>(item))) continue;
    ++hits;
    found += gain(place);
  }
  for (std::size_t place = 0; place < std::min(k, relevant.size()); ++place) most += gain(place);
  return {.precision = hits / static_cast<double>(k),
          .recall = hits / static_cast<double>(relevant.size()),
          .ndcg = found / most};
}

}  // namespace unisono::apply
