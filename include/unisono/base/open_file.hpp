#pragma once

namespace unisono {

/// A descriptor that is closed in the end, which ends its locks, too.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Locks an open file. \param operation of flock: LOCK_EX, LOCK_SH | LOCK_NB, … \return whether the lock was given
bool lock_file(const OpenFile& file, int operation);

}  // namespace unisono
