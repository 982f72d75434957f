#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {

/// Messages that are awaited together, each with a number that says what it is.
class Waits {
 public:
  void add(comm::RequestPtr request, std::size_t number) { all_.push_back({std::move(request), number}); }
  bool empty() const { return all_.empty(); }
  /// Blocks until at least one is done or `enough()`, as CommonFate::wait_any. \return the numbers of those that are
  /// done, which are awaited no more
  std::vector<std::size_t> finish_some(parallel::CommonFate& fate, const std::function<bool()>& enough = {}) {
    std::vector<comm::Request*> requests;
    for (const One& one : all_) requests.push_back(one.request.get());
    std::vector<std::size_t> numbers;
    for (const std::size_t i : fate.wait_any(requests, enough)) {
      std::exchange(all_[i].request, nullptr)->wait();
      numbers.push_back(all_[i].number);
    }
    std::erase_if(all_, [](const One& one) { return one.request == nullptr; });
    return numbers;
  }

 private:
  struct One {
    comm::RequestPtr request;
    std::size_t number;
  };
  std::vector<One> all_;
};

}  // namespace unisono::strategies
