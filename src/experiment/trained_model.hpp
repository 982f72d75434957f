#pragma once

#include <memory>
#include <string>

#include "parts.hpp"
#include "unisono/experiment/checkpoint.hpp"
#include "unisono/experiment/evaluate.hpp"

namespace unisono {

/// A trained model and a set to apply it to, on every rank. Its construction is collective; rank 0 alone reads the
/// checkpoint.
struct TrainedModel {
  TrainedModel(Communicator& world, const ApplyOptions& options, Log& log);

  std::string path;  ///< of the checkpoint
  CheckpointHeader header;
  Config config;
  std::unique_ptr<ModelParts> parts;
  std::unique_ptr<SharedDataset> data;
  Split split = Split::test;
};

}  // namespace unisono
