#pragma once

#include <memory>

#include "unisono/kernels/backend.hpp"
#include "unisono/nn/layer.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::nn {

/// Which labels or targets a data set has.
struct TargetShape {
  Index classes = 0;      ///< classes of the labels; 0: no labels
  Index target_size = 0;  ///< values of an example's target; 0: no targets
  Index vocabulary = 0;   ///< above 0: the labels are tokens below this, one for each row of a sequence
};

/// The labels or the targets of a batch; one of the two is empty.
struct Targets {
  kernels::Labels labels;  ///< [B]
  View values;             ///< [B, T] row-major
};

/// A loss function of a network's outputs. Where the network's last layer gives the loss itself (Network::gives_loss),
/// it only describes the loss, and `apply` is not called.
class Loss {
 public:
  virtual ~Loss() = default;

  /// Adds the batch's weighted losses and its hits (unweighted counts of correct examples) to `sums`, which are
  /// complete only after Backend::collect. Sets doutputs = factor · ∂(Σ w · loss)/∂outputs where it is wanted (not
  /// empty).
  virtual void apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
                     const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const = 0;
  /// Turns raw outputs into predictions, in place: probabilities for classifiers that have them.
  /// \param outputs [B, prediction_size()] row-major, in plain memory, of which the first are the [B, size] outputs
  virtual void to_predictions(MutableView outputs) const = 0;
  /// Values of an example's prediction: one for each output, or for each class of a classifier.
  virtual Index prediction_size() const = 0;
  /// Whether the loss counts hits, so that there is an accuracy.
  virtual bool counts_hits() const = 0;
  /// Whether to_predictions gives probabilities.
  virtual bool gives_probabilities() const { return counts_hits(); }
  /// The number of mutually exclusive classes that the outputs stand for; 0: there are none.
  virtual Index classes() const = 0;
};

/// Makes the loss of a network.
/// \param out the shape of the network's last layer
/// \throws ConfigError where the network's outputs and the data's labels or targets do not fit each other
std::unique_ptr<Loss> make_loss(const NetworkSettings& settings, const Shape& out, const TargetShape& data);

}  // namespace unisono::nn
