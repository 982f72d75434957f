#include "bench/roofline.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace unisono::planning {
namespace {

constexpr double kFloat = sizeof(float);

/// Bytes [first, last) of all vectors of a step together, one vector after the other.
struct Touch {
  double first, last;
  bool writes;
};

/// What one pass touches.
struct PassTouches {
  Floor floor;
  std::vector<Touch> touches;
};

/// Counts how many elements are set in a range. (Fenwick, "A new data structure for cumulative frequency tables",
/// 1994.)
class Counts {
 public:
  explicit Counts(std::size_t size) : sums_(size + 1) {}
  void add(std::size_t at, int value) {
    for (std::size_t i = at + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += value;
  }
  /// Of [0, end).
  std::int64_t before(std::size_t end) const {
    std::int64_t sum = 0;
    for (std::size_t i = end; i > 0; i -= i & (~i + 1)) sum += sums_[i];
    return sum;
  }

 private:
  std::vector<std::int64_t> sums_;
};

/// Where the memory of a step was touched last: in chunks, each of which is touched as a whole.
class LastTouches {
 public:
  /// \param bytes of all vectors \param touched bytes that will be touched \param touches in so many calls
  LastTouches(double bytes, double touched, std::size_t touches)
      : chunk_bytes_(std::max(4096.0, bytes / kMostChunks)),
        chunks_(static_cast<std::size_t>(bytes / chunk_bytes_) + 1),
        set_(static_cast<std::size_t>(touched / chunk_bytes_) + 2 * touches + 1) {}

  void begin_pass() { ++pass_; }
  /// Calls found(bytes, distance) for the chunks of a range, and touches them. `distance`: how many distinct bytes were
  /// touched between the pass before that touched them and this one; infinite: none did.
  template <typename Found>
  void touch(double first, double last, const Found& found) {
    for (double at = first; at < last;) {
      const auto number = static_cast<std::size_t>(at / chunk_bytes_);
      const double end = std::min(last, (static_cast<double>(number) + 1) * chunk_bytes_);
      found(end - at, distance(chunks_[number]));
      at = end;
    }
  }

 private:
  static constexpr double kMostChunks = 1 << 16;
  struct Chunk {
    std::size_t last = 0;                                       ///< when it was touched last
    int pass = 0;                                               ///< in which pass; 0: none yet
    double distance = std::numeric_limits<double>::infinity();  ///< as that pass found it
  };

  double distance(Chunk& chunk) {
    if (chunk.pass == pass_) return chunk.distance;
    if (chunk.pass > 0) {
      chunk.distance = chunk_bytes_ * static_cast<double>(set_.before(now_) - set_.before(chunk.last));
      set_.add(chunk.last, -1);
    }
    set_.add(now_, 1);
    chunk.last = now_++;
    chunk.pass = pass_;
    return chunk.distance;
  }

  double chunk_bytes_;
  std::vector<Chunk> chunks_;
  Counts set_;  ///< the moments at which a chunk was touched that was not touched since
  std::size_t now_ = 0;
  int pass_ = 0;
};

/// The vectors of a step, one after the other: the workspace, θ, g and the optimizer's.
struct Vectors {
  Vectors(const std::vector<nn::LayerWork>& step, Index parameters, int states) {
    Index workspace = 0;
    for (const nn::LayerWork& work : step) {
      for (const auto* ranges : {&work.reads, &work.writes}) {
        for (const nn::StepRange& touched : *ranges) {
          if (touched.of == nn::StepVector::workspace) workspace = std::max(workspace, touched.range.last);
        }
      }
    }
    const auto floats = static_cast<double>(parameters);
    starts = {0, kFloat * static_cast<double>(workspace)};
    for (int vector = 0; vector < 2 + states; ++vector) starts.push_back(starts.back() + kFloat * floats);
  }
  Touch touch(const nn::StepRange& touched, bool writes) const {
    const double start = starts[static_cast<std::size_t>(touched.of)];
    return {start + kFloat * static_cast<double>(touched.range.first),
            start + kFloat * static_cast<double>(touched.range.last), writes};
  }
  /// A part of θ, g (vector 2) or of one of the optimizer's vectors.
  Touch touch(std::size_t vector, double first, double last, bool writes) const {
    return {starts[vector] + first, starts[vector] + last, writes};
  }
  double bytes() const { return starts.back(); }

