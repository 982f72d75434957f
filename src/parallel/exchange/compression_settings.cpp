// The keys of [strategy.compression], and which of them exclude others of the config.
#include "unisono/parallel/compression_settings.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::parallel {
namespace {

constexpr Named<Compression> kCompressions[] = {
    {Compression::none, "none", "gradients are sent as they are, in fp32"},
    {Compression::bf16, "bf16", "each value rounded to bfloat16: 2 bytes a value"},
    {Compression::eight_bit, "eight_bit",
     "8 bits a value and a scale for each 256, rounded up or down at random: about 1 byte a value"},
    {Compression::one_bit, "one_bit",
     "the signs, and for each 256 values the means of both signs: 1.25 bits a value (1-bit SGD)"},
    {Compression::threshold, "threshold",
     "values that reach a threshold, as plus or minus the threshold: 4 bytes for each of these"},
    {Compression::top_k, "top_k",
     "the largest values as they are: 8 bytes for each of these (deep gradient "
     "compression)"},
    {Compression::power_sgd, "power_sgd", "each matrix as a product of two of low rank (PowerSGD)"}};

/// Of these, those for changes of parameters.
constexpr Named<Compression> kOfChanges[] = {{Compression::none, "none", "changes are sent as they are, in fp32"},
                                             kCompressions[1],
                                             kCompressions[2],
                                             kCompressions[3],
                                             kCompressions[5]};

/// And those for pushes to servers.
constexpr Named<Compression> kOfPushes[] = {kCompressions[0], kCompressions[1], kCompressions[2],
                                            kCompressions[3], kCompressions[4], kCompressions[5]};

constexpr const char* kExact =
    "blocks or layers that are sent whole, as names or patterns: [\"dense3\", \"embedding*.weight\"]. Biases and the "
    "parameters of norms always are";

void describe_choice_of_threshold(CompressionSettings& settings, ConfigVisitor& visitor) {
  visitor.field(
      {.name = "threshold",
       .meaning = "the threshold, in units of the gradient; 0: it is chosen anew for each message, by density",
       .minimum = 0},
      settings.threshold);
  visitor.field({.name = "density",
                 .meaning = "about which share of the values is sent, where the threshold is chosen",
                 .minimum = 0,
                 .maximum = 1,
                 .minimum_excluded = true},
                settings.threshold_density);
  visitor.require("threshold", kernels::fits_fp32(settings.threshold),
                  "threshold is outside of the range of fp32: set it to a number from 1e-37 to 1e38, or to 0");
  visitor.require("density",
                  settings.threshold == 0 || settings.threshold_density == CompressionSettings{}.threshold_density,
                  "density chooses the threshold, but threshold is given: set threshold = 0, or remove density");
}

void describe_threshold(CompressionSettings& settings, ConfigVisitor& visitor) {
  describe_choice_of_threshold(settings, visitor);
  visitor.field({.name = "residual_limit",
                 .meaning = "cut what was not sent to so many thresholds; 0: nothing is cut, so that all of it is sent "
                            "some time",
                 .minimum = 0},
                settings.residual_limit);
  visitor.require("residual_limit", settings.residual_limit == 0 || settings.threshold > 0,
                  "residual_limit is in thresholds, but the threshold is chosen anew for each message: set threshold "
                  "to a number above 0, or residual_limit = 0");
}

void describe_density(CompressionSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "density",
                 .meaning = "share of the values that is sent",
                 .minimum = 0,
                 .maximum = 1,
                 .minimum_excluded = true},
                settings.density);
}

void describe_top_k(CompressionSettings& settings, ConfigVisitor& visitor) {
  describe_density(settings, visitor);
  visitor.field({.name = "momentum",
                 .meaning = "momentum correction: each rank has its own momentum, and sends of it; it takes the place "
                            "of optimizer.momentum",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                settings.momentum);
  visitor.field({.name = "ramp_steps",
                 .meaning = "steps after the warm-up in which the share falls from 1 to density, by the same factor "
                            "in each",
                 .unit = "steps",
                 .minimum = 0},
                settings.ramp_steps);
}

}  // namespace

void CompressionSettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning = "what ranks send instead of whole gradients. What a rank has not sent is added to its next gradient"},
      kind, kCompressions,
      {{Compression::threshold, [this](ConfigVisitor& inner) { describe_threshold(*this, inner); }},
       {Compression::top_k, [this](ConfigVisitor& inner) { describe_top_k(*this, inner); }},
       {Compression::power_sgd, [this](ConfigVisitor& inner) {
          inner.field({.name = "rank",
                       .meaning = "columns of the two matrices of which a product is sent",
                       .minimum = 1,
                       .maximum = 256},
                      rank);
        }}});
  visitor.field({.name = "warmup_steps",
                 .meaning = "first steps of the run, whose gradients are sent whole",
                 .unit = "steps",
                 .minimum = 0},
                warmup_steps);
  visitor.field({.name = "clip_norm",
                 .meaning = "scale a rank's own gradient down to this norm over the square root of the number of "
                            "ranks, before it is compressed; 0: never",
                 .minimum = 0},
                clip_norm);
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  for (const auto& [key, is_set] :
       {std::pair{"warmup_steps", warmup_steps > 0}, {"clip_norm", clip_norm > 0}, {"exact", !exact.empty()}}) {
    visitor.require(key, is_on() || !is_set,
                    std::string(key) +
                        " belongs to compressed gradients, but kind = \"none\": set "
                        "strategy.compression.kind, or remove it");
  }
}

void CompressionSettings::describe_for_changes(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning = "what ranks send instead of whole changes. What a rank has not sent is added to its next changes"},
      kind, kOfChanges, {{Compression::top_k, [this](ConfigVisitor& inner) { describe_density(*this, inner); }}});
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  visitor.require("exact", is_on() || exact.empty(),
                  "exact belongs to compressed changes, but kind = \"none\": set strategy.compression.kind, or remove "
                  "it");
}

void CompressionSettings::describe_for_pushes(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning =
           "what workers push instead of whole gradients. What a worker has not pushed is added to its next push"},
      kind, kOfPushes,
      {{Compression::threshold, [this](ConfigVisitor& inner) { describe_choice_of_threshold(*this, inner); }},
       {Compression::top_k, [this](ConfigVisitor& inner) { describe_density(*this, inner); }}});
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  visitor.require("exact", is_on() || exact.empty(),
                  "exact belongs to compressed pushes, but kind = \"none\": set strategy.compression.kind, or remove "
                  "it");
}

void CompressionSettings::check(const CompressionTerms& terms, ConfigVisitor& visitor) const {
  if (!is_on()) return;
  visitor.require("strategy", !terms.reproducible,
                  "strategy.compression rounds what each rank sends, so sums depend on the number of ranks: set "
                  "communication.reduction = \"fast\", or strategy.compression.kind = \"none\"");
  visitor.require("strategy", terms.clip_norm == 0,
                  "optimizer.clip_norm would clip sums that hold what earlier steps did not send: set "
                  "strategy.compression.clip_norm, which clips each rank's gradient before it is compressed, and "
                  "optimizer.clip_norm = 0");
  visitor.require("strategy", momentum == 0 || kind != Compression::top_k || terms.optimizer_states == 0,
                  "strategy.compression.momentum takes the place of the optimizer's own state, but this optimizer "
                  "keeps some: set optimizer.kind = \"sgd\" with momentum = 0, or strategy.compression.momentum = 0");
}

void require_fitting_blocks(const CompressionSettings& settings, const ParameterLayout& layout) {
  for (const std::string& pattern : settings.exact) {
    if (!layout.matching(pattern).empty()) continue;
    throw ConfigError(
        fmt::format("strategy.compression.exact: no block of the model fits '{}'; 'unisono info' lists them", pattern));
  }
}

std::unique_ptr<kernels::Encoder> make_encoder(const CompressionSettings& settings) {
  switch (settings.kind) {
    case Compression::bf16:
      return kernels::make_bf16_encoder();
    case Compression::eight_bit:
      return kernels::make_eight_bit_encoder();
    case Compression::one_bit:
      return kernels::make_one_bit_encoder();
    case Compression::threshold:
      return kernels::make_threshold_encoder(
          {.threshold = static_cast<float>(settings.threshold), .density = settings.threshold_density});
    case Compression::top_k:
      return kernels::make_top_k_encoder(settings.density);
    case Compression::none:
    case Compression::power_sgd:
      break;
  }
  return nullptr;
}

}  // namespace unisono::parallel
