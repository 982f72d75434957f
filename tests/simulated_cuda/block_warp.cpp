// What the lanes of a warp do together.
#include "simulated_cuda/block_runner.hpp"

namespace simulated {

std::uint64_t BlockRunner::meet_warp(Exchange kind, const Thread& wish) {
  const unsigned self = current_;
  const unsigned warp = self / lanes;
  const unsigned present = size_ - warp * lanes >= lanes ? ~0U : (1U << (size_ - warp * lanes)) - 1;
  if ((wish.mask & (1U << self % lanes)) == 0) fatal("a lane calls a warp's exchange and is not in its mask");
  if ((wish.mask & ~present) != 0) {
    fatal("%s:%u: the mask %08x names lanes that the block's last warp lacks", wish.where.file, wish.where.line,
          wish.mask);
  }
  Thread& thread = threads_[self];
  thread.mask = wish.mask;
  thread.value = wish.value;
  thread.source = wish.source;
  thread.where = wish.where;
  std::size_t i = 0;
  for (; i < gatherings_.size(); ++i) {
    const Gathering& g = gatherings_[i];
    if (g.warp == warp && g.mask == wish.mask && g.kind == kind && same(g.where, wish.where)) break;
  }
  if (i == gatherings_.size()) gatherings_.push_back({warp, wish.mask, 0, kind, wish.where});
  Gathering& gathering = gatherings_[i];
  gathering.here |= 1U << self % lanes;
  if (gathering.here == gathering.mask) {
    exchange(gathering);
    std::swap(gathering, gatherings_.back());
    gatherings_.pop_back();
  } else {
    wait(State::in_warp);
  }
  return threads_[self].result;
}

/// All lanes are here: computes what each gets and lets them go on.
void BlockRunner::exchange(const Gathering& gathering) {
  Thread* const warp = &threads_[gathering.warp * lanes];
  std::uint64_t votes = 0;
  for (unsigned l = 0; l < lanes; ++l) {
    if ((gathering.mask >> l & 1U) != 0 && warp[l].value != 0) votes |= 1U << l;
  }
  for (unsigned l = 0; l < lanes; ++l) {
    if ((gathering.mask >> l & 1U) == 0) continue;
    const unsigned source = warp[l].source;
    if (gathering.kind == Exchange::shuffle && (gathering.mask >> source & 1U) == 0) {
      fatal("%s:%u: lane %u shuffles with lane %u, which is not in the mask %08x", gathering.where.file,
            gathering.where.line, l, source, gathering.mask);
    }
    warp[l].result = gathering.kind == Exchange::shuffle ? warp[source].value : votes;
    wake(gathering.warp * lanes + l);
  }
}

}  // namespace simulated
