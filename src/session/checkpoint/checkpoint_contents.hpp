#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {

/// What the ranks write into a checkpoint's file, each of them some pieces of it.
class CheckpointContents {
 public:
  virtual ~CheckpointContents() = default;
  /// Creates the file, with room for all pieces, and an open trailer. By rank 0. \throws OutputError
  virtual void create(const std::string& path) = 0;
  /// Decides what this rank writes, and keeps a copy of it. Collective, after `create`.
  /// \param writer this rank's number among the `writers` ranks that write; `writers`: it does not write to the file
  virtual void divide(comm::Communicator& group, int writer, int writers) = 0;
  /// Whether ranks write what only they have.
  virtual bool is_divided() const = 0;
  /// Calls write(place in the file, bytes) for all that this rank writes.
  virtual void visit(const WriteBytes& write) const = 0;
};

/// The state of a run at one of its steps.
class StateContents final : public CheckpointContents {
 public:
  /// \param snapshot memory for the copy; must outlive this object
  StateContents(CheckpointHeader header, StoredVectors state, Buffer& snapshot);
  StateContents(const StateContents&) = delete;
  StateContents& operator=(const StateContents&) = delete;

  void create(const std::string& path) override;
  void divide(comm::Communicator& group, int writer, int writers) override;
  bool is_divided() const override;
  void visit(const WriteBytes& write) const override;

  /// What a file that this object has created holds besides the values: all of HDF5's own, header and config. Not
  /// collective. \return pieces, as packets have them
  std::vector<std::byte> frame(const std::string& path) const;

 private:
  /// A part of a block that this rank writes.
  struct WrittenShard {
    const Block& block;
    Shard shard;
    std::size_t number;       ///< of the block among all of the state
    std::size_t copy, count;  ///< floats in the snapshot: first, number
  };
  MutableView copy_of(const WrittenShard& part) const { return snapshot_.view().subspan(part.copy, part.count); }
  void copy_parts(const StoredVector& vector, std::span<const WrittenShard> parts);

  CheckpointHeader header_;
  StoredVectors state_;
  Buffer& snapshot_;
  std::vector<std::int64_t> begins_;  ///< of all blocks of the state: bytes from the file's start
  std::vector<WrittenShard> parts_;
};

/// A random number.
std::uint64_t any_number();

/// Runs `work`. \return its error message; empty if it did not throw
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace unisono::session
