#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "job.hpp"
#include "progress.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm::mpi {

/// A request for an operation that is under way.
class Started final : public Request, private Operation {
 public:
  /// \param in_flight counts this one until it is done; may be null
  Started(MpiJob& job, std::unique_ptr<Operation> operation, const Place& place, std::atomic<int>* in_flight = nullptr);
  /// Abandons the operation where it is not done.
  ~Started() override;
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void wait() override;
  bool test() override;
  bool wait_unless(const std::function<bool()>& enough) override;
  void wait_for_arrivals() override;
  /// Blocks until one of these is done or `enough()` returns true. \param any at least one \return the indices of those
  /// that are done
  static std::vector<std::size_t> wait_any(std::span<Started* const> any, const std::function<bool()>& enough);

 private:
  bool advance() override;
  bool let_go() override { return operation_->let_go(); }

  MpiJob& job_;
  std::unique_ptr<Operation> operation_;
  Place place_;
  std::atomic<int>* in_flight_;
  int counted_;  // keeps the order: counted before it begins
  bool done_ = false;
  Progress::Entry entry_;
};

/// The request of an operation that has nothing to do, e.g. in a group of one rank.
class NothingToDo final : public Request {
 public:
  void wait() override {}
  bool test() override { return true; }
  bool wait_unless(const std::function<bool()>&) override { return true; }
};

}  // namespace unisono::comm::mpi
