#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "import/array_rows.hpp"
#include "import/csv_split.hpp"
#include "import/rows.hpp"
#include "import/set_writer.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostClasses = 1000;  // as of tables

/// Opens an array that an option names.
using OpenNamed = std::function<std::vector<OpenArray>(const std::vector<std::string>& names)>;

/// The features of some examples, and their labels or targets.
struct ArrayPart {
  ArrayRows features;
  std::optional<ArrayRows> answers;
};

void check_array_options(const ArrayOptions& options) {
  const auto conflict = [](bool wrong, const char* text) {
    if (wrong) throw ConfigError(text);
  };
  const bool labels = !options.labels.empty(), targets = !options.targets.empty(),
             test_answers = !options.test_labels.empty() || !options.test_targets.empty();
  conflict(labels && targets,
           "--labels and --targets cannot be combined; use --labels for classes, or --targets for numbers");
  conflict(test_answers && options.test_features.empty(),
           "--test-labels and --test-targets need --test-features: the examples that they belong to");
  conflict(!options.test_features.empty() && options.test_fraction > 0,
           "--test-features and --test-fraction cannot be combined");
  conflict(!options.test_features.empty() && labels != !options.test_labels.empty(),
           "--labels and --test-labels must be given together, or neither of them");
  conflict(!options.test_features.empty() && targets != !options.test_targets.empty(),
           "--targets and --test-targets must be given together, or neither of them");
  conflict(!labels && options.task != Task::automatic, "--task says what the array of --labels holds; name that array");
  conflict(options.split == TableSplit::group || options.split == TableSplit::time,
           "--split must be random or class: arrays have no columns of groups or times");
  conflict(options.split == TableSplit::by_class && (!labels || options.task == Task::regression),
           "--split class needs --labels with classes");
}

ArrayPart open_part(std::vector<OpenArray> features, std::vector<OpenArray> answers) {
  ArrayPart part{.features = ArrayRows(std::move(features)), .answers = {}};
  part.features.require_alike(part.features);
  if (answers.empty()) return part;
  part.answers.emplace(std::move(answers));
  if (part.answers->rows() != part.features.rows()) {
    throw DataError(fmt::format("{}: has {}, but {} has {}; each example needs one", part.answers->name(),
                                count_of(part.answers->rows(), "row"), part.features.name(), part.features.rows()));
  }
  if (part.answers->width() != 1) {
    throw DataError(
        fmt::format("{}: has rows of {} values, but an example has one label or target: the shape must be "
                    "({},)",
                    part.answers->name(), part.answers->width(), part.answers->rows()));
  }
  return part;
}

bool fits_in_float(double value) { return std::abs(value) <= double{std::numeric_limits<float>::max()}; }

/// What is wrong with a value that has to be a finite float32.
std::string unusable_text(double value) {
  return std::isnan(value) ? "the value is missing (NaN)"
                           : fmt::format("{} is not a number in the range of float32", value);
}

/// The numbers of classes, in the order of their labels; or the range of numbers to predict.
class Answers {
 public:
  explicit Answers(bool classes) : classes_(classes) {}

  void scan(const ArrayRows& rows) {
    RowCursor cursor(rows);
    while (cursor.next()) classes_ ? note_label(cursor) : note_target(cursor);
  }
  void number() {
    for (auto& [label, code] : codes_) {
      code = std::ssize(names_);
      names_.push_back(fmt::format("{:.0f}", label));
    }
  }

  bool are_classes() const { return classes_; }
  const std::vector<std::string>& names() const { return names_; }
  std::int64_t code_of(double label) const {
    const auto code = codes_.find(label);
    if (code == codes_.end())
      throw DataError(fmt::format("the label {} appeared while the arrays were being read", label));
    return code->second;
  }
  std::size_t count() const { return codes_.size(); }

 private:
  void note_label(const RowCursor& cursor) {
    const double label = cursor.row()[0] + 0.0;  // which makes 0 of −0
    if (!std::isfinite(label)) cursor.fail(unusable_text(label) + "; correct it, or leave the example out");
    if (label != std::trunc(label))
      cursor.fail(fmt::format(
          "the label {} is not a whole number; labels are numbers of classes: number them, or name the array with "
          "--targets to predict its numbers",
          label));
    constexpr double kExact = 9007199254740992;  // 2⁵³
    if (std::abs(label) >= kExact)
      cursor.fail(fmt::format("the label {} is too large; number the classes from 0", label));
    codes_.emplace(label, 0);
    if (codes_.size() > kMostClasses)
      cursor.fail(
          fmt::format("{:.0f} is distinct label number {}, which is too many for classes; to predict numbers, "
                      "name the array with --targets instead of --labels",
                      label, codes_.size()));
  }
  static void note_target(const RowCursor& cursor) {
    const double target = cursor.row()[0];
    if (!fits_in_float(target))
      cursor.fail(unusable_text(target) + ", as targets must be; correct it, or leave the example out");
  }

  bool classes_;
  std::map<double, std::int64_t> codes_;
  std::vector<std::string> names_;
};

