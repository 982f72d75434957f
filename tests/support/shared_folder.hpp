#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "scratch_folder.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::testing {

/// A folder that rank 0 makes and all see, with a disk for each rank.
class SharedFolder {
 public:
  explicit SharedFolder(comm::Communicator& world) : rank_(world.rank()) {
    if (world.is_root()) own_ = std::make_unique<testing::ScratchFolder>();
    path_ = world.broadcast_text(own_ ? own_->path("") : "");
    std::filesystem::create_directories(disk());
  }
  std::string path(const std::string& name) const { return path_ + name; }
  std::string disk() const { return path_ + "disk" + std::to_string(rank_); }

 private:
  int rank_;
  std::unique_ptr<testing::ScratchFolder> own_;
  std::string path_;
};

}  // namespace unisono::testing
