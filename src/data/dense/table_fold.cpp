// Views of a table, and of its folds.
#include "dense/table.hpp"
#include "recipe/fit.hpp"

namespace unisono::data {

Table::Table(const Table& whole)
    : settings_(whole.settings_), blocks_(whole.blocks_), whole_(&whole), encoded_(whole.encoded_) {
  plan_.schema = whole.plan_.schema;
  plan_.info = whole.plan_.info;
  plan_.preprocessing = whole.plan_.preprocessing;
  plan_.positions = whole.plan_.positions;
  for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
    const GroupSchema* const group = whole.plan_.groups[i];
    if (group != nullptr) plan_.groups[i] = &*plan_.schema.groups[whole.plan_.home(*group)];
  }
}

Table::Table(const Table& whole, const Fold& fold) : Table(whole) {
  divide(fold);
  if (needs_values(plan_.schema.recipe)) encode(whole);
  Agreement alone(share_);
  fit_normalization(alone);
}

std::unique_ptr<Dataset> Table::fold_view(const Fold& fold) const {
  if (whole_ != nullptr) return whole_->fold_view(fold);
  require_folds_possible(settings_, SetKind::table, plan_.info.resident);
  return std::make_unique<Table>(*this, fold);
}

std::unique_ptr<Dataset> Table::view() const {
  if (blocks_ == nullptr) return nullptr;
  return std::make_unique<Table>(*this);
}

/// Makes the fold's rows the training and validation examples.
void Table::divide(const Fold& fold) {
  const auto& train = plan_.schema.group(Split::train);
  const auto& test = plan_.schema.group(Split::test);
  require_fold(fold, train ? train->examples : 0, plan_.schema.path);
  plan_.groups = {&*train, fold.validation.empty() ? nullptr : &*train, test ? &*test : nullptr};
  plan_.positions = {runs_of(fold.train), runs_of(fold.validation), RowRuns(test ? test->examples : 0)};
  plan_.info.train = std::ssize(fold.train);
  plan_.info.validation = std::ssize(fold.validation);
  plan_.info.targets[1] = fold.validation.empty() ? TargetForm{} : plan_.info.targets[0];
  plan_.info.identity = identity_of(fold, plan_.info.identity);
}

/// Fits the recipe on the fold's training rows; where the fit is not that of the whole set, encodes the rows with it.
void Table::encode(const Table& whole) {
  encoded_ = whole.encodings_.get(plan_.info.identity, [&] {
    return std::make_shared<const EncodedTable>(whole.raw_table(), whole.plan_.preprocessing, *whole.blocks_, plan_);
  });
  plan_.preprocessing.columns = encoded_->columns();
  if (!encoded_->differs()) return;
  blocks_ = &encoded_->blocks();
  plan_.info.features = {encoded_->width(), 1, 1};
  for (auto& group : plan_.schema.groups) {
    if (group) group->features = plan_.info.features;
  }
  if (settings_.targets == Targets::features) {
    plan_.info.target_size = plan_.info.features.size();
    for (TargetForm& targets : plan_.info.targets) {
      if (targets.target_size > 0) targets.target_size = plan_.info.target_size;
    }
  }
}

const RawTable& Table::raw_table() const {
  std::call_once(raw_read_, [&] { raw_.emplace(plan_.schema); });
  return *raw_;
}

}  // namespace unisono::data
