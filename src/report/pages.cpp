#include "pages.hpp"

#include <array>

namespace unisono::report {

std::span<const PageKind* const> page_kinds() {
  static constexpr std::array kKinds = {&kRunPage, &kRunsPage, &kSearchPage, &kValidationPage, &kStudyPage};
  return kKinds;
}

}  // namespace unisono::report
