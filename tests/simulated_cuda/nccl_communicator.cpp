// Communicators of NCCL: how ranks find each other, and groups of calls.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/nccl.hpp"

namespace simulated {
namespace {

constexpr auto longest_wait = std::chrono::seconds(60);

/// What a unique id holds: whose it is and its number.
struct Id {
  std::uint64_t process;
  std::uint64_t number;
};
std::uint64_t this_process() {
  static const std::uint64_t random = std::random_device{}();
  return random << 32 | static_cast<std::uint32_t>(getpid());
}
std::map<std::uint64_t, std::shared_ptr<Clique>>& cliques() {
  static auto& all = *new std::map<std::uint64_t, std::shared_ptr<Clique>>;
  return all;
}

/// When all ranks have come: whether they may be one communicator.
ncclResult_t outcome_of(const Clique& clique) {
  std::uint32_t devices = 0;
  for (const auto& rank : clique.ranks) {
    const std::uint32_t bit = 1U << rank->device;
    if ((devices & bit) != 0) return ncclInvalidUsage;
    devices |= bit;
  }
  return ncclSuccess;
}

ncclResult_t join(ncclComm_t* handle, int size, const ncclUniqueId& unique, int rank) {
  Id id{};
  std::memcpy(&id, unique.internal, sizeof id);
  if (handle == nullptr || size < 1 || rank < 0 || rank >= size) {
    return refuse(ncclInvalidArgument, "the rank is not below the number of ranks");
  }
  const auto found = cliques().find(id.number);
  if (id.process != this_process() || found == cliques().end()) {
    return refuse(ncclSystemError, "the unique id is of another process; ranks are simulated as threads of one");
  }
  Clique& clique = *found->second;
  if (clique.size == 0) {
    clique.size = size;
    clique.ranks.resize(static_cast<std::size_t>(size));
  }
  auto& place = clique.ranks[static_cast<std::size_t>(std::min(rank, clique.size - 1))];
  if (clique.size != size || place) return refuse(ncclInvalidUsage, "ranks differ in their number, or one came twice");
  place = std::make_shared<Communicator>();
  place->clique = found->second;
  place->rank = rank;
  place->device = current_device();
  *handle = communicators().add(place);
  ++machine().communicators;
  group().joining.push_back(place);
  if (++clique.joined == size) {
    clique.outcome = outcome_of(clique);
    machine().changed.notify_all();
  }
  return ncclSuccess;
}

ncclResult_t wait_for_joined(Session& session) {
  ncclResult_t result = ncclSuccess;
  for (const auto& c : std::exchange(group().joining, {})) {
    const Clique& clique = *c->clique;
    wait_until(
        session, [&] { return clique.outcome != ncclInProgress; }, "all ranks to make their communicator");
    if (clique.outcome != ncclSuccess) result = refuse(clique.outcome, "two ranks use one device");
  }
  return result;
}

/// Reads what of a configuration matters here.
bool is_blocking(const ncclConfig_t* config, ncclResult_t& result) {
  const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr) return true;
  const bool sound = config->size == usual.size && config->magic == usual.magic;
  const bool known = config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1;
  if (!sound || !known) result = refuse(ncclInvalidArgument, "the configuration was not initialised");
  return config->blocking != 0;
}

}  // namespace

Handles<ncclComm_t, Communicator>& communicators() {
  static auto& all = *new Handles<ncclComm_t, Communicator>;
  return all;
}

std::string& last_message() {
  thread_local std::string message;
  return message;
}
ncclResult_t refuse(ncclResult_t result, const char* why) {
  last_message() = why;
  return result;
}

Group& group() {
  thread_local Group group;
  return group;
}

ncclUniqueId new_id() {
  static std::uint64_t next = 0;
  const Id id{this_process(), ++next};
  cliques()[id.number] = std::make_shared<Clique>();
  ncclUniqueId unique{};
  std::memcpy(unique.internal, &id, sizeof id);
  return unique;
}

std::shared_ptr<Communicator> usable(ncclComm_t handle, ncclResult_t& result) {
  const auto c = communicators().find(handle);
  if (!c) {
    result = refuse(ncclInvalidArgument, "there is no such communicator");
  } else if (c->clique->outcome == ncclInProgress && group().depth == 0) {
    result = refuse(ncclInvalidUsage, "the communicator is not ready");
  } else if (c->finalized) {
    result = refuse(ncclInvalidUsage, "the communicator is finalized");
  } else if (c->clique->aborted) {
    result = refuse(ncclRemoteError, "a rank has aborted the communicator");
  }
  return c;
}

ncclResult_t make(ncclComm_t* handle, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  Session session;
  if (machine().devices.empty()) return refuse(ncclUnhandledCudaError, "there is no device");
  ncclResult_t result = ncclSuccess;
  const bool blocking = is_blocking(config, result);
  if (result == ncclSuccess) result = join(handle, size, id, rank);
  if (result != ncclSuccess || group().depth > 0) return result;
  if (blocking) return wait_for_joined(session);
  group().joining.clear();
  return ncclInProgress;
}

ncclResult_t submit_group(Session& session) {
  ncclResult_t result = wait_for_joined(session);
  for (const auto& [stream, work] : std::exchange(group().works, {})) {
    if (result != ncclSuccess) break;
    if (submit(session, stream, work) != cudaSuccess) {
      result = refuse(ncclUnhandledCudaError, "the stream does not take the operation");
    }
  }
  return result;
}

ncclResult_t add(const RankOperation& given, ncclComm_t handle, cudaStream_t stream_handle) {
  Session session;
  ncclResult_t result = ncclSuccess;
  const auto c = usable(handle, result);
  if (result != ncclSuccess) return result;
  RankOperation operation = given;
  const auto weighted = c->weighted_sums.find(static_cast<int>(operation.reduction));
  if (weighted != c->weighted_sums.end()) {
    operation.reduction = ncclSum;
    operation.factor = weighted->second;
  }
  const auto stream = find_stream(stream_handle);
  if (!stream || stream->device != c->device) {
    return refuse(ncclInvalidUsage, "the stream is not of the communicator's device");
  }
  if (const char* why = objection(*c, operation); why != nullptr) return refuse(ncclInvalidArgument, why);
  if (machine().fails(Call::collective)) return refuse(ncclSystemError, "fail_next");
  if (operation.count == 0) return ncclSuccess;
  auto& work = group().works[stream];
  if (!work) work = std::make_shared<GroupWork>();
  work->add(c, operation);
  return group().depth > 0 ? ncclSuccess : submit_group(session);
}

ncclResult_t finish(Session& session, Communicator& c) {
  wait_until(
      session, [&] { return c.outstanding == 0; }, "operations of a communicator that is destroyed");
  c.finalized = true;
  return ncclSuccess;
}

void wait_until(Session& session, const std::function<bool()>& condition, const char* what) {
  Machine& m = machine();
  auto deadline = std::chrono::steady_clock::now() + longest_wait;
  while (!condition()) {
    if (step_any(session)) {
      deadline = std::chrono::steady_clock::now() + longest_wait;
      continue;
    }
    m.open(0);
    if (m.changed.wait_until(session.lock, deadline) == std::cv_status::timeout) {
      fatal("a rank has waited for 60 s for %s", what);
    }
  }
}

}  // namespace simulated
