#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace unisono {

/// Threads that are joined when this object is destroyed. Every thread of this program is started here.
class Threads {
 public:
  /// \param purpose what the threads are for; part of the error message: "training"
  /// \param wanted  how many will be started
  explicit Threads(std::string purpose, int wanted = 1);
  /// Joins all threads. The owner must have told them to end before.
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

}  // namespace unisono
