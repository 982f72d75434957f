#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

// What is counted during a training. Whoever counts something declares it in its own file, as it declares its settings:
// its name, its unit, how the ranks' values make one, and which files show it. Metrics, summaries, reports, `watch` and
// TensorBoard follow from that.
namespace unisono {

/// How often values ≥ 0 occurred. Those up to 1023 are counted one by one; from there on 32 counts share a doubling, so
/// that mean and largest value are right within 2 %.
struct Histogram {
  std::vector<std::int64_t> counts;

  void add(std::int64_t value);
  Histogram& operator+=(const Histogram& more);
  std::int64_t total() const;
  double mean() const;
  std::int64_t largest() const;  ///< the largest value that occurred; 0 if none did
  /// The value that a count stands for: the number of the count itself, or the middle of its values.
  static std::int64_t value_of(std::size_t count);
};

/// How the values of all ranks make one.
enum class Combine {
  sum,  ///< they are added up
  same  ///< all ranks have the same value
};

/// Which files show a counter.
enum class Shown {
  in_metrics,  ///< the reports in metrics.jsonl, and with them TensorBoard and curves of a report
  in_summary,  ///< summary.json, and with it reports
  everywhere
};

/// Whether a counter that is shown like this belongs to `file`, which is Shown::in_metrics or Shown::in_summary.
constexpr bool is_in(Shown shown, Shown file) { return shown == file || shown == Shown::everywhere; }

/// A counter, as it is declared.
struct Counter {
  std::string_view name;       ///< the counter's key in the files, in its group
  std::string_view unit = {};  ///< "bytes", "updates"; empty: a number without a unit
  Combine combine = Combine::sum;
  Shown shown = Shown::in_summary;
  bool hidden = false;  ///< the counter is not shown itself, but figures in the files are made of it
  /// True: metrics have what was added to the counter since the last report; false: its present value.
  bool adds_up = true;
};

/// Visits all counters of a struct, in their order: to send, add up, subtract or write them.
class CounterVisitor {
 public:
  virtual ~CounterVisitor() = default;

  // Counters. All ranks declare the same ones, in the same order.
  virtual void count(const Counter& counter, std::int64_t& value) = 0;
  virtual void number(const Counter& counter, double& value) = 0;
  virtual void histogram(const Counter& counter, Histogram& value) = 0;

  // Figures, made of counters that are declared before them.
  virtual void figure(const Counter& /*figure*/, std::int64_t /*value*/) {}
  /// A figure that is a number. \param value NaN: it is undefined, and not shown
  virtual void figure(const Counter& /*figure*/, double /*value*/) {}
  virtual void figure(const Counter& /*figure*/, const Histogram& /*value*/) {}
  virtual void figure(const Counter& /*figure*/, const std::vector<std::int64_t>& /*values*/) {}
  virtual void figure(const Counter& /*figure*/, const std::vector<double>& /*values*/) {}

  // What is declared up to `end` belongs to an object of this name, or to one more object of the array of this name.
  virtual void begin(std::string_view /*name*/) {}
  virtual void begin_element(std::string_view /*array*/) {}
  virtual void end() {}
};

/// Counters that are declared while it lives belong to an object of its name.
class CounterGroup {
 public:
  CounterGroup(CounterVisitor& visitor, std::string_view name) : visitor_(visitor) { visitor.begin(name); }
  ~CounterGroup() { visitor_.end(); }
  CounterGroup(const CounterGroup&) = delete;
  CounterGroup& operator=(const CounterGroup&) = delete;

 private:
  CounterVisitor& visitor_;
};

/// What the summary's lines about counters need to know of the run.
struct CounterTerms {
  int ranks = 1;
  double epochs = 1;        ///< epochs made since the counters began
  std::string relief = {};  ///< advice on how to send less; empty: there is none

  /// The bytes of all ranks in megabytes (10⁶ bytes) per rank and epoch.
  double megabytes(std::int64_t bytes) const { return static_cast<double>(bytes) / ranks / epochs * 1e-6; }
  /// A line "  what        12.3 MB per epoch and rank"; empty where `bytes` is 0.
  std::string bytes_line(std::string_view what, std::int64_t bytes) const;
};

/// The counters of a run on this rank, each struct stored by its type: only the file that counts knows the struct.
/// It has `void describe(CounterVisitor&)` and may have `std::string text(const CounterTerms&) const`, lines of the
/// summary.
class CounterSet {
 public:
  CounterSet() = default;
  CounterSet(const CounterSet& other);
  CounterSet(CounterSet&&) = default;
  CounterSet& operator=(CounterSet other) {
    items_ = std::move(other.items_);
    return *this;
  }
  ~CounterSet() = default;

