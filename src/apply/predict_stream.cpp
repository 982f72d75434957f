// Predictions of a stream: lines of standard input, as they come. Those that are there already are predicted together,
// so that many lines are predicted in large batches, and a single one waits for no other. Rows of tables and stored
// values become features in memory; of other examples, each batch becomes a file that is read as that of `predict
// --input` is.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "predict/line_stream.hpp"
#include "predict/predictor.hpp"
#include "predict/raw_lines.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/prediction_sink.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

/// Where the sets of batches lie: in memory, where there is such a folder.
std::string folder_in_memory() {
  static const char* const kMemory = "/dev/shm";
  return ::access(kMemory, W_OK | X_OK) == 0 ? kMemory : std::filesystem::temp_directory_path().string();
}

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

/// A message about a batch of one example, with the number of its line. \param path of the batch
std::string at_line(std::string message, const std::string& path, const Example& example) {
  const std::int64_t line = example.line;
  if (message.starts_with(path + "/")) {  // a link to a picture
    return fmt::format("{}:{}: {}{}", kStandardInput, line, example.text,
                       message.substr(message.find(':', path.size())));
  }
  if (message.starts_with(path)) message.replace(0, path.size(), kStandardInput);
  if (!message.starts_with(kStandardInput)) return fmt::format("{}:{}: {}", kStandardInput, line, message);
  std::size_t end = kStandardInput.size();
  if (message.substr(end, 1) == ":" && message.find_first_not_of("0123456789", end + 1) > end + 1) {
    end = message.find_first_not_of("0123456789", end + 1);  // the number in the batch
  }
  return fmt::format("{}:{}{}", kStandardInput, line, message.substr(end));
}

class Stream {
 public:
  Stream(comm::Communicator& world, const StreamOptions& how, Log& log)
      : world_(world),
        how_(how),
        log_(log),
        folder_(folder_in_memory()),
        model_(world, how.model, log, TrainedModel::With::nothing),
        lines_(model_.checkpoint, folder_) {
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
        if (named) {
          examples.push_back({std::move(line), line_});
        } else {
          lines_.set_names(line);
          named = true;
        }
      }
      predict(examples);
    }
  }

 private:
  /// Where a batch has a wrong line, the lines before it are predicted one by one.
  void predict(const std::vector<Example>& examples) {
    if (examples.empty()) return;
    std::vector<std::string> texts;
    for (const Example& example : examples) texts.push_back(example.text);
    std::string text;
    try {
      text = predicted(texts);
    } catch (const DataError& error) {
      if (examples.size() == 1) throw DataError(at_line(error.what(), lines_.path(), examples.front()));
      for (const Example& example : examples) predict({example});
      return;
    }
    example_ += std::ssize(examples);
    print(text);
  }

  /// The lines of the examples' predictions.
  std::string predicted(const std::vector<std::string>& examples) {
    if (!lines_.in_memory()) return predicted_by_file(examples);
    const std::vector<float> features = lines_.features(examples);
    const data::Batch batch{.size = std::ssize(examples), .features = features};
    models::Model& model = *model_.parts->model;
    std::vector<float> values(examples.size() * static_cast<std::size_t>(model.output_size()));
    model.predict(batch, model_.parts->state(), values);
    return rows_->text(example_, values, {});
  }

  std::string predicted_by_file(const std::vector<std::string>& examples) {
    ApplyOptions options = how_.model;
    options.scratch = folder_;
    options.input = kStandardInput;
    std::string text;
    struct Removed {
      const RawLines& lines;
      ~Removed() { lines.remove(); }
    } const removed{lines_};
    naming_input(options, [&] {
      options.input = lines_.write(examples);
      model_.open_set(world_, options, log_);
      Predictor predictor(model_, world_, most_, /*answers=*/false);
      for (BatchPredictions rows = predictor.next(); rows.range[1] > 0; rows = predictor.next()) {
        text += rows_->text(example_ + rows.range[0], rows.values, {});
      }
    });
    return text;
  }

  static void print(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0) throw OutputError("standard output: cannot be written to");
  }

  comm::Communicator& world_;
  const StreamOptions& how_;
  Log& log_;
  std::string folder_;
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
