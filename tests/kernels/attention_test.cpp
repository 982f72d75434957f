#include <numbers>

#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {
namespace {

struct AttentionOptions {
  Index batch = 1;
  float rate = 0;     ///< of dropout
  float largest = 1;  ///< |x| is below
};

/// Sequences through both passes.
struct AttentionCase {
  AttentionSpec spec;
  AttentionOptions options;
  Floats x, dy;

  AttentionCase(const AttentionSpec& spec_, const AttentionOptions& options_)
      : spec(spec_),
        options(options_),
        x(random_floats(in().size(), 81, -options.largest, options.largest)),
        dy(random_floats(out().size(), 82)) {}
  Shape in() const { return {spec.in(), options.batch * spec.rows}; }
  Shape out() const { return {spec.out(), options.batch * spec.rows}; }
  Shape log_sums() const { return {spec.log_sums(), options.batch * spec.rows}; }
  DropoutKey dropout() const { return {.seed = 3, .epoch = 5, .layer = 2, .rate = options.rate}; }
  /// Indices that differ in their upper halves, too.
  std::vector<std::uint64_t> examples() const {
    std::vector<std::uint64_t> examples;
    for (Index b = 0; b < options.batch; ++b) examples.push_back(static_cast<std::uint64_t>(b) * 0x100000007U + 5);
    return examples;
  }
  /// Values of sequence b, of rows of `extent`.
  View part(View values, const Extent& extent, Index b) const {
    const auto size = static_cast<std::size_t>(spec.rows * extent.size());
    return values.subspan(static_cast<std::size_t>(b) * size, size);
  }
  std::string text() const {
    return std::to_string(options.batch) + " × " + std::to_string(spec.rows) + ", heads " + std::to_string(spec.heads) +
           " / " + std::to_string(spec.key_heads) + " × " + std::to_string(spec.width) +
           (spec.causal ? ", causal" : "") + (spec.rotary > 0 ? ", rotary" : "") +
           (options.rate > 0 ? ", dropout" : "");
  }
};

/// y, log-sums and dx.
Outputs attend(CpuBackend& backend, const AttentionCase& c) {
  const Buffer x = to_device(backend, c.in(), c.x, 50), dy = to_device(backend, c.out(), c.dy);
  Buffer y = fresh(backend, c.out()), log_sums = fresh(backend, c.log_sums()), dx = fresh(backend, c.in());
  Buffer alone = fresh(backend, c.out());
  backend.attention_forward(c.spec, c.options.batch, x.view(), c.dropout(), c.examples(), y.view(), log_sums.view());
  backend.attention_forward(c.spec, c.options.batch, x.view(), c.dropout(), c.examples(), alone.view(), {});
  backend.attention_backward(c.spec, c.options.batch, x.view(), y.view(), log_sums.view(), c.dropout(), c.examples(),
                             dy.view(), dx.view());
  CHECK(std::isfinite(largest_unused(backend, c.out(), y.view())));
  CHECK(std::isfinite(largest_unused(backend, c.log_sums(), log_sums.view())));
  CHECK(largest_unused(backend, c.in(), dx.view()) == 0);
  CHECK(same_bits({{from_device(backend, c.out(), alone)}, {}}, {{from_device(backend, c.out(), y)}, {}}));
  return {{from_device(backend, c.out(), y), from_device(backend, c.log_sums(), log_sums),
           from_device(backend, c.in(), dx)},
          {}};
}

/// The largest length of the vectors of D values of rows.
double longest(View rows, Index width) {
  double most = 0;
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(width)) {
    double squares = 0;
    for (float v : rows.subspan(first, static_cast<std::size_t>(width))) squares += std::pow(static_cast<double>(v), 2);
    most = std::max(most, squares);
  }
  return std::sqrt(most);
}

/// Bounds of errors. Roundings are independent of each other: a sum of n terms errs by √n of them.
struct AttentionBounds {
  double y, log_sum, dx;