/// Whether float32 holds the values of each feature apart from each other.
class Precision {
 public:
  explicit Precision(const ArrayRows& rows) : name_(rows.name()), is_on_(!rows.fit_float()) {
    if (is_on_) ranges_.resize(rows.width());
  }

  void note(std::span<const double> row) {
    if (!is_on_) return;
    for (std::size_t i = 0; i < row.size(); ++i) {
      Range& range = ranges_[i];
      range.low = std::min(range.low, row[i]);
      range.high = std::max(range.high, row[i]);
      range.rounding = std::max(range.rounding, std::abs(row[i] - double{static_cast<float>(row[i])}));
    }
  }
  /// \throws DataError where it does not
  void require() const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::string lost = lost_in_float_text(ranges_[i].low, ranges_[i].high, ranges_[i].rounding);
      if (!lost.empty()) throw DataError(fmt::format("{}: feature {} of a row: {}", name_, i, lost));
    }
  }

 private:
  struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low, rounding = 0;
  };
  std::string name_;
  bool is_on_;
  std::vector<Range> ranges_;
};

/// Collects the examples of one group, and writes them some at a time.
class ExampleWriter {
 public:
  /// Makes no group where there are no examples. \param shape of an example
  ExampleWriter(SetWriter& writer, Split split, std::int64_t examples, const ArrayRows& rows, const Answers* answers)
      : writer_(writer),
        name_(name_of(split)),
        examples_(examples),
        width_(rows.width()),
        bytes_(rows.bytes()),
        are_images_(rows.shape().size() >= 2),
        answers_(answers) {
    if (examples == 0) return;
    const std::vector<std::int64_t>& shape = rows.shape();
    bytes_ ? writer.create_features<std::uint8_t>(name_, examples, shape)
           : writer.create_features<float>(name_, examples, shape);
    if (answers == nullptr) return;
    const auto length = static_cast<std::uint64_t>(examples);
    if (answers->are_classes()) labels_.emplace(writer, name_ + "/labels", length);
    if (!answers->are_classes()) targets_.emplace(writer, name_ + "/targets", length);
  }

  /// \param answer its label or target
  void add(std::span<const double> row, double answer) {
    if (bytes_) {
      for (const double value : row) all_bytes_.push_back(static_cast<std::uint8_t>(value));
    } else {
      for (const double value : row) floats_.push_back(static_cast<float>(value));
    }
    if (labels_) labels_->add(answers_->code_of(answer));
    if (targets_) targets_->add(static_cast<float>(answer));
    constexpr std::size_t kValuesAtATime = 1 << 18;
    if (++collected_ * width_ >= kValuesAtATime) flush();
  }
  void finish(ImageLayout layout) {
    if (examples_ == 0) return;
    flush();
    if (labels_) labels_->finish();
    if (targets_) targets_->finish();
    if (bytes_ && are_images_) writer_.scale_to_one(name_);
    if (layout == ImageLayout::automatic) return;
    writer_.file().write_attribute(name_ + "/features", "layout", std::string(unisono::name_of(layout, kImageLayouts)));
  }

 private:
  void flush() {
    const auto count = static_cast<std::int64_t>(collected_);
    bytes_ ? writer_.write_features(name_, written_, count, all_bytes_.data())
           : writer_.write_features(name_, written_, count, floats_.data());
    written_ += count;
    collected_ = 0;
    all_bytes_.clear();
    floats_.clear();
  }

  SetWriter& writer_;
  std::string name_;
  std::int64_t examples_, written_ = 0;
  std::size_t width_, collected_ = 0;
  bool bytes_, are_images_;
  const Answers* answers_;
  std::vector<std::uint8_t> all_bytes_;
  std::vector<float> floats_;
  std::optional<ColumnWriter<std::int64_t>> labels_;
  std::optional<ColumnWriter<float>> targets_;
};

/// Calls visit(number, features, label or target) for each example. \throws DataError for features that are not finite
template <typename Visit>
void for_examples(const ArrayPart& part, const Visit& visit) {
  RowCursor features(part.features);
  std::optional<RowCursor> answers;
  if (part.answers) answers.emplace(*part.answers);
  Precision precision(part.features);
  for (std::int64_t number = 0; features.next(); ++number) {
    const std::span<const double> row = features.row();
    const auto bad = std::ranges::find_if_not(row, fits_in_float);
    if (bad != row.end())
      features.fail(fmt::format("{}; replace it, for example with numpy.nan_to_num, or leave the example out",
                                unusable_text(*bad)));
    precision.note(row);
    if (answers) answers->next();
    visit(number, row, answers ? answers->row()[0] : 0);
  }
  if (answers) answers->next();  // which checks its end
  precision.require();
}

/// Which group each example belongs to.
class ArrayDivision : public RowDivision {
 public:
  ArrayDivision(const ArrayPart& part, const Answers& answers, const ArrayOptions& options)
      : RowDivision(part.features.rows(), shares_of(options)) {
    if (options.split != TableSplit::by_class || options.validation_fraction + options.test_fraction == 0) return;
    std::vector<std::int64_t> classes;
    for (RowCursor cursor(*part.answers); cursor.next();) classes.push_back(answers.code_of(cursor.row()[0]));
    choose(divide_by_class(classes, shares_of(options)));
    way_ = TableSplit::by_class;
  }
  TableSplit way() const { return way_; }

