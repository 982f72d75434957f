#include "unisono/settings/plans.hpp"

namespace unisono::settings {
namespace {

/// Calls act(field, section) for each section.
template <typename Act>
void for_each_section(Plans& plans, Act act) {
  act(Field{.name = "search", .meaning = "what `unisono search` tries"}, plans.search);
  act(Field{.name = "cross_validation", .meaning = "how `unisono cross-validate` divides the training examples"},
      plans.cross_validation);
  act(Field{.name = "study", .meaning = "variants that `unisono study` compares with the serial run"}, plans.study);
}

}  // namespace

void parse_sections(ConfigVisitor& parser, Plans& plans) {
  for_each_section(plans, [&parser](const Field& field, auto& section) {
    ConfigValue given;
    parser.any_value(field, given);
    if (given.table() != nullptr && given.table()->empty()) return;
    section.emplace();
    parser.section(field, *section);
  });
}

std::string effective_plans(const Plans& plans) {
  Plans copy = plans;  // `describe` is not const
  return unisono::effective_config([&copy](ConfigVisitor& writer) {
    for_each_section(copy, [&writer](const Field& field, auto& section) {
      if (section) writer.section(field, *section);
    });
  });
}

void describe_plans(ConfigVisitor& visitor) {
  Plans defaults;
  for_each_section(defaults, [&visitor](const Field& field, auto& section) {
    section.emplace();
    visitor.section(field, *section);
  });
}

}  // namespace unisono::settings
