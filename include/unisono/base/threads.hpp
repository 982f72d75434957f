#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace unisono {

/// Threads that are joined by whoever started them. Every thread of this program is started here.
class Threads {
 public:
  /// \param purpose what needs them, for the message where they cannot be had: "training"
  /// \param wanted  how many will be started
  explicit Threads(std::string purpose, int wanted = 1);
  /// Joins. Whoever owns them has told them to end.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// Runs `work`, which must not throw, on a new thread.
  /// \throws DeviceError where the system starts no more, with the number and the limits
  void start(std::function<void()> work);
  /// Waits until all have ended; others may be started then.
  void join();
  int size() const { return static_cast<int>(threads_.size()); }

 private:
  std::string purpose_;
  int wanted_;
  std::vector<std::thread> threads_;
};

/// Whether so many threads can be started now: for those that a library starts, which would end the process.
/// \throws DeviceError as Threads::start
void require_threads(const std::string& purpose, int wanted);

}  // namespace unisono
