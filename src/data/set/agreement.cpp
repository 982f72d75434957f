#include "set/agreement.hpp"

#include <algorithm>
#include <exception>

#include "unisono/base/errors.hpp"

namespace unisono::data {

std::vector<std::string> Agreement::gather(const std::string& text) {
  if (!share_.gather) return {text};
  std::vector<std::string> texts = share_.gather(text);
  ranks_ = static_cast<int>(texts.size());
  return texts;
}

void Agreement::all_do(const std::function<void()>& work) {
  std::string message;
  std::exception_ptr error;
  try {
    work();
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    message = "!" + std::string(thrown.what());
  }
  const std::vector<std::string> messages = gather(message);
  if (error) std::rethrow_exception(error);
  const auto failed = std::find_if(messages.begin(), messages.end(), [](const auto& m) { return !m.empty(); });
  if (failed != messages.end()) throw DataError(failed->substr(1));
}

std::int64_t Agreement::smallest(std::int64_t value) {
  for (const std::string& text : gather(std::to_string(value))) value = std::min<std::int64_t>(value, std::stoll(text));
  return value;
}

NodeMemory::NodeMemory(const NodeShare& share, std::size_t bytes) : share_(share), bytes_(bytes) {
  if (share.allocate) data_ = share.allocate(bytes);
  shared_ = data_ != nullptr;
}

void NodeMemory::take_own() {
  if (shared_) return;
  own_ = Buffer(static_cast<Index>((bytes_ + sizeof(float) - 1) / sizeof(float)));
  data_ = reinterpret_cast<std::byte*>(own_.data());
}

Range NodeMemory::part(std::int64_t n) const {
  return shared_ ? part_of(n, share_.node_rank, share_.node_size) : Range{0, n};
}

void NodeMemory::complete() const {
  if (share_.barrier) share_.barrier();
}

}  // namespace unisono::data
