#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ordered_sum.hpp"
#include "unisono/comm/communicator.hpp"

// A communicator of ranks that live in one process: they meet, and who arrives last carries the collective out for all.
// How ranks wait for each other is the business of their group: threads::Group blocks threads, simulated::Group passes
// simulated time.

namespace unisono::comm {

/// What ranks do when they meet, for groups that price it.
enum class Pattern { barrier, node_barrier, broadcast, sum, half_of_sum, gather };

/// A collective, as one of its ranks calls it.
struct Collective {
  const char* name = "";
  Pattern pattern = Pattern::barrier;
  std::size_t bytes = 0;  ///< of this rank's vector
};

/// The ranks of a group, and which of them share a node.
class Membership {
 public:
  /// A rank's node, numbered in the order of the nodes' first ranks, and its number there.
  struct Place {
    int node = 0, number = 0;
  };
  /// A node: its key, and its ranks of the world.
  struct Node {
    int key = 0;
    std::vector<int> members = {};
  };

  /// \param members their ranks of the world \param key_of(rank of the world) what ranks of a node have in common
  template <typename KeyOf>
  Membership(std::vector<int> members, const KeyOf& key_of) : members_(std::move(members)) {
    std::map<int, int> numbers;  // of the nodes, by key
    for (const int member : members_) {
      const auto [found, is_new] = numbers.emplace(key_of(member), static_cast<int>(nodes_.size()));
      if (is_new) nodes_.push_back({.key = found->first});
      std::vector<int>& node = nodes_[static_cast<std::size_t>(found->second)].members;
      places_.push_back({.node = found->second, .number = static_cast<int>(node.size())});
      node.push_back(member);
    }
  }

  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& members() const { return members_; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<int> members_;
  std::vector<Place> places_;  ///< by rank
  std::vector<Node> nodes_;
};

/// What is wrong where a rank calls another collective than the others.
inline std::string text_of_different_calls(int rank, std::string_view own, std::string_view others) {
  return fmt::format(
      "rank {} calls {} where others call {}; all ranks must call the same collectives in the same order", rank, own,
      others);
}

/// What is wrong where the two sides of a message have different lengths.
inline std::string text_of_different_lengths(int from, std::size_t sent, int to, int tag, std::size_t expected) {
  return fmt::format("rank {} sends {} bytes to rank {} (tag {}), which expects {}", from, sent, to, tag, expected);
}

/// What the last rank to arrive does with everybody's parts, while all others wait.
using Action = std::function<void(const std::vector<void*>& parts)>;

/// Casts parts to their type.
template <typename Contribution>
std::vector<Contribution*> parts_as(const std::vector<void*>& parts) {
  std::vector<Contribution*> typed(parts.size());
  std::transform(parts.begin(), parts.end(), typed.begin(),
                 [](void* part) { return static_cast<Contribution*>(part); });
  return typed;
}

template <typename T>
void check_equal_sizes(const std::vector<std::span<T>*>& spans) {
  for (const auto* span : spans) {
    if (span->size() != spans[0]->size()) {
      throw CommunicationError("the ranks bring spans of different lengths to one collective");
    }
  }
}

/// Every span ← all spans combined in rank order.
template <typename T, typename Combine>
void combine_spans(const std::vector<void*>& parts, Combine combine) {
  const auto spans = parts_as<std::span<T>>(parts);
  check_equal_sizes(spans);
  std::vector<T*> targets;
  for (const auto* span : spans) targets.push_back(span->data());
  const std::vector<const T*> inputs(targets.begin(), targets.end());
  combine_in_order<T>(inputs, targets, static_cast<Index>(spans[0]->size()), combine);
}

/// A started operation. It owns `Contribution`, this rank's arguments, which must live as long as the operation.
template <typename Group, typename Contribution>
class MeetingRequest final : public Request {
 public:
  MeetingRequest(std::shared_ptr<Group> group, Contribution part) : group_(std::move(group)), part_(std::move(part)) {}
  ~MeetingRequest() override {
    if (rendezvous_ != nullptr) group_->abandon(*rendezvous_);
  }
  Contribution& part() { return part_; }
  typename Group::Point& rendezvous() const { return *rendezvous_; }
  void started(std::shared_ptr<typename Group::Point> rendezvous) { rendezvous_ = std::move(rendezvous); }

