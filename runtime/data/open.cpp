#include "runtime/data/open.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "runtime/data/subset.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Makes the error for a source that no format recognises.
Error unknown_source(const fs::path& path) {
  const std::string known = "known names: " + known_sources();
  if (!fs::exists(path))
    return {ErrorKind::usage, path.string(),
            path.has_parent_path() ? "no such file or folder"
                                   : "neither a known dataset nor a file or folder",
            known};
  if (!fs::is_directory(path))
    return {ErrorKind::usage, path.string(), "neither a folder nor a .data file",
            "two lists are given as train.txt,val.txt; of other files, give their folder"};
  if (holds_image_files(path))
    return {ErrorKind::data, path.string(), "holds images, but no folders, one per class",
            "put the images of each class into a folder of their own, CLASS/*.jpg; "
            "--hold-out 0.1 then tests on a tenth of them"};
  return {ErrorKind::data, path.string(), "holds no dataset that is understood", known};
}

Result<DatasetPair> open_source(const DatasetRequest& request) {
  const DataFormat* const format = format_of(request);
  if (request.scale_features && (format == nullptr || !format->scales))
    return Error{ErrorKind::usage, "--scale-features",
                 fmt::format("{} is no LIBSVM file", shown_name(request.source)), "leave it out"};
  if (format == nullptr) return unknown_source(request.source);
  OMNI_TRY(DatasetPair pair, format->open(request));
  if (pair.name.empty() && format->is != nullptr) pair.name = fs::canonical(request.source);
  return pair;
}

// Refuses labels that the loss does not take: kernels would access memory outside of buffers.
Status check_labels(const DatasetPair& pair, const std::string& source, const LabelLimit& limit) {
  const Dataset& data = *pair.train;
  if (limit.classes == 0 || data.classes() <= limit.classes) return {};
  const bool own = limit.where.empty(), ignores = limit.ignored != kNoLabel;
  const std::string outputs = fmt::format("{}{} has {} outputs", own ? "the net" : "the loss of ",
                                          limit.where, limit.classes);
  const std::string hint = fmt::format("--classes {} gives {} as many outputs", data.classes(),
                                       own ? "the last layer" : "every loss");
  const Error of_all{ErrorKind::usage, source,
                     fmt::format("has {} classes, but {}", data.classes(), outputs), hint};
  for (const Dataset* each : {pair.train.get(), pair.test.get()})
    for (std::size_t i = 0; each != nullptr && i < each->size(); ++i) {
      const std::string place = each->place_of_label(i);
      if (place.empty() && !ignores) return of_all;
      if (const int label = each->label(i); label >= limit.classes && label != limit.ignored)
        return Error{ErrorKind::data, place.empty() ? each->name_of(i) : place,
                     fmt::format("label {} is out of range: {}", label, outputs),
                     "labels count from 0; " + hint};
    }
  return ignores ? Status() : of_all;
}

Status check_labels(const DatasetPair& pair, const DatasetRequest& request) {
  if (request.losses.empty())
    return check_labels(pair, request.source, {.classes = request.classes});
  for (const LabelLimit& limit : request.losses)
    OMNI_CHECK(check_labels(pair, request.source, limit));
  return {};
}

}  // namespace

Result<DatasetPair> open_dataset(const DatasetRequest& wanted) {
  DatasetRequest request = wanted;
  if (wanted.hold_out > 0) request.test = false;  // the source's own test set is not used
  try {
    OMNI_TRY(DatasetPair pair, open_source(request));
    for (const Dataset* each : {pair.train.get(), pair.test.get()})
      if (each != nullptr && !request.for_check) OMNI_CHECK(each->look_for_files(request.damaged));
    if (Status labels = check_labels(pair, request); !labels) {
      // For a check, empty folders and folders that are only in the test set count as classes, too.
      // Opening the data as a training does may report such a folder, which explains more.
      request = wanted;
      request.for_check = false;
      return wanted.for_check ? open_dataset(request) : labels.error();
    }
    if (pair.train->holds_vectors() && request.net_input.c > 0 && !request.flat)
      return Error{ErrorKind::usage, request.source, "holds vectors, but the net takes images",
                   fmt::format("give the net inputs={}, in place of height, width and channels",
                               pair.train->extent().c)};
    if (request.net_input.c > 0)
      OMNI_CHECK(check_input({.flat = request.flat}, pair.train->extent(), request.net_input,
                             request.source));
    if (pair.name.empty()) pair.name = request.source;
    if (wanted.hold_out > 0) OMNI_CHECK(hold_out(pair, wanted.hold_out, wanted.seed));
    if (!wanted.test) pair.test.reset();
    return pair;
  } catch (const fs::filesystem_error& problem) {
    return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                 "is all of the data set readable?"};
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, request.source, "the data do not fit into memory",
                 "IDX and CIFAR-10 files take a byte per value there, LIBSVM files eight"};
  }
}

}  // namespace omni
