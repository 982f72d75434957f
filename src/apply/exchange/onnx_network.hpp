#pragma once

#include <string>

#include "exchange/block_values.hpp"
#include "exchange/onnx_graph.hpp"
#include "unisono/nn/operation_list.hpp"

namespace unisono::apply {

/// Adds the operations of a network to a graph. \param input the tensor that enters, in the form of the network's
/// inputs \return the last layer's outputs, in the form that the last operation gives \throws ConfigError naming a
/// layer that ONNX does not have
std::string add_network(OnnxGraph& graph, const nn::OperationList& network, const BlockValues& values,
                        const std::string& input);

}  // namespace unisono::apply
