#include "exchange/onnx_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

namespace unisono::apply {
namespace {

// The fields' numbers are those of onnx.proto3 (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).

constexpr std::int64_t kFormatVersion = 8, kOperatorVersion = 17, kLearningVersion = 3;

template <typename T>
std::string bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ProtoMessage attribute_of(const OnnxAttribute& attribute) {
  enum : std::uint32_t { name = 1, f = 2, i = 3, s = 4, ints = 8, strings = 9, type = 20 };
  enum : std::int64_t { number = 1, integer = 2, text = 3, integers = 7, texts = 8 };
  ProtoMessage message;
  message.text(name, attribute.name);
  if (const auto* one = std::get_if<std::int64_t>(&attribute.value)) {
    message.integer(i, *one).integer(type, integer);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    message.number(f, *real).integer(type, number);
  } else if (const auto* word = std::get_if<std::string>(&attribute.value)) {
    message.text(s, *word).integer(type, text);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    for (const std::int64_t value : *list) message.integer(ints, value);
    message.integer(type, integers);
  } else {
    for (const std::string& value : std::get<std::vector<std::string>>(attribute.value)) message.text(strings, value);
    message.integer(type, texts);
  }
  return message;
}

/// A ValueInfoProto.
ProtoMessage value_of(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape) {
  ProtoMessage dimensions;
  for (const OnnxDimension& dimension : shape) {
    ProtoMessage one;
    if (const auto* number = std::get_if<Index>(&dimension)) {
      one.integer(1, *number);
    } else {
      one.text(2, std::get<std::string>(dimension));
    }
    dimensions.message(1, one);
  }
  const ProtoMessage tensor = ProtoMessage().integer(1, static_cast<std::int64_t>(type)).message(2, dimensions);
  return ProtoMessage().text(1, name).message(2, ProtoMessage().message(1, tensor));
}

ProtoMessage pair_of(const std::string& key, const std::string& value) {
  return ProtoMessage().text(1, key).text(2, value);
}

}  // namespace

void OnnxGraph::input(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape) {
  names_.insert(name);
  inputs_.push_back(value_of(name, type, shape));
}

void OnnxGraph::output(const std::string& tensor, const std::string& wanted, OnnxType type,
                       const std::vector<OnnxDimension>& shape) {
  const std::string name = unused(wanted);
  node("Identity", {tensor}, {name}, {});
  outputs_.push_back(value_of(name, type, shape));
}

std::string OnnxGraph::unused(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !names_.insert(name).second; ++number) name = fmt::format("{}_{}", wanted, number);
  return name;
}

std::string OnnxGraph::add(Tensor tensor) {
  tensor.name = unused(tensor.name);
  tensors_.push_back(std::move(tensor));
  return tensors_.back().name;
}

std::string OnnxGraph::constant(const std::string& wanted, const std::vector<Index>& shape, View values) {
  return add({.name = wanted, .type = OnnxType::float32, .shape = shape, .bytes = bytes_of(values)});
}

std::string OnnxGraph::constant(const std::string& wanted, const std::vector<Index>& values) {
  return add({.name = wanted,
              .type = OnnxType::int64,
              .shape = {std::ssize(values)},
              .bytes = bytes_of(std::span<const Index>(values))});
}

std::string OnnxGraph::scalar(const std::string& wanted, float value) {
  return constant(wanted, std::vector<Index>{}, View(&value, 1));
}

std::string OnnxGraph::node(const std::string& kind, const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  const std::string name = unused(fmt::format("{}/{}", layer_, kind));
  node(kind, inputs, {name}, attributes);
  return name;
}

void OnnxGraph::node(const std::string& kind, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes,
                     const std::string& domain) {
  ProtoMessage node;
  for (const std::string& input : inputs) node.text(1, input);
  for (const std::string& output : outputs) node.text(2, output);
  node.text(3, outputs.front()).text(4, kind);
  for (const OnnxAttribute& attribute : attributes) node.message(5, attribute_of(attribute));
  if (!domain.empty()) node.text(7, domain);
  has_learning_operators_ = has_learning_operators_ || !domain.empty();
  nodes_.push_back(std::move(node));
}

bool OnnxGraph::needs_external() const {
  constexpr std::size_t kMostBytes = std::size_t{1900} << 20U;  // a message has 2 GiB at most
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors_) bytes += tensor.bytes.size();
  return bytes > kMostBytes;
}

void OnnxGraph::write(NewFile& file, NewFile* external) const {
  ProtoMessage graph;
  for (const ProtoMessage& node : nodes_) graph.message(1, node);
  graph.text(2, "unisono");
  std::size_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    ProtoMessage message;
    for (const Index n : tensor.shape) message.integer(1, n);
    message.integer(2, static_cast<std::int64_t>(tensor.type)).text(8, tensor.name);
    if (external == nullptr || tensor.type != OnnxType::float32) {
      message.text(9, tensor.bytes);
    } else {
      message.message(13, pair_of("location", std::filesystem::path(external->path()).filename().string()))
          .message(13, pair_of("offset", std::to_string(offset)))
          .message(13, pair_of("length", std::to_string(tensor.bytes.size())))
          .integer(14, 1);
      external->write(tensor.bytes);
      offset += tensor.bytes.size();
    }
    graph.message(5, message);
  }
  for (const ProtoMessage& input : inputs_) graph.message(11, input);
  for (const ProtoMessage& output : outputs_) graph.message(12, output);

  ProtoMessage model;
  model.integer(1, kFormatVersion).text(2, "unisono").message(7, graph);
  model.message(8, ProtoMessage().text(1, "").integer(2, kOperatorVersion));
  if (has_learning_operators_) model.message(8, ProtoMessage().text(1, "ai.onnx.ml").integer(2, kLearningVersion));
  for (const auto& [key, value] : metadata_) model.message(14, pair_of(key, value));
  file.write(model.bytes());
}

}  // namespace unisono::apply
