#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::data {

/// The examples of a split about which no training example says anything.
struct Unseen {
  struct ClassCount {
    std::int32_t label = 0;
    std::int64_t examples = 0;
  };
  std::int64_t examples = 0;             ///< all examples of the split
  std::vector<ClassCount> classes = {};  ///< classes that the split has, but no training example
  /// Ratings whose user, or item, or user and item have no training rating; those of `both` count in all three.
  std::int64_t users = 0, items = 0, both = 0;
  bool no_pairs = false;  ///< text: whether no sentence has two words

  std::int64_t in_classes() const;  ///< examples of all `classes`
};

/// The classes that a split has, but no training example. \param seen by class: whether a training example has it
/// \param counts examples of the split, by class
Unseen unseen_classes(const std::vector<bool>& seen, const std::vector<std::int64_t>& counts);

/// The name among `others` that differs from `name` in nothing but capital letters, dots and blanks; empty: none does.
std::string twin_of(std::string_view name, const std::vector<std::string>& others);

/// A message about examples of classes that no training example has: "11 of 20 test rows are of classes that no
/// training row has: '<=50K.' (6; is it '<=50K'?), '>50K.' (5; …)"; empty: there are no such classes. At most five are
/// named.
/// \param names names of all classes, or empty \param seen by class: whether a training example has it
/// \param split "test" \param unit "row", "example"
std::string unseen_classes_text(const Unseen& unseen, const std::vector<std::string>& names,
                                const std::vector<bool>& seen, std::string_view split, std::string_view unit);

}  // namespace unisono::data