  void wait() override { group_->wait(*rendezvous_); }
  bool test() override { return group_->test(*rendezvous_); }
  void make_progress() override {}  // the last rank to arrive carries it out
  bool wait_unless(const std::function<bool()>& enough) override {
    const typename Group::Point* const one = rendezvous_.get();
    return !group_->wait_any({&one, 1}, enough).empty();
  }
  void wait_for_arrivals() override { group_->wait_for_arrivals(*rendezvous_); }

 private:
  std::shared_ptr<Group> group_;
  Contribution part_;
  std::shared_ptr<typename Group::Point> rendezvous_;
};

/// A rank among others of this process.
/// \tparam Group the ranks, and how they wait for each other: threads::Group or simulated::Group
template <typename Group>
class MeetingCommunicator final : public Communicator {
 public:
  MeetingCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int node_rank() const override { return group_->place(rank_).number; }
  int node_size() const override { return group_->node_of(rank_).size(); }
  int node() const override { return group_->place(rank_).node; }
  std::string host() const override { return group_->host(rank_); }
  void set_step(std::int64_t step) override { group_->set_step(rank_, step); }

  void barrier() override {
    int nothing = 0;
    meet(*group_, rank_, {"barrier"}, nothing, [](const auto&) {});
  }
  void node_barrier() override {
    int nothing = 0;
    meet(group_->node_of(rank_), node_rank(), {"node_barrier", Pattern::node_barrier}, nothing, [](const auto&) {});
  }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override { combine<float, Sum>("allreduce_sum", values); }
  void allreduce_sum(std::span<double> values) override { combine<double, Sum>("allreduce_sum of doubles", values); }
  void allreduce_sum(std::span<std::int64_t> values) override {
    combine<std::int64_t, Sum>("allreduce_sum of integers", values);
  }
  void allreduce_max(std::span<std::int64_t> values) override {
    combine<std::int64_t, Max>("allreduce_max of integers", values);
  }
  void allreduce_max(std::span<double> values) override { combine<double, Max>("allreduce_max", values); }
  RequestPtr start_allreduce_sum(std::span<float> values) override {
    return start({"start_allreduce_sum", Pattern::sum, values.size_bytes()}, values,
                 [](const std::vector<void*>& parts) { combine_spans<float>(parts, Sum{}); });
  }
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  RequestPtr start_reduce_scatter_sum(std::span<float> values) override;
  RequestPtr start_all_gather(std::span<float> values) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override;

  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override {
    // A send's bytes are only read.
    return post(true, std::span(const_cast<std::byte*>(bytes.data()), bytes.size()), peer, tag);
  }
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override {
    return post(false, bytes, peer, tag);
  }
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override {
    std::vector<const typename Group::Point*> points;
    for (Request* message : messages) {
      points.push_back(&static_cast<MeetingRequest<Group, std::span<std::byte>>*>(message)->rendezvous());
    }
    return group_->wait_any(points, enough);
  }

  std::unique_ptr<RequestSet> make_request_set() override {
    if constexpr (requires { typename Group::ReadySet; }) return std::make_unique<typename Group::ReadySet>(group_);
    return Communicator::make_request_set();
  }

  void begin_arrivals(double) override { group_->begin_arrivals(); }
  void watch(std::string_view name, const std::function<bool()>& done) override { group_->watch(name, done); }

  std::unique_ptr<Communicator> split(int color, int key) override;
  Allocator& shared_allocator() override { return page_allocator(); }
  std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) override;

 private:
  using Parts = std::vector<void*>;

