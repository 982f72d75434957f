#include "machine/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "unisono/base/available_memory.hpp"
#include "unisono/base/hash.hpp"
#include "unisono/base/text.hpp"

namespace unisono::experiment {
namespace {

/// The first hardware thread of the core that a CPU belongs to; the CPU itself if the system does not say.
int core_of(int cpu) {
  std::ifstream siblings(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = cpu;
  siblings >> first;  // "0,64" or "0-1"
  return first;
}

std::string text_of(const std::vector<int>& cores) { return fmt::format("{}", fmt::join(cores, " ")); }

std::vector<int> cores_from(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<int>(words), {}};
}

/// Gathers every rank's host and cores. \return the cores of this node's ranks, including this one
std::vector<std::vector<int>> cores_on_this_node(comm::Communicator& world, const std::vector<int>& own) {
  std::vector<std::vector<int>> ranks;
  const std::string host = world.host() + "\n";
  for (const std::string& text : world.all_gather_text(host + text_of(own))) {
    if (text.starts_with(host)) ranks.push_back(cores_from(text.substr(host.size())));
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

int fair_share(const std::vector<int>& cores, const std::vector<std::vector<int>>& ranks) {
  double share = 0;
  for (const int core : cores) {
    const auto sharers = std::count_if(ranks.begin(), ranks.end(), [core](const std::vector<int>& other) {
      return std::find(other.begin(), other.end(), core) != other.end();
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(sharers, 1));
  }
  return std::max(1, static_cast<int>(share + 1e-6));
}

NodePlace::NodePlace(comm::Communicator& job)
    : number_(job.node_rank()), cores_(cores_of_this_process()), ranks_(cores_on_this_node(job, cores_)) {}

Placement place_rank(comm::Communicator& group, const NodePlace& place, std::int64_t wanted, Log& log, int beside) {
  const auto& ranks = place.cores_of_ranks();
  const Placement placement{
      .cores = static_cast<int>(place.cores().size()),
      .threads = wanted > 0 ? static_cast<int>(wanted) : std::max(1, fair_share(place.cores(), ranks) - beside)};
  std::set<int> cores;
  for (const auto& rank : ranks) cores.insert(rank.begin(), rank.end());
  const std::int64_t node_threads = static_cast<std::int64_t>(ranks.size()) * placement.threads;
  const bool crowded = placement.threads > placement.cores || node_threads > static_cast<std::int64_t>(cores.size());
  const std::int64_t crowded_ranks = group.sum(static_cast<std::int64_t>(crowded));
  if (crowded_ranks > 0 && group.is_root()) {
    log.warning(
        fmt::format("{} of {} more threads than cores (here {} of {} on {}): expect less "
                    "speed; use fewer ranks{}",
                    crowded_ranks, count_of(group.size(), "rank") + (crowded_ranks == 1 ? " has" : " have"),
                    count_of(std::ssize(ranks), "rank"), count_of(placement.threads, "thread"),
                    count_of(std::ssize(cores), "core"), placement.threads > 1 ? " or a lower train.threads" : ""));
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

}  // namespace unisono::experiment
