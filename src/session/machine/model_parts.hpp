#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Where θ lies when it is made; replicas may share memory.
Allocator& memory_of_parameters(comm::Communicator& replicas, const Holdings& held);

/// The weights n / (K · n_k), where n_k of n examples are of class k, and K classes have any examples (as
/// scikit-learn's compute_class_weight). Their mean over the examples is 1; a class without examples gets 1.
/// \param counts [classes] n_k
std::vector<float> balanced_weights(std::span<const std::int64_t> counts);

/// Checks train.class_weights. \throws ConfigError if data or model do not support weights, or if weights and classes
/// do not match
void require_class_weights(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data);

/// The weights of the classes that `train.class_weights` gives for a training set; empty: all are 1. The same on every
/// rank.
/// \throws ConfigError as require_class_weights does
std::vector<float> class_weights_of(const settings::Config& config, const models::Model& model, data::Dataset& data);

}  // namespace unisono::session
