#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {
namespace {

/// Sequences of all lengths.
struct PoolCase {
  SequencePoolSpec spec;
  Index batch;
  bool whole;  ///< whether all lengths are T, which need not be said then

  Shape rows() const { return {{spec.units, 1, 1}, batch * spec.rows}; }
  Shape results() const { return {{spec.units, 1, 1}, batch}; }
  std::vector<std::int32_t> lengths() const {
    std::vector<std::int32_t> lengths;
    for (Index b = 0; b < batch && !whole; ++b) lengths.push_back(static_cast<std::int32_t>(1 + b * 3 % spec.rows));
    return lengths;
  }
  Index length(Index b) const { return whole ? spec.rows : lengths()[static_cast<std::size_t>(b)]; }
};

std::vector<double> part_of(const Floats& values, Index number, Index size) {
  const auto begin = values.begin() + number * size;
  return {begin, begin + size};
}

std::vector<PoolCase> pool_cases() {
  std::vector<PoolCase> cases;
  for (const SequencePool kind : {SequencePool::last, SequencePool::mean}) {
    for (const auto& [batch, rows] : {std::pair<Index, Index>{0, 4}, {1, 1}, {2, 4}, {3, 50}, {70, 3}, {13, 10}}) {
      for (const Index units : {1, 5, 16, 33}) {
        cases.push_back({{.kind = kind, .units = units, .rows = rows}, batch, false});
        cases.push_back({{.kind = kind, .units = units, .rows = rows}, batch, true});
      }
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("sequences are pooled into their last row or their mean", "[sequence_pool]") {
  for (const PoolCase& c : pool_cases()) {
    INFO(c.batch << " × " << c.spec.rows << " × " << c.spec.units);
    const Floats x = random_floats(c.rows().size(), 81), dy = random_floats(c.results().size(), 82);
    const auto lengths = c.lengths();
    std::vector<double> y, dx;
    for (Index b = 0; b < c.batch; ++b) {
      const auto pooled = reference::sequence_pool(c.spec, part_of(x, b, c.spec.rows * c.spec.units), c.length(b));
      const auto spread = reference::sequence_pool_backward(c.spec, part_of(dy, b, c.spec.units), c.length(b));
      y.insert(y.end(), pooled.begin(), pooled.end());
      dx.insert(dx.end(), spread.begin(), spread.end());
    }
    everywhere(
        [&](CpuBackend& backend) {
          const Buffer from = to_device(backend, c.rows(), x), gradient = to_device(backend, c.results(), dy);
          Buffer to = fresh(backend, c.results()), back = fresh(backend, c.rows());
          backend.sequence_pool_forward(c.spec, c.batch, from.view(), lengths, to.view());
          backend.sequence_pool_backward(c.spec, c.batch, lengths, gradient.view(), back.view());
          CHECK(std::isfinite(largest_unused(backend, c.results(), to.view())));
          CHECK(std::isfinite(largest_unused(backend, c.rows(), back.view())));
          return Outputs{{from_device(backend, c.results(), to), from_device(backend, c.rows(), back)}, {}};
        },
        [&](const Outputs& outputs) {
          // A sum of n numbers up to 1 has n roundings of up to n/2 ulps of 1, before it is divided by n.
          CHECK(excess(outputs.tensors[0], y, static_cast<double>(c.spec.rows) * kRoundoff) <= 1);
          CHECK(excess(outputs.tensors[1], dx, kRoundoff) <= 1);
        });
  }
}

}  // namespace unisono::kernels::cpu
