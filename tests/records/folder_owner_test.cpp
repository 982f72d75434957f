#include "unisono/records/run_folder.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/journal.hpp"

namespace unisono::records {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

void make_journal(const std::string& path, const nlohmann::json& first) { Journal(path).append(first); }

TEST_CASE("a folder belongs to who has written to it", "[folder_owner]") {
  const ScratchFolder folder;
  CHECK(owner_of(folder.path("none")) == FolderOwner::nobody);
  folder.file("config.toml", "");  // may be the user's
  CHECK(owner_of(folder.path()) == FolderOwner::nobody);
  CHECK_FALSE(holds_run(folder.path()));
  std::filesystem::create_directory(folder.path("checkpoints"));
  CHECK(owner_of(folder.path()) == FolderOwner::run);
  CHECK(holds_run(folder.path()));
  folder.file("journal.jsonl", "hello");
  CHECK(owner_of(folder.path()) == FolderOwner::trials);
  folder.file("journal.jsonl", "");
  for (const auto& [job, owner] :
       {std::pair("search", FolderOwner::search), std::pair("cross_validation", FolderOwner::cross_validation)}) {
    std::filesystem::remove(folder.path("journal.jsonl"));
    make_journal(folder.path("journal.jsonl"), {{"job", job}, {"config", ""}});
    CHECK(owner_of(folder.path()) == owner);
    CHECK(makes_trials(owner));
  }
  make_journal(study_journal_of(folder.path()), {{"event", "study"}});
  CHECK(owner_of(folder.path()) == FolderOwner::study);
}

TEST_CASE("a folder of somebody else's is refused by all others, whatever they are told", "[folder_owner]") {
  const ScratchFolder folder;
  for (const char* name : {"run", "search", "study"}) std::filesystem::create_directory(folder.path(name));
  folder.file("run/.lock", "");
  make_journal(folder.file("search/journal.jsonl", ""), {{"job", "search"}});
  make_journal(folder.file("study/journal.txt", ""), {{"event", "study"}});
  for (const Existing existing : {Existing::refuse, Existing::resume, Existing::overwrite}) {
    CHECK_THROWS_WITH(require_owner(folder.path("run"), FolderOwner::study, existing, false),
                      Contains("run: holds a run; choose another folder (--output DIR)"));
    CHECK_THROWS_WITH(require_owner(folder.path("search"), FolderOwner::run, existing, false),
                      Contains("search: holds a search; choose"));
    CHECK_THROWS_WITH(require_owner(folder.path("study"), FolderOwner::search, existing, false),
                      Contains("study: holds a study; choose"));
  }
  CHECK_NOTHROW(require_owner(folder.path("search"), FolderOwner::cross_validation, Existing::overwrite, true));
}

TEST_CASE("one's own folder is neither replaced nor resumed by mistake", "[folder_owner]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(require_owner(folder.path(), FolderOwner::run, Existing::refuse, true), OutputError);
  CHECK_THROWS_WITH(require_owner(folder.path(), FolderOwner::search, Existing::refuse, true),
                    Contains("already holds trials; go on with them (--resume), replace them (--overwrite), or choose "
                             "another folder (--output DIR)"));
  CHECK_THROWS_AS(require_owner(folder.path(), FolderOwner::study, Existing::resume, false), CheckpointError);
  CHECK_NOTHROW(require_owner(folder.path(), FolderOwner::study, Existing::resume, true));
  CHECK_NOTHROW(require_owner(folder.path(), FolderOwner::study, Existing::refuse, false));
}

}  // namespace
}  // namespace unisono::records
