#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "pipeline/schedules.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/parallel/placement.hpp"

namespace unisono::parallel {
namespace {

constexpr std::string_view kKey = "replica.placement.first_layers";

/// The layers that a piece can begin with, and the numbers of the cut points before them.
using Beginnings = std::vector<std::pair<std::string, int>>;

Beginnings beginnings_of(const nn::Network& network) {
  Beginnings beginnings = {{network.first_layer(), 0}};
  for (const nn::CutPoint& point : network.cut_points()) {
    beginnings.emplace_back(point.next, static_cast<int>(beginnings.size()));
  }
  return beginnings;
}

/// A layer that computes nothing (flatten) belongs to the one behind it, and so may stand for that. Others as they are.
std::string computing_layer(const std::vector<nn::LayerRow>& rows, const std::string& name) {
  auto row = std::ranges::find(rows, name, &nn::LayerRow::name);
  while (row != rows.end() && row->kind == "flatten") ++row;
  return row == rows.end() || row->name == name ? name : row->outer;
}

std::string names_of(const Beginnings& beginnings) {
  std::vector<std::string> names;
  for (const auto& [name, cut] : beginnings) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The number of the cut point before a layer.
int cut_before(const std::string& layer, const Beginnings& beginnings, const std::vector<nn::LayerRow>& rows) {
  const std::string name = computing_layer(rows, layer);
  const auto found = std::ranges::find(beginnings, name, &Beginnings::value_type::first);
  if (found != beginnings.end()) return found->second;
  const bool known = std::ranges::find(rows, layer, &nn::LayerRow::name) != rows.end();
  throw ConfigError(fmt::format(
      "{}: {}; choose from {}", kKey,
      known ? fmt::format("no stage can begin with '{}', which is inside a residual block, or computed together with "
                          "the layer before it",
                          layer)
            : fmt::format("the network has no layer '{}'", layer),
      names_of(beginnings)));
}

std::vector<int> cuts_by_hand(const nn::Network& network, const std::vector<std::string>& first_layers) {
  const Beginnings beginnings = beginnings_of(network);
  const std::vector<nn::LayerRow> rows = network.rows(1);
  std::vector<int> cuts;
  for (const std::string& layer : first_layers) {
    cuts.push_back(cut_before(layer, beginnings, rows));
    if (cuts.size() == 1 && cuts.front() != 0) {
      throw ConfigError(fmt::format("{}: the first stage begins with the network's first layer, '{}', not with '{}'",
                                    kKey, rows.front().name, layer));
    }
    if (cuts.size() > 1 && cuts.back() <= cuts[cuts.size() - 2]) {
      throw ConfigError(fmt::format("{}: '{}' does not come after '{}' in the network; list the layers in their order",
                                    kKey, layer, first_layers[cuts.size() - 2]));
    }
  }
  cuts.push_back(static_cast<int>(beginnings.size()));
  return cuts;
}

std::vector<int> cuts_by_flops(const nn::Network& network, int pieces) {
  const std::vector<nn::CutPoint> points = network.cut_points();
  std::vector<double> costs;
  std::vector<Index> boundaries;
  double before = 0;
  for (const nn::CutPoint& point : points) {
    costs.push_back(point.before.flops() - std::exchange(before, point.before.flops()));
    boundaries.push_back(point.boundary);
  }
  costs.push_back(points.empty() ? 0 : points.back().behind.flops());
  return balanced_cuts(costs, boundaries, pieces);
}

std::vector<int> cuts_of(const nn::Network& network, const ReplicaSettings& settings) {
  const auto most = std::ssize(network.cut_points()) + 1;
  if (settings.pieces() > most) {
    throw ConfigError(fmt::format(
        "replica.stages: {}{} make {} pieces, but this network can be cut into at most {}, since a cut lies where "
        "exactly one tensor passes from layer to layer; lower {}",
        settings.stages, settings.chunks == 1 ? " stages" : fmt::format(" stages × {} chunks", settings.chunks),
        settings.pieces(), most, settings.chunks == 1 ? "it" : "it, or replica.chunks"));
  }
  const std::vector<std::string>& first_layers = settings.placement.first_layers;
  if (!first_layers.empty() && std::ssize(first_layers) != settings.pieces()) {
    throw ConfigError(
        fmt::format("{}: {} layers are named for {} pieces", kKey, first_layers.size(), settings.pieces()));
  }
  return first_layers.empty() ? cuts_by_flops(network, static_cast<int>(settings.pieces()))
                              : cuts_by_hand(network, first_layers);
}

/// "convolution1 to relu3" for each piece.
std::vector<std::string> names_of_pieces(const nn::Network& network, const std::vector<int>& cuts) {
  const std::vector<nn::LayerRow> rows = network.rows(1);
  const Beginnings beginnings = beginnings_of(network);
  // A piece's last row is the one before the first row of the next piece.
  const auto row_of = [&](int cut) {
    const auto& rows_begin = rows.begin();
    if (cut == 0) return rows_begin;
    if (cut == static_cast<int>(beginnings.size())) return rows.end();
    const std::string& name = beginnings[static_cast<std::size_t>(cut)].first;
    auto row = std::ranges::find(rows, name, &nn::LayerRow::outer);
    while (row != rows.begin() && (row - 1)->kind == "flatten") --row;
    return row;
  };
  std::vector<std::string> names;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    const std::string first = row_of(cuts[p])->outer, last = (row_of(cuts[p + 1]) - 1)->outer;
    names.push_back(first == last ? first : first + " to " + last);
  }
  return names;
}

std::vector<nn::Piece> pieces_of(const nn::Network& network, const std::vector<int>& cuts) {
  std::vector<nn::Piece> pieces;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) pieces.push_back(network.piece(cuts[p], cuts[p + 1]));
  return pieces;
}

/// The number of the piece whose range a block lies in.
std::size_t piece_of(const Block& block, const std::vector<FloatRange>& ranges) {
  const auto holding = std::ranges::find_if(
      ranges, [&](const FloatRange& range) { return block.offset >= range.first && block.offset < range.last; });
  return static_cast<std::size_t>(holding - ranges.begin());
}

/// Blocks as whole ones, each on the stage that holds its piece; a copy for each replica.
ShardMap map_of(const ParameterLayout& layout, const std::vector<FloatRange>& ranges, int stages, int replicas) {
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(replicas * stages));
  for (int replica = 0; replica < replicas; ++replica) {
    for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
      const Block& block = layout.blocks()[i];
      const int stage = static_cast<int>(piece_of(block, ranges)) % stages;
      const auto holder = static_cast<std::size_t>(replica * stages + stage);
      shards[holder].push_back({.block = i, .box = whole_box(block), .copy = replica});
    }
  }
  return {layout, replicas, std::move(shards)};
}

