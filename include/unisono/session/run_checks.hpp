#pragma once

#include <string>
#include <vector>

#include "unisono/data/dictionary.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

// Checks at the start of a run. Each names what it requires; all are collective, and all ranks throw the same.

/// Requires the same config and the same binary on every rank; called before anything is read or written. \throws
/// LaunchError
void require_same_experiment(comm::Communicator& group, const settings::Config& config);

/// Requires the same CPU instruction set on every rank, so that all compute the same bits. \throws LaunchError
void require_same_instructions(comm::Communicator& group);

/// Requires the same data set on every rank. \throws LaunchError
void require_same_data(comm::Communicator& group, const data::DatasetInfo& data);

/// Requires that each rank that trains has examples of every whole step, where the strategy needs them. \throws
/// ConfigError
/// \param examples examples of the training set
void require_examples(const settings::Config& config, const ModelParts& parts, Index examples);

/// Requires that the training examples have more than one class, and that no metric that decides is undefined because
/// all examples of a split have the same class or targets. \return a line for the log for each split of such examples
/// \param is_new false: a run that goes on as it began is not refused \throws DataError, ConfigError
std::vector<std::string> require_variety(const settings::Config& config, const models::Model& model,
                                         data::Dataset& data, const Criteria& criteria, bool is_new);

/// A warning about features of a table or of sparse rows that are not scaled, and whose deviations differ a
/// thousandfold among the first training examples; empty: there are none, or the examples are images. This process
/// alone reads them.
std::string warning_on_scales(const settings::Config& config, data::Dataset& data);

/// A line for the log for each split of which some examples are of what no training example shows. \throws DataError
std::vector<std::string> notes_on_split(const settings::Config& config, const models::Model& model,
                                        data::Dataset& data);

/// A line for the log where whole groups are held out for validation; else empty.
std::string note_on_groups(const data::DatasetInfo& data);

/// How many texts with classes have more tokens than the model sees; empty: none.
std::string note_on_cut_texts(const data::DatasetInfo& data);

/// Requires that a metric is defined for a split: that the examples differ in class or targets, or need not.
/// \param key of the config that names the metric, for messages \throws ConfigError
void require_defined(const settings::Config& config, data::Dataset& data, data::Split split, const std::string& metric,
                     const std::string& key);

/// Checks that a config with `[simulation]` can be simulated. \throws ConfigError
void require_simulated(const settings::Config& config);

/// Requires that the rank that `[fault]` slows down exists and trains. \throws ConfigError
void require_slow_rank(const settings::Config& config, const ModelParts& parts);

/// The ranks of a run as text: "4 ranks", "4 ranks, of which 3 train,", "4 ranks (2 replicas of 2 stages)".
std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages);

/// How many of a step's examples a rank (with stages: a replica) takes: "32 of 64 examples", "12 to 25 of 50 examples".
/// \param workers the ranks, or replicas, that train, at least 1
std::string local_batch_text(const settings::Config& config, int workers);

// RUN/dictionary.h5: the names of the training set's words, users and items, or classes. With it a trained model can be
// queried by name without its set, and other sets can be checked for the same numbering.

/// Whether examples of sets of a kind consist of numbers of words, or of users and items.
inline bool has_names(data::SetKind kind) { return kind != data::SetKind::table && kind != data::SetKind::sparse; }

/// Copies a set's names to a file RUN/dictionary.h5, unless that exists. Called on rank 0. \return the names' hash, for
/// CheckpointHeader::names
/// \throws DataError, OutputError
std::uint64_t keep_dictionary(const data::DataSettings& set, const std::string& file);

/// The hash of a set's names. Called on rank 0. \throws DataError
std::uint64_t names_of(const data::DataSettings& set);

/// The names of words, users and items, or classes of a checkpoint's model: from dictionary.h5 in its run's folder or
/// next to the checkpoint, else from the training set. Names whose hash differs from the checkpoint's are not used.
/// \throws DataError if there are none
data::Dictionary dictionary_of(const StoredCheckpoint& checkpoint, const settings::Config& config);

/// Checks that numbers have the same names in a set as in the set on which the checkpoint's model was trained, as far
/// as both have names. \throws DataError
void require_same_names(const StoredCheckpoint& checkpoint, const settings::Config& config, const std::string& set);

}  // namespace unisono::session
