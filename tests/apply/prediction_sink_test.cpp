#include "unisono/apply/prediction_sink.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;

/// Three examples of two outputs: rank 0 has the first two, rank 1 the last, which comes first.
void write_three_predictions(PredictionSink& sink) {
  const std::vector<float> last = {0.5F, 0.25F}, first = {0, 1}, second = {0.125F, 3};
  sink.write(1, 2, last, {});
  sink.write(0, 0, first, {});
  sink.write(0, 1, second, {});
  sink.finish();
}

const records::ClassReading kTwoClasses = {.classes = 2, .outputs = 2, .probabilities = true};

TEST_CASE("predictions lie in the set's order, however the ranks' parts came", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto options = [&](const char* name, std::optional<records::ClassReading> classes) {
    return SinkOptions{.path = folder.path(name), .examples = 3, .outputs = 2, .classes = classes, .ranks = 2};
  };
  write_three_predictions(*make_prediction_sink(options("a.csv", kTwoClasses)));
  CHECK(testing::bytes_of(folder.path("a.csv")) == "example,class,p0,p1\n0,1,0,1\n1,1,0.125,3\n2,0,0.5,0.25\n");
  write_three_predictions(*make_prediction_sink(options("b.csv", {})));
  CHECK(testing::bytes_of(folder.path("b.csv")) == "example,y0,y1\n0,0,1\n1,0.125,3\n2,0.5,0.25\n");

  write_three_predictions(*make_prediction_sink(options("c.h5", kTwoClasses)));
  const data::hdf5::File file(folder.path("c.h5"), data::hdf5::File::Mode::read);
  std::vector<float> values(6);
  std::vector<std::int32_t> classes(3);
  file.read_rows<float>("predictions", 0, 3, values.data());
  file.read_rows<std::int32_t>("classes", 0, 3, classes.data());
  CHECK(values == std::vector<float>{0, 1, 0.125F, 3, 0.5F, 0.25F});
  CHECK(classes == std::vector<std::int32_t>{1, 1, 0});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 3);  // nothing was left aside
}

TEST_CASE("a table can say what its examples are", "[prediction_sink]") {
  const ScratchFolder folder;
  SinkOptions options{.path = folder.path("a.csv"), .examples = 3, .outputs = 2, .ranks = 2, .label_names = ",user"};
  options.label = [](std::int64_t example) { return ",u" + std::to_string(10 * example); };
  write_three_predictions(*make_prediction_sink(options));
  CHECK(testing::bytes_of(options.path) == "example,user,y0,y1\n0,u0,0,1\n1,u10,0.125,3\n2,u20,0.5,0.25\n");
}

TEST_CASE("classes have their names, and labels stand beside them", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto write = [](const SinkOptions& options) {
    const auto sink = make_prediction_sink(options);
    const std::vector<float> rows = {-1, 1, 2, -2}, labels = {1, 1};
    sink->write(0, 0, rows, labels);
    sink->finish();
  };
  SinkOptions options{.path = folder.path("a.csv"),
                      .examples = 2,
                      .outputs = 2,
                      .classes = records::ClassReading{.classes = 2, .outputs = 2, .probabilities = false},
                      .class_names = {"no", "yes, sir"},
                      .answer = "label",
                      .answer_width = 1};
  write(options);
  CHECK(testing::bytes_of(options.path) ==
        "example,label,label_name,class,class_name,margin0,margin1\n"
        "0,1,\"yes, sir\",1,\"yes, sir\",-1,1\n"
        "1,1,\"yes, sir\",0,no,2,-2\n");
  options.path = folder.path("a.h5");
  write(options);
  const data::hdf5::File file(options.path, data::hdf5::File::Mode::read);
  CHECK(file.read<std::int32_t>("labels") == std::vector<std::int32_t>{1, 1});
  CHECK(file.read<std::int32_t>("classes") == std::vector<std::int32_t>{1, 0});
  CHECK(file.read_strings("class_names") == options.class_names);
  CHECK(file.read_attribute<std::string>("predictions", "outputs") == "margins");
}