/// Where each range begins in the vectors of the stage that holds it. \throws std::logic_error where a stage does not
/// lay out a range as the whole vector does
std::vector<Index> local_offsets(const ShardMap& map, const std::vector<FloatRange>& ranges, int stages) {
  std::vector<Index> offsets(ranges.size(), -1);
  for (int stage = 0; stage < stages; ++stage) {
    const std::vector<Shard>& shards = map.shards_of(stage);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const Block& block = map.layout().blocks()[shards[i].block];
      const std::size_t piece = piece_of(block, ranges);
      Index& offset = offsets[piece];
      const Index here = map.local(stage).blocks()[i].offset - (block.offset - ranges[piece].first);
      if (offset >= 0 && offset != here) throw std::logic_error("a piece's parameters are not contiguous on its rank");
      offset = here;
    }
  }
  std::ranges::replace(offsets, -1, 0);  // a piece of no blocks
  return offsets;
}

std::vector<FloatRange> ranges_of(const std::vector<nn::Piece>& pieces, FloatRange (nn::Piece::*range)() const) {
  std::vector<FloatRange> ranges;
  for (const nn::Piece& piece : pieces) ranges.push_back((piece.*range)());
  return ranges;
}

}  // namespace

Stages::Stages(const models::Staged& model, const ReplicaSettings& settings, int replicas)
    : stages_(static_cast<int>(settings.stages)),
      cuts_(cuts_of(model.network(), settings)),
      names_(names_of_pieces(model.network(), cuts_)),
      pieces_(pieces_of(model.network(), cuts_)),
      parameters_(map_of(model.network().parameters(), ranges_of(pieces_, &nn::Piece::parameters), stages_, replicas)),
      statistics_(map_of(model.network().statistics(), ranges_of(pieces_, &nn::Piece::statistics), stages_, replicas)),
      local_parameters_(local_offsets(parameters_, ranges_of(pieces_, &nn::Piece::parameters), stages_)),
      local_statistics_(local_offsets(statistics_, ranges_of(pieces_, &nn::Piece::statistics), stages_)) {}

