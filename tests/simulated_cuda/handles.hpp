#pragma once
// Handles that are never used again, so that a destroyed one is told from a live one.

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace simulated {

/// Objects behind opaque pointers of type `Handle`. A handle is no address: following it faults.
template <typename Handle, typename Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const auto handle = reinterpret_cast<Handle>(next_);
    next_ += 16;
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// nullptr if there is no such handle.
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    auto object = find(handle);
    objects_.erase(handle);
    return object;
  }
  std::size_t size() const { return objects_.size(); }
  const auto& all() const { return objects_; }

 private:
  std::uintptr_t next_ = std::uintptr_t{0x5A} << 56;  // no address of a process
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace simulated
