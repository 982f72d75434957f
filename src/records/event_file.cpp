#include "unisono/records/event_file.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/base/random.hpp"

namespace unisono::records {
namespace {

constexpr std::string_view kMagic = "unisono-events-1\n";

void append(std::string& text, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(number >> (8 * i) & 255U));
}

/// Reads what `append` wrote, with bounds checks.
class Reader {
 public:
  Reader(const std::string& path, std::string_view left) : path_(path), left_(left) {}

  const std::string& path() const { return path_; }
  bool at_end() const { return left_.empty(); }
  std::size_t left() const { return left_.size(); }
  std::string_view take(std::uint64_t bytes) {
    if (bytes > left_.size()) fail("is truncated");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::uint64_t number() {
    const std::string_view bytes = take(8);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }
  std::string_view section() {
    const std::string_view content = take(number());
    if (number() != hash_bytes(content)) fail("is damaged: the hash of a section does not match");
    return content;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(fmt::format("{}: {}; the run cannot be repeated from it", path_, what));
  }

 private:
  const std::string& path_;
  std::string_view left_;
};

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw CheckpointError(fmt::format("{}: there is no such record; runs with strategy.record = true write one", path));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Behind the magic.
Reader sections_of(const std::string& path, const std::string& whole) {
  Reader reader(path, whole);
  if (whole.size() < kMagic.size() || reader.take(kMagic.size()) != kMagic) reader.fail("is not a record of events");
  return reader;
}

EventFileHeader header_from(Reader& reader) {
  try {
    const auto json = nlohmann::json::parse(shallow_json(reader.section(), reader.path()));
    return {.workers = json.at("workers"),
            .servers = json.at("servers"),
            .threads = json.at("threads"),
            .device = json.at("device"),
            .data_identity = json.at("data_identity"),
            .build = json.at("build"),
            .layout = json.at("layout"),
            .schedule_steps = json.at("schedule_steps"),
            .config = json.at("config")};
  } catch (const nlohmann::json::exception& error) {
    reader.fail(fmt::format("has a header that cannot be read: {}", error.what()));
  }
}

/// How many orders of events each segment has.
int orders_of(const EventFileHeader& header) { return header.servers > 0 ? header.servers : header.workers; }

strategies::RecordedSegment segment_from(Reader section, int orders) {
  strategies::RecordedSegment segment{.first = static_cast<std::int64_t>(section.number()),
                                      .last = static_cast<std::int64_t>(section.number()),
                                      .orders = {}};
  for (int order = 0; order < orders; ++order) {
    const std::string_view events = section.take(section.number());
    const auto bytes = std::as_bytes(std::span(events));
    segment.orders.emplace_back(bytes.begin(), bytes.end());
  }
  return segment;
}

}  // namespace

EventFile::EventFile(std::string path, const EventFileHeader& header)
    : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc) {
  file_ << kMagic;
  const nlohmann::ordered_json json = {{"workers", header.workers}, {"servers", header.servers},
                                       {"threads", header.threads}, {"device", header.device},
                                       {"build", header.build},     {"data_identity", header.data_identity},
                                       {"layout", header.layout},   {"schedule_steps", header.schedule_steps},
                                       {"config", header.config}};
  write_section(json.dump());
}

EventFile::EventFile(std::string path, std::int64_t step) : path_(std::move(path)) {
  const std::string whole = read_whole(path_);
  Reader reader = sections_of(path_, whole);
  const EventFileHeader header = header_from(reader);
  std::int64_t last = 0;
  while (last < step && !reader.at_end()) {
    last = segment_from({path_, reader.section()}, orders_of(header)).last;
  }
  if (last != step) {
    reader.fail(fmt::format("has no section that ends with step {}, at which the run is resumed", step));
  }
  std::filesystem::resize_file(path_, whole.size() - reader.left());
  file_.open(path_, std::ios::binary | std::ios::app);
}

void EventFile::write_section(const std::string& content) {
  std::string section;
  append(section, content.size());
  section += content;
  append(section, hash_bytes(content));
  file_ << section << std::flush;
  if (!file_) throw OutputError(fmt::format("{}: cannot write the record of events: {}", path_, std::strerror(errno)));
}

void EventFile::add(const strategies::RecordedSegment& segment) {
  std::string content;
  append(content, static_cast<std::uint64_t>(segment.first));
  append(content, static_cast<std::uint64_t>(segment.last));
  for (const std::vector<std::byte>& events : segment.orders) {
    append(content, events.size());
    content.append(reinterpret_cast<const char*>(events.data()), events.size());
  }
  write_section(content);
}

void RunEvents::open(const std::string& path, const EventFileHeader& header, std::int64_t step) {
  if (step == 0) {
    file_.emplace(path, header);
    return;
  }
  const EventFileHeader begun = read_event_header(path);
  if (begun.workers != header.workers || begun.servers != header.servers || begun.threads != header.threads) {
    throw ConfigError(fmt::format(
        "{}: the run was recorded with {}{} and {}: resume with the same numbers, or start a new run with --output "
        "DIR",
        path, count_of(begun.workers, "worker"),
        // As many as workers: these are the servers, or have lists of events without any.
        begun.servers == 0 || begun.servers == begun.workers ? "" : ", " + count_of(begun.servers, "server"),
        count_of(begun.threads, "thread")));
  }
  if (begun.schedule_steps != header.schedule_steps) {
    throw ConfigError(fmt::format(
        "{}: the run was recorded with a learning-rate schedule over {}, not {}: resume with the length that "
        "its config.toml has in [schedule], or else in [train], or start a new run with --output DIR",
        path, count_of(begun.schedule_steps, "step"), grouped(header.schedule_steps)));
  }
  file_.emplace(path, step);
}

void RunEvents::add(const strategies::RecordedSegment& segment) {
  if (file_) file_->add(segment);
}

EventFileHeader read_event_header(const std::string& path) {
  const std::string whole = read_whole(path);
  Reader reader = sections_of(path, whole);
  return header_from(reader);
}

strategies::EventRecord read_events(const std::string& path) {
  const std::string whole = read_whole(path);
  Reader reader = sections_of(path, whole);
  const EventFileHeader header = header_from(reader);
  strategies::EventRecord record;
  while (!reader.at_end()) record.segments.push_back(segment_from({path, reader.section()}, orders_of(header)));
  return record;
}

}  // namespace unisono::records
