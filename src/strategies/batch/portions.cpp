#include "batch/portions.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace unisono::strategies {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// What a rate keeps of its old value when a pass has been seen: single passes are noisy.
constexpr double kMemory = 0.7;
/// A portion in progress is overdue when it takes so many times as long as its worker took for others.
constexpr double kOverdue = 1.5;

}  // namespace

Dealer::Dealer(int portions, int workers, bool backup)
    : portions_(portions),
      backup_(backup),
      workers_(static_cast<std::size_t>(workers)),
      done_(static_cast<std::size_t>(portions)),
      wake_time_(kNever) {
  for (int worker = 0; worker < workers; ++worker) own_.push_back(comm::slice_of(portions, worker, workers));
}

void Dealer::begin(double now) {
  std::ranges::fill(done_, 0);
  pending_.clear();
  open_ = portions_;
  wake_time_ = kNever;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker = {.portions = {}, .since = now, .rate = worker.rate};
    for (Index portion = own_[i].first; portion < own_[i].last; ++portion) {
      worker.portions.push_back(static_cast<int>(portion));
    }
  }
}

/// In this pass where it has finished something, else in earlier ones.
double Dealer::rate_of(const Worker& worker) const {
  const double seen =
      worker.finished > 0 && worker.seconds > 0 ? static_cast<double>(worker.finished) / worker.seconds : worker.rate;
  return seen > 0 ? seen : known_rate();
}

/// The mean of the rates that are known, for workers of which nothing is known yet.
double Dealer::known_rate() const {
  double sum = 0;
  int known = 0;
  for (const Worker& worker : workers_) {
    if (worker.finished == 0 || worker.seconds <= 0) continue;
    sum += static_cast<double>(worker.finished) / worker.seconds;
    ++known;
  }
  return known > 0 ? sum / known : 0;
}

void Dealer::finished(int worker, int portion, double seconds, double now) {
  Worker& own = workers_[static_cast<std::size_t>(worker)];
  own.seconds += seconds;
  ++own.finished;
  own.since = now;
  std::erase(own.portions, portion);
  if (done_[static_cast<std::size_t>(portion)] != 0) return;
  done_[static_cast<std::size_t>(portion)] = 1;
  --open_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& other = workers_[i];
    if (std::erase(other.portions, portion) == 0) continue;
    other.since = now;
    pending_.push_back({static_cast<int>(i), Order::Kind::leave, {portion, portion + 1}});
  }
}

std::vector<Dealer::Order> Dealer::orders(double now) {
  std::vector<Order> orders = std::exchange(pending_, {});
  wake_time_ = kNever;
  for (std::size_t i = 0; i < workers_.size() && !is_complete(); ++i) {
    if (workers_[i].portions.empty()) set_idle_to_work(static_cast<int>(i), now, orders);
  }
  return orders;
}

void Dealer::set_idle_to_work(int idle, double now, std::vector<Order>& orders) {
  workers_[static_cast<std::size_t>(idle)].since = now;
  if (!take_from_another(idle, orders) && backup_) repeat(idle, now, orders);
}

/// Takes so many portions from the end of the slowest worker's that both finish at about the same time.
bool Dealer::take_from_another(int idle, std::vector<Order>& orders) {
  Worker& taker = workers_[static_cast<std::size_t>(idle)];
  const double own_rate = rate_of(taker);
  std::size_t slowest = workers_.size();
  double longest = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& other = workers_[i];
    if (other.portions.size() < 2) continue;
    const double rate = rate_of(other), seconds = static_cast<double>(other.portions.size()) / (rate > 0 ? rate : 1);
    if (seconds <= longest) continue;
    longest = seconds;
    slowest = i;
  }
  if (slowest == workers_.size()) return false;
  Worker& giver = workers_[slowest];
  const double rate = rate_of(giver), share = rate > 0 && own_rate > 0 ? own_rate / (own_rate + rate) : 0.5;
  const auto waiting = static_cast<std::int64_t>(giver.portions.size()) - 1;  // without the one in progress
  const auto wanted = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(waiting)), 1, waiting);
  // Only consecutive ones: they fill subtrees.
  const int last = giver.portions.back();
  std::int64_t count = 0;
  while (count < wanted && giver.portions.back() == last - static_cast<int>(count)) {
    giver.portions.pop_back();
    ++count;
  }
  const comm::Slice taken{last + 1 - count, last + 1};
  for (Index portion = taken.first; portion < taken.last; ++portion) {
    taker.portions.push_back(static_cast<int>(portion));
  }
  moved_ += count;
  orders.push_back({static_cast<int>(slowest), Order::Kind::leave, taken});
  orders.push_back({idle, Order::Kind::take, taken});
  return true;
}

