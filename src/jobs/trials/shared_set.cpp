#include "trials/shared_set.hpp"

#include <fmt/format.h>

#include "unisono/session/model_parts.hpp"

namespace unisono::jobs {

SharedSet::SharedSet(session::Job& job, ConfigText& text, const settings::Config& config) : text_(text) {
  data::DataSettings settings = config.data;
  if (settings.arrangement_seed < 0) {
    settings.arrangement_seed = config.seed;
    text_.overrides.push_back(fmt::format("data.arrangement_seed={}", config.seed));
  }
  set_ = job.open_set(job.ranks(), settings, static_cast<std::uint64_t>(config.seed));
}

data::Dataset& SharedSet::set() const { return **set_; }
const data::DatasetInfo& SharedSet::info() const { return set().info(); }

}  // namespace unisono::jobs