TEST_CASE("one output is the probability of the second class; targets stand before outputs", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto write = [](const SinkOptions& options, const std::vector<float>& answers) {
    const auto sink = make_prediction_sink(options);
    const std::vector<float> rows = {0.25F, 0.75F};
    sink->write(0, 0, rows, answers);
    sink->finish();
  };
  SinkOptions options{.path = folder.path("a.csv"),
                      .examples = 2,
                      .outputs = 1,
                      .classes = records::ClassReading{.classes = 2, .outputs = 1, .probabilities = true},
                      .answer = "target",
                      .answer_width = 1};
  write(options, {1, 1});
  CHECK(testing::bytes_of(options.path) == "example,target,class,p1\n0,1,0,0.25\n1,1,1,0.75\n");
  options = {.path = folder.path("b.csv"), .examples = 2, .outputs = 1, .answer = "target", .answer_width = 2};
  write(options, {1, 2, 3, 4});
  CHECK(testing::bytes_of(options.path) == "example,target0,target1,y0\n0,1,2,0.25\n1,3,4,0.75\n");
  options.path = folder.path("b.h5");
  write(options, {1, 2, 3, 4});
  const data::hdf5::File file(options.path, data::hdf5::File::Mode::read);
  CHECK(file.read<float>("targets") == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a file that is not finished never appears under its name", "[prediction_sink]") {
  const ScratchFolder folder;
  for (const char* name : {"a.csv", "a.h5"}) {
    SinkOptions options{.path = folder.path(name), .examples = 3, .outputs = 2, .ranks = 2};
    write_three_predictions(*make_prediction_sink(options));
    const std::string earlier = testing::bytes_of(folder.path(name));
    CHECK_THROWS_WITH(make_prediction_sink(options), Contains("add --overwrite"));
    CHECK(testing::bytes_of(folder.path(name)) == earlier);
    options.overwrite = true;
    make_prediction_sink(options);
    CHECK(testing::bytes_of(folder.path(name)) == earlier);
    write_three_predictions(*make_prediction_sink(options));  // earlier predictions are replaced
    CHECK(testing::bytes_of(folder.path(name)).size() == earlier.size());
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a file that holds no predictions is left alone", "[prediction_sink]") {
  const ScratchFolder folder;
  for (const char* name : {"a.csv", "a.h5"}) {
    folder.file(name, "a set of one's own");
    const SinkOptions options{.path = folder.path(name), .overwrite = true, .ranks = 1};
    CHECK_THROWS_WITH(make_prediction_sink(options), Contains("does not hold predictions"));
    CHECK(testing::bytes_of(folder.path(name)) == "a set of one's own");
  }
}

TEST_CASE("a table is replaced only if its columns are those of predictions", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto replace = [&](const std::string& first_line) {
    folder.file("a.csv", first_line + "\n0,1\n");
    make_prediction_sink({.path = folder.path("a.csv"), .overwrite = true, .ranks = 1});
  };
  for (const char* columns :
       {"example,y0", "example,id,place,y0", "example,target,y0", "example,target0,target1,y0,y1", "example,class,p1",
        "example,label,class,p0,p1", "example,label,label_name,class,class_name,margin0,margin1",
        "example,user,item,rating,y0", "example,user,item,y0", "user,rank,item,score"}) {
    INFO(columns);
    CHECK_NOTHROW(replace(columns));
  }
  for (const char* columns : {"", "example", "example,", "example,label", "example,user,item,rating", "example,y1,p2",
                              "example,p,y", "example,y0,", "example,y0,height", "example,p0,p2", "example,margin12",
                              "example,p00", "example,y0,label", "Example,y0", "id,example,y0"}) {
    INFO(columns);
    CHECK_THROWS_WITH(replace(columns), Contains("does not hold predictions"));
  }
}

TEST_CASE("an HDF5 file is replaced only if it holds predictions alone", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto replace = [&](const std::function<void(data::hdf5::File&)>& fill) {
    {
      data::hdf5::File file(folder.path("a.h5"), data::hdf5::File::Mode::create);
      fill(file);
    }
    make_prediction_sink({.path = folder.path("a.h5"), .examples = 1, .overwrite = true, .ranks = 1});
  };
  const auto predictions = [](data::hdf5::File& file) {
    file.create<float>("predictions", {1, 1});
    file.write_attribute("predictions", "outputs", std::string("values"));
  };
  CHECK_NOTHROW(replace(predictions));
  CHECK_THROWS_WITH(replace([&](data::hdf5::File& file) {
                      predictions(file);
                      file.create<float>("measurements", {1});
                    }),
                    Contains("does not hold predictions"));
  CHECK_THROWS_WITH(replace([](data::hdf5::File& file) {
                      file.create<float>("predictions", {1, 1});
                    }),
                    Contains("does not hold predictions"));
  CHECK_THROWS_WITH(replace([](data::hdf5::File& file) {
                      file.create<float>("scores", {1, 1});
                    }),
                    Contains("does not hold predictions"));
}

TEST_CASE("an unknown ending and a folder that is not there are refused", "[prediction_sink]") {
  const ScratchFolder folder;
  const auto make = [&](const char* name) { make_prediction_sink({.path = folder.path(name), .ranks = 1}); };
  CHECK_THROWS_AS(make("a.txt"), ConfigError);
  CHECK_THROWS_AS(make("none/a.csv"), OutputError);
  CHECK_THROWS_WITH(make("none/a.h5"), Contains("none/a.h5"));
}

}  // namespace
}  // namespace unisono::apply
