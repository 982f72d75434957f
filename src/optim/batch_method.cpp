#include "unisono/optim/batch_method.hpp"

#include <fmt/format.h>

#include "descent.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {

double BatchFunction::dot(View a, View b) {
  const std::pair<View, View> pair{a, b};
  double result = 0;
  dots({&pair, 1}, {&result, 1});
  return result;
}

void BatchFunction::dots(std::span<const std::pair<View, View>> pairs, std::span<double> sums) {
  sum(sums, [&](Index first, Index last, std::span<double> into) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      into[i] += dot_of(pairs[i].first.data() + first, pairs[i].second.data() + first, last - first);
    }
  });
}

std::unique_ptr<BatchMethod> make_batch_method(const OptimizerSettings& settings, Index size) {
  const OptimizerKind& kind = kind_of(settings);
  if (kind.make_batch != nullptr) return kind.make_batch(settings, size);
  throw ConfigError(fmt::format("optimizer.kind = \"{}\" is no method for the whole training set", settings.kind));
}

}  // namespace unisono::optim
