# For Spack 1.0 or newer: spack repo add packaging/spack_repo/unisono
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Unisono(CMakePackage):
    """Trains machine-learning models in parallel on MPI ranks, and says what parallelism did to the result."""

    # There is nothing to download yet: spack dev-build --source-path . unisono@main, in the folder of the sources
    version("main")

    variant("cuda", default=False, description="kernels for NVIDIA GPUs")
    variant("images", default=True, description="read JPEG and PNG files")
    variant("tokenizers", default=True, description="tokenizers of GPT-2 and SentencePiece")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5~mpi")
    depends_on("blis threads=none")
    depends_on("fmt@9:")
    depends_on("spdlog")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("tomlplusplus")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("minizip")
    depends_on("libjpeg-turbo", when="+images")
    depends_on("libspng", when="+images")
    depends_on("pcre2", when="+tokenizers")
    depends_on("sentencepiece", when="+tokenizers")
    depends_on("cuda", when="+cuda")
    depends_on("cudnn", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        def switch(name, variant):
            return self.define(name, "ON" if self.spec.satisfies(f"+{variant}") else "OFF")

        return [
            self.define("UNISONO_TESTS", False),
            self.define("UNISONO_BENCH", False),
            switch("UNISONO_CUDA", "cuda"),
            switch("UNISONO_IMAGES", "images"),
            switch("UNISONO_PCRE2", "tokenizers"),
            switch("UNISONO_SENTENCEPIECE", "tokenizers"),
        ]