 private:
  TableSplit way_ = TableSplit::random;
};

/// What an import reads: the training part, which is divided, and maybe a test part.
struct ArrayParts {
  ArrayPart train;
  std::optional<ArrayPart> test = {};
};

ArrayParts open_parts(const OpenNamed& named, const ArrayOptions& options) {
  ArrayParts parts{
      .train = open_part(named(options.features), named(options.labels.empty() ? options.targets : options.labels))};
  if (options.test_features.empty()) return parts;
  parts.test = open_part(named(options.test_features),
                         named(options.test_labels.empty() ? options.test_targets : options.test_labels));
  parts.test->features.require_alike(parts.train.features);
  return parts;
}

Answers read_answers(const ArrayParts& parts, const ArrayOptions& options) {
  Answers answers(options.targets.empty() && options.task != Task::regression);
  if (!parts.train.answers) return answers;
  answers.scan(*parts.train.answers);
  if (answers.count() > kMostNumberedClasses && options.task == Task::automatic)
    ask_for_task(parts.train.answers->name(), fmt::format("{}", answers.count()));
  if (parts.test) answers.scan(*parts.test->answers);
  answers.number();
  return answers;
}

ImportSummary summarize_arrays(const ArrayParts& parts, const Answers& answers, const ArrayDivision& division) {
  ImportSummary summary;
  summary.train = division.size(Split::train);
  summary.validation = division.size(Split::validation);
  summary.test = division.size(Split::test) + (parts.test ? parts.test->features.rows() : 0);
  summary.shape = parts.train.features.shape();
  if (summary.shape.empty()) summary.shape = {1};
  summary.classes = std::ssize(answers.names());
  summary.targets = !answers.are_classes();
  summary.split = division.way();
  if (summary.train > 0) return summary;
  throw DataError(fmt::format("{}: no examples are left for training (there are {}); use smaller fractions",
                              parts.train.features.name(), parts.train.features.rows()));
}

ImportSummary import_arrays(const OpenNamed& named, const ArrayOptions& options, const ImportOutput& output) {
  check_array_options(options);
  check_shares(shares_of(options), "examples", "");
  const ArrayParts parts = open_parts(named, options);
  const Answers answers = read_answers(parts, options);
  const ArrayDivision division(parts.train, answers, options);
  ImportSummary summary = summarize_arrays(parts, answers, division);
  summary.path = output.path;

  SetWriter writer(output);
  const ArrayRows& rows = parts.train.features;
  const Answers* const known = parts.train.answers ? &answers : nullptr;
  std::array<ExampleWriter, 3> groups = {ExampleWriter(writer, Split::train, summary.train, rows, known),
                                         ExampleWriter(writer, Split::validation, summary.validation, rows, known),
                                         ExampleWriter(writer, Split::test, summary.test, rows, known)};
  ClassCounts counts(answers.names().size());
  const auto add = [&](Split split, std::span<const double> row, double answer) {
    groups[static_cast<std::size_t>(split)].add(row, answer);
    if (known != nullptr && answers.are_classes()) counts.add(split, answers.code_of(answer));
  };
  for_examples(parts.train, [&](std::int64_t i, auto row, double answer) { add(division.of(i), row, answer); });
  if (parts.test)
    for_examples(*parts.test, [&](std::int64_t, auto row, double answer) { add(Split::test, row, answer); });
  for (ExampleWriter& group : groups) group.finish(options.layout);
  if (!answers.names().empty()) writer.file().write_attribute("", "class_names", answers.names());
  writer.finish();
  summary.warnings = counts.warnings(output.path, answers.names(), "example");
  return summary;
}

/// Arrays of these names in each of some files.
template <typename Open>
OpenNamed arrays_in(const std::vector<std::string>& paths, Open open) {
  return [paths, open](const std::vector<std::string>& names) {
    std::vector<OpenArray> arrays;
    for (const std::string& name : names) {
      for (const std::string& path : paths) arrays.push_back([open, path, name] { return open(path, name); });
    }
    return arrays;
  };
}

}  // namespace

ImportSummary import_npy(const ArrayOptions& options, const ImportOutput& output) {
  const OpenNamed files = [](const std::vector<std::string>& paths) {
    std::vector<OpenArray> arrays;
    for (const std::string& path : paths) arrays.push_back([path] { return open_npy(path); });
    return arrays;
  };
  return import_arrays(files, options, output);
}

ImportSummary import_npz(const std::vector<std::string>& paths, const ArrayOptions& options,
                         const ImportOutput& output) {
  return import_arrays(arrays_in(paths, open_npz), options, output);
}

ImportSummary import_hdf5(const std::vector<std::string>& paths, const ArrayOptions& options,
                          const ImportOutput& output) {
  return import_arrays(arrays_in(paths, open_hdf5_array), options, output);
}

}  // namespace unisono::data
