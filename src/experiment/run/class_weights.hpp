#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// n / (K · n_k), where n_k of n examples are of class k and K classes have any (as scikit-learn's
/// compute_class_weight): the mean over the examples is 1. 1 for a class without examples.
/// \param counts [classes] n_k
std::vector<float> balanced_weights(std::span<const std::int64_t> counts);

/// \throws ConfigError where data or model have nothing to weigh, or weights and classes do not fit
void require_class_weights(const Config& config, const models::Model& model, const data::DatasetInfo& data);

/// What `train.class_weights` comes to for a training set; empty: all weights are 1. The same on every rank.
/// \throws ConfigError as require_class_weights does
std::vector<float> class_weights_of(const Config& config, const models::Model& model, data::Dataset& data);

}  // namespace unisono::experiment
