// omni-perf diff shows what differs between two runs, beyond noise. It is made for CI.
#include <fmt/format.h>

#include <memory>

#include "apps/command_line.hpp"
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/diff.hpp"
#include "runtime/log.hpp"

namespace omni::perf {
namespace {

constexpr const char* kDiffFooter =
    R"(Exit code 1 when something got slower or a codelet is new (--both: or faster, moved, gone).
Compared are medians: the time of an iteration, the compute time of a codelet per iteration, and
the time of a kernel (codelet, layer, kind of worker; and by implementation).
A median differs when all of these hold:
  - the median and the lower third changed by more than --threshold per cent;
  - the median changed by more than 3 standard errors (from the median absolute deviation of the
    tasks, or of the medians of the iterations if that is more);
  - with both runs cut into fifths, every fifth of one run is slower than every fifth of the other;
    or, by more than --threshold, three fifths are slower than all of the other, or all than three;
  - the change is at least --matters per cent of all compute time;
  - both runs have at least 5 values.
A codelet that only one run has differs when it has --matters per cent of that run's compute time.
A placement moved when the share of a codelet's tasks on a kind of worker changed by more than
--threshold per cent and 3 standard errors, and the codelet has --matters per cent of the compute
time. Options that differ are named. Where slices have other sizes, kernels are compared per image;
where mini-batches have, also codelets and iterations. Runs of different nets, and of killed
processes, are refused.

JSON:
  {"complete","slower","differs","warnings":[{"text"}],
   "rows":[{"what","codelet","implementation","kind","layer","before","after","change","noise",
    "weight","count_before","count_after","verdict","per_image"}]}
what: iteration, codelet, kernel, placement. change and noise: 0.1 for 10 % of before; of a
placement the difference of the shares; 0 where one run has nothing. per_image: before and after
are s per image. verdict: same, slower, faster,
moved, only_before (gone), only_after (new).)";

struct DiffArguments {
  std::string before, after;
  double threshold = 15, matters = 2.5;  // per cent
  std::size_t skip = 2;
  bool both = false;
  Output output;
};

// These are the texts of Verdict, in its order.
constexpr const char* kVerdicts[] = {"same",  "slower",      "faster",
                                     "moved", "only_before", "only_after"};

Document describe_diff(const Diff& diff) {
  Table rows{
      .key = "rows",
      .columns = {column::text("what"), column::text("codelet"), column::text("implementation"),
                  column::text("kind"), column::text("layer"), column::hidden("before"),
                  column::hidden("after"), column::count("", "before"), column::count("", "after"),
                  column::share("change"), column::share("noise"),
                  column::share("weight", "of compute"), column::hidden("count_before"),
                  column::hidden("count_after"), column::text("verdict"),
                  column::hidden("per_image")},
      .shown = 12};
  std::size_t differing = 0;
  for (const DiffRow& row : diff.rows) {
    differing += row.verdict == Verdict::same ? 0 : 1;
    const auto value = [&](double number) {
      return row.what == "placement"
                 ? shown(number, Format::share)
                 : shown(number, Format::seconds) + (row.per_image ? "/image" : "");
    };
    rows.rows.push_back({row.what, row.codelet, row.implementation, row.kind, row.layer, row.before,
                         row.after, value(row.before), value(row.after), row.change, row.noise,
                         row.weight, count_cell(row.count_before), count_cell(row.count_after),
                         std::string(kVerdicts[static_cast<std::size_t>(row.verdict)]),
                         row.per_image});
  }
  rows.shown = std::max(rows.shown, differing);
  Table warnings{.key = "warnings", .columns = {column::hidden("text")}};
  for (const std::string& warning : diff.warnings) warnings.rows.push_back({warning});
  Document document;
  document.facts = {{"slower", "", Format::text, diff.slower()},
                    {"differs", "", Format::text, diff.differs()}};
  document.tables = {std::move(rows), std::move(warnings)};
  document.notes.push_back(
      differing == 0 ? std::string("no difference beyond the threshold and the noise")
                     : fmt::format("{} of {} rows differ beyond the threshold and the noise",
                                   differing, diff.rows.size()));
  return document;
}

Result<Trace> open_whole(const std::string& path) {
  OMNI_TRY(Trace trace, open_trace(path));
  if (trace.complete) return trace;
  return Error{ErrorKind::data, path, "the run was killed, so its figures are not comparable",
               "compare runs that ended"};
}

Result<int> run_diff(const DiffArguments& arguments) {
  OMNI_TRY(const Trace before, open_whole(arguments.before));
  OMNI_TRY(const Trace after, open_whole(arguments.after));
  const DiffOptions options{.threshold = arguments.threshold / 100,
                            .matters = arguments.matters / 100,
                            .skip = arguments.skip};
  OMNI_TRY(const Diff diff, analyse_diff(before, after, options));
  for (const std::string& warning : diff.warnings) log::warn("{}", warning);
  OMNI_CHECK(write(describe_diff(diff), arguments.output, true));
  const bool bad = arguments.both ? diff.differs() : diff.slower();
  return bad ? exit_code(ErrorKind::failed) : kSuccess;
}

}  // namespace

Command diff_command(CLI::App& parent) {
  const auto arguments = std::make_shared<DiffArguments>();
  CLI::App* app = parent.add_subcommand("diff", "What differs between two runs, beyond noise");
  app->add_option("before", arguments->before, "Trace of the first run")->required();
  app->add_option("after", arguments->after, "Trace of the second run")->required();
  app->add_option("--threshold", arguments->threshold, "<PERCENT> Smallest change that counts")
      ->check(within(0, 1e6))
      ->capture_default_str();
  app->add_option("--matters", arguments->matters, "<PERCENT> Smallest share of compute time")
      ->check(within(0, 100))
      ->capture_default_str();
  app->add_option("--skip", arguments->skip, "<ITERATIONS> First iterations to leave out")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app->add_flag("--both", arguments->both,
                "Exit code 1 also when something got faster, moved or is gone");
  add_output(*app, arguments->output);
  app->footer(kDiffFooter);
  return {.app = app, .run = [arguments] { return run_diff(*arguments); }};
}

}  // namespace omni::perf