  std::vector<double> starts;
};

/// A step of the rule on floats of θ: reads and writes θ and the optimizer's vectors, and may read g, a piece of all of
/// them at a time.
void add_step(const FloatRange& range, bool reads_gradient, const Vectors& vectors, std::vector<Touch>& touches) {
  constexpr double kPiece = 1 << 14;
  const double last = kFloat * static_cast<double>(range.last);
  for (double at = kFloat * static_cast<double>(range.first); at < last; at += kPiece) {
    const double end = std::min(at + kPiece, last);
    if (reads_gradient) touches.push_back(vectors.touch(2, at, end, false));
    for (std::size_t vector = 1; vector + 1 < vectors.starts.size(); vector += vector == 1 ? 2 : 1) {
      touches.push_back(vectors.touch(vector, at, end, false));
      touches.push_back(vectors.touch(vector, at, end, true));
    }
  }
}

PassTouches touches_of(const nn::LayerWork& work, const Vectors& vectors) {
  PassTouches pass{.floor = {.layer = work.layer,
                             .node = work.node,
                             .is_backward = work.is_backward,
                             .flops = work.flops,
                             .slowest = ""},
                   .touches = {}};
  for (const nn::StepRange& range : work.reads) pass.touches.push_back(vectors.touch(range, false));
  for (const nn::StepRange& range : work.writes) pass.touches.push_back(vectors.touch(range, true));
  add_step(work.step, false, vectors, pass.touches);
  return pass;
}

/// The optimizer's pass: the steps that no backward pass makes. \param parameters floats of θ
PassTouches touches_of_update(const std::vector<nn::LayerWork>& step, Index parameters, const Vectors& vectors) {
  std::vector<FloatRange> made;
  for (const nn::LayerWork& work : step) {
    if (work.step.first < work.step.last) made.push_back(work.step);
  }
  std::ranges::sort(made, {}, &FloatRange::first);
  PassTouches pass{.floor = {.layer = "update", .slowest = ""}, .touches = {}};
  for (const FloatRange& range : gaps_between(made, parameters)) add_step(range, true, vectors, pass.touches);
  return pass;
}

/// The first level that holds so many bytes.
std::size_t level_of(double bytes, const std::vector<kernels::MemoryLevel>& levels) {
  std::size_t level = 0;
  while (level + 1 < levels.size() && bytes > levels[level].capacity) ++level;
  return level;
}

/// Bytes that a pass reads from a level of memory, and writes to it.
struct Traffic {
  double read = 0, written = 0;
};

/// A level may read and write at the same time.
double seconds_of(const Traffic& traffic, const kernels::MemoryLevel& level) {
  return std::max(traffic.read / level.read, traffic.written / level.write);
}

/// Counts a pass' bytes, and the time that they take: all levels work at the same time.
void count(PassTouches& pass, LastTouches& memory, const Roofline& roofline) {
  std::vector<Traffic> traffic(roofline.levels.size());
  Floor& floor = pass.floor;
  floor.bytes = 0;
  memory.begin_pass();
  for (const Touch& touch : pass.touches) {
    memory.touch(touch.first, touch.last, [&](double bytes, double distance) {
      Traffic& of_level = traffic[level_of(distance, roofline.levels)];
      (touch.writes ? of_level.written : of_level.read) += bytes;
      floor.bytes += bytes;
    });
  }
  floor.memory_seconds = 0;
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    const double seconds = seconds_of(traffic[i], roofline.levels[i]);
    if (seconds > floor.memory_seconds) floor.slowest = roofline.levels[i].name;
    floor.memory_seconds = std::max(floor.memory_seconds, seconds);
  }
  floor.arithmetic_seconds = floor.flops / roofline.flops_per_second;
}

/// Adds a floor to that of the same pass, where there is one.
void add(std::vector<Floor>& floors, const Floor& floor) {
  const auto same = [&](const Floor& other) {
    return other.node == floor.node && other.is_backward == floor.is_backward;
  };
  const auto found = std::ranges::find_if(floors, same);
  if (found == floors.end()) {
    floors.push_back(floor);
    return;
  }
  found->flops += floor.flops;
  found->bytes += floor.bytes;
  found->arithmetic_seconds += floor.arithmetic_seconds;
  if (floor.memory_seconds > found->memory_seconds) found->slowest = floor.slowest;
  found->memory_seconds += floor.memory_seconds;
}

}  // namespace

const std::string& Floor::bound() const {
  static const std::string kArithmetic = "arithmetic";
  return arithmetic_seconds >= memory_seconds ? kArithmetic : slowest;
}

std::vector<Floor> floors_of(const std::vector<nn::LayerWork>& step, Index parameters, int states,
                             const Roofline& roofline) {
  const Vectors vectors(step, parameters, states);
  std::vector<PassTouches> passes;
  for (const nn::LayerWork& work : step) passes.push_back(touches_of(work, vectors));
  passes.push_back(touches_of_update(step, parameters, vectors));
  double touched = 0;
  std::size_t touches = 0;
  for (const PassTouches& pass : passes) {
    for (const Touch& touch : pass.touches) touched += touch.last - touch.first;
    touches += pass.touches.size();
  }
  LastTouches memory(vectors.bytes(), 2 * touched, 2 * touches);
  for (int round = 0; round < 2; ++round) {  // the second step finds the memory as the first has left it
    for (PassTouches& pass : passes) count(pass, memory, roofline);
  }
  std::vector<Floor> floors;
  for (const PassTouches& pass : passes) add(floors, pass.floor);
  return floors;
}

}  // namespace unisono::planning
