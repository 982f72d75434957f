// Predictions of a stream: lines of standard input, as they come. Those that are there already are predicted together,
// so that many lines are predicted in large batches, and a single one waits for no other. Rows of tables and stored
// values become features in memory; of other examples, each batch becomes a file that is read as that of `predict
// --input` is.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "predict/line_stream.hpp"
#include "predict/predictor.hpp"
#include "predict/raw_lines.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/prediction_sink.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/import.hpp"

namespace unisono::apply {
namespace {

/// Signals that would end the process wait until the object is gone, and what it guards is removed.
class SignalsWait {
 public:
  SignalsWait() {
    caught_ = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      before_[i] = std::signal(kSignals[i], [](int one) { caught_ = one; });
  }
  ~SignalsWait() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
    if (caught_ != 0) std::raise(caught_);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  inline static volatile std::sig_atomic_t caught_ = 0;
  std::array<void (*)(int), kSignals.size()> before_{};
};

/// A folder of this user alone, which is removed with the object: in memory, where there is such a place.
class PrivateFolder {
 public:
  PrivateFolder() {
    static const char* const kMemory = "/dev/shm";
    std::error_code none;
    std::string place =
        ::access(kMemory, W_OK | X_OK) == 0 ? kMemory : std::filesystem::temp_directory_path(none).string();
    if (place.empty()) place = ".";
    path_ = place + "/unisono-stream-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw OutputError(fmt::format("{}: no folder for the examples can be made: {}; {}", place, std::strerror(errno),
                                    advice_on(errno)));
    }
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SinkOptions columns_of_stream(const TrainedModel& model, const StreamOptions& how) {
  SinkOptions columns{.path = std::string(kStandardInput),
                      .outputs = model.parts->model->output_size(),
                      .classes = class_reading(model),
                      .layer = how.layer};
  columns.labels = label_names_of(model);
  if (columns.classes) columns.class_names = class_names_of(model, how.model);
  return columns;
}

/// A line of the stream that is an example.
struct Example {
  std::string text;
  std::int64_t line;  ///< its number, from 1
};

/// A message about a batch of one example, with the number of its line.
std::string at_line(const std::string& message, const Example& example) {
  if (!message.starts_with(kStandardInput)) return fmt::format("{}:{}: {}", kStandardInput, example.line, message);
  std::size_t end = kStandardInput.size();
  if (message.substr(end, 1) == "/") {  // a link to the picture that the line names
    return fmt::format("{}:{}: {}{}", kStandardInput, example.line, example.text, message.substr(message.find(':')));
  }
  if (message.substr(end, 1) == ":" && message.find_first_not_of("0123456789", end + 1) > end + 1) {
    end = message.find_first_not_of("0123456789", end + 1);  // the number in the batch
  }
  return fmt::format("{}:{}{}", kStandardInput, example.line, message.substr(end));
}

class Stream {
 public:
  Stream(comm::Communicator& world, const StreamOptions& how, Log& log)
      : world_(world),
        how_(how),
        log_(log),
        model_(world, how.model, log, TrainedModel::With::nothing),
        lines_(model_.checkpoint) {
    if (!how.layer.empty()) model_.parts->model->predict_layer(how.layer);
    require_threshold(model_);
    model_.parts->backend->fix_parameters();
    most_ = how.batch_size > 0 ? how.batch_size : model_.config.train.evaluation_batch_size;
    rows_.emplace(columns_of_stream(model_, how));
  }

  void run() {
    LineStream input(STDIN_FILENO, std::string(kStandardInput));
    print(rows_->header());
    for (bool named = !lines_.has_names();;) {
      std::vector<std::string> lines = input.next(static_cast<std::size_t>(named ? most_ : 1));
      if (lines.empty()) return;
      std::vector<Example> examples;
      for (std::string& line : lines) {
        ++line_;
        if (!lines_.is_example(line)) continue;
        Example example{std::move(line), line_};
        if (named) {
          examples.push_back(std::move(example));
        } else {
          take_names(example);
          named = true;
        }
      }
      predict(examples);
    }
  }

 private:
  void take_names(const Example& line) {
    try {
      lines_.set_names(line.text);
    } catch (const DataError& error) {
      throw DataError(at_line(error.what(), line));
    }
  }

  /// Where a line is wrong, those before it are predicted in smaller batches.
  void predict(std::span<const Example> examples) {
    if (examples.empty()) return;
    std::vector<std::string> texts;
    for (const Example& example : examples) texts.push_back(example.text);
    std::string text;
    try {
      text = predicted(texts);
    } catch (const DataError& error) {
      if (examples.size() == 1) throw DataError(at_line(error.what(), examples.front()));
      const std::size_t half = examples.size() / 2;
      predict(examples.first(half));
      predict(examples.subspan(half));
      return;
    }
    example_ += std::ssize(examples);
    print(text);
  }

  /// The lines of the examples' predictions.
  std::string predicted(const std::vector<std::string>& examples) {
    const Index outputs = model_.parts->model->output_size();
    const std::vector<float> values =
        lines_.in_memory() ? outputs_of(lines_.features(examples)) : outputs_by_file(examples);
    if (std::ssize(values) != std::ssize(examples) * outputs) {
      throw DataError(
          fmt::format("{}: {} of one line each are expected, and there are {}; end each example with a line feed, "
                      "and write no other line breaks",
                      kStandardInput, count_of(std::ssize(examples), "example"), std::ssize(values) / outputs));
    }
    return rows_->text(example_, values, {});
  }

  std::vector<float> outputs_of(const std::vector<float>& features) {
    models::Model& model = *model_.parts->model;
    const Index size = std::ssize(features) / model_.checkpoint.header.inputs.features.size();
    const data::Batch batch{.size = size, .features = features};
    std::vector<float> values(static_cast<std::size_t>(size * model.output_size()));
    model.predict(batch, model_.parts->state(), values);
    return values;
  }

  std::vector<float> outputs_by_file(const std::vector<std::string>& examples) {
    const SignalsWait signals;
    const PrivateFolder folder;
    struct Closed {
      TrainedModel& model;
      ~Closed() { model.close_set(); }
    } const closed{model_};
    ApplyOptions options = how_.model;
    options.scratch = folder.path();
    options.input = folder.path() + "/lines";
    std::vector<float> values;
    try {
      lines_.write(examples, options.input);
      model_.open_set(world_, options, log_);
      Predictor predictor(model_, world_, most_, /*answers=*/false);
      for (BatchPredictions rows = predictor.next(); rows.range[1] > 0; rows = predictor.next()) {
        values.insert(values.end(), rows.values.begin(), rows.values.end());
      }
    } catch (const DataError& error) {
      std::string message = data::name_temporary_set(error.what(), folder.path(), std::string(kStandardInput));
      if (message.starts_with(options.input)) message.replace(0, options.input.size(), kStandardInput);
      throw DataError(message);
    }
    return values;
  }

  static void print(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0) throw OutputError("standard output: cannot be written to");
  }

  comm::Communicator& world_;
  const StreamOptions& how_;
  Log& log_;
  TrainedModel model_;
  RawLines lines_;
  Index most_ = 0;
  std::optional<PredictionRows> rows_;
  std::int64_t line_ = 0, example_ = 0;
};

}  // namespace

void predict_stream(comm::Communicator& world, const StreamOptions& options, Log& log) {
  if (world.size() > 1) {
    throw LaunchError("predict --stream: one process reads standard input; start it without mpirun");
  }
  Stream(world, options, log).run();
}

}  // namespace unisono::apply
