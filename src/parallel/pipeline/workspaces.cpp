#include "pipeline/workspaces.hpp"

namespace unisono::parallel {

nn::Workspace Workspaces::begin(int owner, int micro_batch, const nn::Piece& piece, Index examples, nn::PassKind kind) {
  const auto [entry, is_new] = plans_.try_emplace({owner, examples, kind});
  if (is_new) entry->second = piece.plan(examples, kind);
  Buffer buffer;
  std::vector<Buffer>& unused = free_[owner];
  if (!unused.empty()) {
    buffer = std::move(unused.back());
    unused.pop_back();
  }
  if (buffer.size() < entry->second.floats) {
    buffer = Buffer();  // gives the old memory back before it asks for more
    buffer = Buffer(entry->second.floats, memory_);
  }
  flights_.insert_or_assign({owner, micro_batch}, Flight{&entry->second, std::move(buffer)});
  return of(owner, micro_batch);
}

nn::Workspace Workspaces::of(int owner, int micro_batch) {
  Flight& flight = flights_.at({owner, micro_batch});
  return {*flight.plan, flight.memory.view().first(static_cast<std::size_t>(flight.plan->floats))};
}

void Workspaces::end(int owner, int micro_batch) {
  const auto flight = flights_.find({owner, micro_batch});
  free_[owner].push_back(std::move(flight->second.memory));
  flights_.erase(flight);
}

Index Workspaces::floats() const {
  Index floats = 0;
  for (const auto& [owner, buffers] : free_) {
    for (const Buffer& buffer : buffers) floats += buffer.size();
  }
  for (const auto& [place, flight] : flights_) floats += flight.memory.size();
  return floats;
}

}  // namespace unisono::parallel
