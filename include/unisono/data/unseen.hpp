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
  std::int64_t examples = 0;             ///< of the split, all of them
  std::vector<ClassCount> classes = {};  ///< that the split has, but no training example
  /// Ratings whose user, or item, or user and item have no training rating; those of `both` are in all three.
  std::int64_t users = 0, items = 0, both = 0;
  bool no_pairs = false;  ///< of text: no sentence has two words

  std::int64_t in_classes() const;  ///< examples of these classes
};

/// The classes that are not seen, among those that a split has. \param counts of the split's examples, by class
Unseen unseen_classes(const std::vector<bool>& seen, const std::vector<std::int64_t>& counts);

/// The name among `others` that differs from `name` in nothing but capital letters, dots and blanks; empty: none does.
std::string twin_of(std::string_view name, const std::vector<std::string>& others);

/// "11 of 20 test rows are of classes that no training row has: '<=50K.' (6; is it '<=50K'?), '>50K.' (5; …)"; empty:
/// there are no such classes. At most five are named.
/// \param names of all classes, or empty \param seen by class: whether a training example has it
/// \param split "test" \param unit "row", "example"
std::string unseen_classes_text(const Unseen& unseen, const std::vector<std::string>& names,
                                const std::vector<bool>& seen, std::string_view split, std::string_view unit);

}  // namespace unisono::data
