// Captures: what streams are given is recorded as nodes of a graph.
#include <algorithm>

#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

/// Whether every node of the capture is `tail` or comes before it, so that the origin has joined all others.
bool joined(const Capture& capture, const std::vector<std::size_t>& tail) {
  std::vector<bool> before(capture.nodes.size());
  std::vector<std::size_t> open = tail;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (before[node]) continue;
    before[node] = true;
    const auto& after = capture.nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return std::all_of(before.begin(), before.end(), [](bool reached) { return reached; });
}

void end(const std::shared_ptr<Capture>& capture) {
  std::erase(machine().captures, capture);
  for (const auto& stream : capture->streams) {
    stream->capture.reset();
    stream->tail.clear();
  }
}

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Machine& m = machine();
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  if (m.fails(Call::capture)) return cudaErrorStreamCaptureUnsupported;
  if (mode != cudaStreamCaptureModeGlobal && mode != cudaStreamCaptureModeThreadLocal &&
      mode != cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->tail.clear();
  m.captures.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  Machine& m = machine();
  if (graph == nullptr) return cudaErrorInvalidValue;
  *graph = nullptr;
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!stream->capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream.get()) return invalidate(*capture), cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool complete = joined(*capture, stream->tail);
  end(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!complete) return cudaErrorStreamCaptureUnjoined;
  auto result = std::make_shared<Graph>();
  result->nodes = std::move(capture->nodes);
  *graph = m.graphs.add(std::move(result));
  ++m.counts.captures;
  return cudaSuccess;
}

cudaError_t is_capturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (status == nullptr) return cudaErrorInvalidValue;
  if (stream->legacy) {
    const auto& all = machine().captures;
    const bool implicit = std::any_of(all.begin(), all.end(), [&](const auto& capture) {
      return std::any_of(capture->streams.begin(), capture->streams.end(),
                         [&](const auto& other) { return other->blocking && other->device == stream->device; });
    });
    if (implicit) return cudaErrorStreamCaptureImplicit;
  }
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

}  // namespace

bool captures(const Stream& stream) { return stream.capture != nullptr; }

void invalidate(Capture& capture) { capture.invalid = true; }

void abandon(const std::shared_ptr<Stream>& stream) {
  const auto capture = stream->capture;
  invalidate(*capture);
  if (capture->origin == stream.get()) end(capture);
}

cudaError_t record(Stream& stream, WorkPointer work) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(work), stream.tail});
  stream.tail = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t forbidden_while_capturing() {
  bool forbidden = false;
  for (const auto& capture : machine().captures) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    if (!own && capture->mode != cudaStreamCaptureModeGlobal) continue;
    invalidate(*capture);
    forbidden = true;
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t implicit_while_capturing(const Stream& legacy) {
  if (!legacy.legacy) return cudaSuccess;
  bool implicit = false;
  for (const auto& capture : machine().captures) {
    const bool touches = std::any_of(capture->streams.begin(), capture->streams.end(), [&](const auto& stream) {
      return stream->blocking && stream->device == legacy.device;
    });
    if (!touches) continue;
    invalidate(*capture);
    implicit = true;
  }
  return implicit ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](Session&) { return begin_capture(stream, mode); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](Session&) { return end_capture(stream, graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([&](Session&) { return is_capturing(stream, status); });
}

}  // extern "C"
