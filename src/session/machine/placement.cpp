#include "unisono/session/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "unisono/base/random.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/base/text.hpp"

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

}  // namespace unisono::session
