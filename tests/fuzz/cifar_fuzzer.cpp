// The reader of CIFAR-10's batches on any bytes, after as many copies of them as make a record likely: whole records
// with labels that are classes, or a DataError.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "import/raw_formats.hpp"
#include "unisono/base/errors.hpp"

namespace {

void check(std::span<const std::uint8_t> bytes) {
  using namespace unisono;
  using namespace unisono::data;
  unisono::data::CifarBatch batch;
  try {
    unisono::data::parse_cifar(bytes, "fuzzed", batch);
  } catch (const unisono::DataError&) {
    return;
  }
  if (batch.labels.empty() || batch.pixels.size() != batch.labels.size() * unisono::data::kCifarPixels) std::abort();
  if (bytes.size() != batch.labels.size() * unisono::data::kCifarRecord) std::abort();
  if (*std::max_element(batch.labels.begin(), batch.labels.end()) >= unisono::data::kCifarClasses) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({data, size});
  std::vector<std::uint8_t> filled(data, data + size);
  const auto record = static_cast<std::size_t>(unisono::data::kCifarRecord);
  filled.resize((size + record - 1) / record * record);  // whole records, the last filled up with zeros
  check(filled);
  return 0;
}
