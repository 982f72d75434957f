#include "words/word2vec_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

constexpr std::size_t kWindowsOfALoss = 64;  // of which one is looked at

class WordScratch final : public Scratch {
 public:
  std::vector<std::int32_t> kept, context;
  std::array<Window, 2> windows;  ///< the window that is trained on, and the next one, whose rows are being prefetched
  RowLocks::Set locked;
};

void mark(const Window& window, TouchedRows& touched) {
  for (const std::int32_t word : window.context) touched.mark(0, word);
  for (const std::int32_t row : window.outputs) touched.mark(1, row);
}

}  // namespace

Word2vecModel::Word2vecModel(const Word2vecSettings& settings, const ModelInputs& inputs, const ModelContext& context)
    : InPlaceModel("word2vec"),
      settings_(settings),
      seed_(context.seed),
      words_(inputs.rows),
      dimension_(settings.dimension),
      width_(round_up_to_line(settings.dimension)),
      cbow_(settings.architecture == WordArchitecture::cbow) {
  if (inputs.kind != data::SetKind::text) {
    throw ConfigError(
        fmt::format("model.kind = \"word2vec\" needs text, but the data set holds {}", data::name_of(inputs.kind)));
  }
  require_rule(context.update_rule, {"sgd"}, kind_);
  inputs_ = layout_.add_rows({{row_block("words.input", words_, dimension_, Role::weight), 0}}, width_);
  const Index outputs = settings.output == WordOutput::hierarchical_softmax ? std::max<Index>(1, words_ - 1) : words_;
  outputs_ = layout_.add_rows({{row_block("words.output", outputs, dimension_, Role::weight), 0}}, width_);
  const auto counts = context.occurrences ? context.occurrences() : std::span<const std::int64_t>();
  if (context.occurrences && counts.empty()) {
    throw DataError("the data set has no dictionary/counts, which word2vec needs to draw words; import the text again");
  }
  if (!counts.empty()) sampler_.emplace(settings, counts);
}

/// Vectors are uniform in ±½/D and outputs 0, as in the published program.
void Word2vecModel::initialise(std::uint64_t seed, ModelState state) const {
  std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
  draw_rows(seed, 0, 0.5F / static_cast<float>(dimension_), {.count = words_}, dimension_,
            matrix(inputs_, state.parameters));
}

std::unique_ptr<Scratch> Word2vecModel::make_scratch() const { return std::make_unique<WordScratch>(); }

std::vector<RowSpace> Word2vecModel::row_spaces() const {
  return {{"inputs", inputs_, width_, words_}, {"outputs", outputs_, width_, (layout_.size() - outputs_) / width_}};
}

std::vector<VectorTable> Word2vecModel::vectors(View) const {
  return {{.name = "words", .rows = words_, .width = dimension_, .parts = {{inputs_, width_}}}};
}

void Word2vecModel::train_on_window(const Window& window, const Window* next, const InPlaceStep& step,
                                    RowLocks::Set& locked, bool want_loss, kernels::InPlaceSums& sums) const {
  if (step.touched != nullptr) mark(window, *step.touched);
  if (step.meter != nullptr) {
    step.meter->begin(step.thread);
    for (const std::int32_t word : window.context) step.meter->touch(step.thread, 0, word);
    for (const std::int32_t row : window.outputs) step.meter->touch(step.thread, 1, row);
  }
  std::optional<RowLocks::Guard> guard;
  if (step.locks != nullptr) {
    locked.clear();
    for (const std::int32_t word : window.context) locked.add(*step.locks, 0, word);
    for (const std::int32_t row : window.outputs) locked.add(*step.locks, 1, row);
    guard.emplace(step.locks->lock(locked));
  }
  kernels::OutputWords outputs{.rows = window.outputs, .targets = window.targets};
  if (next != nullptr) {
    outputs.next_context = next->context;
    outputs.next_rows = next->outputs;
  }
  const kernels::RowMatrix inputs = matrix(inputs_, step.parameters), output_rows = matrix(outputs_, step.parameters);
  const auto rate = static_cast<float>(step.rate);
  if (cbow_) {
    kernels_->cbow(window.context, outputs, rate, inputs, output_rows, want_loss, sums);
  } else {
    kernels_->skip_gram(window.context, outputs, rate, inputs, output_rows, want_loss, sums);
  }
}

