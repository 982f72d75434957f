#include "import/document_reader.hpp"

#include <algorithm>
#include <utility>

namespace unisono::data {

DocumentReader::DocumentReader(std::unique_ptr<ByteSource> source, const TokensOptions& options,
                               std::function<std::size_t(std::string_view)> separable)
    : source_(std::move(source)),
      separator_(options.documents == Documents::lines ? "\n" : options.separator),
      are_lines_(options.documents == Documents::lines),
      separable_(std::move(separable)) {
  fill();
}

void DocumentReader::skip_mark() {
  if (before_ == 0 && at_ == 0 && buffer_.starts_with(kByteOrderMark)) at_ = searched_ = kByteOrderMark.size();
}

/// Reads on, behind what was not given yet.
void DocumentReader::fill() {
  buffer_.erase(0, at_);
  before_ += at_;
  searched_ -= at_;
  at_ = 0;
  const std::size_t there = buffer_.size(), wanted = std::max(kBlock, there);  // doubled: each byte is moved few times
  buffer_.resize(there + wanted);
  const std::size_t read = source_->read(std::span(buffer_).subspan(there));
  buffer_.resize(there + read);
  is_at_end_ = read < wanted;
}

/// Where the next separator begins; npos: there is none in the buffer.
std::size_t DocumentReader::find_separator() {
  if (separator_.empty()) return std::string::npos;
  const std::size_t found = buffer_.find(separator_, std::max(at_, searched_));
  searched_ = found != std::string::npos           ? found
              : buffer_.size() < separator_.size() ? at_
                                                   : buffer_.size() - separator_.size() + 1;
  searched_ = std::max(searched_, at_);
  return found;
}

/// Gives the next bytes of the buffer as a piece, and goes on `behind` it. \return false: there is nothing to be given
bool DocumentReader::take(std::size_t bytes, std::size_t behind, bool ends, Piece& piece) {
  piece = {.text = std::string_view(buffer_).substr(at_, bytes), .place = before_ + at_, .ends_document = ends};
  const bool is_some = bytes > 0 || is_within_;
  at_ = behind;
  searched_ = std::max(searched_, at_);
  is_within_ = !ends;
  return is_some;
}

bool DocumentReader::next(Piece& piece) {
  for (;;) {
    const std::size_t separator = find_separator();
    if (separator != std::string::npos) {
      const bool is_return = are_lines_ && separator > at_ && buffer_[separator - 1] == '\r';
      if (take(separator - at_ - (is_return ? 1 : 0), separator + separator_.size(), true, piece)) return true;
      continue;
    }
    if (is_at_end_)
      return (at_ < buffer_.size() || is_within_) && take(buffer_.size() - at_, buffer_.size(), true, piece);
    // What may be the beginning of a separator, or the \r before the end of a line, waits for what follows.
    const std::size_t kept = separator_.empty() ? 0 : separator_.size() - (are_lines_ ? 0 : 1);
    const std::size_t there = buffer_.size() - at_;
    const std::string_view known = std::string_view(buffer_).substr(at_, there - std::min(there, kept));
    const std::size_t bytes = known.size() < kBlock / 2 ? 0 : separable_(known);
    if (bytes > 0) return take(bytes, at_ + bytes, false, piece);
    fill();
  }
}

}  // namespace unisono::data
