#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "recommend/recommender.hpp"

namespace unisono::apply {

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