int Dealer::holders(int portion) const {
  return static_cast<int>(std::ranges::count_if(workers_, [portion](const Worker& worker) {
    return std::ranges::find(worker.portions, portion) != worker.portions.end();
  }));
}

/// Gives the idle worker a portion in progress that it would finish before the worker that has it, or that is overdue.
void Dealer::repeat(int idle, double now, std::vector<Order>& orders) {
  Worker& taker = workers_[static_cast<std::size_t>(idle)];
  const double own_rate = rate_of(taker);
  int chosen = -1;
  double latest = 0;
  for (const Worker& other : workers_) {
    if (other.portions.empty() || holders(other.portions.front()) > 1) continue;
    const double rate = rate_of(other);
    if (rate <= 0 || own_rate <= 0) continue;
    const double expected = other.since + 1 / rate, overdue = other.since + kOverdue / rate;
    if (now < overdue && now + 1 / own_rate >= expected) {
      wake_time_ = std::min(wake_time_, overdue);
      continue;
    }
    if (chosen >= 0 && expected <= latest) continue;
    chosen = other.portions.front();
    latest = expected;
  }
  if (chosen < 0) return;
  taker.portions.push_back(chosen);
  ++repeated_;
  orders.push_back({idle, Order::Kind::take, {chosen, chosen + 1}});
}

void Dealer::plan() {
  double all = 0;
  for (Worker& worker : workers_) {
    const double seen = rate_of(worker);
    worker.rate = worker.rate > 0 ? kMemory * worker.rate + (1 - kMemory) * seen : seen;
    all += worker.rate;
  }
  if (!(all > 0)) return;
  // Bounds at multiples of a power of two keep subtrees whole, at the price of at most 1/16 of a worker's portions.
  Index grain = 1;
  while (grain * 32 * static_cast<Index>(workers_.size()) <= portions_) grain *= 2;
  double before = 0;
  Index first = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    before += workers_[i].rate;
    const double bound = before / all * static_cast<double>(portions_);
    Index last = i + 1 == workers_.size() ? portions_ : std::llround(bound / static_cast<double>(grain)) * grain;
    last = std::clamp<Index>(last, first, portions_);
    own_[i] = {first, last};
    first = last;
  }
}

void Coordinator::serve(std::int64_t pass) {
  pass_ = pass;
  said_over_ = false;
  heard_.resize(static_cast<std::size_t>(workers_.size()));
  listening_.resize(heard_.size());
  for (int worker = 0; worker < workers_.size(); ++worker) listen(worker);
  dealer_.begin(watch_.seconds());
  send_orders();
  while (std::ranges::any_of(listening_, [](const auto& request) { return request != nullptr; })) handle_next();
  for (Sent& one : sent_) fate_.wait(*one.request);
  sent_.clear();
}

void Coordinator::listen(int worker) {
  const auto at = static_cast<std::size_t>(worker);
  listening_[at] = workers_.start_receive(std::as_writable_bytes(std::span(&heard_[at], 1)), worker, kToCoordinator);
}

void Coordinator::send(int worker, const Note& note) {
  Sent& one = sent_.emplace_back(Sent{note, nullptr});
  one.request = workers_.start_send(std::as_bytes(std::span(&one.note, 1)), worker, kToWorker);
}

/// Waits for notes, or for the time at which there may be something to say without one.
void Coordinator::handle_next() {
  std::vector<comm::Request*> requests;
  std::vector<int> senders;
  for (std::size_t i = 0; i < listening_.size(); ++i) {
    if (listening_[i] == nullptr) continue;
    requests.push_back(listening_[i].get());
    senders.push_back(static_cast<int>(i));
  }
  const double wake = dealer_.is_complete() ? std::numeric_limits<double>::infinity() : dealer_.wake_time();
  for (const std::size_t i : fate_.wait_any(requests, [&] { return watch_.seconds() >= wake; })) hear(senders[i]);
  send_orders();
}

void Coordinator::hear(int worker) {
  const auto at = static_cast<std::size_t>(worker);
  listening_[at]->wait();
  listening_[at] = nullptr;
  const Note note = heard_[at];
  if (note.kind == Note::Kind::gone) return;
  listen(worker);
  dealer_.finished(worker, note.first, note.seconds, watch_.seconds());
}

