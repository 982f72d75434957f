#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "import/libsvm_rows.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;

namespace {

struct LibsvmGroup {
  std::vector<std::uint64_t> indptr;
  std::vector<std::uint32_t> indices;
  std::vector<float> data, targets;
  std::vector<std::int32_t> labels;
  std::int64_t columns = 0;
};

LibsvmGroup read_sparse_group(const unisono::data::hdf5::File& file, const std::string& name) {
  LibsvmGroup group;
  group.indptr = file.read<std::uint64_t>(name + "/features/indptr");
  group.indices = file.read<std::uint32_t>(name + "/features/indices");
  if (file.exists(name + "/features/data")) group.data = file.read<float>(name + "/features/data");
  if (file.exists(name + "/labels")) group.labels = file.read<std::int32_t>(name + "/labels");
  if (file.exists(name + "/targets")) group.targets = file.read<float>(name + "/targets");
  group.columns = file.read_attribute<std::int64_t>(name + "/features", "columns");
  return group;
}

struct ImportedSparse {
  unisono::data::SparseSummary summary;
  LibsvmGroup train, test;
  Texts class_names;
};

ImportedSparse import_rows(const std::string& text, unisono::data::LibsvmOptions options = {},
                           const std::string& test_text = "") {
  const TempDir folder;
  unisono::test::write_file(folder / "t.svm", text);
  if (!test_text.empty()) {
    unisono::test::write_file(folder / "s.svm", test_text);
    options.test_file = folder / "s.svm";
  }
  ImportedSparse imported;
  imported.summary = unisono::data::import_libsvm({folder / "t.svm"}, options, {.path = folder / "a.h5"});
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  imported.train = read_sparse_group(file, "train");
  if (imported.summary.test > 0) imported.test = read_sparse_group(file, "test");
  if (file.has_attribute("", "class_names")) imported.class_names = file.read_attribute<Texts>("", "class_names");
  return imported;
}

template <typename Thrown = unisono::DataError>
std::string libsvm_refusal(const std::string& text, const unisono::data::LibsvmOptions& options = {},
                           const std::string& test_text = "") {
  return unisono::test::message_of<Thrown>([&] { import_rows(text, options, test_text); });
}

}  // namespace

TEST_CASE("a line is a label, and values at indices", "[libsvm]") {
  const unisono::data::LineReader line(unisono::data::bytes_of("", "f"));
  unisono::data::LibsvmRow row;
  CHECK(unisono::data::parse_libsvm(line, " +1 3:0.5\t7:-2e3  4294967295:+1 # a comment 9:9", row));
  CHECK(row.label == 1);
  CHECK(row.indices == std::vector<std::uint32_t>{3, 7, 4294967295});
  CHECK(row.values == std::vector<float>{0.5, -2000, 1});
  CHECK(unisono::data::parse_libsvm(line, "-1.5#no values", row));
  CHECK((row.label == -1.5 && row.indices.empty()));
  CHECK_FALSE(unisono::data::parse_libsvm(line, "# a comment alone", row));
  CHECK(unisono::data::parse_libsvm(line, "0 1:1e-60", row));
  CHECK(row.values == std::vector<float>{0});
}

