#pragma once

#include <memory>

#include "unisono/session/job.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::jobs {

/// The set of a job's trainings, in memory once a node. Its construction is collective over the job.
class SharedSet {
 public:
  /// \param text of `config`; where the set's arrangement in memory depends on a seed, that is fixed in it
  SharedSet(session::Job& job, ConfigText& text, const settings::Config& config);

  const data::DatasetInfo& info() const;
  data::Dataset& set() const;
  /// The config with which trainings find this set open.
  const ConfigText& text() const { return text_; }

 private:
  ConfigText& text_;
  std::shared_ptr<session::SharedDataset> set_;
};

}  // namespace unisono::jobs
