#define CATCH_CONFIG_RUNNER
#include <mpi.h>

#include <catch2/catch.hpp>

// Every rank runs the same tests in the same order; the job fails where any rank fails.
int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int failures = Catch::Session().run(argc, argv);
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
