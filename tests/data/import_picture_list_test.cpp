// Lists of pictures whose lines name several labels, in a cell or in columns of 0 and 1.
#include <catch2/catch.hpp>

#include "import/picture_folder.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using namespace unisono::test;
using Catch::Contains;

namespace {

/// A folder with the files a.png to d.png, and a table.
class ListedFolder {
 public:
  ListedFolder() {
    for (const char* name : {"a.png", "b.png", "c.png", "d.png"}) write_file(folder_ / name, "");
  }

  PictureFolder list(const std::string& table, const ImagesOptions& options) {
    write_file(folder_ / "list.csv", table);
    ImagesOptions all = options;
    all.list = folder_ / "list.csv";
    return list_table(folder_.path(), all);
  }
  template <typename Thrown = unisono::DataError>
  std::string message(const std::string& table, const ImagesOptions& options) {
    return message_of<Thrown>([&] { list(table, options); });
  }

 private:
  TempDir folder_;
};

using Numbers = std::vector<std::vector<std::int64_t>>;

Numbers labels_of(const PictureFolder& folder) {
  Numbers labels;
  for (const PictureFile& file : folder.files) labels.push_back(file.labels);
  return labels;
}

ImagesOptions in_cell(const std::string& separator = ";") { return {.form = {}, .label_separator = separator}; }

ImagesOptions in_columns(const std::vector<std::string>& columns) { return {.form = {}, .label_columns = columns}; }

}  // namespace

TEST_CASE("a cell of a list may hold several labels, or none", "[picture_list]") {
  ListedFolder folder;
  const PictureFolder found =
      folder.list("file,label\na.png,dog;cat\nb.png,\nc.png, cat ; big car\nd.png,dog\n", in_cell());
  CHECK(found.several_labels);
  CHECK(found.classes == std::vector<std::string>{"big car", "cat", "dog"});
  CHECK(labels_of(found) == Numbers{{2, 1}, {}, {1, 0}, {2}});
  CHECK(found.files[0].label == -1);
  CHECK(labels_of(folder.list("file,label\na.png,dog | cat\nb.png,cat\n", in_cell("|"))) == Numbers{{1, 0}, {0}});
  CHECK(labels_of(folder.list("file,label\na.png,\"9,10\"\nb.png,10\n", in_cell(","))) == Numbers{{0, 1}, {1}});
}

TEST_CASE("columns of 0 and 1 of a list say which labels a picture has", "[picture_list]") {
  ListedFolder folder;
  ImagesOptions options = in_columns({"dog", "cat"});
  options.split_column = "part";
  const PictureFolder found =
      folder.list("file,cat,car,dog,part\na.png,1,x,1.0,train\nb.png,0,x,0,val\nc.png,1,x,0,test\n", options);
  CHECK(found.classes == std::vector<std::string>{"dog", "cat"});
  CHECK(labels_of(found) == Numbers{{0, 1}, {}, {1}});
  CHECK(found.files[1].split == Split::validation);
}

TEST_CASE("what are no labels is refused, with its line", "[picture_list]") {
  ListedFolder folder;
  const auto cell = [&](const std::string& text) {
    return folder.message("file,label\na.png,dog\nb.png," + text + "\n", in_cell());
  };
  CHECK_THAT(cell("dog;cat;dog"), Contains("list.csv:3: column 'label': has the label 'dog' twice"));
  for (const char* text : {"dog;", ";dog", "dog;;cat", "dog; ;cat", ";"}) {
    CAPTURE(text);
    CHECK_THAT(cell(text), Contains("list.csv:3: column 'label': there is no label"));
  }
  CHECK_THAT(cell("NA"), Contains("list.csv:3: column 'label': the class is missing ('NA')"));
  CHECK_THAT(folder.message("file,label\na.png,dog|a;b\n", in_cell("|")), Contains("'a;b' has a ';' in its name"));
  CHECK_THAT(folder.message("file,label\na.png,\nb.png,\n", in_cell()), Contains("no picture has a label"));
  for (const char* text : {"2", "-1", "yes", "nan", "", "0.5"}) {
    CAPTURE(text);
    CHECK_THAT(
        folder.message("file,cat,dog\na.png,1,0\nb.png,0," + std::string(text) + "\n", in_columns({"cat", "dog"})),
        Contains("list.csv:3: column 'dog': '" + std::string(text) + "' is neither 0 nor 1"));
  }
  CHECK_THAT(folder.message("file,a;b,dog\na.png,1,0\n", in_columns({"a;b", "dog"})),
             Contains("has a ';' in its name"));
  using unisono::ConfigError;
  CHECK_THAT(folder.message<ConfigError>("file,cat\na.png,1\n", in_columns({"cat", "dog"})),
             Contains("--label-columns 'dog': there is no such column"));
  CHECK_THAT(folder.message<ConfigError>("file,cat\na.png,1\n", in_columns({"cat", "cat"})), Contains("twice"));
}
