#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace unisono::kernels::cuda {

/// What a library or the driver can refuse so that work is done in a slower way.
enum class Fallback { product, convolution, engine, capture, pinning };

/// Keeps a text of each refusal. The first one of each kind is said at once, so that nothing becomes slower in silence;
/// of a network with many such layers, it is the only one that is said.
class Fallbacks {
 public:
  using Say = std::function<void(const std::string&)>;

  /// \param say is called with one line
  void set_say(Say say) { say_ = std::move(say); }
  /// \param text what was refused, and what is done instead
  void note(Fallback kind, const std::string& text) {
    if (!known_.insert(text).second) return;
    texts_.push_back(text);
    if (said_.insert(kind).second && say_) say_(text);
  }
  /// In the order in which they were noted.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  Say say_;
  std::set<Fallback> said_;
  std::set<std::string> known_;
  std::vector<std::string> texts_;
};

}  // namespace unisono::kernels::cuda
