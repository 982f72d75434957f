#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "import/row_split.hpp"
#include "import/spill.hpp"
#include "unisono/data/import_sparse.hpp"

namespace unisono::data {

/// A rating whose user and item are numbers.
struct NumberedRating {
  std::uint32_t user = 0, item = 0;
  float value = 0;
  double time = 0;
};

/// Ratings that are set aside on the disk.
class SpilledRatings {
 public:
  explicit SpilledRatings(const std::string& beside) : file_(beside) {}
  void add(const NumberedRating& rating) { file_.append(rating); }
  void for_each(const std::function<void(const NumberedRating&)>& visit);
  std::int64_t size() const { return static_cast<std::int64_t>(file_.bytes() / sizeof(NumberedRating)); }

 private:
  SpillFile file_;
};

/// Which group each rating belongs to, by one of RatingsOptions' ways. \param users how many there are
std::vector<Split> split_ratings(SpilledRatings& ratings, std::uint32_t users, const RatingsOptions& options);

}  // namespace unisono::data