namespace {

/// One of the vectors of a model whose layers are divided, and how it is cut into pieces.
struct DividedVector {
  const ParameterLayout& whole;
  std::vector<const ParameterLayout*> layouts;  ///< of each part
  std::vector<std::vector<FloatRange>> ranges;  ///< of each part and piece
};

/// A stage's vector, and where its pieces begin in it.
struct StageVector {
  ParameterLayout layout;
  std::vector<std::pair<int, Index>> pieces = {};
};

StageVector stage_vector(const DividedVector& vector, std::size_t part, int stage, int stages) {
  StageVector own;
  for (int piece = stage; piece < std::ssize(vector.ranges[part]); piece += stages) {
    const FloatRange& range = vector.ranges[part][static_cast<std::size_t>(piece)];
    own.pieces.emplace_back(piece, own.layout.size());
    for (const Block& block : vector.layouts[part]->blocks()) {
      if (block.offset < range.first || block.offset >= range.last) continue;
      own.layout.add(block);
    }
  }
  return own;
}

ShardMap map_of(const DividedVector& vector, int stages, int replicas) {
  std::vector<ParameterLayout> layouts;  // of a replica's ranks
  for (int stage = 0; stage < stages; ++stage) {
    for (std::size_t part = 0; part < vector.layouts.size(); ++part) {
      layouts.push_back(stage_vector(vector, part, stage, stages).layout);
    }
  }
  std::vector<ShardMap::Held> held;
  for (int replica = 0; replica < replicas; ++replica) {
    std::ranges::move(divided_shards(vector.whole, layouts, replica), std::back_inserter(held));
  }
  return {vector.whole, replicas, std::move(held)};
}

std::vector<Index> local_offsets(const DividedVector& vector, int own, int stages) {
  const auto part = static_cast<std::size_t>(own);
  std::vector<Index> offsets(vector.ranges[part].size());
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto& [piece, offset] : stage_vector(vector, part, stage, stages).pieces) {
      offsets[static_cast<std::size_t>(piece)] = offset;
    }
  }
  return offsets;
}

/// θ, or the running statistics.
DividedVector vector_of(const DividedModel& model, const std::vector<int>& cuts, const ParameterLayout& whole,
                        const ParameterLayout& (nn::Network::*layout)() const, FloatRange (nn::Piece::*range)() const) {
  DividedVector vector{.whole = whole, .layouts = {}, .ranges = {}};
  for (const models::Staged* part : model.parts) {
    vector.layouts.push_back(&(part->network().*layout)());
    vector.ranges.push_back(ranges_of(pieces_of(part->network(), cuts), range));
  }
  return vector;
}

}  // namespace

Stages::Stages(const DividedModel& model, const ReplicaSettings& settings, int replicas)
    : stages_(static_cast<int>(settings.stages)),
      parts_(static_cast<int>(model.parts.size())),
      own_(model.own),
      cuts_(cuts_of(model.parts.front()->network(), settings)),
      names_(names_of_pieces(model.parts.front()->network(), cuts_)),
      pieces_(pieces_of(model.parts[static_cast<std::size_t>(own_)]->network(), cuts_)),
      parameters_(
          map_of(vector_of(model, cuts_, model.whole.layout(), &nn::Network::parameters, &nn::Piece::parameters),
                 stages_, replicas)),
      statistics_(map_of(
          vector_of(model, cuts_, model.whole.statistics_layout(), &nn::Network::statistics, &nn::Piece::statistics),
          stages_, replicas)),
      local_parameters_(
          local_offsets(vector_of(model, cuts_, model.whole.layout(), &nn::Network::parameters, &nn::Piece::parameters),
                        own_, stages_)),
      local_statistics_(local_offsets(
          vector_of(model, cuts_, model.whole.statistics_layout(), &nn::Network::statistics, &nn::Piece::statistics),
          own_, stages_)) {}

