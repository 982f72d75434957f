#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/network.hpp"
#include "plan/profile.hpp"
#include "plan/ways.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/model.hpp"

namespace unisono::planning {

/// What a way of training would do on some ranks.
struct Prediction {
  Ranks ranks;
  bool makes_serial_steps = false;  ///< but for the order of sums
  Index examples = 0;               ///< of a replica in a step
  std::int64_t threads = 0;         ///< of a rank; 0: as many as were measured
  int stages = 1, tensor = 1;       ///< of a replica, and ranks that share the layers of each stage
  // Of a step, in seconds:
  double gradient = 0, update = 0;
  double messages = 0;  ///< compressing, mixing and copying, beside the update
  double exposed = 0;   ///< waiting for links
  // In pipelines, where `gradient` is the mean of the stages:
  double bubble = 0;      ///< waiting for other stages, if messages between them were free
  double boundaries = 0;  ///< waiting for these messages
  double seconds() const { return gradient + update + messages + exposed + bubble + boundaries; }
  double sent_bytes = 0;           ///< by a host to other hosts, in a step
  double layer_bytes = 0;          ///< that a rank adds up with those that share its layers, in a step
  double examples_per_second = 0;  ///< of all ranks
  double efficiency = 0;           ///< of as many ranks that are each as fast as one alone
  std::int64_t memory_bytes = 0;   ///< of a rank

  /// Adds an exchange. \param every_steps from one to the next \param waiting seconds of a step in which ranks wait for
  /// it
  void add(const ExchangeCost& cost, double every_steps, double waiting);
  /// Sets both from `ranks` and seconds(). \param batch examples of a step \param of_rank those of a rank
  void set_speed(const Profile& profile, double batch, double of_rank);
};

/// What was measured while as many ranks computed as there will be.
template <typename T>
const T& measured_on(const Ranks& ranks, const T& one_rank, const T& one_host, const T& all_hosts) {
  if (ranks.all() == 1) return one_rank;
  return ranks.hosts == 1 ? one_host : all_hosts;
}

/// What a rank computes in a step, before any message.
struct ComputingSeconds {
  double gradient = 0, update = 0;
};

/// \param examples of a rank in a step \param traffic what its way of training sends; null: that is not known
ComputingSeconds computing_seconds(const Profile& profile, const Ranks& ranks, double examples,
                                   const strategies::Traffic* traffic);

/// Seconds for which a rank reads and writes floats of vectors, at the speed of its updates.
/// \param examples of a rank in a step \param states vectors of the optimizer \param parameters of an update
double touching_seconds(const StepCurves& steps, double examples, int states, Index parameters, double floats);
double touching_seconds(const Profile& profile, const Ranks& ranks, double examples, int states, Index parameters,
                        double floats);

/// Bytes of a rank that holds the whole model, or its part of each layer, as `unisono info` predicts them. \param
/// process_bytes see Planned \param tries whether a pass may measure the kernels' own memory; false: that is estimated
std::int64_t memory_of_rank(const settings::Config& config, const Ranks& ranks, kernels::Backend& backend,
                            const data::DatasetInfo& data, std::int64_t process_bytes, bool tries);

/// A model, and what is known of it.
struct Planned {
  const Profile& profile;
  const models::Model& model;
  kernels::Backend& backend;
  const data::DatasetInfo& data;
  std::int64_t process_bytes = 0;  ///< resident memory before anything is allocated
  bool measured_links = true;      ///< see Network
};

/// The same, where a pass measures the kernels' own memory if a rank may take what is estimated.
std::int64_t memory_of_rank(const Planned& planned, const settings::Config& config, const Ranks& ranks);

/// Replicas of several ranks, each of which holds a part of the model.
struct DividedReplicas {
  int ranks = 1, replicas = 1;  ///< of each replica; and how many there are
  double share = 1;             ///< of all parameters, what a rank holds, at most
  double share_of_host = 1;     ///< what the ranks of a host add up together, at most
};

/// A sum over the ranks that hold the same part of all replicas. Ranks of a host share its link.
ExchangeCost cost_over_replicas(const Planned& planned, const Ranks& ranks, const DividedReplicas& divided,
                                const strategies::Exchange& exchange);

/// What a rank computes, in seconds, while exchanges are under way.
struct Overlap {
  double link_share = 1;  ///< of the link's speed, what messages get meanwhile
  double backward = 0;    ///< the part of the backward pass that is left when the first gradients are final
  double passes = 0;
  double step = 0;
};

/// Seconds of a step in which ranks wait for an exchange that takes `link`.
double exposed(const strategies::Exchange& exchange, double link, const Overlap& overlap);

/// Why the steps of a way cannot be predicted, if its replicas are several ranks; empty: they can.
std::string obstacle_to_division(const Planned& planned, const settings::Config& config, int replicas);

/// \pre the way's strategy has a `traffic` of the model, and replicas of one rank; see predict_pipeline and
/// predict_shared_layers for others
Prediction predict(const Planned& planned, const Way& way, const Ranks& ranks);

}  // namespace unisono::planning
