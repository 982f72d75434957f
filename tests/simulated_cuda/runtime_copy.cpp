// Copies and memsets.
#include <cstring>
#include <vector>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

/// `height` rows of `width` bytes.
struct Copy {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;
  Location to_location;
  Location from_location;
  std::shared_ptr<std::vector<std::byte>> snapshot;  // of a pageable source

  std::size_t to_extent() const { return (height - 1) * to_pitch + width; }
  std::size_t from_extent() const { return (height - 1) * from_pitch + width; }
  bool to_device() const { return to_location.home == Home::device; }
  bool from_device() const { return from_location.home == Home::device; }
  bool pageable() const { return to_location.home == Home::pageable || from_location.home == Home::pageable; }
  std::uint32_t devices() const {
    return (to_device() ? 1U << to_location.device : 0) | (from_device() ? 1U << from_location.device : 0);
  }
};

void count(const Copy& copy) {
  Statistics& counts = machine().counts;
  const std::uint64_t bytes = copy.width * copy.height;
  if (copy.pageable()) ++counts.pageable_copies;
  if (copy.to_device() && copy.from_device()) {
    ++counts.copies_on_device;
    counts.bytes_on_device += bytes;
  } else if (copy.to_device()) {
    ++counts.copies_to_device;
    counts.bytes_to_device += bytes;
  } else if (copy.from_device()) {
    ++counts.copies_to_host;
    counts.bytes_to_host += bytes;
  }
}

/// Where the memory still is when the copy's turn has come.
void check_place(const void* pointer, std::size_t bytes, const Location& then) {
  if (then.home == Home::pageable) return;
  if (machine().locate(pointer, bytes).home == then.home) return;
  fatal("a copy of %zu bytes at %p runs after its %s memory was freed", bytes, pointer,
        then.home == Home::pinned ? "pinned" : "device");
}

void run(const Copy& copy) {
  check_place(copy.to, copy.to_extent(), copy.to_location);
  check_place(copy.from, copy.from_extent(), copy.from_location);
  for (std::size_t row = 0; row < copy.height; ++row) {
    const std::byte* from =
        copy.snapshot ? copy.snapshot->data() + row * copy.width : copy.from + row * copy.from_pitch;
    std::memmove(copy.to + row * copy.to_pitch, from, copy.width);
  }
  count(copy);
}

bool direction_is(const Copy& copy, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !copy.from_device() && !copy.to_device();
    case cudaMemcpyHostToDevice:
      return !copy.from_device() && copy.to_device();
    case cudaMemcpyDeviceToHost:
      return copy.from_device() && !copy.to_device();
    case cudaMemcpyDeviceToDevice:
      return copy.from_device() && copy.to_device();
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t check(Copy& copy, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  copy.to_location = machine().locate(copy.to, copy.to_extent());
  copy.from_location = machine().locate(copy.from, copy.from_extent());
  if (copy.to_location.home == Home::nowhere || copy.from_location.home == Home::nowhere) return cudaErrorInvalidValue;
  if (!direction_is(copy, kind)) return cudaErrorInvalidValue;
  return machine().fails(Call::copy) ? cudaErrorInvalidValue : cudaSuccess;
}

void take_snapshot(Copy& copy) {
  copy.snapshot = std::make_shared<std::vector<std::byte>>(copy.width * copy.height);
  for (std::size_t row = 0; row < copy.height; ++row) {
    std::memcpy(copy.snapshot->data() + row * copy.width, copy.from + row * copy.from_pitch, copy.width);
  }
}

/// Pageable sources are read now; pageable targets, and copies from host to host, are waited for.
cudaError_t copy_async(Session& session, Copy copy, cudaMemcpyKind kind, cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (const auto error = check(copy, kind); error != cudaSuccess) return error;
  if (stream->capture && copy.pageable()) return invalidate(*stream->capture), cudaErrorStreamCaptureUnsupported;
  if (copy.pageable()) ++machine().counts.blocking_copies;
  if (copy.from_location.home == Home::pageable) take_snapshot(copy);
  const bool waits =
      copy.to_location.home == Home::pageable || (!copy.to_device() && !copy.from_device() && !stream->capture);
  const auto error = submit(session, stream, std::make_shared<DeviceWork>(copy.devices(), [copy] { run(copy); }));
  if (error != cudaSuccess || !waits) return error;
  drain(session, stream);
  ++machine().counts.host_synchronisations;
  return cudaSuccess;
}

/// On the default stream, and waited for unless it stays on devices.
cudaError_t copy_now(Session& session, Copy copy, cudaMemcpyKind kind) {
  const auto& stream = find_stream(nullptr);
  if (const auto error = implicit_while_capturing(*stream); error != cudaSuccess) return error;
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (copy.width == 0) return cudaSuccess;
  if (const auto error = check(copy, kind); error != cudaSuccess) return error;
  const auto error = submit(session, stream, std::make_shared<DeviceWork>(copy.devices(), [copy] { run(copy); }));
  if (error != cudaSuccess || (copy.to_device() && copy.from_device())) return error;
  drain(session, stream);
  ++machine().counts.host_synchronisations;
  return cudaSuccess;
}

Copy flat(void* to, const void* from, std::size_t bytes) {
  return {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1, {}, {}, {}};
}

cudaError_t set_async(Session& session, void* to, int value, std::size_t bytes, cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const Location location = machine().locate(to, bytes);
  if (location.home != Home::device || machine().fails(Call::copy)) return cudaErrorInvalidValue;
  auto run = [=] {
    check_place(to, bytes, location);
    std::memset(to, value, bytes);
    ++machine().counts.memsets;
  };
  return submit(session, stream, std::make_shared<DeviceWork>(1U << location.device, std::move(run)));
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](Session& session) { return copy_async(session, flat(to, from, bytes), kind, stream); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call([&](Session& session) { return copy_now(session, flat(to, from, bytes), kind); });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](Session& session) {
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    const Copy copy{static_cast<std::byte*>(to),
                    to_pitch,
                    static_cast<const std::byte*>(from),
                    from_pitch,
                    width,
                    height,
                    {},
                    {},
                    {}};
    return copy_async(session, copy, kind, stream);
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&](Session& session) { return set_async(session, to, value, bytes, stream); });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call([&](Session& session) {
    const auto error = forbidden_while_capturing();  // asynchronous for the host otherwise
    return error == cudaSuccess ? set_async(session, to, value, bytes, nullptr) : error;
  });
}

}  // extern "C"
