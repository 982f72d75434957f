#include "server/shard.hpp"

#include <algorithm>
#include <cstdlib>

#include "unisono/parallel/slice_holding.hpp"

namespace unisono::strategies {

std::shared_ptr<Buffer> BufferPool::take(Index floats) {
  const std::size_t count = buffers_.size();
  std::size_t used = 0;  // behind each other
  while (used < count && buffers_[(next_ + used) % count].use_count() > 1) ++used;
  if (used == count) buffers_.push_back(std::make_shared<Buffer>());
  const std::size_t place = used == count ? count : (next_ + used) % count;
  next_ = place + 1;
  const std::shared_ptr<Buffer>& buffer = buffers_[place];
  if (buffer->size() < floats) *buffer = Buffer(floats);
  return buffer;
}

ServerShard::ServerShard(comm::Slice place, models::ModelState state, Allocator& memory)
    : place_(place), values_(pool_.take(place.last - place.first)), statistics_(state.statistics.size()) {
  memory.copy(slice(state.parameters, place), values_->view());
  memory.copy(state.statistics, statistics_);
}

/// Copies the values first if somebody else holds them (copy on write).
MutableView ServerShard::mutable_values() {
  constexpr long kHolders = 2;  // this one and the pool
  if (values_.use_count() > kHolders) {
    const std::shared_ptr<Buffer> copy = pool_.take(values_->size());
    std::ranges::copy(values(), copy->data());
    values_ = copy;
  }
  return values_->view();
}

void ServerShard::apply(const Push& push) {
  if (push.question->examples > 0) update(push);
  take_statistics(push);
  ++version_;
}

void ServerShard::apply_together(std::span<const Push> pushes) {
  update_together(pushes);
  double total = 0;  // below 1 where a worker trains alone
  for (const Push& push : pushes) total += push.question->weight;
  std::vector<float> mean(statistics_.size());
  for (const Push& push : pushes) {
    const auto weight = static_cast<float>(push.question->weight / total);
    for (std::size_t i = 0; i < push.statistics.size(); ++i) mean[i] += weight * push.statistics[i];
  }
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (!unmoved_by(pushes, i)) statistics_[i] = mean[i];
  }
  ++version_;
}

/// An exponential average, weighted so that one push of each worker moves the statistics as far as the workers' own
/// moved on average.
void ServerShard::take_statistics(const Push& push) {
  const auto weight = static_cast<float>(push.question->weight);
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    if (unmoved_by({&push, 1}, i)) continue;
    statistics_[i] = (1 - weight) * statistics_[i] + weight * push.statistics[i];
  }
}

/// True for statistics of frozen layers, which must not change even by rounding.
bool ServerShard::unmoved_by(std::span<const Push> pushes, std::size_t i) const {
  return std::ranges::all_of(pushes, [&](const Push& push) { return push.statistics[i] == statistics_[i]; });
}

namespace {

class GradientShard final : public ServerShard {
 public:
  GradientShard(std::unique_ptr<const Holding> holding, std::unique_ptr<optim::Optimizer> optimizer, comm::Slice place,
                models::ModelState state, StaleGradients stale, Allocator& memory)
      : ServerShard(place, state, memory),
        holding_(std::move(holding)),
        optimizer_(std::move(optimizer)),
        stale_(stale) {}

  optim::Optimizer* optimizer() override { return optimizer_.get(); }

 private:
  void update(const Push& push) override {
    if (stale_.delay_compensation != 0 && push.staleness > 0) compensate(push);
    const auto staleness = static_cast<double>(std::max<std::int64_t>(1, push.staleness));
    const double rate = stale_.divide_rate ? push.question->rate / staleness : push.question->rate;
    optimizer_->step(mutable_values(), push.values, rate, push.question->gradient_scale);
  }

  /// The gradients are parts of one mean over the global batch: they are added up.
  void update_together(std::span<const Push> pushes) override {
    const MutableView sum = pushes.front().values;
    for (const Push& push : pushes.subspan(1)) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += push.values[i];
    }
    optimizer_->step(mutable_values(), sum, pushes.front().question->rate, pushes.front().question->gradient_scale);
  }

  /// Approximates the gradient at the present values to first order, with the diagonal of g gᵀ as the Hessian.
  void compensate(const Push& push) {
    const auto lambda = static_cast<float>(stale_.delay_compensation);
    for (std::size_t i = 0; i < push.values.size(); ++i) {
      const float g = push.question->gradient_scale * push.values[i];
      push.values[i] += lambda * g * push.values[i] * (values()[i] - push.read[i]);
    }
  }

  std::unique_ptr<const Holding> holding_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  StaleGradients stale_;
};

class SumShard final : public ServerShard {
 public:
  using ServerShard::ServerShard;

 private:
  void update(const Push& push) override {
    const MutableView theta = mutable_values();
    for (std::size_t i = 0; i < theta.size(); ++i) theta[i] += push.values[i];
  }
  void update_together(std::span<const Push> pushes) override {
    for (const Push& push : pushes) update(push);
  }
};

class RowShard final : public ServerShard {
 public:
  RowShard(RowsInShard rows, comm::Slice place, models::ModelState state, bool alone)
      : ServerShard(place, state, plain_allocator()), rows_(std::move(rows)), alone_(alone) {}

  Index floats_of(std::span<const std::uint32_t> rows) const override { return rows_.floats_of(rows); }