  /// The struct of this type, made where there is none yet. If one rank makes it, all must. The reference stays valid.
  template <typename Own>
  Own& of() {
    if (Own* const found = const_cast<Own*>(std::as_const(*this).find<Own>())) return *found;
    return static_cast<ItemOf<Own>&>(*items_.emplace_back(std::make_unique<ItemOf<Own>>())).own;
  }
  /// A copy of the struct of this type; a new one, in which nothing is counted, where there is none.
  template <typename Own>
  Own get() const {
    const Own* const found = find<Own>();
    return found != nullptr ? *found : Own{};
  }
  /// The struct of this type; null where nobody counts it.
  template <typename Own>
  const Own* find() const {
    for (const auto& item : items_) {
      if (item->type == typeid(Own)) return &static_cast<const ItemOf<Own>&>(*item).own;
    }
    return nullptr;
  }

  /// Shows the counters of all structs to a visitor, in the order in which they were made.
  void describe(CounterVisitor& visitor);
  /// The summary's lines about all counters.
  std::string text(const CounterTerms& terms) const;

 private:
  struct Item {
    explicit Item(std::type_index of) : type(of) {}
    virtual ~Item() = default;
    virtual std::unique_ptr<Item> copy() const = 0;
    virtual void describe(CounterVisitor& visitor) = 0;
    virtual std::string text(const CounterTerms& terms) const = 0;

    std::type_index type;
  };
  template <typename Own>
  struct ItemOf final : Item {
    ItemOf() : Item(typeid(Own)) {}
    std::unique_ptr<Item> copy() const override { return std::make_unique<ItemOf>(*this); }
    void describe(CounterVisitor& visitor) override { own.describe(visitor); }
    std::string text(const CounterTerms& terms) const override {
      if constexpr (requires { own.text(terms); }) return own.text(terms);
      return {};
    }

    Own own{};
  };

  std::vector<std::unique_ptr<Item>> items_;
};

/// Calls visit(counter, value) for each counter, but for no figure; a value is an std::int64_t, a double or a
/// Histogram.
template <typename Visit>
void for_each_counter(CounterSet& counters, const Visit& visit) {
  struct Visitor final : CounterVisitor {
    explicit Visitor(const Visit& of) : visit_(of) {}
    void count(const Counter& counter, std::int64_t& value) override { visit_(counter, value); }
    void number(const Counter& counter, double& value) override { visit_(counter, value); }
    void histogram(const Counter& counter, Histogram& value) override { visit_(counter, value); }
    const Visit& visit_;
  } visitor(visit);
  counters.describe(visitor);
}

/// What was counted between two moments: after − before of counters that add up, the present value of the others. Both
/// sets have the same counters, or `before` has none.
CounterSet difference(const CounterSet& after, const CounterSet& before);

/// Where the seconds of a rank went; they add up to the total. The strategy adds to the first six, the observer to
/// evaluation and checkpoint, and `other` is set to the rest where the total is known.
struct Seconds {
  double compute = 0;                ///< forward and backward passes, less the waiting for messages inside them
  double exposed_communication = 0;  ///< waiting for messages while all ranks are present
  double straggler_wait = 0;         ///< waiting for ranks that had not arrived yet
  double bubble = 0;                 ///< waiting for other stages of the pipeline
  double input = 0;                  ///< waiting for the batch source
  double optimizer = 0;
  double evaluation = 0, checkpoint = 0;
  double other = 0;

  double sum() const;
};

/// One of the parts of `Seconds`, with its key in files.
struct SecondsPart {
  std::string_view name;
  double Seconds::*value;
};

/// All parts of `Seconds`: whoever adds up, sends, writes or shows seconds goes through this list.
inline constexpr SecondsPart kSecondsParts[] = {{"compute", &Seconds::compute},
                                                {"exposed_communication", &Seconds::exposed_communication},
                                                {"straggler_wait", &Seconds::straggler_wait},
                                                {"bubble", &Seconds::bubble},
                                                {"input", &Seconds::input},
                                                {"optimizer", &Seconds::optimizer},
                                                {"evaluation", &Seconds::evaluation},
                                                {"checkpoint", &Seconds::checkpoint},
                                                {"other", &Seconds::other}};

inline double Seconds::sum() const {
  double sum = 0;
  for (const SecondsPart& part : kSecondsParts) sum += this->*part.value;
  return sum;
}

inline Seconds& operator+=(Seconds& sum, const Seconds& more) {
  for (const SecondsPart& part : kSecondsParts) sum.*part.value += more.*part.value;
  return sum;
}

inline Seconds operator-(Seconds after, const Seconds& before) {
  for (const SecondsPart& part : kSecondsParts) after.*part.value -= before.*part.value;
  return after;
}

inline Seconds operator*(double factor, Seconds seconds) {
  for (const SecondsPart& part : kSecondsParts) seconds.*part.value *= factor;
  return seconds;
}

}  // namespace unisono