std::string Stages::text_of(int stage) const {
  std::vector<std::string> pieces;
  for (int chunk = 0; chunk < chunks(); ++chunk) pieces.push_back(layers_of(piece_of(stage, chunk)));
  return fmt::format("{}", fmt::join(pieces, ", and "));
}

nn::PieceCost Stages::cost_of(int stage) const {
  nn::PieceCost cost;
  for (int chunk = 0; chunk < chunks(); ++chunk) cost += piece(piece_of(stage, chunk)).cost();
  return cost;
}

// The linear partition problem: costs c_1 … c_n in order, cut into k runs.
//     worst[j][i] = min_h max(worst[j−1][h], c_{h+1} + … + c_i)           the least maximum of j runs over the first i
//     bound[j][i] = min_h bound[j−1][h] + b_h,   c_{h+1} + … + c_i ≤ worst[k][n]   then the least sum of boundaries

namespace {

constexpr double kNoCut = std::numeric_limits<double>::infinity();

/// costs of the segments [from, to)
class Sums {
 public:
  explicit Sums(std::span<const double> costs) {
    for (const double cost : costs) before_.push_back(before_.back() + cost);
  }
  double operator()(std::size_t from, std::size_t to) const { return before_[to] - before_[from]; }

 private:
  std::vector<double> before_ = {0};
};

/// worst[k][n] of the formula above.
double least_maximum(const Sums& cost, std::size_t n, std::size_t k) {
  std::vector<double> worst(n + 1, kNoCut);  // for j runs
  worst[0] = 0;
  for (std::size_t j = 1; j <= k; ++j) {
    for (std::size_t i = n + 1; i-- > 0;) {  // from the end: worst[h < i] are still those of j − 1 runs
      worst[i] = kNoCut;
      for (std::size_t h = 0; h < i; ++h) worst[i] = std::min(worst[i], std::max(worst[h], cost(h, i)));
    }
  }
  return worst[n];
}

}  // namespace

std::vector<int> balanced_cuts(std::span<const double> costs, std::span<const Index> boundaries, int pieces) {
  const std::size_t n = costs.size(), k = static_cast<std::size_t>(pieces);
  assert(k >= 1 && k <= n && boundaries.size() + 1 == n);
  const Sums cost(costs);
  const double most = least_maximum(cost, n, k);
  std::vector<std::vector<double>> bound(k + 1, std::vector<double>(n + 1, kNoCut));
  std::vector<std::vector<std::size_t>> from(k + 1, std::vector<std::size_t>(n + 1, 0));
  bound[0][0] = 0;
  for (std::size_t j = 1; j <= k; ++j) {
    for (std::size_t i = j; i <= n; ++i) {
      for (std::size_t h = j - 1; h < i; ++h) {
        const double sum = bound[j - 1][h] + (h == 0 ? 0 : static_cast<double>(boundaries[h - 1]));
        if (cost(h, i) > most || sum > bound[j][i]) continue;  // of equals the last
        bound[j][i] = sum;
        from[j][i] = h;
      }
    }
  }
  std::vector<int> cuts(k + 1, static_cast<int>(n));
  for (std::size_t j = k; j-- > 0;) cuts[j] = static_cast<int>(from[j + 1][static_cast<std::size_t>(cuts[j + 1])]);
  return cuts;
}

// Each chunk has as many workspaces as it has flights at a time. Where activations are computed anew, a flight keeps
// only the chunk's inputs between its forward and its backward pass, and workspaces serve the passes that run.

namespace {

/// Of what crosses a cut, as messages carry it.
Index boundary(const nn::Shape& shape, const kernels::Backend& backend, Index batch) {
  return round_up_to_line(backend.activation_size(shape.extent, batch * shape.rows));
}

}  // namespace

FlightMemory memory_of(const nn::Piece& piece, bool first, bool last, PipelineSchedule schedule,
                       const kernels::Backend& backend, Index batch, Index evaluated) {
  const bool halves = schedule == PipelineSchedule::zero_bubble;
  const Index input = boundary(piece.in(), backend, batch), output = boundary(piece.out(), backend, batch);
  return {.workspace = piece.plan(batch, halves ? nn::PassKind::halves : nn::PassKind::training).floats,
          .input = first ? batch * piece.in().extent.size() : input,
          .messages = (first ? 0 : 2 * input) + (last ? 0 : 2 * output),
          .evaluation = evaluated > 0 ? piece.plan(evaluated, nn::PassKind::inference).floats : 0};
}