void Coordinator::send_orders() {
  if (said_over_) return;
  for (const Dealer::Order& order : dealer_.orders(watch_.seconds())) {
    send(order.worker, {.kind = order.kind == Dealer::Order::Kind::take ? Note::Kind::take : Note::Kind::leave,
                        .first = static_cast<std::int32_t>(order.portions.first),
                        .last = static_cast<std::int32_t>(order.portions.last),
                        .pass = pass_});
  }
  if (!dealer_.is_complete()) return;
  said_over_ = true;
  dealer_.plan();
  for (int worker = 0; worker < workers_.size(); ++worker) {
    const comm::Slice own = dealer_.own(worker);
    send(worker, {.kind = Note::Kind::over,
                  .first = static_cast<std::int32_t>(own.first),
                  .last = static_cast<std::int32_t>(own.last),
                  .pass = pass_});
  }
}

PortionWorker::PortionWorker(comm::Communicator& workers, parallel::CommonFate& fate, int portions, double& waited,
                             const Clock& clock)
    : workers_(workers),
      fate_(fate),
      waited_(waited),
      clock_(clock),
      own_(comm::slice_of(portions, workers.rank(), workers.size())) {}

void PortionWorker::work(std::int64_t pass, const Compute& compute) {
  portions_.clear();
  for (Index portion = own_.first; portion < own_.last; ++portion) portions_.push_back(static_cast<int>(portion));
  over_ = false;
  listen();
  while (!over_) {
    read_notes();
    if (over_) break;
    if (portions_.empty()) {
      wait_for_note();
      continue;
    }
    current_ = portions_.front();
    portions_.pop_front();
    leave_current_ = false;
    const Stopwatch watch(clock_);
    const bool finished = compute(current_, [this] {
      read_notes();
      return !over_ && !leave_current_;
    });
    if (finished) {
      say({.kind = Note::Kind::finished,
           .first = current_,
           .last = current_ + 1,
           .pass = pass,
           .seconds = watch.seconds()});
    }
    current_ = -1;
  }
  say({.kind = Note::Kind::gone, .pass = pass});
  for (Sent& one : sent_) fate_.wait(*one.request);
  sent_.clear();
}

void PortionWorker::listen() {
  listening_ = workers_.start_receive(std::as_writable_bytes(std::span(&heard_, 1)), 0, kToWorker);
}

void PortionWorker::read_notes() {
  fate_.require_all();
  while (!over_ && listening_->test()) {
    listening_->wait();
    obey(heard_);
    if (!over_) listen();
  }
}

void PortionWorker::wait_for_note() {
  const ScopedTimer timer(waited_, clock_);
  fate_.wait(*listening_);
  obey(heard_);
  if (!over_) listen();
}

void PortionWorker::obey(const Note& note) {
  switch (note.kind) {
    case Note::Kind::take:
      for (int portion = note.first; portion < note.last; ++portion) portions_.push_back(portion);
      return;
    case Note::Kind::leave:
      std::erase_if(portions_, [&](int portion) { return note.first <= portion && portion < note.last; });
      leave_current_ |= note.first <= current_ && current_ < note.last;
      return;
    case Note::Kind::over:
      own_ = {note.first, note.last};
      over_ = true;
      return;
    case Note::Kind::finished:
    case Note::Kind::gone:
      return;
  }
}

void PortionWorker::say(const Note& note) {
  std::erase_if(sent_, [](Sent& one) {
    if (!one.request->test()) return false;
    one.request->wait();
    return true;
  });
  Sent& one = sent_.emplace_back(Sent{note, nullptr});
  one.request = workers_.start_send(std::as_bytes(std::span(&one.note, 1)), 0, kToCoordinator);
}

using comm::SumTree;

