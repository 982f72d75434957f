#include "mpi/job.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace unisono::comm;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

unisono::comm::mpi::Environment environment(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

}  // namespace

TEST_CASE("a process that nobody launched may be alone", "[launch]") {
  CHECK(unisono::comm::mpi::launch_problem(environment({}), 1).empty());
  CHECK(unisono::comm::mpi::is_first_of_launch(environment({})));
}

TEST_CASE("ranks that see each other are what the launcher says", "[launch]") {
  CHECK(unisono::comm::mpi::launch_problem(environment({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4).empty());
  CHECK(unisono::comm::mpi::launch_problem(environment({{"PMI_SIZE", "4"}}), 4).empty());
  CHECK(unisono::comm::mpi::launch_problem(environment({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}), 4)
            .empty());
}

TEST_CASE("a task of an srun that does not speak PMIx is refused", "[launch]") {
  const auto task = environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}});
  CHECK_THAT(unisono::comm::mpi::launch_problem(task, 1),
             StartsWith("SLURM_NTASKS is 8 but this process sees 1 rank: "));
  CHECK_THAT(unisono::comm::mpi::launch_problem(task, 1), Contains("srun --mpi=pmix"));
  CHECK_FALSE(
      unisono::comm::mpi::launch_problem(environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "3"}}), 1).empty());
  CHECK_FALSE(unisono::comm::mpi::launch_problem(environment({{"SLURM_STEPID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}), 1)
                  .empty());
}

TEST_CASE("one process in a batch script or an interactive allocation is no task", "[launch]") {
  CHECK(unisono::comm::mpi::launch_problem(environment({{"SLURM_NTASKS", "8"}}), 1).empty());
  CHECK(unisono::comm::mpi::launch_problem(environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}), 1).empty());
  // The step that an interactive shell runs in has one task, however many the allocation has.
  const auto shell =
      environment({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  CHECK(unisono::comm::mpi::launch_problem(shell, 1).empty());
}

TEST_CASE("mpirun inside an allocation is believed, not the step that carries its daemon", "[launch]") {
  const auto rank = environment(
      {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  CHECK(unisono::comm::mpi::launch_problem(rank, 8).empty());
}

TEST_CASE("ranks of a foreign mpirun are refused", "[launch]") {
  CHECK_THAT(unisono::comm::mpi::launch_problem(environment({{"PMI_SIZE", "4"}}), 1), StartsWith("PMI_SIZE is 4 but"));
  CHECK_THAT(unisono::comm::mpi::launch_problem(environment({{"OMPI_COMM_WORLD_SIZE", "4"}}), 1),
             StartsWith("OMPI_COMM_WORLD_SIZE is 4 but"));
}

TEST_CASE("variables that hold no number count as not set", "[launch]") {
  CHECK(unisono::comm::mpi::launch_problem(environment({{"PMI_SIZE", "four"}, {"SLURM_PROCID", ""}}), 1).empty());
}

TEST_CASE("of processes that do not see each other the first one speaks", "[launch]") {
  CHECK(unisono::comm::mpi::is_first_of_launch(environment({{"SLURM_PROCID", "0"}})));
  CHECK_FALSE(unisono::comm::mpi::is_first_of_launch(environment({{"SLURM_PROCID", "1"}})));
  CHECK_FALSE(unisono::comm::mpi::is_first_of_launch(environment({{"PMI_RANK", "2"}})));
}

TEST_CASE("more ranks than cores are recognised, bound or not", "[launch]") {
  const auto two = environment({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK_FALSE(unisono::comm::mpi::launched_more_ranks_than_cores(two, 2, 2));
  CHECK(unisono::comm::mpi::launched_more_ranks_than_cores(two, 1, 2));
  const auto bound = environment({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_MCA_orte_bound_at_launch", "1"}});
  CHECK_FALSE(unisono::comm::mpi::launched_more_ranks_than_cores(bound, 1, 2));
  CHECK_FALSE(unisono::comm::mpi::launched_more_ranks_than_cores(environment({}), 1, 1));
}

TEST_CASE("where the other ranks are is taken from the launcher's word alone", "[launch]") {
  using unisono::comm::mpi::Peers;
  CHECK(unisono::comm::mpi::launched_peers(environment({})) == Peers::none);
  CHECK(unisono::comm::mpi::launched_peers(environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}})) == Peers::none);
  CHECK(unisono::comm::mpi::launched_peers(environment(
            {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"PMIX_NAMESPACE", "1"}})) ==
        Peers::on_this_node);
  CHECK(unisono::comm::mpi::launched_peers(
            environment({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})) == Peers::unknown);
  CHECK(unisono::comm::mpi::launched_peers(environment({{"OMPI_COMM_WORLD_SIZE", "4"}})) == Peers::unknown);
  CHECK(unisono::comm::mpi::launched_peers(environment({{"PMIX_NAMESPACE", "1"}})) == Peers::unknown);
  CHECK(unisono::comm::mpi::launched_peers(environment({{"PMI_SIZE", "2"}})) == Peers::unknown);
  CHECK(unisono::comm::mpi::launched_peers(environment({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}})) ==
        Peers::unknown);
}
