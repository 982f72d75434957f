#include "unisono/session/job.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "machine/shared_staging.hpp"
#include "run/stop.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/placement.hpp"

namespace unisono::session {
namespace {

/// All settings on which an opened set depends, except the seed, and the file's version.
std::string terms_of(const data::DataSettings& settings) {
  data::DataSettings copy = settings;  // `describe` is not const
  return unisono::effective_config([&](ConfigVisitor& visitor) { copy.describe(visitor); }) +
         file_version(settings.path);
}

/// All settings on which the staging of a set depends, and the file's version.
std::string staging_terms_of(const data::DataSettings& settings) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", settings.stage, settings.stage_bytes, settings.path,
                     static_cast<int>(settings.partition), file_version(settings.path));
}

struct OpenStaging {
  std::string terms;
  std::shared_ptr<const SharedStaging> staging = {};
};

struct OpenSet {
  std::string terms;
  std::uint64_t seed = 0;
  std::shared_ptr<SharedDataset> set = {};

  bool is(const std::string& wanted, std::uint64_t wanted_seed) const {
    return set && terms == wanted && (seed == wanted_seed || (*set)->info().kind == data::SetKind::table);
  }
};

std::unique_ptr<data::Dataset> view_of(const data::Dataset& set, const data::Fold* fold) {
  return fold == nullptr ? set.view() : set.fold_view(*fold);
}

}  // namespace

class Job::Signals : public StopSignals {};

struct Job::Groups {
  std::vector<std::unique_ptr<comm::Communicator>> made;
  std::map<const comm::Communicator*, OpenStaging> stagings;  ///< by group, likewise
  std::map<const comm::Communicator*, OpenSet> sets;          ///< by group: the job's and `made`; destroyed before them
};

Job::Job(comm::Communicator& ranks, Log& log, const JobOptions& options)
    : ranks_(ranks),
      log_(log),
      runtime_(options.runtime),
      signals_(options.heeds_signals ? std::make_unique<Signals>() : nullptr),
      place_(std::make_unique<NodePlace>(ranks)),
      groups_(std::make_unique<Groups>()) {
  groups_->sets[&ranks] = {};
}

Job::Job(Job& whole, comm::Communicator& ranks, Log& log, const Runtime* runtime)
    : ranks_(ranks),
      log_(log),
      runtime_(runtime != nullptr ? *runtime : whole.runtime_),
      whole_(&whole),
      place_(whole.place_),
      groups_(std::make_unique<Groups>()) {
  groups_->sets[&ranks] = {};
}

Job::~Job() = default;

int Job::received_signal() const {
  if (whole_ != nullptr) return whole_->received_signal();
  return signals_ ? signals_->received() : 0;
}

comm::Communicator& Job::split(int color, int key) {
  comm::Communicator& group = *groups_->made.emplace_back(ranks_.split(color, key));
  groups_->sets[&group] = {};
  return group;
}

std::shared_ptr<const SharedStaging> Job::stage_set(comm::Communicator& group, const data::DataSettings& settings) {
  if (settings.stage.empty()) return nullptr;
  const std::string terms = staging_terms_of(settings);
  if (whole_ != nullptr) {
    const auto found = whole_->groups_->stagings.find(&whole_->ranks_);
    if (found != whole_->groups_->stagings.end() && found->second.terms == terms) return found->second.staging;
  }
  if (!groups_->sets.contains(&group)) return std::make_shared<const SharedStaging>(group, settings, log_);
  OpenStaging& open = groups_->stagings[&group];
  if (group.max(open.terms == terms ? 0 : 1) == 0) return open.staging;
  open = {};  // ends the staging of the set before
  open = {.terms = terms, .staging = std::make_shared<const SharedStaging>(group, settings, log_)};
  return open.staging;
}

std::shared_ptr<SharedDataset> Job::open_set(comm::Communicator& group, const data::DataSettings& settings,
                                             std::uint64_t seed, const data::Fold* fold) {
  const std::string terms = terms_of(settings);
  if (settings.arrangement_seed >= 0) seed = static_cast<std::uint64_t>(settings.arrangement_seed);
  for (const Job* whole = whole_; whole != nullptr; whole = whole->whole_) {
    const OpenSet& open = whole->groups_->sets.at(&whole->ranks_);
    auto view = open.is(terms, seed) ? view_of(**open.set, fold) : nullptr;
    if (view) return std::make_shared<SharedDataset>(open.set, std::move(view));
  }
  auto set = open_whole_set(group, settings, terms, seed);
  if (fold == nullptr) return set;
  auto view = view_of(**set, fold);
  return std::make_shared<SharedDataset>(std::move(set), std::move(view));
}

std::shared_ptr<SharedDataset> Job::open_whole_set(comm::Communicator& group, const data::DataSettings& settings,
                                                   const std::string& terms, std::uint64_t seed) {
  const auto found = groups_->sets.find(&group);
  if (found == groups_->sets.end()) return std::make_shared<SharedDataset>(group, settings, seed);
  OpenSet& open = found->second;
  const bool all_have_it = group.max(open.is(terms, seed) ? 0 : 1) == 0;
  if (all_have_it) return open.set;
  open = {};  // frees the memory before the next set needs it
  open = {.terms = terms, .seed = seed, .set = std::make_shared<SharedDataset>(group, settings, seed)};
  return open.set;
}

}  // namespace unisono::session
