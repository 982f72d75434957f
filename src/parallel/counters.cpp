#include "unisono/parallel/counters.hpp"

#include <fmt/format.h>

namespace unisono::parallel {

void CompressionCounters::describe(CounterVisitor& visitor) {
  const CounterGroup group(visitor, "compression");
  visitor.count({.name = "sent_bytes", .unit = "bytes"}, sent_bytes);
  visitor.count({.name = "plain_bytes", .unit = "bytes"}, plain_bytes);
}

/// What was sent, beside what it would have been without compression.
std::string CompressionCounters::text(const CounterTerms& terms) const {
  if (terms.ranks == 1) return "  compression there is one rank, which sends nothing\n";
  if (plain_bytes <= 0) return "  compression nothing was sent that is compressed\n";
  return fmt::format(
      "  compression {:.1f} MB per epoch and rank, {:.3g} % of the {:.1f} MB without it\n", terms.megabytes(sent_bytes),
      100.0 * static_cast<double>(sent_bytes) / static_cast<double>(plain_bytes), terms.megabytes(plain_bytes));
}

/// The summary's figures of pipelines show it for a step.
void PipelineCounters::describe(CounterVisitor& visitor) {
  visitor.count({.name = "boundary_bytes", .unit = "bytes", .hidden = true}, boundary_bytes);
}

void TensorCounters::describe(CounterVisitor& visitor) {
  visitor.count({.name = "tensor_bytes", .unit = "bytes"}, bytes);
}

std::string TensorCounters::text(const CounterTerms& terms) const { return terms.bytes_line("layers", bytes); }

}  // namespace unisono::parallel
