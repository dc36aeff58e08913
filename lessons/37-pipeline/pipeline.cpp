// Pipeline parallelism: drawings of schedules, their bubble, and a GPT in stages with the activations that
// each stage keeps.
//
//   mpirun -n 3 pipeline
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "dist/pipeline.h"
#include "dist/stage_parts.h"
#include "lessons/peaks.h"
#include "lessons/ranks.h"
#include "nn/gpt.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;
using Kind = PipelineScheduleKind;

constexpr std::int64_t kSequences = 2, kTokens = 32, kVocabulary = 96, kWidth = 64;

struct Options {
  int stages = 3, micro_batches = 6, chunks = 2;
  std::int64_t layers = 4;
};

/// A schedule and its number of chunks a stage.
struct Way {
  const char* name;
  Kind kind;
  int chunks;
};

void draw(const Options& options) {
  const int stages = options.stages;
  fmt::print("afab: {}\n", draw_schedule(Kind::afab, {stages, options.micro_batches, 1}));
  fmt::print("1F1B: {}\n", draw_schedule(Kind::one_f_one_b, {stages, options.micro_batches, 1}));
  fmt::print("interleaved: {}\n", draw_schedule(Kind::interleaved, {stages, stages, options.chunks}));
}

/// "14.3% 14.3%": the bubble by simulation, and by (p - 1) / (v m + p - 1).
std::string bubble(Kind kind, const PipelineShape& shape) {
  const double counted = bubble_of(simulate(pipeline_schedule(kind, shape), 1, 2));
  const double formula = (shape.stages - 1.0) / (shape.chunks * shape.micro_batches + shape.stages - 1);
  return fmt::format("{:>5.1f}% {:>5.1f}%", 100 * counted, 100 * formula);
}

void show_bubbles(const Options& options) {
  fmt::print("Bubble of {} stages, counted and by formula; forwards that stage 0 keeps at the most\n",
             options.stages);
  fmt::print("micro-batches   afab, 1F1B      {} chunks        afab  1F1B  {} chunks\n", options.chunks,
             options.chunks);
  for (const int m : {1, 2, 4, 8, 16, 32}) {
    const PipelineShape one{options.stages, m, 1}, several{options.stages, m, options.chunks};
    const auto kept = [](Kind kind, const PipelineShape& shape) {
      return max_in_flight(stage_schedule(kind, shape, 0));
    };
    fmt::print("{:>13}  {}  {}  {:>8}  {:>4}  {:>8}\n", m, bubble(Kind::one_f_one_b, one),
               bubble(Kind::interleaved, several), kept(Kind::afab, one), kept(Kind::one_f_one_b, one),
               kept(Kind::interleaved, several));
  }
}

Tensor tokens_of(std::size_t micro_batch, const Shape& shape) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kSequences * kTokens; ++i)
    tokens.push_back((i * i + 7 * static_cast<std::int64_t>(micro_batch)) % kVocabulary);
  return from_vector(tokens, shape);
}

/// What a stage of a GPT has after an update's forwards and backwards.
struct Result {
  std::string units;  ///< first to last, for each chunk of this stage
  std::size_t activations;
  std::uint64_t sent;
  std::map<std::string, std::vector<double>> gradients;  ///< of all stages, on rank 0
  std::vector<std::string> tied;  ///< first element of the tied weight's gradient: own, then summed
};

