#include "run/word_vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

constexpr Index kMostRows = 100'000, kFewestRows = 10;
constexpr double kCollapsed = 0.9;
constexpr std::int64_t kSmallText = 100'000;  // words

}  // namespace

double mean_cosine(const models::VectorTable& table, View parameters) {
  std::vector<double> row(static_cast<std::size_t>(table.width)), sum(row.size());
  double rows = 0;
  for (Index i = 0; i < std::min(table.rows, kMostRows); ++i) {
    std::ranges::fill(row, 0);
    for (const models::VectorTable::Component& part : table.parts) {
      const View values = parameters.subspan(static_cast<std::size_t>(part.offset + i * part.stride), row.size());
      for (std::size_t k = 0; k < row.size(); ++k) row[k] += static_cast<double>(part.scale * values[k]);
    }
    const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    if (!(norm > 0)) continue;
    ++rows;
    for (std::size_t k = 0; k < row.size(); ++k) sum[k] += row[k] / norm;
  }
  if (rows < 2) return std::numeric_limits<double>::quiet_NaN();
  return (std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0) - rows) / (rows * (rows - 1));
}

std::string warning_on_collapse(const models::Model& model, View parameters) {
  for (const models::VectorTable& table : model.vectors(parameters)) {
    if (table.name != "words" || table.rows < kFewestRows) continue;
    const double mean = mean_cosine(table, parameters);
    if (!(mean > kCollapsed)) continue;
    return fmt::format(
        "the vectors of words are nearly alike: the mean cosine of two words is {:.3f}, so that neighbours say little; "
        "train for more epochs, with a larger learning rate, or on more text",
        mean);
  }
  return "";
}

std::string warning_on_small_text(const std::string& path, data::Dataset& data) {
  const data::SetKind kind = data.info().kind;
  if (kind != data::SetKind::text && kind != data::SetKind::cooccurrences) return "";
  const auto& counts = data.occurrences();
  const std::int64_t words = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (counts.empty() || words >= kSmallText) return "";
  return fmt::format("{}: the training text has {} words; vectors of words from less than some {} words say little",
                     path, grouped(words), grouped(kSmallText));
}

}  // namespace unisono::session
