#pragma once

#include <span>
#include <string>
#include <string_view>

#include "page.hpp"
#include "unisono/report/report.hpp"

namespace unisono::report {

/// A kind of page. Each has a file of its own, and a line in the table of pages.cpp.
struct PageKind {
  std::string_view what;  ///< that it is about: "a run"
  bool (*fits)(const std::vector<std::string>& folders);
  Page (*make)(const ReportOptions& options, Log& log);
};

extern const PageKind kRunPage;   ///< one run
extern const PageKind kRunsPage;  ///< several runs beside each other
extern const PageKind kSearchPage;
extern const PageKind kValidationPage;  ///< a cross-validation
extern const PageKind kStudyPage;

/// In the order in which they are tried.
std::span<const PageKind* const> page_kinds();

}  // namespace unisono::report
