#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/nn/layer.hpp"
#include "unisono/nn/network_settings.hpp"

namespace unisono::nn {

struct Graph;           // the layers in order, and which tensors they connect
struct MemorySchedule;  // which tensors share memory, and when each is needed

/// Where every tensor of a pass over one batch size lies in one piece of memory.
struct WorkspacePlan {
  Index batch = 0;
  bool training = false;
  std::vector<Index> offsets;  ///< floats
  std::vector<Index> sizes;    ///< floats
  Index floats = 0;            ///< of the whole
};

/// The memory of one micro-batch in flight, the backend's. Its content needs no initial value.
struct Workspace {
  const WorkspacePlan& plan;
  MutableView memory;  ///< plan.floats, aligned to a cache line
};

/// A row of the table of layers.
struct LayerRow {
  std::string name, kind, output;  ///< kind says what was fused, and which statistics are in force
  Index parameters = 0;
  double flops = 0;      ///< of an example's forward and backward pass
  Index activation = 0;  ///< floats that the layer's outputs take
};

/// Layers in sequence, with residual blocks.
class Network {
 public:
  /// \param steps_together whether "auto" batch statistics may be global
  /// \param freeze patterns of names (see ParameterLayout::freeze): these blocks' part of every gradient is 0
  /// \throws ConfigError naming the layer that does not fit, or the pattern that fits nothing
  Network(const NetworkSettings& settings, const kernels::Extent& in, const kernels::Backend& backend,
          bool steps_together, const std::vector<std::string>& freeze = {});
  /// The same network up to a layer, whose outputs it gives: for inference, with the whole one's θ and statistics.
  /// \throws ConfigError with the names of all layers where there is no such one
  static std::unique_ptr<Network> up_to(const std::string& layer, const NetworkSettings& settings,
                                        const kernels::Extent& in, const kernels::Backend& backend);
  ~Network();

  const kernels::Extent& in() const;
  const Shape& out() const;
  const ParameterLayout& parameters() const { return parameters_; }
  const ParameterLayout& statistics() const { return statistics_; }
  /// Whether the running statistics of any layer follow this rank's examples alone.
  bool statistics_are_local() const;

  WorkspacePlan plan(Index batch, bool training) const;
  std::vector<LayerRow> rows(Index batch) const;
  /// What the layers have to say, "global statistics" for instance, each thing once; and what is frozen.
  std::vector<std::string> notes() const;

  /// Loads the inputs and runs all layers.
  /// Collective where training with global statistics; then B may be 0, too.
  /// \return the last layer's outputs, in the workspace
  View forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const;
  /// Where ∂loss/∂outputs is to be written before `backward`.
  MutableView output_gradient(const Workspace& workspace) const;
  /// g (+)= ∂loss/∂θ, block by block: the unused floats between blocks stay what they were, zero since g was allocated.
  /// `ready` is called with ranges of g that are final: from the end to the start, without gaps, the same ones for
  /// every batch.
  void backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                const std::function<void(Index, Index)>& ready) const;

 private:
  Network(std::unique_ptr<Graph> graph, const kernels::Backend& backend, const std::vector<std::string>& patterns);
  void freeze(const std::vector<std::string>& patterns);
  void backward_node(int i, const Pass& pass, const Workspace& workspace, MutableView gradient,
                     kernels::Write write) const;
  void fill_row(int i, Index batch, LayerRow& row) const;

  const kernels::Backend& backend_;
  ParameterLayout parameters_, statistics_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<MemorySchedule> training_, inference_;
};

}  // namespace unisono::nn