void Word2vecModel::update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                                    Scratch& scratch, kernels::LossSums& sums) const {
  train_on(batch, range, step, scratch, kWindowsOfALoss, sums);
}

template <typename Visit>
void Word2vecModel::for_each_window(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                                    Visit visit) const {
  assert(sampler_);  // a model that is only applied is made without occurrences
  auto& own = static_cast<WordScratch&>(scratch);
  const auto& text = std::get<Text>(*batch.set);
  std::size_t next = 0;
  for (std::int64_t sentence = range.first; sentence < range.last; ++sentence) {
    const auto at = static_cast<std::size_t>(sentence);
    RandomStream start(seed_, Purpose::words, static_cast<std::uint64_t>(batch.epoch) << 40 | at);
    FastRandom random(start);
    sampler_->subsample(text.words.subspan(text.sentences[at], text.sentences[at + 1] - text.sentences[at]), random,
                        own.kept);
    for (std::size_t i = 0; i < own.kept.size(); ++i) {
      sampler_->draw_context(own.kept, i, random, own.context);
      for (std::size_t first = 0; first < own.context.size(); first += sampler_->group()) {
        Window& window = own.windows[next];
        const auto some =
            std::span(own.context).subspan(first, std::min(sampler_->group(), own.context.size() - first));
        window.context.assign(some.begin(), some.end());
        sampler_->draw_outputs(own.kept[i], random, window);
        visit(window);
        next = 1 - next;
      }
    }
  }
}

void Word2vecModel::mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                              TouchedRows& touched) const {
  for_each_window(batch, range, scratch, [&](const Window& window) { mark(window, touched); });
}

void Word2vecModel::train_on(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                             Scratch& scratch, std::size_t every_loss, kernels::LossSums& sums) const {
  auto& own = static_cast<WordScratch&>(scratch);
  kernels::InPlaceSums losses;
  const Window* waiting = nullptr;
  std::size_t number = 0;
  const auto train_before = [&](const Window* next) {
    if (waiting != nullptr) train_on_window(*waiting, next, step, own.locked, number++ % every_loss == 0, losses);
    waiting = next;
  };
  for_each_window(batch, range, scratch, [&](const Window& window) { train_before(&window); });
  train_before(nullptr);
  add(losses, sums);
}

/// Evaluates by a training step with rate 0, which changes nothing.
void Word2vecModel::evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  WordScratch scratch;
  for (const data::ExampleRange& range : batch.ranges) {
    train_on(batch, range, {.rate = 0, .parameters = state.parameters}, scratch, /*every_loss=*/1, sums);
  }
}

std::vector<LayerSummary> Word2vecModel::summary(Index) const {
  return {{.name = "words.input",
           .kind = std::string(name_of(settings_.architecture, kWordArchitectures)),
           .output = std::to_string(dimension_),
           .parameters = words_ * dimension_,
           .flops_per_example = flops_per_example()},
          {.name = "words.output",
           .kind = std::string(name_of(settings_.output, kWordOutputs)),
           .output = std::to_string(dimension_),
           .parameters = layout_.parameters() - words_ * dimension_}};
}

/// Skip-gram: window + 1 words of context on average, times the outputs, 6 D each: a product and two updates. CBOW: the
/// context is added up and spread, 2 D each.
double Word2vecModel::flops_per_example() const {
  const auto context = static_cast<double>(settings_.window + 1),
             outputs = static_cast<double>(settings_.negatives + 1);
  return static_cast<double>(dimension_) * (cbow_ ? 2 * context + 6 * outputs : 6 * context * outputs);
}

}  // namespace unisono::models
