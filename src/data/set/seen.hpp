#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "unisono/data/unseen.hpp"
#include "unisono/tensor/layout.hpp"

// Which classes have training examples: what all kinds of sets share.
namespace unisono::data {

/// Calls what it gets for the class of each example of a split, until that returns false.
using VisitClasses = std::function<void(const std::function<bool(std::int32_t)>& visit)>;

/// By class. \param training the classes of the training examples, of which no more are looked at than are needed
std::vector<bool> classes_seen(Index classes, const VisitClasses& training);
/// Likewise of a trained model. \param untrained classes that it has not seen
std::vector<bool> classes_trained(Index classes, const std::vector<std::int32_t>& untrained);
/// The examples of a split whose classes are not seen; they are not looked at where all classes are.
Unseen examples_unseen(const std::vector<bool>& seen, std::int64_t examples, const VisitClasses& split);

}  // namespace unisono::data
