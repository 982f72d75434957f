#include "unisono/session/rank_texts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/text.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {

std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages) {
  const std::string all = count_of(ranks, "rank");
  if (stages > 1) return fmt::format("{} ({} of {})", all, count_of(workers, "replica"), count_of(stages, "stage"));
  if (workers > ranks) return fmt::format("{} that share {}", count_of(workers, "worker"), all);
  if (workers == ranks) return all;
  if (traits_of(config.strategy).divides_features) return all + ", which divide the features,";
  return fmt::format("{}, of which {} {},", all, workers, workers == 1 ? "trains" : "train");
}

std::string local_batch_text(const settings::Config& config, int workers) {
  const std::int64_t batch = config.train.batch_size;
  // A rank takes whole micro-batches, or a slice of each; m cuts of the batch begin at ⌊i · batch / m⌋.
  const bool whole = micro_batch_sharing(config, workers) == data::MicroBatchSharing::whole;
  const std::int64_t cuts = whole ? config.train.micro_batches : workers;
  const auto first_of = [&](std::int64_t rank) { return rank * cuts / workers * batch / cuts; };
  std::int64_t least = batch, most = 0;
  for (int rank = 0; rank < workers; ++rank) {
    const std::int64_t examples = first_of(rank + 1) - first_of(rank);
    least = std::min(least, examples);
    most = std::max(most, examples);
  }
  const std::string all = count_of(batch, "example");
  if (least == most) return fmt::format("{} of {}", grouped(least), all);
  return fmt::format("{} {} {} of {}", grouped(least), most == least + 1 ? "or" : "to", grouped(most), all);
}

}  // namespace unisono::session
