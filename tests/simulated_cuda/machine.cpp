#include "simulated_cuda/machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulated_cuda/block.hpp"

namespace simulated {
namespace {

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = variable(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const auto value = std::strtoull(text, &end, 10);
  if (*end != '\0') fatal("%s is '%s'; a number is wanted", name, text);
  return value;
}

unsigned long long number_of(std::uint64_t count) { return count; }

/// The devices that CUDA_VISIBLE_DEVICES lets through: as CUDA, those before the first that does not exist, and none if
/// one is named twice.
std::vector<int> visible(int count) {
  std::vector<int> chosen;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) chosen.push_back(i);
    return chosen;
  }
  for (const char* at = text; *at != '\0';) {
    char* end = nullptr;
    const long index = std::strtol(at, &end, 10);
    if (end == at || (*end != ',' && *end != '\0') || index < 0 || index >= count) break;
    for (const int other : chosen) {
      if (other == index) return {};
    }
    chosen.push_back(static_cast<int>(index));
    at = *end == ',' ? end + 1 : end;
  }
  return chosen;
}

/// Appends this process' counts to the file that the environment names, as a line of JSON.
void report() {
  const char* path = variable("UNISONO_SIMULATED_REPORT");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) fatal("UNISONO_SIMULATED_REPORT is '%s', which cannot be written", path);
  const Statistics counts = statistics();
  std::fprintf(file,
               "{\"kernels\": %llu, \"graph_launches\": %llu, \"convolutions\": %llu, \"matmuls\": %llu, "
               "\"blocking_copies\": %llu, \"host_synchronisations\": %llu, \"unlisted_graphs\": %llu}\n",
               number_of(counts.kernels), number_of(counts.graph_launches), number_of(counts.convolutions),
               number_of(counts.matmuls), number_of(counts.blocking_copies), number_of(counts.host_synchronisations),
               number_of(counts.unlisted_graphs));
  std::fclose(file);
}

std::unique_ptr<Machine>& the_machine() {
  static auto& pointer = *new std::unique_ptr<Machine>(std::make_unique<Machine>());  // outlives all static objects
  return pointer;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  const auto count = number("UNISONO_SIMULATED_DEVICES", 1);
  if (count > 32) fatal("UNISONO_SIMULATED_DEVICES is %d; at most 32 devices are simulated", static_cast<int>(count));
  settings.devices = visible(static_cast<int>(count));
  settings.memory = number("UNISONO_SIMULATED_MEMORY", settings.memory);
  settings.eager = number("UNISONO_SIMULATED_EAGER", 0) != 0;
  settings.order = number("UNISONO_SIMULATED_ORDER", 1);
  return settings;
}

Machine::Machine() {
  static const int registered = std::atexit(report);
  if (registered != 0) fatal("a function cannot be registered with atexit");
  for (const int place : settings.devices) {
    const int index = static_cast<int>(devices.size());
    auto legacy = std::make_shared<Stream>();
    legacy->device = index;
    legacy->legacy = true;
    devices.push_back(
        std::unique_ptr<Device>(new Device{index, place, DeviceMemory(settings.memory), std::move(legacy)}));
  }
}

Machine& machine() { return *the_machine(); }

Session::Session() {
  if (inside_host_function()) fatal("a function that cudaLaunchHostFunc was given calls a library of CUDA");
  lock = std::unique_lock(machine().mutex);
  if (current_device() >= static_cast<int>(machine().devices.size())) current_device() = 0;  // after a restart
}

int& current_device() {
  thread_local int device = 0;
  return device;
}
cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}
bool& inside_host_function() {
  thread_local bool inside = false;
  return inside;
}

bool Machine::inside_device(const void* pointer) const {
  for (const auto& device : devices) {
    if (device->memory.inside(pointer)) return true;
  }
  return false;
}

bool Machine::holds_pinned(const void* pointer, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto next = pinned.upper_bound(address);
  if (next == pinned.begin()) return false;
  const auto& [begin, memory] = *std::prev(next);
  return address - begin <= memory.bytes && bytes <= memory.bytes - (address - begin) &&
         (bytes > 0 || address - begin < memory.bytes);
}

bool Machine::touches_pinned(const void* pointer, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const auto next = pinned.lower_bound(begin);
  if (next != pinned.end() && next->first < begin + bytes) return true;
  return next != pinned.begin() && std::prev(next)->first + std::prev(next)->second.bytes > begin;
}

Location Machine::locate(const void* pointer, std::size_t bytes) const {
  for (const auto& device : devices) {
    if (!device->memory.inside(pointer)) continue;
    return {device->memory.holds(pointer, bytes) ? Home::device : Home::nowhere, device->index};
  }
  if (holds_pinned(pointer, bytes)) return {Home::pinned, 0};
  if (touches_pinned(pointer, bytes)) return {};  // in part, or in parts that were pinned one by one
  return {pointer == nullptr ? Home::nowhere : Home::pageable, 0};
}

bool Machine::fails(Call call) {
  const auto found = failing.find(call);
  if (found == failing.end()) return false;
  if (found->second-- > 0) return false;
  failing.erase(found);
  return true;
}

void Machine::open(std::uint32_t devices_mask) {
  for (const auto& device : devices) {
    if ((devices_mask >> device->index & 1U) != 0) {
      device->memory.open();
    } else {
      device->memory.close();
    }
  }
}

Statistics statistics() {
  const Session session;
  Statistics result = machine().counts;
  for (const auto& device : machine().devices) {
    result.live_allocations += device->memory.live_allocations();
    result.live_bytes += device->memory.live_bytes();
  }
  result.live_pinned_allocations = machine().pinned.size();
  result.live_streams = machine().streams.size();
  result.live_events = machine().events.size();
  result.live_library_objects = machine().library_objects;
  result.live_communicators = machine().communicators;
  result.live_graphs = machine().graphs.size() + machine().executables.size();
  return result;
}

void reset_statistics() {
  const Session session;
  machine().counts = {};
}

void fail_next(Call call, int passing) {
  const Session session;
  machine().failing[call] = passing;
}

bool inside_device(const void* pointer) {
  const Session session;
  return machine().inside_device(pointer);
}

void restart() {
  const Statistics live = statistics();
  const std::pair<const char*, std::uint64_t> kinds[] = {
      {"allocations", live.live_allocations}, {"pinned allocations", live.live_pinned_allocations},
      {"streams", live.live_streams},         {"events", live.live_events},
      {"graphs", live.live_graphs},           {"communicators", live.live_communicators}};
  for (const auto& [name, count] : kinds) {
    if (count != 0) fatal("restart() while %d %s are live", static_cast<int>(count), name);
  }
  the_machine() = std::make_unique<Machine>();
  current_device() = 0;
  last_error() = cudaSuccess;
}

}  // namespace simulated
