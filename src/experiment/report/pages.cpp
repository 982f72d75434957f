#include "report/pages.hpp"

#include <array>

namespace unisono::experiment {

std::span<const PageKind* const> page_kinds() {
  static constexpr std::array kKinds = {&kRunPage, &kRunsPage, &kSearchPage, &kValidationPage, &kStudyPage};
  return kKinds;
}

}  // namespace unisono::experiment
