// The flags that leave what is learned as it is: checkpoints, ranks, and what a run prints and writes.
#include "apps/option_groups.h"
#include "apps/recorded_steps.h"
#include "core/error.h"
#include "core/profile.h"
#include "core/quote.h"

namespace ringtape::apps {
namespace {

CLI::Validator step_range_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          parse_step_range(text);
          return "";
        } catch (const Error& error) {
          return error.what();
        }
      },
      "");
}

CLI::Validator picture_file_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text.ends_with(".svg") || text.ends_with(".dot")) return "";
        return "expected a file that ends on .svg or .dot, found " + quote(text);
      },
      "");
}

}  // namespace

void add_checkpoint_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Checkpoints");
  CLI::Option* const checkpoint =
      app.add_option("--checkpoint", options.checkpoint,
                     "save to this folder, from time to time and at the end, all that is needed to go on")
          ->check(file_name_check())
          ->type_name("DIR")
          ->excludes(app.get_option("--eval-only"));
  app.add_option("--every", options.every, "updates from one checkpoint to the next")
      ->check(kPositive)
      ->needs(checkpoint);
  app.add_option("--keep", options.keep, "how many checkpoints to keep: the newest")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(checkpoint);
  app.add_flag("--resume", options.resume,
               "go on from the newest checkpoint that is whole, to the result of a run that was never "
               "stopped; start afresh where there is none. --device, --gemm, --micro-batch, --zero and the "
               "number of ranks may change, with a result that is the same but for rounding")
      ->needs(checkpoint);
}

void add_rank_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Several ranks (mpirun, torchrun, srun)");
  app.add_option("--comm-timeout", options.comm_timeout,
                 "seconds after which an operation that hangs ends the run")
      ->check(number_check(0.1, 1e6));
  app.add_option("--bucket-mib", options.bucket_mib,
                 "MiB of gradients that are reduced together; the first time 1 at most, to begin early")
      ->check(number_check(1e-6, 1e6));
  app.add_flag("--no-overlap", options.no_overlap, "reduce gradients after backward instead of during it");
  app.add_flag("--sync-each-micro-batch", options.sync_each_micro_batch,
               "reduce gradients after every micro-batch instead of after the last: more communication, the "
               "same result but for rounding")
      ->excludes(app.get_option("--clip-each-micro-batch"));
  app.add_option("--zero", options.zero,
                 "what the ranks share out (ZeRO): 1: the optimizer's state; 2: the gradients too, which are "
                 "then reduced after every micro-batch; 0: nothing. No effect with one rank")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            const bool is_stage = text == "0" || text == "1" || text == "2";
            return is_stage ? "" : "stages are 0, 1 and 2, found " + text;
          },
          ""))
      ->excludes(app.get_option("--clip-each-micro-batch"));
  add_slow_link_flag(app, options.slow_link);
  app.add_flag("--show-launch", options.show_launch,
               "print which launcher was found, the rank, and why, and do not train");
}

void add_slow_link_flag(CLI::App& app, std::string& link) {
  app.add_option("--slow-link", link,
                 "hold back what ranks on CPUs send each other as a link with this latency and bandwidth "
                 "would, such as 100,250: 100 microseconds and 250 MB/s")
      ->type_name("LATENCY_US,MBYTES_PER_S")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            try {
              parse_slow_link(text);
              return "";
            } catch (const Error& error) {
              return error.what();
            }
          },
          ""));
}

std::optional<SlowLink> slow_link_of(const std::string& link) {
  return link.empty() ? std::nullopt : std::optional(parse_slow_link(link));
}

namespace {

void add_profile_flags(CLI::App& app, TrainOptions& options) {
  CLI::Option* const eval_only = app.get_option("--eval-only");
  CLI::Option* const profile = app.add_flag("--profile", options.profile,
                                            "print where the time of a step went, by operation and by phase")
                                   ->excludes(eval_only)
                                   ->excludes(app.get_option("--graph"));
  app.add_option(
         "--profile-steps", options.profile_steps,
         "steps A to B, such as 10:12: those that --profile, --timeline and --report are of, and on a GPU "
         "those that Nsight looks at when it waits for cudaProfilerStart [20 steps from the run's second on]")
      ->type_name("A:B")
      ->check(step_range_check())
      ->excludes(eval_only);
  const std::span<const std::string_view> columns = profile_columns();
  app.add_option("--sort", options.sort, "column that the table of --profile is sorted by")
      ->check(CLI::IsMember(std::vector<std::string>(columns.begin(), columns.end())))
      ->needs(profile);
}

}  // namespace

void add_output_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Output");
  app.add_option("--metrics", options.metrics,
                 "write one JSON object for each step, and a last one, to this file")
      ->check(file_name_check())
      ->type_name("FILE");
  CLI::Option* const eval_only = app.get_option("--eval-only");
  app.add_flag("--memory-report", options.memory_report,
               "print where the memory of one update went, by category, in time and by formula")
      ->excludes(eval_only)
      ->excludes(app.get_option("--graph"));
  app.add_option("--timeline", options.timeline,
                 "write when each rank computed, waited and sent data, and what its memory held, to "
                 "this file, as a trace that Perfetto shows, and print how much of the communication was "
                 "hidden")
      ->check(file_name_check())
      ->type_name("FILE")
      ->excludes(eval_only);
  add_profile_flags(app, options);
  app.add_flag("--print-tape", options.print_tape, "print what the tape recorded in the first step")
      ->excludes(eval_only);
  app.add_option(
         "--report", options.report,
         "write a page that a browser shows, without a network, to this file: curves, profile, timeline "
         "of a step, memory, tape and machine")
      ->check(file_name_check())
      ->type_name("FILE.html")
      ->excludes(eval_only)
      ->excludes(app.get_option("--graph"));
  app.add_option("--save-tape", options.save_tape,
                 "draw it to this file: an SVG picture, or a graph for Graphviz")
      ->type_name("FILE.svg|FILE.dot")
      ->check(picture_file_check())
      ->excludes(eval_only);
}

}  // namespace ringtape::apps
