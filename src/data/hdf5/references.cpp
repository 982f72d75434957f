#include "hdf5/references.hpp"

#include "hdf5/heap.hpp"
#include "hdf5/types.hpp"

namespace unisono::data::hdf5 {
namespace {

/// A type conversion, for the library, that changes nothing.
herr_t keep_bytes(hid_t from, hid_t to, H5T_cdata_t* state, std::size_t, std::size_t, std::size_t, void*, void*,
                  hid_t) {
  if (state->command != H5T_CONV_INIT) return 0;
  state->need_bkg = H5T_BKG_NO;
  return H5Tget_size(from) == HeapReference::kBytes && H5Tget_size(to) == HeapReference::kBytes ? 0 : -1;
}

}  // namespace

Handle reference_type() {
  Handle type{H5Tcreate(H5T_OPAQUE, HeapReference::kBytes), H5Tclose};
  // Registered once per process: conversions belong to the library, not to a file.
  static const herr_t registered =
      H5Tregister(H5T_PERS_SOFT, "stored reference", text_type().get(), type.get(), keep_bytes);
  static_cast<void>(registered);  // if this fails, the next read fails, too
  return type;
}

}  // namespace unisono::data::hdf5