Buffer* Subtrees::take_buffer() {
  if (free_.empty()) return &buffers_.emplace_back(size_, kernels_.memory());
  Buffer* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

MutableView Subtrees::leaf() {
  if (leaf_ == nullptr) leaf_ = take_buffer();
  kernels_.clear(leaf_->view());
  return leaf_->view();
}

void Subtrees::add(int portion) { insert({tree_.largest({0, portion}), std::exchange(leaf_, nullptr)}); }

/// value(k, j) = value(k − 1, 2j) + value(k − 1, 2j + 1), as long as the neighbour is held, too.
void Subtrees::insert(Held held) {
  for (;;) {
    const SumTree::Node neighbour{held.node.level, held.node.number ^ 1};
    const auto found = std::ranges::find(held_, neighbour, &Held::node);
    if (found == held_.end()) break;
    kernels_.axpby(1, held.values->view(), 1, found->values->view());
    free_.push_back(held.values);
    held = {tree_.largest({held.node.level + 1, held.node.number / 2}), found->values};
    held_.erase(found);
  }
  const auto first_leaf = [this](const Held& one) { return tree_.leaves_of(one.node).first; };
  held_.insert(std::ranges::lower_bound(held_, first_leaf(held), {}, first_leaf), held);
}

void Subtrees::clear() {
  for (const Held& one : held_) free_.push_back(one.values);
  held_.clear();
}

std::vector<SumTree::Node> Subtrees::nodes() const {
  std::vector<SumTree::Node> nodes;
  for (const Held& one : held_) nodes.push_back(one.node);
  return nodes;
}

std::vector<View> Subtrees::vectors() const {
  std::vector<View> vectors;
  for (const Held& one : held_) vectors.push_back(std::as_const(*one.values).view());
  return vectors;
}

namespace {

constexpr int kNodeTag = 3, kShardTag = 4;

void wait_all(std::vector<comm::RequestPtr>& requests) {
  for (comm::RequestPtr& request : requests) request->wait();
}

/// sum ← the value of the postfix program over these inputs, in pieces that stay in the cache.
void add_up(const std::vector<int>& program, const std::vector<View>& inputs, MutableView sum) {
  constexpr std::size_t kPiece = 1024;
  std::vector<std::array<float, kPiece>> stack(program.size());
  for (std::size_t first = 0; first < sum.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, sum.size() - first);
    std::size_t top = 0;
    for (const int next : program) {
      if (next != comm::TreeSum::kAdd) {
        std::ranges::copy(inputs[static_cast<std::size_t>(next)].subspan(first, count), stack[top++].begin());
        continue;
      }
      --top;
      for (std::size_t i = 0; i < count; ++i) stack[top - 1][i] += stack[top][i];
    }
    std::copy_n(stack.front().begin(), count, sum.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

}  // namespace

std::int64_t sum_to_shards(comm::Communicator& ranks, const comm::TreeSum& order, std::span<const View> vectors,
                           const VectorShards& shards, MutableView shard) {
  const FloatRange own = shards.shard(ranks.rank());
  assert(std::ssize(shard) == own.last - own.first);
  std::vector<comm::RequestPtr> requests;
  std::vector<Buffer> received;
  std::vector<View> inputs;
  std::int64_t sent = 0;
  received.reserve(order.inputs.size());
  for (const comm::TreeSum::Input& input : order.inputs) {
    if (input.rank != ranks.rank()) {
      Buffer& buffer = received.emplace_back(std::ssize(shard));
      inputs.push_back(std::as_const(buffer).view());
      if (shard.empty()) continue;
      requests.push_back(ranks.start_receive(std::as_writable_bytes(buffer.view()), input.rank, kNodeTag));
      continue;
    }
    const View vector = vectors[static_cast<std::size_t>(input.vector)];
    inputs.push_back(part(vector, own));
    for (int peer = 0; peer < ranks.size(); ++peer) {
      const FloatRange theirs = shards.shard(peer);
      if (peer == ranks.rank() || theirs.first == theirs.last) continue;
      requests.push_back(ranks.start_send(std::as_bytes(part(vector, theirs)), peer, kNodeTag));
      sent += std::ssize(std::as_bytes(part(vector, theirs)));
    }
  }
  wait_all(requests);
  add_up(order.program, inputs, shard);
  return sent;
}

std::int64_t gather_shards(comm::Communicator& ranks, const VectorShards& shards, View shard, MutableView whole) {
  std::vector<comm::RequestPtr> requests;
  std::int64_t sent = 0;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const FloatRange theirs = shards.shard(peer);
    if (peer == ranks.rank()) {
      std::ranges::copy(shard, part(whole, theirs).begin());
      continue;
    }
    if (theirs.first != theirs.last) {
      requests.push_back(ranks.start_receive(std::as_writable_bytes(part(whole, theirs)), peer, kShardTag));
    }
    if (shard.empty()) continue;
    requests.push_back(ranks.start_send(std::as_bytes(shard), peer, kShardTag));
    sent += std::ssize(std::as_bytes(shard));
  }
  wait_all(requests);
  return sent;
}

}  // namespace unisono::strategies
