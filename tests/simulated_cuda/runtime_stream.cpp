// Streams and events, and waits of the host.
#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

using Milliseconds = std::chrono::duration<float, std::milli>;
constexpr int least_priority = 0;
constexpr int greatest_priority = -5;

cudaError_t create_stream(cudaStream_t* handle, unsigned flags) {
  if (handle == nullptr || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)) return cudaErrorInvalidValue;
  auto stream = std::make_shared<Stream>();
  stream->device = current_device();
  stream->blocking = flags == cudaStreamDefault;
  *handle = machine().streams.add(std::move(stream));
  return cudaSuccess;
}

/// Work that the stream still has runs when somebody needs it.
cudaError_t destroy_stream(cudaStream_t handle) {
  const auto stream = machine().streams.find(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) abandon(stream);
  machine().streams.remove(handle);
  return cudaSuccess;
}

/// What every wait of the host on a stream begins with.
cudaError_t may_wait(const Stream& stream) {
  if (stream.capture) return invalidate(*stream.capture), cudaErrorStreamCaptureUnsupported;
  if (const auto error = implicit_while_capturing(stream); error != cudaSuccess) return error;
  return forbidden_while_capturing();
}

/// The end of every wait of the host.
cudaError_t waited() {
  Machine& m = machine();
  ++m.counts.host_synchronisations;
  for (const auto& device : m.devices) {
    m.open(1U << device->index);
    device->memory.check_guards();
  }
  return m.fails(Call::synchronisation) ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t synchronize_stream(Session& session, cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (const auto error = may_wait(*stream); error != cudaSuccess) return error;
  drain(session, stream);
  return waited();
}

cudaError_t query_stream(Session& session, cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (const auto error = may_wait(*stream); error != cudaSuccess) return error;
  if (!stream->queue.empty()) step(session, *stream);
  return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronize_device(Session& session) {
  bool capturing = false;
  for (const auto& capture : machine().captures) {
    for (const auto& stream : capture->streams) {
      if (stream->device != current_device()) continue;
      invalidate(*capture);
      capturing = true;
    }
  }
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  drain_device(session, current_device());
  return waited();
}

cudaError_t create_event(cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;  // events of other processes are refused
  if (handle == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
  auto event = std::make_shared<Event>();
  event->device = current_device();
  event->timing = (flags & cudaEventDisableTiming) == 0;
  *handle = machine().events.add(std::move(event));
  return cudaSuccess;
}

cudaError_t record_event(Session& session, cudaEvent_t event_handle, cudaStream_t stream_handle) {
  const auto event = machine().events.find(event_handle);
  const auto stream = find_stream(stream_handle);
  if (!event || !stream || event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    event->captured = true;
    event->capture = stream->capture;
    event->tail = stream->tail;
    event->mark.reset();
    return cudaSuccess;
  }
  if (const auto error = implicit_while_capturing(*stream); error != cudaSuccess) return error;
  event->captured = false;
  event->mark = enqueue_mark(session, stream);
  return cudaSuccess;
}

/// An event that a capture recorded makes the stream join that capture.
cudaError_t join_capture(const std::shared_ptr<Stream>& stream, const Event& event) {
  const auto capture = event.capture.lock();
  if (!capture) {
    if (stream->capture) invalidate(*stream->capture);
    return cudaErrorCapturedEvent;
  }
  if (stream->legacy) return invalidate(*capture), cudaErrorStreamCaptureImplicit;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture && stream->capture != capture) {
    invalidate(*capture);
    invalidate(*stream->capture);
    return cudaErrorStreamCaptureMerge;
  }
  if (!stream->capture) {
    stream->capture = capture;
    stream->tail.clear();
    capture->streams.push_back(stream);
  }
  stream->tail.insert(stream->tail.end(), event.tail.begin(), event.tail.end());
  return cudaSuccess;
}

cudaError_t wait_event(Session& session, cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned flags) {
  const auto event = machine().events.find(event_handle);
  const auto stream = find_stream(stream_handle);
  if (!event || !stream) return cudaErrorInvalidResourceHandle;
  if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
  if (event->captured) return join_capture(stream, *event);
  if (stream->capture) return invalidate(*stream->capture), cudaErrorStreamCaptureIsolation;
  if (const auto error = implicit_while_capturing(*stream); error != cudaSuccess) return error;
  if (event->mark) enqueue_wait(session, stream, event->mark);
  return cudaSuccess;
}

/// What every wait of the host on an event begins with.
cudaError_t may_wait(const Event& event) {
  if (!event.captured) return forbidden_while_capturing();
  if (const auto capture = event.capture.lock()) invalidate(*capture);
  return cudaErrorCapturedEvent;
}

cudaError_t synchronize_event(Session& session, cudaEvent_t handle) {
  const auto event = machine().events.find(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  if (const auto error = may_wait(*event); error != cudaSuccess) return error;
  if (event->mark) wait_for(session, std::shared_ptr<Mark>(event->mark));
  return waited();
}

cudaError_t query_event(Session& session, cudaEvent_t handle) {
  const auto event = machine().events.find(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  if (const auto error = may_wait(*event); error != cudaSuccess) return error;
  if (!event->mark || event->mark->done) return cudaSuccess;
  step(session, *event->mark->stream);
  return event->mark->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  const auto start = machine().events.find(start_handle);
  const auto end = machine().events.find(end_handle);
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  if (!start || !end || !start->timing || !end->timing || !start->mark || !end->mark || start->device != end->device) {
    return cudaErrorInvalidResourceHandle;
  }
  if (!start->mark->done || !end->mark->done) return cudaErrorNotReady;
  *milliseconds = Milliseconds(end->mark->time - start->mark->time).count();
  return cudaSuccess;
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](Session&) { return create_stream(stream, flags); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return call([&](Session&) { return create_stream(stream, flags); });  // CUDA, too, brings priorities into their range
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&](Session&) {
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Session&) { return destroy_stream(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](Session& session) { return synchronize_stream(session, stream); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&](Session& session) { return query_stream(session, stream); });
}
cudaError_t cudaDeviceSynchronize() {
  return call([&](Session& session) { return synchronize_device(session); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call([&](Session&) { return create_event(event, cudaEventDefault); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Session&) { return create_event(event, flags); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Session&) { return machine().events.remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Session& session) { return record_event(session, event, stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&](Session& session) { return wait_event(session, stream, event, flags); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Session& session) { return synchronize_event(session, event); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Session& session) { return query_event(session, event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&](Session&) { return elapsed(milliseconds, start, end); });
}

}  // extern "C"
