#include "cuda/queue.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::cuda {
namespace {

constexpr std::size_t kStagedBytes = std::size_t{1} << 20;  // of one submission
constexpr std::size_t kStagedAlignment = 16;
constexpr int kTimesBeforeRecording = 2;  // by then libraries have loaded their kernels, and buffers their sizes
constexpr std::size_t kSequences = 64;    // that are remembered

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

Queue::Queue(int device, Pool& pool, const RawMemory& raw) : device_(device), pool_(pool), upload_memory_(raw) {
  staged_ = static_cast<std::byte*>(pool_.allocate(kStagedBytes));
  for (StagingArea& area : staging_) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kStagedBytes), "cudaMallocHost");
    area.memory = static_cast<std::byte*>(memory);
  }
}

Queue::~Queue() {
  cudaStreamSynchronize(stream_.get());
  cudaStreamSynchronize(copies_.get());
  for (StagingArea& area : staging_) cudaFreeHost(area.memory);
  pool_.deallocate(staged_);
}

void Queue::use_device() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

void Queue::add(const Signature& signature, std::function<void(cudaStream_t)> command) {
  signature_.add(signature.value());
  commands_.push_back({std::move(command)});
  if (staged_bytes_ > kStagedBytes / 2) submit();
}

// --- What changes from step to step ----------------------------------------------------------------------------------

const void* Queue::stage_bytes(std::span<const std::byte> bytes) {
  if (staged_bytes_ + bytes.size() > kStagedBytes) {
    throw DeviceError("a kernel needs more staged memory than there is; the model has too many blocks of parameters");
  }
  StagingArea& area = staging_[staging_area_];
  if (staged_bytes_ == 0) wait(area.copied);  // several submissions ago
  std::memcpy(area.memory + staged_bytes_, bytes.data(), bytes.size());
  const std::byte* const address = staged_ + staged_bytes_;
  staged_bytes_ += (bytes.size() + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
  return address;
}

void Queue::copy_staged() {
  if (staged_bytes_ == 0) return;
  StagingArea& area = staging_[staging_area_];
  check(cudaMemcpyAsync(staged_, area.memory, staged_bytes_, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
  area.copied.record(stream_.get());
  staging_area_ = (staging_area_ + 1) % staging_.size();
  staged_bytes_ = 0;
}

const void* Queue::upload_bytes(std::span<const std::byte> bytes) {
  use_device();
  UploadArea& area = uploads_[upload_area_];
  if (area.used == 0 && area.was_consumed) area.consumed.hold(copies_.get());
  if (area.used == area.places.size()) area.places.emplace_back();
  UploadArea::Place& place = area.places[area.used++];
  if (place.bytes < bytes.size()) {
    stream_.synchronise();  // what was submitted may still read it
    copies_.synchronise();
    if (place.memory != nullptr) upload_memory_.deallocate(place.memory);
    place = {};
    place.memory = upload_memory_.allocate(bytes.size());
    place.bytes = bytes.size();
  }
  check(cudaMemcpyAsync(place.memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, copies_.get()),
        "cudaMemcpyAsync");
  return place.memory;
}

// --- Submission ------------------------------------------------------------------------------------------------------

void Queue::submit() {
  if (commands_.empty()) return;
  use_device();
  UploadArea& area = uploads_[upload_area_];
  const bool uploads = area.used > 0;
  if (uploads) {
    area.arrived.record(copies_.get());
    area.arrived.hold(stream_.get());
  }
  copy_staged();
  Sequence& sequence = sequence_of(signature_.value());
  if (!sequence.graph && sequence.times >= kTimesBeforeRecording) sequence.graph = capture();
  if (sequence.graph) {
    sequence.graph.launch(stream_.get());
    ++graph_launches_;
  } else {
    run(stream_.get());
  }
  ++sequence.times;
  commands_.clear();
  signature_ = {};
  if (!uploads) return;
  area.consumed.record(stream_.get());
  area.was_consumed = true;
  area.used = 0;
  upload_area_ = 1 - upload_area_;
  wait(area.arrived);
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
  sequences_.push_front({.signature = signature, .times = 0, .graph = {}});
  known_.emplace(signature, sequences_.begin());
  return sequences_.front();
}

void Queue::run(cudaStream_t stream) {
  for (const Command& command : commands_) command.run(stream);
}

GraphExecution Queue::capture() {
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    run(stream_.get());
  } catch (...) {
    cudaStreamEndCapture(stream_.get(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t execution = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&execution, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphInstantiate");
  return GraphExecution(execution);
}

void Queue::synchronise() {
  submit();
  use_device();
  end_.record(stream_.get());
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

}  // namespace unisono::cuda
