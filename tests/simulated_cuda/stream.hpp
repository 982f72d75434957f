#pragma once
// Streams: queues of work that runs when somebody waits for it.

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace simulated {

class Session;
struct Capture;
struct Stream;

/// How far a piece of work came.
struct Progress {
  bool done = true;
  Stream* behind = nullptr;  ///< what it waits for, if that is a stream; other ranks otherwise
};

/// A piece of work. The same object runs again in each launch of a graph.
class Work {
 public:
  virtual ~Work() = default;
  /// When it is given to a stream: what `run` needs to remember of this one time.
  virtual std::shared_ptr<void> begin() const { return nullptr; }
  /// Called until it is done.
  virtual Progress run(Session& session, void* memory) const = 0;
};
using WorkPointer = std::shared_ptr<const Work>;

/// Work of one step that reads and writes memory of devices.
class DeviceWork : public Work {
 public:
  /// \param devices  a bit for each device whose memory is touched
  DeviceWork(std::uint32_t devices, std::function<void()> action) : devices_(devices), action_(std::move(action)) {}
  Progress run(Session& session, void* memory) const override;

 private:
  std::uint32_t devices_;
  std::function<void()> action_;
};

/// A point in a stream's queue.
struct Mark {
  std::shared_ptr<Stream> stream;
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

struct Entry {
  WorkPointer work;
  std::shared_ptr<void> memory;
};

struct Stream {
  int device = 0;
  bool legacy = false;
  bool blocking = true;  ///< waits for the legacy stream, and it for this one
  bool running = false;  ///< a thread runs the first entry
  std::deque<Entry> queue;
  std::weak_ptr<Mark> last;          ///< the mark that ends the queue, if one does
  std::shared_ptr<Capture> capture;  ///< that records what the stream is given
  std::vector<std::size_t> tail;     ///< its nodes that the next one comes after
};

struct Event {
  int device = 0;
  bool timing = true;
  std::shared_ptr<Mark> mark;      ///< of its last record; none: never recorded
  std::weak_ptr<Capture> capture;  ///< where it was recorded last, if a capture was under way
  std::vector<std::size_t> tail;   ///< the nodes that it stands for
  bool captured = false;
};

struct Node {
  WorkPointer work;
  std::vector<std::size_t> after;  ///< nodes that must be done
};
struct Graph {
  std::vector<Node> nodes;
};
struct GraphExec {
  std::shared_ptr<const std::vector<Node>> nodes;
  std::vector<std::shared_ptr<const std::vector<std::size_t>>> orders;  ///< of which launches use one after the other
  std::uint64_t launches = 0;
  std::shared_ptr<Mark> last;  ///< the end of its latest launch
};
struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool invalid = false;
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<Stream>> streams;  ///< that record into it
};

/// The stream of that handle, the current device's default stream for 0; nullptr for none.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);

/// Gives work to a stream as all asynchronous calls do: records it where the stream captures.
cudaError_t submit(Session& session, const std::shared_ptr<Stream>& stream, WorkPointer work);
cudaError_t submit(Session& session, cudaStream_t stream, WorkPointer work);

/// Puts work into the queue of a stream that does not capture.
void enqueue(Session& session, const std::shared_ptr<Stream>& stream, WorkPointer work);
/// The end of the queue as it is now, for waits of the host.
std::shared_ptr<Mark> mark_end(Session& session, const std::shared_ptr<Stream>& stream);
/// The same as work of the stream: cudaEventRecord.
std::shared_ptr<Mark> enqueue_mark(Session& session, const std::shared_ptr<Stream>& stream);
/// Makes what the stream is given later come after the mark.
void enqueue_wait(Session& session, const std::shared_ptr<Stream>& stream, std::shared_ptr<Mark> mark);

/// Runs one piece of work that the stream's next one needs; false if that waits for another rank or thread.
bool step(Session& session, Stream& stream);
/// The same for any stream of any device.
bool step_any(Session& session);
/// Runs what the mark needs. Gives the lock away while it waits for other ranks, and aborts after 60 s of that.
void wait_for(Session& session, const std::shared_ptr<Mark>& mark);
void drain(Session& session, const std::shared_ptr<Stream>& stream);
void drain_device(Session& session, int device);

// Captures.
bool captures(const Stream& stream);
cudaError_t record(Stream& stream, WorkPointer work);
void invalidate(Capture& capture);
/// For a stream that is destroyed while it captures: the capture is invalid, and over if it began there.
void abandon(const std::shared_ptr<Stream>& stream);
/// For calls that a capture of this thread, or a global one, forbids: invalidates it and returns the error.
cudaError_t forbidden_while_capturing();
/// For calls that use the default stream: an error while a blocking stream of the device captures.
cudaError_t implicit_while_capturing(const Stream& legacy);

}  // namespace simulated