  std::shared_ptr<const Buffer> read(std::span<const std::uint32_t> rows) override {
    std::shared_ptr<Buffer> packed = packed_.take(floats_of(rows));
    float* to = packed->data();
    rows_.for_each(rows, [&](Index offset, Index floats) {
      to = std::copy_n(values().data() + offset - place().first, floats, to);
    });
    return packed;
  }

 private:
  void update(const Push& push) override {
    const float* from = push.values.data();
    const MutableView theta = mutable_values();
    rows_.for_each(push.rows, [&](Index offset, Index floats) {
      float* const row = theta.data() + offset - place().first;
      for (Index k = 0; k < floats; ++k) row[k] = alone_ ? from[k] : row[k] + from[k];
      from += floats;
    });
  }

  void update_together(std::span<const Push> pushes) override {
    for (const Push& push : pushes) update(push);
  }

  RowsInShard rows_;
  bool alone_;
  BufferPool packed_;
};

}  // namespace

std::unique_ptr<ServerShard> make_gradient_shard(std::unique_ptr<const Holding> holding,
                                                 std::unique_ptr<optim::Optimizer> optimizer, comm::Slice place,
                                                 models::ModelState state, StaleGradients stale, Allocator& memory) {
  return std::make_unique<GradientShard>(std::move(holding), std::move(optimizer), place, state, stale, memory);
}

std::unique_ptr<ServerShard> make_sum_shard(comm::Slice place, models::ModelState state, Allocator& memory) {
  return std::make_unique<SumShard>(place, state, memory);
}

std::unique_ptr<ServerShard> make_row_shard(RowsInShard rows, comm::Slice place, models::ModelState state, bool alone) {
  return std::make_unique<RowShard>(std::move(rows), place, state, alone);
}

namespace {

/// Moves each border between equal parts to where `nearest` allows a cut.
template <typename Nearest>
std::vector<comm::Slice> cut(Index floats, int shards, Nearest nearest) {
  std::vector<comm::Slice> parts;
  Index first = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const Index last =
        shard + 1 == shards ? floats : std::max(first, nearest(comm::slice_of(floats, shard, shards).last));
    parts.push_back({first, last});
    first = last;
  }
  return parts;
}

Index nearest_line(Index border) { return (border + kLineFloats / 2) / kLineFloats * kLineFloats; }

}  // namespace

std::vector<comm::Slice> cut_into_shards(const ParameterLayout& layout, int shards, Cut where) {
  std::vector<Index> borders = {0, layout.size()};
  for (const Block& block : layout.blocks()) borders.push_back(block.offset);
  return cut(layout.size(), shards, [&](Index border) {
    if (where == Cut::lines) return std::min(nearest_line(border), layout.size());
    return *std::min_element(borders.begin(), borders.end(),
                             [&](Index a, Index b) { return std::abs(a - border) < std::abs(b - border); });
  });
}

std::vector<comm::Slice> cut_between_rows(Index floats, const std::vector<models::RowSpace>& spaces, int shards) {
  return cut(floats, shards, [&](Index border) {
    for (const models::RowSpace& space : spaces) {
      const Index inside = border - space.offset;
      if (inside <= 0 || inside >= space.rows * space.stride) continue;
      return space.offset + (inside + space.stride / 2) / space.stride * space.stride;
    }
    return std::min(nearest_line(border), floats);
  });
}

std::unique_ptr<const Holding> served_holding(const ParameterLayout& layout, comm::Slice shard) {
  return std::make_unique<parallel::SliceHolding>(std::make_shared<WholeHolding>(layout),
                                                  std::vector<FloatRange>{{shard.first, shard.last}},
                                                  parallel::SliceHolding::Place::packed, /*squares=*/nullptr);
}

RowsInShard::RowsInShard(Index floats, const std::vector<models::RowSpace>& spaces, comm::Slice shard) {
  std::vector<std::size_t> numbers(spaces.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  std::sort(numbers.begin(), numbers.end(), [&](auto a, auto b) { return spaces[a].offset < spaces[b].offset; });
  Index at = 0;
  const auto rest_until = [&](Index end) {
    const comm::Slice segment{std::max(at, shard.first), std::min(end, shard.last)};
    if (segment.first < segment.last) rest_.push_back(segment);
  };
  for (const std::size_t number : numbers) {
    const models::RowSpace& space = spaces[number];
    rest_until(space.offset);
    at = space.offset + space.rows * space.stride;
    const Index first = std::clamp<Index>((shard.first - space.offset) / space.stride, 0, space.rows);
    const Index last = std::clamp<Index>((shard.last - space.offset) / space.stride, 0, space.rows);
    if (first >= last) continue;
    parts_.push_back({number, first, last - first, count_, space.offset + first * space.stride, space.stride});
    count_ += last - first;
  }
  rest_until(floats);
}

void RowsInShard::take_touched(models::TouchedRows& touched, std::vector<std::uint32_t>& rows) const {
  for (const RowSegment& part : parts_) {
    for (Index row = 0; row < part.rows; ++row) {
      if (!touched.is_touched(part.space, part.first + row)) continue;
      touched.forget(part.space, part.first + row);
      rows.push_back(static_cast<std::uint32_t>(part.number + row));
    }
  }
}

Index RowsInShard::floats_of(std::span<const std::uint32_t> rows) const {
  Index floats = 0;
  for_each(rows, [&](Index, Index count) { floats += count; });
  return floats;
}

}  // namespace unisono::strategies
