#include "unisono/data/tensors.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "source_folder.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

using Catch::Matchers::Contains;

std::string weights_file(const std::string& name) {
  return test::source_folder() + "/tests/fuzz/corpus/weights/" + name;
}

std::vector<float> read_some(const StoredTensor& tensor, Index first, Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  read_tensor(tensor.name, tensor, first, values);
  return values;
}

}  // namespace

TEST_CASE("numbers of a tensor of any format are read from any place", "[tensors]") {
  for (const char* const name :
       {"export.npz", "stored.npz", "deflated.npz", "export.h5", "export.safetensors", "types.safetensors"}) {
    CAPTURE(name);
    for (const auto& [key, tensor] : read_tensors(weights_file(name))) {
      CAPTURE(key);
      CHECK(tensor.name == key);
      if (!tensor.holds_parameters()) continue;
      const Index size = tensor.size();
      const std::vector<float> all = read_some(tensor, 0, size);
      for (Index first = 0; first < size; ++first) {
        const std::vector<float> rest(all.begin() + first, all.end());
        CHECK(read_some(tensor, first, size - first) == rest);
        CHECK(read_some(tensor, first, 1) == std::vector<float>{rest.front()});
      }
    }
  }
}

TEST_CASE("exports of all formats hold the same, in the same order", "[tensors]") {
  const StoredTensors safetensors = read_tensors(weights_file("export.safetensors"));
  CHECK(safetensors.size() == 10);
  for (const char* const name : {"export.npz", "export.h5"}) {
    CAPTURE(name);
    const StoredTensors others = read_tensors(weights_file(name));
    CHECK(others.size() == safetensors.size());
    for (const auto& [key, tensor] : safetensors) {
      CAPTURE(key);
      const StoredTensor& other = others.at(key);
      CHECK(other.number == tensor.number);
      CHECK(other.shape == tensor.shape);
      CHECK(read_some(other, 0, tensor.size()) == read_some(tensor, 0, tensor.size()));
    }
  }
}

TEST_CASE("files are known by what they hold, whatever they are called", "[tensors]") {
  const test::TempDir folder;
  const std::string path = folder / "weights";
  for (const char* const name : {"export.npz", "export.h5", "export.safetensors"}) {
    std::filesystem::copy_file(weights_file(name), path, std::filesystem::copy_options::overwrite_existing);
    CHECK(names_tensor_file(path));
    CHECK(read_tensors(path).size() == 10);
  }
  for (const char* const name : {"archive.pt", "legacy.bin"}) {
    std::filesystem::copy_file(weights_file(name), path, std::filesystem::copy_options::overwrite_existing);
    CHECK(names_tensor_file(path));
    CHECK_THROWS_WITH(read_tensors(path), Contains("A pickle can run any program when it is read") &&
                                              Contains("safetensors.torch.save_file"));
  }
  test::write_file(path, "something else");
  CHECK_FALSE(names_tensor_file(path));
  CHECK_THROWS_WITH(read_tensors(path), Contains("is no file of weights"));
  CHECK_FALSE(names_tensor_file(folder.path()));
  CHECK_FALSE(names_tensor_file(folder / "missing"));
}

TEST_CASE("a safetensors header whose length looks like the beginning of a pickle is none", "[tensors]") {
  const test::TempDir folder;
  const std::string path = folder / "weights";
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (const std::size_t length : {std::size_t{0x0280}, std::size_t{0x010280}, std::size_t{0x280480}}) {
    header.resize(length, ' ');
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 3; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    test::write_file(path, bytes + header + std::string(4, '\0'));
    CHECK(read_tensors(path).at("a").shape == std::vector<Index>{1});
  }
}

}  // namespace unisono::data
