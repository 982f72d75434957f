#include "unisono/session/fair_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "unisono/base/text.hpp"

namespace unisono::session {
namespace {

/// \return how many of the ranks are in the control group
std::int64_t ranks_in(const std::string& group, const std::vector<RankCores>& ranks) {
  return std::count_if(ranks.begin(), ranks.end(), [&group](const RankCores& rank) {
    return std::any_of(rank.quotas.begin(), rank.quotas.end(),
                       [&group](const CpuQuota& quota) { return quota.group == group; });
  });
}

/// A rank's part of a quota.
double part_of(const CpuQuota& quota, const std::vector<RankCores>& ranks) {
  return quota.cores / static_cast<double>(std::max<std::int64_t>(1, ranks_in(quota.group, ranks)));
}

/// The quota of which the rank's part is the smallest; null: it has none.
const CpuQuota* tightest_quota(const RankCores& rank, const std::vector<RankCores>& ranks) {
  const auto least = std::min_element(
      rank.quotas.begin(), rank.quotas.end(),
      [&ranks](const CpuQuota& a, const CpuQuota& b) { return part_of(a, ranks) < part_of(b, ranks); });
  return least == rank.quotas.end() ? nullptr : &*least;
}

double share_of_cores(const RankCores& rank, const std::vector<RankCores>& ranks) {
  double share = 0;
  for (const int core : rank.cores) {
    const auto sharers = std::count_if(ranks.begin(), ranks.end(), [core](const RankCores& other) {
      return std::find(other.cores.begin(), other.cores.end(), core) != other.cores.end();
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(sharers, 1));
  }
  return share;
}

/// The threads for a share of cores: rounded down, but not by an inexact sum; at least 1.
int threads_on(double cores) { return std::max(1, static_cast<int>(cores + 1e-6)); }

}  // namespace

int fair_share(const RankCores& rank, const std::vector<RankCores>& ranks) {
  const CpuQuota* quota = tightest_quota(rank, ranks);
  const int threads = threads_on(share_of_cores(rank, ranks));
  return quota == nullptr ? threads : std::min(threads, threads_of_quota(part_of(*quota, ranks)));
}

std::string text_of_limit(const RankCores& rank, const std::vector<RankCores>& ranks) {
  const CpuQuota* quota = tightest_quota(rank, ranks);
  if (quota == nullptr || fair_share(rank, ranks) == threads_on(share_of_cores(rank, ranks))) return "";
  return fmt::format("a CPU quota of {:.4g} cores for {} ({}) limits the threads of a rank, which may run on {}",
                     quota->cores, count_of(ranks_in(quota->group, ranks), "rank"), quota->group,
                     count_of(std::ssize(rank.cores), "core"));
}

std::string text_of_crowd(const RankCores& rank, const std::vector<RankCores>& ranks, int threads) {
  std::set<int> cores;
  for (const RankCores& other : ranks) cores.insert(other.cores.begin(), other.cores.end());
  const auto text = [threads](std::int64_t sharers, const std::string& cores_text) {
    return fmt::format("{} of {} on {}", count_of(sharers, "rank"), count_of(threads, "thread"), cores_text);
  };
  if (threads > std::ssize(rank.cores) || std::ssize(ranks) * threads > std::ssize(cores)) {
    return text(std::ssize(ranks), count_of(std::ssize(cores), "core"));
  }
  const CpuQuota* quota = tightest_quota(rank, ranks);
  if (quota == nullptr || threads <= fair_share(rank, ranks)) return "";
  return text(ranks_in(quota->group, ranks), fmt::format("a CPU quota of {:.4g} cores", quota->cores));
}

}  // namespace unisono::session
