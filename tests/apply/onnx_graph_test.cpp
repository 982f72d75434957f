// ONNX files, byte by byte: what export_test.py does not see.
#include "exchange/onnx_graph.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "scratch_folder.hpp"

namespace unisono::apply {
namespace {

std::string bytes_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST_CASE("fields are encoded as Protocol Buffers defines them", "[onnx]") {
  // The examples of https://protobuf.dev/programming-guides/encoding.
  CHECK(ProtoMessage().integer(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtoMessage().text(2, "testing").bytes() == "\x12\x07testing");
  CHECK(ProtoMessage().message(3, ProtoMessage().integer(1, 150)).bytes() == "\x1a\x03\x08\x96\x01");
  CHECK(ProtoMessage().integer(1, -2).bytes() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(ProtoMessage().integer(16, 1).bytes() == "\x80\x01\x01");  // a field above 15 has a key of two bytes
  CHECK(ProtoMessage().number(2, 1.0F).bytes() == std::string("\x15\0\0\x80\x3f", 5));
}

TEST_CASE("names of constants are different ones", "[onnx]") {
  OnnxGraph graph;
  graph.input("x", OnnxType::float32, {Index{1}});
  CHECK(graph.scalar("x", 1) == "x_2");
  CHECK(graph.scalar("x", 1) == "x_3");
  graph.enter("dense1");
  CHECK(graph.node("Relu", {"x"}) == "dense1/Relu");
  CHECK(graph.node("Relu", {"x"}) == "dense1/Relu_2");
}

TEST_CASE("large tensors are in a second file, one after the other", "[onnx]") {
  const testing::ScratchFolder folder;
  OnnxGraph graph;
  graph.constant("a", {2}, std::vector<float>{1, 2});
  graph.constant("axes", {7});  // whole numbers say what nodes do, and stay
  graph.constant("b", {1}, std::vector<float>{3});
  CHECK(!graph.needs_external());
  NewFile file(folder.path("model.onnx"), Replace::nothing), tensors(folder.path("model.onnx.data"), Replace::nothing);
  graph.write(file, &tensors);
  tensors.finish();
  file.finish();
  CHECK(bytes_in(folder.path("model.onnx.data")) == std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12));
  const std::string model = bytes_in(folder.path("model.onnx"));
  CHECK(model.starts_with(kOnnxBeginning));
  CHECK(model.find("model.onnx.data") != std::string::npos);
  const std::string second = ProtoMessage().text(1, "offset").text(2, "8").bytes();
  CHECK(model.find(second) != std::string::npos);
  CHECK(model.find(std::string("\x4a\x08\x07\0\0\0\0\0\0\0", 10)) != std::string::npos);  // raw_data of axes
}

}  // namespace
}  // namespace unisono::apply
