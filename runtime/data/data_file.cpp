#include "runtime/data/data_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/files.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kChunk = 1 << 20, kAlwaysTaken = 16 << 20;

Error failure(const std::filesystem::path& path, int code) {
  return {ErrorKind::data, path.string(), std::generic_category().message(code), ""};
}

}  // namespace

DataFile::DataFile(std::filesystem::path path, Handle file, std::uint64_t bytes_on_disk)
    : path_(std::move(path)), file_(std::move(file)), bytes_on_disk_(bytes_on_disk) {
  gzbuffer(file_.get(), kChunk / 8);
  compressed_ = gzdirect(file_.get()) == 0;  // reads the first bytes
}

Result<DataFile> DataFile::open(const std::filesystem::path& path) {
  OMNI_TRY(InputFile opened, InputFile::open(path));
  const int descriptor = opened.release();
  Handle file(::gzdopen(descriptor, "rb"));
  if (!file) {
    ::close(descriptor);
    return failure(path, ENOMEM);
  }
  return DataFile(path, std::move(file), opened.size());
}

Error DataFile::complain(std::string what, std::string hint) const {
  return {ErrorKind::data, path_.string(), std::move(what), std::move(hint)};
}

// Reads at least one byte, unless the file has ended.
Result<std::size_t> DataFile::read_some(std::span<std::uint8_t> out) {
  const auto wanted = static_cast<unsigned>(std::min<std::size_t>(out.size(), kChunk));
  const int got = gzread(file_.get(), out.data(), wanted);
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  if (got > 0) return got;
  if (code == Z_ERRNO) return failure(path_, errno);
  if (code == Z_BUF_ERROR)
    return complain("the compressed data ends too early", "the file is truncated; fetch it again");
  if (got < 0 || code != Z_OK)
    return complain(fmt::format("damaged gzip data: {}", text), "fetch the file again");
  return std::size_t{0};
}

bool DataFile::swells_to(std::uint64_t bytes) const {
  return compressed_ && bytes > kAlwaysTaken && bytes / kMaxCompression > bytes_on_disk_;
}

Result<std::size_t> DataFile::read_up_to(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    OMNI_TRY(const std::size_t got, read_some(out.subspan(done)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

Status DataFile::read(std::span<std::uint8_t> out) {
  OMNI_TRY(const std::size_t got, read_up_to(out));
  if (got == out.size()) return {};
  return complain(fmt::format("ends {} bytes too early", out.size() - got),
                  "the file is truncated; fetch it again");
}

Result<std::vector<std::uint8_t>> DataFile::read_vector(std::uint64_t bytes) {
  std::vector<std::uint8_t> data;
  data.reserve(bytes);  // takes only address space until data arrive
  while (data.size() < bytes) {
    const std::size_t done = data.size();
    data.resize(std::min<std::uint64_t>(bytes, done + kChunk));
    OMNI_CHECK(read(std::span(data).subspan(done)));
  }
  return data;
}

Status DataFile::expect_end() {
  std::uint8_t extra = 0;
  OMNI_TRY(const std::size_t got, read_some({&extra, 1}));
  if (got != 0)
    return complain("has more data than its header says", "it is not the file it claims to be");
  return {};
}

Result<LineSource> open_data_lines(const std::filesystem::path& path) {
  OMNI_TRY(DataFile opened, DataFile::open(path));
  const auto file = std::make_shared<DataFile>(std::move(opened));
  return LineSource(
      [file, total = std::uint64_t{0}](std::span<char> bytes) mutable -> Result<std::size_t> {
        OMNI_TRY(const std::size_t got,
                 file->read_up_to({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
        total += got;
        if (file->swells_to(total))
          return file->complain(fmt::format("holds over {} times its {} compressed bytes",
                                            DataFile::kMaxCompression, file->bytes_on_disk()),
                                "unpack it, if that is what it holds");
        return got;
      });
}

}  // namespace omni
