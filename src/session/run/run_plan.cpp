#include "unisono/session/run_plan.hpp"

#include <algorithm>
#include <utility>

#include "run/resume.hpp"
#include "run/run_outputs.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/rank_checks.hpp"
#include "unisono/session/thread_choice.hpp"

namespace unisono::session {

const Choice* RunPlan::trial_of_threads() const {
  const auto found = std::ranges::find(choices, ChosenBy::trial, &Choice::by);
  return found == choices.end() ? nullptr : &*found;
}

RunPlan plan_run(Job& job, comm::Communicator& group, const settings::Config& asked, const RunOptions& options) {
  require_same_experiment(group, asked);
  // What was chosen for the first part of a resumed run stays, whatever would be chosen now.
  const bool resumes = options.existing == records::Existing::resume;
  Settled settled = resumes ? settle_as_before(group, asked) : Settled(asked);
  // The placement gives the ranks their order, on which all that follows depends. It looks at the set's shapes alone.
  const auto inspect = [&asked] { return data::inspect_dataset(asked.data); };
  PlacedRanks ranks = place_ranks(group, job.place(), std::move(settled), inspect, job.log());
  // A folder that cannot be used is an error before the set is read, which may take long.
  auto folder = claim_folder(ranks.group, ranks.settled.config, options);
  auto set = job.open_set(ranks.group, asked.data, static_cast<std::uint64_t>(asked.seed), options.fold);
  settled = settle(std::move(ranks.settled), (*set)->info());
  // The trial trains on the set, with what the data have decided.
  if (!resumes) settled = choose_threads({ranks.group, job.place(), job.log()}, std::move(settled), **set);
  return {.config = std::move(settled.config),
          .choices = std::move(settled.choices),
          .reordered = std::move(ranks.reordered),
          .group = ranks.group,
          .given_rank = ranks.given_rank,
          .folder = std::move(folder),
          .set = std::move(set)};
}

}  // namespace unisono::session
