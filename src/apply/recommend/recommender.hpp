#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/best.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

namespace unisono::apply {

/// Which items each user has rated in one group of a set of ratings.
class RatedItems {
 public:
  /// \param least only ratings of at least this
  RatedItems(data::Dataset& ratings, Index users, data::Split split = data::Split::train,
             double least = -std::numeric_limits<double>::infinity());

  /// The items that a user has rated, ascending.
  std::span<const std::uint32_t> of(Index user) const {
    const auto first = begins_[static_cast<std::size_t>(user)], last = begins_[static_cast<std::size_t>(user) + 1];
    return std::span(items_).subspan(first, last - first);
  }

 private:
  std::vector<std::size_t> begins_;  ///< [users + 1]
  std::vector<std::uint32_t> items_;
};

/// An item and its predicted rating; item −1: no unrated item was left.
struct Recommendation {
  std::int32_t item = -1;
  float score = 0;
};

/// Chooses for each user the unrated items with the highest predicted ratings. Thread-safe.
class Recommender {
 public:
  /// \param model a model of ratings, whose `predict` is thread-safe
  Recommender(models::Model& model, models::ModelState state, Index items, const RatedItems& rated, std::size_t top)
      : model_(model), state_(state), items_(items), rated_(rated), top_(top) {}

  /// \param chosen [users, top], overwritten
  void recommend(std::span<const std::int32_t> users, std::span<Recommendation> chosen) const;

 private:
  models::Model& model_;
  models::ModelState state_;
  Index items_;
  const RatedItems& rated_;
  std::size_t top_;
};

/// Writes recommendations to a file, which gets its name when it is complete.
class RecommendationSink {
 public:
  virtual ~RecommendationSink() = default;
  /// Writes the recommendations for the next users. \param chosen [users, top] \throws OutputError
  virtual void write(std::span<const std::int32_t> users, std::span<const Recommendation> chosen) = 0;
  /// \throws OutputError
  virtual void finish() = 0;
};

/// Where recommendations are written, and the names to write.
struct RecommendationOptions {
  std::string path;  ///< FILE.h5 or FILE.csv
  std::size_t users = 0, top = 0;
  const std::vector<std::string>& user_names;
  const std::vector<std::string>& item_names;
  bool overwrite = false;  ///< replace earlier predictions
};

/// \throws ConfigError for another file name extension, OutputError if the file cannot be written
std::unique_ptr<RecommendationSink> make_recommendation_sink(const RecommendationOptions& options);

}  // namespace unisono::apply
