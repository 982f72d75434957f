#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Who is told which ranges of a gradient are final: an object with `ready(first, last)`, or a function of `first` and
/// `last`; or nobody. It refers to the object, which must outlive it.
class GradientReady {
 public:
  GradientReady() = default;
  template <typename Listener>
  requires(!std::same_as<std::remove_cvref_t<Listener>, GradientReady>)
      GradientReady(Listener&& listener)  // not explicit: a function is given where this is taken
      : listener_(const_cast<void*>(static_cast<const void*>(std::addressof(listener)))),
        tell_([](void* one, Index first, Index last) {
          auto& told = *static_cast<std::remove_reference_t<Listener>*>(one);
          if constexpr (requires { told.ready(first, last); }) {
            told.ready(first, last);
          } else {
            told(first, last);
          }
        }) {}

  /// Whether anybody is told.
  explicit operator bool() const { return tell_ != nullptr; }
  /// Says that floats [first, last) are final.
  void operator()(Index first, Index last) const { tell_(listener_, first, last); }

 private:
  void* listener_ = nullptr;
  void (*tell_)(void*, Index, Index) = nullptr;
};

}  // namespace unisono
