#include "unisono/records/metrics_log.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scratch_folder.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::records {

TEST_CASE("checksums are those of RFC 3720", "[tensorboard]") {
  CHECK(crc32c("123456789") == 0xe3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  CHECK(crc32c("") == 0);
}

TEST_CASE("a resumed log keeps what was written up to its step", "[tensorboard]") {
  const testing::ScratchFolder scratch;
  const std::string folder = scratch.path("tensorboard"), file = folder + "/events.out.tfevents.unisono";
  const auto line = [](int step) { return nlohmann::ordered_json{{"event", "train"}, {"step", step}, {"loss", 0.5}}; };
  {
    TensorboardLog log(folder, 0);
    log.write(line(150));
    log.write(line(300));
  }
  const std::string whole = read_text_file(file);
  {
    TensorboardLog log(folder, 200);
    const std::string kept = read_text_file(file);
    CHECK(kept.size() < whole.size());
    CHECK(whole.starts_with(kept));
    log.write(line(300));
  }
  CHECK(read_text_file(file).size() == whole.size());  // the version is not written again

  SECTION("a damaged record and what follows are left out") {
    std::string damaged = whole;
    damaged[damaged.size() / 2] ^= 1;
    write_text_file(file, damaged);
    TensorboardLog log(folder, 1000);
    CHECK(damaged.starts_with(read_text_file(file)));
    CHECK(read_text_file(file).size() < whole.size());
  }
  SECTION("a run from the start begins anew") {
    TensorboardLog log(folder, -1);
    CHECK(read_text_file(file).size() < whole.size() / 2);
  }
}

}  // namespace unisono::records