  /// A blocking collective. Its part lives on the caller's stack: where the wait fails, the world has failed with it
  /// and nobody touches the part any more.
  template <typename Contribution>
  static void meet(Group& group, int rank, const Collective& collective, Contribution& part, const Action& action) {
    group.wait(*group.arrive(rank, collective, &part, action));
  }
  template <typename T, typename Combine>
  void combine(const char* name, std::span<T> values) {
    meet(*group_, rank_, {name, Pattern::sum, values.size_bytes()}, values,
         [](const Parts& parts) { combine_spans<T>(parts, Combine{}); });
  }
  /// Starts a collective on a span of each rank.
  RequestPtr start(const Collective& collective, std::span<float> values, const Action& action) {
    auto request = std::make_unique<MeetingRequest<Group, std::span<float>>>(group_, values);
    request->started(group_->arrive(rank_, collective, &request->part(), action));
    return request;
  }
  RequestPtr post(bool sends, std::span<std::byte> bytes, int peer, int tag) {
    auto request = std::make_unique<MeetingRequest<Group, std::span<std::byte>>>(group_, bytes);
    request->started(group_->post(sends, bytes, rank_, peer, tag));
    return request;
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

template <typename Group>
void MeetingCommunicator<Group>::broadcast(std::span<std::byte> bytes, int root) {
  meet(*group_, rank_, {"broadcast", Pattern::broadcast, bytes.size()}, bytes, [root](const std::vector<void*>& parts) {
    const auto spans = parts_as<std::span<std::byte>>(parts);
    check_equal_sizes(spans);
    const auto& source = *spans[static_cast<std::size_t>(root)];
    for (const auto* span : spans) std::copy(source.begin(), source.end(), span->begin());
  });
}

template <typename Group>
RequestPtr MeetingCommunicator<Group>::start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) {
  using Vectors = std::vector<std::span<float>>;
  auto request = std::make_unique<MeetingRequest<Group, Vectors>>(group_, Vectors(vectors.begin(), vectors.end()));
  const std::size_t bytes = vectors.size() * vectors.front().size_bytes();
  const Collective collective{"start_tree_sum", Pattern::sum, bytes};
  request->started(group_->arrive(rank_, collective, &request->part(), [&order](const std::vector<void*>& parts) {
    const auto held = parts_as<Vectors>(parts);
    std::vector<const float*> inputs;
    std::vector<float*> targets;
    for (const TreeSum::Input& input : order.inputs) {
      inputs.push_back((*held[static_cast<std::size_t>(input.rank)])[static_cast<std::size_t>(input.vector)].data());
    }
    for (const Vectors* vectors_of_rank : held) targets.push_back(vectors_of_rank->front().data());
    combine_in_tree(inputs, order.program, targets, static_cast<Index>(held.front()->front().size()));
  }));
  return request;
}

template <typename Group>
RequestPtr MeetingCommunicator<Group>::start_reduce_scatter_sum(std::span<float> values) {
  return start(
      {"reduce_scatter_sum", Pattern::half_of_sum, values.size_bytes()}, values, [](const std::vector<void*>& parts) {
        const auto spans = parts_as<std::span<float>>(parts);
        check_equal_sizes(spans);
        for (std::size_t r = 0; r < spans.size(); ++r) {
          const Slice slice = line_slice_of(std::ssize(*spans[r]), static_cast<int>(r), static_cast<int>(spans.size()));
          std::vector<const float*> inputs;
          for (const auto* span : spans) inputs.push_back(span->data() + slice.first);
          float* const target = spans[r]->data() + slice.first;
          combine_in_order<float>(inputs, std::span(&target, 1), slice.last - slice.first, Sum{});
        }
      });
}

template <typename Group>
RequestPtr MeetingCommunicator<Group>::start_all_gather(std::span<float> values) {
  return start({"all_gather", Pattern::half_of_sum, values.size_bytes()}, values, [](const std::vector<void*>& parts) {
    const auto spans = parts_as<std::span<float>>(parts);
    check_equal_sizes(spans);
    for (std::size_t from = 0; from < spans.size(); ++from) {
      const float* const source = spans[from]->data();
      const Slice slice =
          line_slice_of(std::ssize(*spans[from]), static_cast<int>(from), static_cast<int>(spans.size()));
      for (const auto* span : spans) {
        if (span->data() != source) std::copy(source + slice.first, source + slice.last, span->data() + slice.first);
      }
    }
  });
}

template <typename Group>
std::vector<std::vector<std::byte>> MeetingCommunicator<Group>::all_gather_bytes(std::span<const std::byte> bytes) {
  using All = std::vector<std::vector<std::byte>>;
  using Contribution = std::pair<std::span<const std::byte>, std::shared_ptr<const All>>;  // mine; everybody's
  Contribution part{bytes, {}};
  meet(*group_, rank_, {"all_gather_bytes", Pattern::gather, bytes.size()}, part, [](const std::vector<void*>& parts) {
    const auto typed = parts_as<Contribution>(parts);
    const auto all = std::make_shared<All>();
    for (const auto* from : typed) all->emplace_back(from->first.begin(), from->first.end());
    for (auto* to : typed) to->second = all;
  });
  return *part.second;
}

template <typename Group>
std::unique_ptr<Communicator> MeetingCommunicator<Group>::split(int color, int key) {
  struct Contribution {
    int color, key, rank;
    std::shared_ptr<Group> group = {};
    int new_rank = 0;
  } part{color, key, rank_};
  meet(*group_, rank_, {"split", Pattern::gather, 3 * sizeof(int)}, part, [this](const std::vector<void*>& parts) {
    auto typed = parts_as<Contribution>(parts);
    std::sort(typed.begin(), typed.end(), [](const Contribution* a, const Contribution* b) {
      return std::tie(a->color, a->key, a->rank) < std::tie(b->color, b->key, b->rank);
    });
    for (auto first = typed.begin(); first != typed.end();) {
      const auto last =
          std::find_if(first, typed.end(), [&](const Contribution* p) { return p->color != (*first)->color; });
      std::vector<int> members;
      for (auto p = first; p != last; ++p) members.push_back(group_->world_rank((*p)->rank));
      const auto group = std::make_shared<Group>(group_->shared_world(), members);
      for (auto p = first; p != last; ++p) {
        (*p)->group = group;
        (*p)->new_rank = static_cast<int>(p - first);
      }
      first = last;
    }
  });
  return std::make_unique<MeetingCommunicator>(part.group, part.new_rank);
}

template <typename Group>
std::shared_ptr<std::byte> MeetingCommunicator<Group>::allocate_on_node(std::size_t bytes) {
  std::shared_ptr<std::byte> memory;
  meet(group_->node_of(rank_), node_rank(), {"allocate_on_node", Pattern::node_barrier}, memory,
       [bytes](const std::vector<void*>& parts) {
         const std::shared_ptr<std::byte> one(static_cast<std::byte*>(plain_allocator().allocate(bytes)),
                                              [](std::byte* pointer) { plain_allocator().deallocate(pointer); });
         for (auto* part : parts_as<std::shared_ptr<std::byte>>(parts)) *part = one;
       });
  return memory;
}

/// Keeps the first exception that is a cause of failure, or else the first that is only a consequence (PeerFailure).
class FirstError {
 public:
  void add(std::exception_ptr error, bool is_consequence) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& first = is_consequence ? consequence_ : cause_;
    if (!first) first = std::move(error);
  }
  void rethrow_cause() const {
    if (cause_) std::rethrow_exception(cause_);
  }
  void rethrow() const {
    rethrow_cause();
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_, consequence_;
};

/// Runs body(communicator) as one rank of the group, and notes what it throws.
template <typename Group>
void run_rank(const std::shared_ptr<Group>& group, int rank, const std::function<void(Communicator&)>& body,
              FirstError& errors) {
  try {
    MeetingCommunicator<Group> communicator(group, rank);
    body(communicator);
  } catch (const PeerFailure&) {
    errors.add(std::current_exception(), true);
  } catch (const std::exception& error) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed: " + error.what());
  } catch (...) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed");
  }
  group->world().end(rank);
}

}  // namespace unisono::comm
