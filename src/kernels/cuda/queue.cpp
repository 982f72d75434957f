#include "cuda/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr std::size_t kStagedBytes = std::size_t{1} << 20;  // of one submission
constexpr std::size_t kStagedAlignment = 16;
constexpr int kTimesBeforeRecording = 2;  // by then libraries have loaded their kernels, and buffers are large enough
constexpr std::size_t kSequences = 64;    // that are remembered

/// What went wrong in a call; empty where nothing did.
std::string error_of(cudaError_t error, const char* call) {
  return error == cudaSuccess ? "" : fmt::format("{} failed: {}", call, cudaGetErrorString(error));
}

}  // namespace

Signature& Signature::add_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), count);
    bytes = bytes.subspan(count);
    value_ = (value_ ^ word) * 0xBF58476D1CE4E5B9;  // the mixing steps of SplitMix64
    value_ ^= value_ >> 29;
  }
  return *this;
}

Queue::Queue(int device, Pool& pool, const RawMemory& raw, Fallbacks& fallbacks)
    : device_(device), pool_(pool), fallbacks_(fallbacks), upload_memory_(raw) {
  for (Area& area : areas_) {
    area.staged = static_cast<std::byte*>(pool_.allocate(kStagedBytes));
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kStagedBytes), "cudaMallocHost");
    area.plain = static_cast<std::byte*>(memory);
  }
}

Queue::~Queue() {
  cudaStreamSynchronize(stream_.get());
  cudaStreamSynchronize(copies_.get());
  for (Area& area : areas_) {
    cudaFreeHost(area.plain);
    pool_.deallocate(area.staged);
  }
}

void Queue::use_device() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

void Queue::add(const Signature& signature, std::function<void(cudaStream_t)> command) {
  signature_.add(signature.value());
  commands_.push_back(std::move(command));
  if (areas_[area_].staged_bytes > kStagedBytes / 2) submit();
}

// --- What changes from step to step ----------------------------------------------------------------------------------

/// Waits until the values of two submissions ago have been copied from the area; new copies wait on the device until
/// kernels have read the old ones.
Queue::Area& Queue::open_area() {
  Area& area = areas_[area_];
  if (area.is_open) return area;
  area.is_open = true;
  wait(area.arrived);
  area.consumed.hold(copies_.get());
  return area;
}

const void* Queue::stage_bytes(std::span<const std::byte> bytes) {
  use_device();
  Area& area = open_area();
  if (area.staged_bytes + bytes.size() > kStagedBytes) {
    throw DeviceError("a kernel needs more staged memory than there is; the model has too many blocks of parameters");
  }
  std::memcpy(area.plain + area.staged_bytes, bytes.data(), bytes.size());
  const std::byte* const address = area.staged + area.staged_bytes;
  area.staged_bytes += (bytes.size() + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
  return address;
}

const void* Queue::upload_bytes(std::span<const std::byte> bytes) {
  use_device();
  Area& area = open_area();
  if (area.uploads == area.places.size()) area.places.emplace_back();
  Area::Place& place = area.places[area.uploads++];
  if (place.bytes < bytes.size()) {
    wait_for(stream_);  // submitted kernels may still read it
    wait_for(copies_);
    if (place.memory != nullptr) upload_memory_.deallocate(place.memory);
    place = {};
    place.memory = upload_memory_.allocate(bytes.size());
    place.bytes = bytes.size();
  }
  check(cudaMemcpyAsync(place.memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, copies_.get()),
        "cudaMemcpyAsync");
  return place.memory;
}

/// Copies the staged values; kernels that are submitted next wait for these and for the uploads.
void Queue::send(Area& area) {
  if (area.staged_bytes > 0) {
    check(cudaMemcpyAsync(area.staged, area.plain, area.staged_bytes, cudaMemcpyHostToDevice, copies_.get()),
          "cudaMemcpyAsync");
  }
  area.arrived.record(copies_.get());
  area.arrived.hold(stream_.get());
}

/// Ends an area's submission: the kernels that were submitted last are those that read it.
void Queue::close(Area& area) {
  area.consumed.record(stream_.get());
  const bool waits = area.uploads > 0;
  area.is_open = false;
  area.uploads = area.staged_bytes = 0;
  area_ = 1 - area_;
  if (waits) wait(area.arrived);
}

// --- Submission ------------------------------------------------------------------------------------------------------

void Queue::submit() {
  if (commands_.empty()) return;
  use_device();
  Area& area = areas_[area_];
  if (area.is_open) send(area);
  Sequence& sequence = sequence_of(signature_.value());
  if (sequence.times == kTimesBeforeRecording) capture(sequence);
  if (sequence.graph) {
    sequence.graph.launch(stream_.get());
    ++graph_launches_;
    graph_operations_ += sequence.operations;
  } else {
    run(stream_.get());
    launches_ += static_cast<std::int64_t>(commands_.size());
  }
  ++sequence.times;
  commands_.clear();
  signature_ = {};
  if (area.is_open) close(area);
}

Queue::Sequence& Queue::sequence_of(std::uint64_t signature) {
  const auto found = known_.find(signature);
  if (found != known_.end()) {
    sequences_.splice(sequences_.begin(), sequences_, found->second);
    return sequences_.front();
  }
  if (sequences_.size() == kSequences) {
    known_.erase(sequences_.back().signature);
    sequences_.pop_back();
  }
  sequences_.push_front({.signature = signature, .times = 0, .graph = {}, .operations = 0});
  known_.emplace(signature, sequences_.begin());
  return sequences_.front();
}

void Queue::run(cudaStream_t stream) {
  for (const auto& command : commands_) command(stream);
}

/// Records the commands as the sequence's graph. Where a command cannot be recorded, as some libraries' cannot, there
/// is no graph, and nothing has been started.
void Queue::capture(Sequence& sequence) {
  cudaGraph_t graph = nullptr;
  std::string refusal = record(graph);
  cudaGraphExec_t execution = nullptr;
  std::size_t operations = 0;
  if (refusal.empty()) refusal = error_of(cudaGraphGetNodes(graph, nullptr, &operations), "cudaGraphGetNodes");
  if (refusal.empty()) refusal = error_of(cudaGraphInstantiate(&execution, graph, 0), "cudaGraphInstantiate");
  if (graph != nullptr) cudaGraphDestroy(graph);
  sequence.graph = GraphExecution(refusal.empty() ? execution : nullptr);
  sequence.operations = static_cast<std::int64_t>(operations);
  if (refusal.empty()) return;
  cudaGetLastError();  // it is dealt with
  ++refused_captures_;
  fallbacks_.note(Fallback::capture,
                  fmt::format("{}: a sequence of {} operations cannot be recorded as a CUDA graph, and is started one "
                              "operation after the other",
                              refusal, commands_.size()));
}

/// \return why it could not be recorded; else empty
std::string Queue::record(cudaGraph_t& graph) {
  std::string refusal;
  try {
    check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    run(stream_.get());
  } catch (const DeviceError& error) {
    refusal = error.what();
  }
  const std::string end = error_of(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
  return refusal.empty() ? end : refusal;
}

void Queue::synchronise() {
  submit();
  use_device();
  wait_for(stream_);
}

void Queue::wait_for(const Stream& stream) {
  end_.record(stream.get());
  wait(end_);
}

void Queue::wait(Event& event) {
  const ScopedTimer timer(waited_seconds_);
  if (wait_) {
    wait_([&event] { return event.happened(); });
  } else {
    event.wait();
  }
}

}  // namespace unisono::kernels::cuda
