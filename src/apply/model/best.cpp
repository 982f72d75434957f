#include "model/best.hpp"

#include <algorithm>
#include <utility>

namespace unisono::apply {
namespace {

bool is_better(const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.row < b.row; }

}  // namespace

void Best::offer(const Scored& candidate) {
  if (kept_.size() == count_) {
    if (!is_better(candidate, kept_.front())) return;
    std::pop_heap(kept_.begin(), kept_.end(), is_better);
    kept_.pop_back();
  }
  kept_.push_back(candidate);
  std::push_heap(kept_.begin(), kept_.end(), is_better);
}

std::vector<Scored> Best::take() {
  std::sort_heap(kept_.begin(), kept_.end(), is_better);
  return std::exchange(kept_, {});
}

}  // namespace unisono::apply