  /// \param columns the largest Σ_i p_ij, over all heads that read key j
  AttentionBounds(const AttentionCase& c, double columns) {
    const auto width = static_cast<double>(c.spec.width), rows = static_cast<double>(c.spec.rows);
    const auto largest = static_cast<double>(c.options.largest), rate = static_cast<double>(c.options.rate);
    const double length = longest(c.x, c.spec.width), sum = std::sqrt(rows);
    // A score q·k / √D is at most S = |q| |k| / √D. Its product errs by √D u S, turning q and k by 4 u S, the exponent
    // by 2 u S, and an exponential by 6 u. Sums of them have 128 terms in a run.
    const double score = length * length / std::sqrt(width), power = (std::sqrt(width) + 6) * score + 6;
    const double log = score + std::log(rows);
    log_sum = kRoundoff * (power + std::sqrt(128) + 2 * log);
    // A probability has the errors of two such terms, an output those of its own sum besides.
    const double probability = 2 * power + std::sqrt(128);
    y = kRoundoff * (probability + sum) * largest / (1 - rate);
    // dV = Σ p dy. dQ and dK are Σ p (dp − Σ dy y) / √D of keys and queries, where dp / √D is about a value of v:
    // errors of p and of L; of dp and Σ dy y, with that of y. Sums over a column of p are of independent terms.
    const double slope = 2 * probability + log + 2 * std::sqrt(width) + sum;
    dx = kRoundoff * std::sqrt(std::max(1.0, columns)) * (1 + largest * largest) * slope / (1 - rate);
  }
};

void check_attention(const AttentionCase& c) {
  INFO(c.text());
  reference::Values y, log_sums, dx;
  double columns = 0;
  for (Index b = 0; b < c.options.batch; ++b) {
    const reference::Attention attention(c.spec, widen(c.part(c.x, c.spec.in(), b)), c.dropout(),
                                         c.examples()[static_cast<std::size_t>(b)]);
    const auto append = [](reference::Values& to, const reference::Values& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(y, attention.forward());
    append(log_sums, attention.log_sums());
    append(dx, attention.backward(widen(c.part(c.dy, c.spec.out(), b))));
    // With dy = 1, dV is the sum of a column of probabilities.
    const auto of_ones =
        attention.backward(reference::Values(static_cast<std::size_t>(c.spec.rows * c.spec.out().size()), 1.0));
    const auto size = static_cast<std::size_t>(c.spec.in().size());
    for (std::size_t i = 0; i < of_ones.size(); ++i) {
      const bool value = i % size >= static_cast<std::size_t>((c.spec.heads + c.spec.key_heads) * c.spec.width);
      if (value) columns = std::max(columns, of_ones[i]);
    }
  }
  const AttentionBounds bounds(c, columns);
  everywhere([&](CpuBackend& backend) { return attend(backend, c); },
             [&](const Outputs& outputs) {
               CHECK(excess(outputs.tensors[0], y, bounds.y) <= 1);
               CHECK(excess(outputs.tensors[1], log_sums, bounds.log_sum) <= 1);
               CHECK(excess(outputs.tensors[2], dx, bounds.dx) <= 1);
             });
}

}  // namespace

TEST_CASE("attention gives the reference's outputs and gradients for any number of rows", "[attention]") {
  for (Index rows : {1, 2, 5, 15, 16, 17, 50, 63, 64, 65, 100, 128, 130}) {
    for (bool causal : {true, false}) {
      const Index batch = rows < 10 ? 3 : 2;
      check_attention({{.rows = rows, .heads = 2, .key_heads = 2, .width = 8, .causal = causal}, {.batch = batch}});
    }
  }
}

TEST_CASE("… for several runs of blocks", "[attention]") {
  for (bool causal : {true, false}) {
    check_attention({{.rows = 390, .heads = 1, .key_heads = 1, .width = 16, .causal = causal}, {}});
    check_attention({{.rows = 320, .heads = 1, .key_heads = 1, .width = 4, .causal = causal}, {.batch = 2}});
  }
}

TEST_CASE("… for any width of heads, and any number of them for each key", "[long][attention]") {
  for (Index width : {1, 3, 16, 20, 64, 72}) {
    for (const auto& [heads, key_heads] : {std::pair<Index, Index>{1, 1}, {4, 2}, {3, 1}, {6, 6}}) {
      check_attention({{.rows = 70, .heads = heads, .key_heads = key_heads, .width = width}, {.batch = 2}});
    }
  }
}

