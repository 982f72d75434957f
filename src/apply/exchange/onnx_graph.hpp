#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exchange/protobuf.hpp"
#include "model/new_file.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// The element types of ONNX that we use, by the numbers of TensorProto.DataType.
enum class OnnxType : std::int32_t { float32 = 1, uint8 = 2, int64 = 7, text = 8 };

/// A dimension of an input or output: a number, or a name for any number.
using OnnxDimension = std::variant<Index, std::string>;

/// An attribute of a node.
struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<std::string>> value;
};

/// A model in the format ONNX (https://onnx.ai/onnx/repo-docs/IR.html), version 17 of its operators: nodes, and what
/// they read and write by names. Functions that add a node return the name of its output.
class OnnxGraph {
 public:
  void input(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape);
  /// Makes a tensor an output. \param wanted a name that it gets, with a number where it is taken
  void output(const std::string& tensor, const std::string& wanted, OnnxType type,
              const std::vector<OnnxDimension>& shape);
  /// Constant tensors. \param wanted a name that the tensor gets, with a number where it is taken
  std::string constant(const std::string& wanted, const std::vector<Index>& shape, View values);
  std::string constant(const std::string& wanted, const std::vector<Index>& values);  ///< int64 [n]
  std::string scalar(const std::string& wanted, float value);                         ///< float32 []

  std::string node(const std::string& kind, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {});
  /// A node whose outputs have these names. \param domain of the operator; empty: ONNX itself
  void node(const std::string& kind, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
            const std::vector<OnnxAttribute>& attributes, const std::string& domain = "");
  /// What is recorded beside the graph.
  void metadata(const std::string& key, const std::string& value) { metadata_.emplace_back(key, value); }

  /// Names the nodes that are added from now on after a layer.
  void enter(const std::string& layer) { layer_ = layer; }

  /// Writes the model. Tensors go to a second file, PATH.data, where a message of Protocol Buffers would be too large.
  /// \param external whether they do \throws OutputError
  void write(NewFile& file, NewFile* external) const;
  /// Whether the tensors need a second file.
  bool needs_external() const;

 private:
  struct Tensor {
    std::string name;
    OnnxType type;
    std::vector<Index> shape;
    std::string bytes;
  };
  std::string unused(const std::string& wanted);
  std::string add(Tensor tensor);

  std::vector<Tensor> tensors_;
  std::vector<ProtoMessage> nodes_, inputs_, outputs_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::set<std::string> names_;
  std::string layer_;
  bool has_learning_operators_ = false;  ///< of the domain ai.onnx.ml
};

}  // namespace unisono::apply
