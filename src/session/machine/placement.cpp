#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "machine/placement.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/session/placement.hpp"

namespace unisono::session {
namespace {

/// The first hardware thread of the core that a CPU belongs to; the CPU itself if the system does not say.
int core_of(int cpu) {
  std::ifstream siblings(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = cpu;
  siblings >> first;  // "0,64" or "0-1"
  return first;
}

/// A line of cores, then a line for each quota: "0 1 2 3\n1.5 /sys/fs/cgroup/jobs\n".
std::string text_of(const RankCores& rank) {
  std::string text = fmt::format("{}\n", fmt::join(rank.cores, " "));
  for (const CpuQuota& quota : rank.quotas) text += fmt::format("{} {}\n", quota.cores, quota.group);
  return text;
}

RankCores rank_from(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::istringstream cores(line);
  RankCores rank{{std::istream_iterator<int>(cores), {}}, {}};
  for (CpuQuota quota; lines >> quota.cores && std::getline(lines >> std::ws, quota.group);) {
    rank.quotas.push_back(quota);
  }
  return rank;
}

/// Gathers every rank's host and cores. \return those of this node's ranks, including this one
std::vector<RankCores> ranks_on_this_node(comm::Communicator& world, const RankCores& own) {
  std::vector<RankCores> ranks;
  const std::string host = world.host() + "\n";
  for (const std::string& text : world.all_gather_text(host + text_of(own))) {
    if (text.starts_with(host)) ranks.push_back(rank_from(text.substr(host.size())));
  }
  return ranks;
}

}  // namespace

std::vector<int> cores_of_this_process() {
  // Machines with more than 1024 CPUs need a larger set than cpu_set_t's.
  for (std::size_t cpus = 1024; cpus <= (1U << 20); cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    std::set<int> cores;
    for (std::size_t cpu = 0; known && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask)) cores.insert(core_of(static_cast<int>(cpu)));
    }
    CPU_FREE(mask);
    if (known) return {cores.begin(), cores.end()};
  }
  return {0};
}

NodePlace::NodePlace(comm::Communicator& job, const std::string& root)
    : number_(job.node_rank()),
      own_{cores_of_this_process(), cpu_quotas(root)},
      ranks_(ranks_on_this_node(job, own_)) {}

Placement place_rank(comm::Communicator& group, const NodePlace& place, std::int64_t wanted, Log& log, int beside,
                     std::string_view key) {
  const Placement placement{.cores = static_cast<int>(place.own().cores.size()),
                            .threads = wanted > 0 ? static_cast<int>(wanted) : std::max(1, place.fair_share() - beside),
                            .quota_text = wanted > 0 ? "" : text_of_limit(place.own(), place.ranks())};
  const std::string crowd = text_of_crowd(place.own(), place.ranks(), placement.threads);
  const std::int64_t crowded_ranks = group.sum(static_cast<std::int64_t>(!crowd.empty()));
  if (crowded_ranks > 0 && group.is_root()) {
    log.warning(fmt::format("{} of {} more threads than cores{}: expect less speed; use fewer ranks{}", crowded_ranks,
                            count_of(group.size(), "rank") + (crowded_ranks == 1 ? " has" : " have"),
                            crowd.empty() ? "" : " (here " + crowd + ")",
                            placement.threads > 1 ? fmt::format(" or a lower {}", key) : ""));
  }
  return placement;
}

std::string cpu_name() {
  static const std::string name = [] {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return std::string("unknown CPU");
  }();
  return name;
}

std::uint64_t build_hash() {
  static const std::uint64_t hash = [] {
    std::ifstream binary("/proc/self/exe", std::ios::binary);
    return hash_stream(binary);
  }();
  return hash;
}

std::int64_t peak_memory_bytes() { return process_status_bytes("VmHWM:"); }
std::int64_t resident_memory_bytes() { return process_status_bytes("VmRSS:"); }

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

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double resource_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimited;
  }
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

ProcessLimits limits_of_this_process() {
  return {.data = resource_limit(RLIMIT_DATA), .address_space = resource_limit(RLIMIT_AS)};
}

double free_memory_bytes(int ranks_of_node, const ProcessLimits& limits, const std::string& root) {
  const auto left = [&root](double limit, const char* used) {
    return limit - static_cast<double>(process_status_bytes(used, root));
  };
  const auto node = available_memory_bytes(root);
  const double share = node ? static_cast<double>(*node) / ranks_of_node : kUnlimited;
  return std::max(0.0, std::min({share, left(limits.data, "VmData:"), left(limits.address_space, "VmSize:")}));
}

}  // namespace unisono::session
