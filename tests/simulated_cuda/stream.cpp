#include "simulated_cuda/stream.hpp"

#include <algorithm>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t longest_queue = 4096;
constexpr auto longest_wait = std::chrono::seconds(60);

class ReachMark : public Work {
 public:
  explicit ReachMark(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  Progress run(Session&, void*) const override {
    mark_->done = true;
    mark_->time = Clock::now();
    return {};
  }

 private:
  std::shared_ptr<Mark> mark_;
};

class WaitForMark : public Work {
 public:
  explicit WaitForMark(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  Progress run(Session&, void*) const override { return {mark_->done, mark_->stream.get()}; }

 private:
  std::shared_ptr<Mark> mark_;
};

void append(Session&, const std::shared_ptr<Stream>& stream, WorkPointer work) {
  Machine& m = machine();
  if (stream->queue.empty()) m.busy.push_back(stream);
  auto memory = work->begin();
  stream->queue.push_back({std::move(work), std::move(memory)});
  stream->last.reset();
  m.changed.notify_all();
}

/// The default stream waits for all blocking streams of its device, and they for it.
void order_with_legacy(Session& session, const std::shared_ptr<Stream>& stream) {
  Machine& m = machine();
  const auto& legacy = m.devices[static_cast<std::size_t>(stream->device)]->legacy;
  if (!stream->legacy && stream->blocking && !legacy->queue.empty()) {
    append(session, stream, std::make_shared<WaitForMark>(mark_end(session, legacy)));
  }
  if (!stream->legacy) return;
  const auto others = m.busy;
  for (const auto& other : others) {
    if (other->legacy || !other->blocking || other->device != stream->device) continue;
    append(session, stream, std::make_shared<WaitForMark>(mark_end(session, other)));
  }
}

}  // namespace

Progress DeviceWork::run(Session&, void*) const {
  machine().open(devices_);
  action_();
  return {};
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  Machine& m = machine();
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return m.devices[static_cast<std::size_t>(current_device())]->legacy;
  }
  return m.streams.find(handle);
}

std::shared_ptr<Mark> mark_end(Session& session, const std::shared_ptr<Stream>& stream) {
  if (auto mark = stream->last.lock()) return mark;
  auto mark = std::make_shared<Mark>();
  mark->stream = stream;
  if (stream->queue.empty()) {
    mark->done = true;
    mark->time = Clock::now();
    return mark;
  }
  append(session, stream, std::make_shared<ReachMark>(mark));
  stream->last = mark;
  return mark;
}

std::shared_ptr<Mark> enqueue_mark(Session& session, const std::shared_ptr<Stream>& stream) {
  order_with_legacy(session, stream);
  return mark_end(session, stream);
}

void enqueue_wait(Session& session, const std::shared_ptr<Stream>& stream, std::shared_ptr<Mark> mark) {
  if (!mark->done && mark->stream != stream) enqueue(session, stream, std::make_shared<WaitForMark>(std::move(mark)));
}

void enqueue(Session& session, const std::shared_ptr<Stream>& stream, WorkPointer work) {
  order_with_legacy(session, stream);
  append(session, stream, std::move(work));
  const bool full = stream->queue.size() > longest_queue;
  while ((full || machine().settings.eager) && !stream->queue.empty() && step(session, *stream)) {
  }
}

cudaError_t submit(Session& session, const std::shared_ptr<Stream>& stream, WorkPointer work) {
  if (captures(*stream)) return record(*stream, std::move(work));
  if (const auto error = implicit_while_capturing(*stream); error != cudaSuccess) return error;
  enqueue(session, stream, std::move(work));
  return cudaSuccess;
}

cudaError_t submit(Session& session, cudaStream_t handle, WorkPointer work) {
  const auto stream = find_stream(handle);
  return stream ? submit(session, stream, std::move(work)) : cudaErrorInvalidResourceHandle;
}

bool step(Session& session, Stream& wanted) {
  Stream* stream = &wanted;
  for (;;) {
    if (stream->queue.empty() || stream->running) return false;
    const Entry entry = stream->queue.front();
    stream->running = true;
    const Progress progress = entry.work->run(session, entry.memory.get());
    stream->running = false;
    if (!progress.done && progress.behind == nullptr) return false;
    if (!progress.done) {
      stream = progress.behind;
      continue;
    }
    stream->queue.pop_front();
    Machine& m = machine();
    if (stream->queue.empty()) {
      std::erase_if(m.busy, [&](const auto& other) { return other.get() == stream; });
    }
    m.changed.notify_all();
    return true;
  }
}

bool step_any(Session& session) {
  const auto streams = machine().busy;
  return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) { return step(session, *stream); });
}

void wait_for(Session& session, const std::shared_ptr<Mark>& mark) {
  Machine& m = machine();
  auto deadline = Clock::now() + longest_wait;
  while (!mark->done) {
    if (step(session, *mark->stream) || step_any(session)) {
      deadline = Clock::now() + longest_wait;
      continue;
    }
    m.open(0);
    if (m.changed.wait_until(session.lock, deadline) == std::cv_status::timeout) {
      fatal("a stream of device %d has waited for other ranks for 60 s", mark->stream->device);
    }
  }
}

void drain(Session& session, const std::shared_ptr<Stream>& stream) {
  // The default stream and blocking streams wait for each other's work.
  if (stream->legacy) order_with_legacy(session, stream);
  wait_for(session, mark_end(session, stream));
}

void drain_device(Session& session, int device) {
  for (;;) {
    const auto& streams = machine().busy;
    const auto found = std::find_if(streams.begin(), streams.end(), [&](const auto& s) { return s->device == device; });
    if (found == streams.end()) return;
    wait_for(session, mark_end(session, std::shared_ptr<Stream>(*found)));
  }
}

void run_pending() {
  Session session;
  while (step_any(session)) {
  }
}

}  // namespace simulated
