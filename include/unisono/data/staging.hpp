#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "unisono/base/counters.hpp"
#include "unisono/data/dataset.hpp"

// Staging: what is read of a set's file is kept on a local disk, and read there from then on. See docs/data-format.md.
namespace unisono::data {

/// Bytes of a staged set that this rank has read, by where they came from.
struct StagedBytes {
  std::int64_t file = 0;        ///< the set's own file
  std::int64_t copy = 0;        ///< the copy on this node
  std::int64_t neighbours = 0;  ///< other nodes' copies
  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// The copies of the same set on the other nodes, of which each has its share.
class StageNeighbours {
 public:
  virtual ~StageNeighbours() = default;
  /// Reads bytes [at, at + bytes.size()) through the copy of another node. May be called by several threads at a time.
  /// \throws DataError, CommunicationError
  virtual void read(int node, std::uint64_t at, std::span<std::byte> bytes) = 0;
};

/// A set's files, one behind the other, whose bytes are staged, as long as this object exists: whatever reads a file by
/// its path reads its bytes here (see Redirection).
class StagedSet {
 public:
  virtual ~StagedSet() = default;
  /// The same for the same version of the file, also on other nodes.
  virtual std::uint64_t identity() const = 0;
  /// What has been read so far.
  virtual StagedBytes read_bytes() const = 0;
  /// One line for the log: what is there already, and whether there is room for the rest.
  virtual std::string text() const = 0;

  /// Reads through this node's copy: from it, or from the file, which makes it part of the copy. May be called by
  /// several threads at a time. \throws DataError
  virtual void read_here(std::uint64_t at, std::span<std::byte> bytes) = 0;
  /// From now on the set is divided among nodes, and what another node keeps is read there. Call before the set is
  /// opened. \param own_node the number of this one \param neighbours must exist as long as somebody reads the set;
  /// null ends it
  virtual void divide(int own_node, int nodes, StageNeighbours* neighbours) = 0;
};

/// How much of a set a node keeps, and whom warnings reach.
struct StageTerms {
  int parts = 1;                                           ///< a node keeps one of so many equal parts
  std::function<void(const std::string& text)> warn = {};  ///< may be called by any thread
};

/// Begins to stage a set where `data.stage` says so. Collective. \return null: it says nothing, or there is no such
/// file \throws ConfigError where the folder cannot be used
std::unique_ptr<StagedSet> stage_set(const DataSettings& settings, const NodeShare& share, const StageTerms& terms);

}  // namespace unisono::data