StageFlights flights_of(const ReplicaSettings& settings, int stage, int micro_batches) {
  const Program program = make_program(settings.schedule, static_cast<int>(settings.stages),
                                       static_cast<int>(settings.chunks), micro_batches);
  StageFlights flights{.chunks = {}, .most = peak_of_flights(program, stage)};
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    if (settings.recompute == Recompute::all) {
      const RecomputedFlights most = recomputed_flights(program, stage, chunk);
      flights.chunks.push_back({most.workspaces, most.inputs});
    } else {
      flights.chunks.push_back({peak_of_flights(program, stage, chunk), 0});
    }
  }
  return flights;
}

void StageMemory::add(const FlightMemory& piece, const StageFlights::Chunk& chunk) {
  activations += chunk.workspaces * piece.workspace + chunk.inputs * piece.input;
  activations += std::max<Index>(0, piece.evaluation - piece.workspace);  // one of them grows
  boundaries += piece.messages;
}

StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches, Index evaluated) {
  const StageFlights flights = flights_of(settings, stage, micro_batches);
  StageMemory memory{.flights = flights.most};
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const int number = stages.piece_of(stage, chunk);
    memory.add(memory_of(stages.piece(number), number == 0, number + 1 == stages.pieces(), settings.schedule, backend,
                         batch, evaluated),
               flights.chunks[static_cast<std::size_t>(chunk)]);
  }
  return memory;
}

namespace {

bool ends_flight(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_weights;
}

bool is_evaluation(const std::vector<Operation>& operations) {
  return std::none_of(operations.begin(), operations.end(), [](const auto& one) { return ends_flight(one.kind); });
}

}  // namespace

double peak_of_flights(const Program& program, int stage, std::span<const double> weights) {
  const auto& operations = program.ranks.at(static_cast<std::size_t>(stage));
  if (is_evaluation(operations)) return 0;
  double now = 0, most = 0;
  for (const Operation& operation : operations) {
    const double weight = weights[static_cast<std::size_t>(operation.chunk)];
    if (operation.kind == OperationKind::forward) now += weight;
    if (ends_flight(operation.kind)) now -= weight;
    most = std::max(most, now);
  }
  return most;
}

int peak_of_flights(const Program& program, int stage) {
  const std::vector<double> each(static_cast<std::size_t>(program.chunks), 1);
  return static_cast<int>(peak_of_flights(program, stage, each));
}

int peak_of_flights(const Program& program, int stage, int chunk) {
  std::vector<double> one(static_cast<std::size_t>(program.chunks), 0);
  one.at(static_cast<std::size_t>(chunk)) = 1;
  return static_cast<int>(peak_of_flights(program, stage, one));
}

RecomputedFlights recomputed_flights(const Program& program, int stage, int chunk) {
  RecomputedFlights most;
  int inputs = 0, workspaces = 0;
  for (const Operation& operation : program.ranks.at(static_cast<std::size_t>(stage))) {
    if (operation.chunk != chunk) continue;
    if (operation.kind == OperationKind::forward) {
      most.inputs = std::max(most.inputs, ++inputs);
      most.workspaces = std::max(most.workspaces, workspaces + 1);
    } else if (operation.kind == OperationKind::backward_weights) {
      --workspaces;
    } else {
      --inputs;
      most.workspaces = std::max(most.workspaces, workspaces + 1);
      if (operation.kind == OperationKind::backward_inputs) ++workspaces;
    }
  }
  return most;
}

std::optional<double> formula_seconds(PipelineSchedule schedule, int stages, int chunks, int micro_batches,
                                      const PassSeconds& stage) {
  const auto [f, b, w] = stage;
  const double work = micro_batches * stage.sum();
  switch (schedule) {
    case PipelineSchedule::naive:
      return stages * work;
    case PipelineSchedule::interleaved:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * stage.sum() / chunks;
    case PipelineSchedule::zero_bubble:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * std::max({f, b, f + b - w});
    default:
      return work + (stages - 1) * stage.sum();
  }
}

}  // namespace unisono::parallel
