#!/usr/bin/env bash
# Installs the build, then configures, builds and runs a program that finds it with find_package(unisono).
#   install_test.sh SOURCE_FOLDER BUILD_FOLDER CXX_COMPILER
set -euo pipefail
source=$1
build=$2
compiler=$3

work=$build/install-test
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$source/tests/install/consumer" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/consumer"

expect() { # EXPECTED COMMAND…
  local expected=$1 printed
  shift
  printed=$("$@" 2>&1) || true
  [[ $printed == "$expected" ]] || {
    echo "expected: $expected"
    echo "printed:  $printed"
    exit 1
  }
}
expect "lenet: 3 epochs" "$work/consumer/consumer" "$source/configs/lenet.toml"
expect "config error: nowhere.toml: cannot be read: No such file or directory" "$work/consumer/consumer" nowhere.toml
"$work/prefix/bin/unisono" --version