TEST_CASE("… with rotary positions", "[attention]") {
  for (Index rows : {7, 64, 130}) {
    for (Index width : {2, 6, 32}) {
      const AttentionSpec spec{.rows = rows, .heads = 4, .key_heads = 2, .width = width, .rotary = 10000};
      check_attention({spec, {.batch = 2}});
    }
  }
}

TEST_CASE("… with dropout", "[attention]") {
  for (Index rows : {6, 64, 67, 200}) {
    for (bool causal : {true, false}) {
      check_attention(
          {{.rows = rows, .heads = 2, .key_heads = 1, .width = 12, .causal = causal}, {.batch = 2, .rate = 0.3F}});
    }
  }
}

TEST_CASE("… with scores far apart", "[attention]") {
  check_attention({{.rows = 130, .heads = 2, .key_heads = 2, .width = 16}, {.largest = 6}});
}

TEST_CASE("attention of two rows, by hand", "[attention]") {
  // D = 1, q = (0, ln 3), k = (0, 1), v = (2, 6). Row 0 sees itself: y = 2, L = 0. Row 1 has p = (1, 3) / 4: y = 5,
  // L = ln 4.
  const auto log3 = static_cast<float>(std::numbers::ln2 * std::log2(3.0));
  CpuBackend backend({});
  AttentionCase c({.rows = 2}, {});
  c.x = {0, 0, 2, log3, 1, 6};
  const Outputs outputs = attend(backend, c);
  CHECK(outputs.tensors[0][0] == Approx(2));
  CHECK(outputs.tensors[0][1] == Approx(5));
  CHECK(outputs.tensors[1][0] == Approx(0).margin(1e-6));
  CHECK(outputs.tensors[1][1] == Approx(std::log(4.0)));
}

TEST_CASE("where attention is causal, a row changes nothing in those before it", "[attention]") {
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 2, .instruction_set = set});
    AttentionCase c({.rows = 150, .heads = 2, .key_heads = 1, .width = 8, .rotary = 100}, {.rate = 0.2F});
    const Floats before = attend(backend, c).tensors[0];
    for (Index t : {1, 15, 16, 40, 64, 100, 149}) {
      Floats& x = c.x;
      const auto first = static_cast<std::ptrdiff_t>(t * c.spec.in().size());
      const Floats old = x;
      std::fill(x.begin() + first, x.end(), 3.0F);
      const Floats after = attend(backend, c).tensors[0];
      const auto same = static_cast<std::ptrdiff_t>(t * c.spec.out().size());
      CHECK(std::equal(before.begin(), before.begin() + same, after.begin()));
      CHECK(!std::equal(before.begin() + same, before.end(), after.begin() + same));
      x = old;
    }
  }
}

TEST_CASE("a sequence's outputs and gradients do not depend on those beside it", "[attention]") {
  for (const Index rows : {3, 64, 100}) {
    for (const double rotary : {0.0, 100.0}) {
      const AttentionSpec spec{.rows = rows, .heads = 4, .key_heads = 2, .width = 6, .rotary = rotary};
      const AttentionCase together(spec, {.batch = 5, .rate = 0.1F});
      for (InstructionSet set : available_instruction_sets()) {
        CpuBackend backend({.threads = 1, .instruction_set = set}), many({.threads = 16, .instruction_set = set});
        const Outputs all = attend(many, together);
        AttentionCase one(spec, {.batch = 1, .rate = 0.1F});
        const View x = together.part(together.x, spec.in(), 0), dy = together.part(together.dy, spec.out(), 0);
        one.x.assign(x.begin(), x.end());
        one.dy.assign(dy.begin(), dy.end());
        for (CpuBackend* either : {&backend, &many}) {
          const Outputs alone = attend(*either, one);
          for (std::size_t i = 0; i < 3; ++i) {
            CHECK(std::equal(alone.tensors[i].begin(), alone.tensors[i].end(), all.tensors[i].begin()));
          }
        }
      }
    }
  }
}

TEST_CASE("a NaN of a diverged run passes through attention", "[attention]") {
  AttentionCase c({.rows = 20, .heads = 1, .key_heads = 1, .width = 2}, {});
  c.x[10 * 6] = std::nanf("");  // a query of row 10
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.instruction_set = set});
    const Floats y = attend(backend, c).tensors[0];
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 2 == 10));
  }
}

}  // namespace unisono::kernels::cpu