TEST_CASE("rows become a CSR matrix, with what all values being 1 saves", "[libsvm]") {
  //  1 .5 .        columns 1 to 3 of the input are 0 to 2 of the set
  //  . .  .
  //  . .  2
  const auto set = import_rows("+1 1:1 2:0.5\n\n-1\n# nothing\n+1 3:2\n");
  CHECK(set.train.indptr == std::vector<std::uint64_t>{0, 2, 2, 3});
  CHECK(set.train.indices == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(set.train.data == std::vector<float>{1, 0.5, 2});
  CHECK(set.train.labels == std::vector<std::int32_t>{1, 0, 1});
  CHECK(set.train.columns == 3);
  CHECK(set.class_names == Texts{"-1", "1"});
  CHECK((set.summary.base == 1 && set.summary.nonzeros == 3 && !set.summary.all_ones));

  const auto ones = import_rows("1 0:1 4:1\n0 2:1\n");
  CHECK(ones.summary.all_ones);
  CHECK(ones.train.data.empty());
  CHECK(ones.train.indices == std::vector<std::uint32_t>{0, 4, 2});
  CHECK((ones.summary.base == 0 && ones.train.columns == 5));
}

TEST_CASE("labels are classes if they are whole and few, and come in the order of their numbers", "[libsvm]") {
  CHECK(import_rows("10 1:1\n2 1:1\n-3 1:1\n").class_names == Texts{"-3", "2", "10"});
  CHECK(import_rows("2 1:1\n1 1:1\n").train.labels == std::vector<std::int32_t>{1, 0});
  const auto numbers = import_rows("1 1:1\n2.5 1:1\n");
  CHECK(numbers.train.targets == std::vector<float>{1, 2.5});
  CHECK(numbers.train.labels.empty());
  CHECK(import_rows("1 1:1\n2 1:1\n", {.task = Task::regression}).train.targets == std::vector<float>{1, 2});
  CHECK_THAT(libsvm_refusal("1 1:1\n2.5 1:1\n", {.task = Task::classes}),
             Contains("t.svm:2:1: the label 2.5 is not a whole number"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += fmt::format("{} 1:1\n", i);
  CHECK(import_rows(many).summary.classes.size() == 100);
  many += "100 1:1\n";
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>([&] { import_rows(many); }),
             Contains("t.svm: the labels are more than 100 different numbers: add --task regression") &&
                 Contains("or --task classes for a class of each"));
  CHECK(import_rows(many, {.task = Task::classes}).summary.classes.size() == 101);
  CHECK(import_rows(many, {.task = Task::regression}).train.targets.size() == 101);
  CHECK(import_rows(many + "0.5 1:1\n").train.targets.size() == 102);  // numbers beyond doubt
}

TEST_CASE("a test file shares base, columns and classes", "[libsvm]") {
  const auto set = import_rows("1 1:1\n0 2:1\n", {}, "0 5:1\n1 1:1\n");
  CHECK(set.test.labels == std::vector<std::int32_t>{0, 1});
  CHECK(set.test.indices == std::vector<std::uint32_t>{4, 0});
  CHECK((set.train.columns == 5 && set.test.columns == 5));
  CHECK(import_rows("1 1:1\n0 2:1\n", {}, "0 0:1\n").train.indices ==
        std::vector<std::uint32_t>{1, 2});                                                     // base 0 for both
  CHECK(import_rows("1 1:1\n0 2:1\n", {}, "0 1:2\n").train.data == std::vector<float>{1, 1});  // not all values are 1
  CHECK_THAT(libsvm_refusal("1 1:1\n0 2:1\n", {}, "1 1:1\n7 1:1\n"),
             Contains("s.svm:2:1: the label 7 does not occur in the training file, whose classes are 0, 1"));
}

TEST_CASE("columns and base may be said", "[libsvm]") {
  CHECK(import_rows("1 1:1\n0 2:1\n", {.columns = 9}).train.columns == 9);
  CHECK(import_rows("1 1:1\n0 2:1\n", {.base = IndexBase::zero}).train.indices == std::vector<std::uint32_t>{1, 2});
  CHECK_THAT(libsvm_refusal("1 1:1\n0 2:1 4:1\n", {.columns = 3}),
             Contains("t.svm:2:7: the index 4 is beyond --columns 3, of which the first has the index 1"));
  CHECK_THAT(libsvm_refusal("1 1:1\n0 0:1\n", {.base = IndexBase::one}),
             Contains("t.svm:2:3: has the index 0, but the first column has the index 1"));
  CHECK_THAT(libsvm_refusal("1\n0\n"), Contains("no example has a value"));
  CHECK(import_rows("1\n0\n", {.columns = 3}).train.indptr == std::vector<std::uint64_t>{0, 0, 0});
}

TEST_CASE("what is wrong in a line is named by line and byte", "[libsvm]") {
  CHECK_THAT(libsvm_refusal("1 1:1\n1 3:1 2:1\n"), Contains("t.svm:2:7: the index 2 follows 3; indices must ascend"));
  CHECK_THAT(libsvm_refusal("1 3:1 3:1\n"), Contains("t.svm:1:7: the index 3 follows 3"));
  CHECK_THAT(libsvm_refusal("1 1:nan\n"), Contains("t.svm:1:5: the value of '1:nan' is not a number"));
  CHECK_THAT(libsvm_refusal("1 1:1e39\n"), Contains("t.svm:1:5: the value of '1:1e39'"));
  CHECK_THAT(libsvm_refusal("1 1:2x\n"), Contains("t.svm:1:5: the value of '1:2x'"));
  CHECK_THAT(libsvm_refusal("1 1:\n"), Contains("t.svm:1:5: the value of '1:'"));
  CHECK_THAT(libsvm_refusal("1 a:1\n"), Contains("t.svm:1:3: 'a:1' is not of the form index:value"));
  CHECK_THAT(libsvm_refusal("1 -1:1\n"), Contains("t.svm:1:3: '-1:1' is not of the form index:value"));
  CHECK_THAT(libsvm_refusal("1 5\n"), Contains("t.svm:1:3: '5' is not of the form index:value"));
  CHECK_THAT(libsvm_refusal("1 4294967296:1\n"), Contains("t.svm:1:3: the index 4294967296 is beyond 2³² − 1"));
  CHECK_THAT(libsvm_refusal("cat 1:1\n"), Contains("t.svm:1:1: the label 'cat' is not a number"));
  CHECK_THAT(libsvm_refusal("+-1 1:1\n"), Contains("t.svm:1:1: the label '+-1' is not a number"));
  CHECK_THAT(libsvm_refusal("inf 1:1\n"), Contains("t.svm:1:1: the label 'inf' is not a number"));
  CHECK_THAT(libsvm_refusal("1,2 1:1\n"), Contains("t.svm:1:1: '1,2' has several labels"));
  CHECK_THAT(libsvm_refusal("1:1 2:1\n"), Contains("t.svm:1:1: begins with '1:1', but a line must begin with a label"));
  CHECK_THAT(libsvm_refusal("1 qid:3 1:1\n"), Contains("t.svm:1:3: 'qid:' is for ranking"));
  CHECK_THAT(libsvm_refusal("# nothing\n"), Contains("t.svm: has no examples"));
}

TEST_CASE("examples of several files are dealt to groups, each to one", "[libsvm]") {
  const TempDir folder;
  std::string first, second;
  for (int i = 0; i < 50; ++i) first += fmt::format("{} {}:{}\n", i % 3, i + 1, i);
  for (int i = 50; i < 100; ++i) second += fmt::format("{} {}:{}\n", i % 3, i + 1, i);
  unisono::test::write_file(folder / "a", first);
  unisono::test::write_file(folder / "b", second);
  const auto summary =
      unisono::data::import_libsvm({folder / "a", folder / "b"}, {.validation_fraction = 0.2, .test_fraction = 0.1},
                                   {.path = folder / "a.h5", .compression = 1});
  CHECK((summary.train == 70 && summary.validation == 20 && summary.test == 10));
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  std::vector<int> seen(100);
  for (const std::string name : {"train", "validation", "test"}) {
    const LibsvmGroup group = read_sparse_group(file, name);
    for (std::size_t i = 0; i < group.indices.size(); ++i) {
      ++seen[group.indices[i]];
      CHECK(group.data[i] == static_cast<float>(group.indices[i]));
      CHECK(group.labels[i] == static_cast<std::int32_t>(group.indices[i] % 3));
    }
  }
  CHECK(seen == std::vector<int>(100, 1));
  CHECK(file.shape("train/features/indices").compressed);
}

TEST_CASE("a9a is imported as it is", "[libsvm][data]") {
  const char* root = std::getenv("UNISONO_DATA");
  if (root == nullptr) {
    WARN("skipped: UNISONO_DATA does not name a folder with libsvm/a9a");
    return;
  }
  const TempDir folder;
  const std::string data = std::string(root) + "/libsvm/";
  const auto a9a =
      unisono::data::import_libsvm({data + "a9a"}, {.test_file = data + "a9a.t"}, {.path = folder / "a9a.h5"});
  CHECK((a9a.train == 32561 && a9a.test == 16281));
  CHECK((a9a.columns == 123 && a9a.base == 1 && a9a.all_ones));
  CHECK(a9a.classes == Texts{"-1", "1"});
  const LibsvmGroup train =
      read_sparse_group(unisono::data::hdf5::File(folder / "a9a.h5", unisono::data::hdf5::File::Mode::read), "train");
  CHECK(train.indices.size() == 451592);
  CHECK(std::count(train.labels.begin(), train.labels.end(), 1) == 7841);
}