Result run(const std::shared_ptr<Communicator>& line, const Options& options, const Way& way) {
  const auto layers = std::make_shared<LayerFactory>();
  layers->set_stages(std::make_shared<Stages>(
      PipelinePlace{.stage = line->rank(), .stages = line->size(), .chunks = way.chunks}));
  const Stages& stages = *layers->stages();
  manual_seed(0);
  TransformerOptions shape;
  shape.layers = options.layers;
  shape.heads = 4;
  shape.width = kWidth;
  shape.context = kTokens;
  shape.vocabulary = kVocabulary;
  GPT model(shape, layers);
  Pipeline pipeline(model, stages, line, {.schedule = way.kind});
  const std::vector<Shape> samples(static_cast<std::size_t>(options.micro_batches), {kSequences, kTokens});
  const double divisor = static_cast<double>(kSequences * kTokens * options.micro_batches);
  const Pipeline::Callbacks callbacks = {.input = [&](std::size_t m) { return tokens_of(m, samples[m]); },
                                         .loss =
                                             [&](const Tensor& logits, std::size_t m) {
                                               return cross_entropy(
                                                   view(logits, {kSequences * kTokens, kVocabulary}),
                                                   tokens_of(m + 1, {kSequences * kTokens}),
                                                   {.reduction = Reduction::sum, .divisor = divisor});
                                             },
                                         .backward = [](const Tensor& loss) { loss.backward(); }};
  MemoryRecording memory{Device()};
  pipeline.forward_backward(samples, callbacks);
  memory.stop();
  Result result{};
  for (int chunk = 0; chunk < way.chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(chunk * line->size() + line->rank());
    const std::size_t first = stages.begins()[part], last = stages.begins()[part + 1] - 1;
    if (chunk > 0) result.units += ", ";
    result.units += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  result.activations = peak_of(memory)[MemoryCategory::activations];
  for (const auto& comm : pipeline.communicators()) {
    if (comm != nullptr) result.sent += comm->traffic().sent;
  }
  for (int times = 0; times < 2; ++times) {
    for (const Pipeline::TiedPair& copy : pipeline.copies())
      result.tied.push_back(fmt::format("{:.6f}", copy.parameter->grad().to_doubles()[0]));
    if (times == 0) pipeline.sum_tied_gradients();
  }
  std::vector<NamedTensor> own;
  for (const NamedParameter& parameter : model.named_parameters())
    own.push_back({parameter.name, parameter.tensor->grad()});
  for (const auto& [name, tensor] : gather_stages(stages, own, *line))
    result.gradients[name] = tensor.to_doubles();
  return result;
}

void show_run(const std::shared_ptr<Communicator>& line, const Options& options) {
  if (prints(*line)) {
    fmt::print(
        "\nA GPT of {} blocks in {} stages, {} micro-batches; unit 0 is the embeddings, {} the output\n",
        options.layers, line->size(), options.micro_batches, options.layers + 1);
    fmt::print("           units     activations, most       sent  a gradient of the tied weight\n");
  }
  std::map<std::string, std::vector<double>> gradients;
  for (const Way& way : {Way{"afab", Kind::afab, 1}, Way{"1F1B", Kind::one_f_one_b, 1},
                         Way{"interleaved", Kind::interleaved, options.chunks}}) {
    const Result result = run(line, options, way);
    if (gradients.empty()) gradients = result.gradients;
    check(!prints(*line) || gradients == result.gradients, "the gradients of {} differ", way.name);
    if (prints(*line)) fmt::print("{}\n", way.name);
    print_by_rank(*line, fmt::format("  stage {}  {:<8}  {:>15.2f} MiB  {:>5} KiB  {}\n", line->rank(),
                                     result.units, static_cast<double>(result.activations) / (1 << 20),
                                     result.sent / 1024, fmt::join(result.tied, ", summed ")));
  }
  if (prints(*line)) fmt::print("all gradients have the same bits\n");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Schedules of a pipeline, and a GPT in stages.\nExample: mpirun -n 3 pipeline");
  app.option("--pipeline-parallel", between(options.stages, 2, 64),
             "stages of the drawings; in the run each rank is a stage");
  app.option("--accumulation", between(options.micro_batches, 1, 100),
             "micro-batches of an update; the interleaved drawing has as many as stages");
  app.option("--pipeline-chunks", between(options.chunks, 1, 16), "chunks of a stage, interleaved");
  app.option("--layers", between(options.layers, 1, 100), "blocks of the GPT");
  return app.run(argc, argv, [&] {
    const auto line = connect_ranks();
    const std::int64_t units = options.layers + 2, parts = std::int64_t{line->size()} * options.chunks;
    check(units >= parts,
          "{} x --pipeline-chunks {} are {} parts of a GPT of {} blocks, which has {}: expected --layers {}",
          counted(line->size(), "rank"), options.chunks, parts, options.layers, counted(units, "unit"),
          parts - 2);
    if (prints(*line)) {
      draw(options);
      show_bubbles(options);
    }
    if (has_ranks(*line, 2, "pipeline")) show_run(line, options);
  });
}
