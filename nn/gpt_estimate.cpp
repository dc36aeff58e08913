#include "nn/gpt_estimate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "nn/memory_estimate.h"
#include "nn/parameter_shard.h"
#include "nn/stages.h"

namespace ringtape {
namespace {

bool is_swiglu(const TransformerOptions& model) {
  return model.mlp == MlpKind::swiglu;
}

/// Weights of a block's linear layers.
std::vector<std::int64_t> linear_weights(const TransformerOptions& o) {
  const std::int64_t mlp = o.width * o.hidden_or_default();
  std::vector<std::int64_t> weights = {o.width * o.qkv_columns(), o.width * o.width};
  weights.insert(weights.end(), is_swiglu(o) ? 3 : 2, mlp);
  return weights;
}

/// The part of `size` that the rank has.
std::int64_t part_of(std::int64_t size, const GptPart& part) {
  return part_of_block(size, part.tensor_rank, part.tensor).count;
}

/// Blocks of each part of the model; the parts go to the pipeline stages in turn.
std::vector<std::int64_t> blocks_of_parts(const TransformerOptions& model, int parts) {
  if (parts == 1) return {model.layers};
  std::vector<std::int64_t> blocks;
  const std::vector<std::size_t> begins =
      divide_evenly(costs_of_units(model), static_cast<std::size_t>(parts));
  const auto last_unit = static_cast<std::size_t>(model.layers) + 1;  // the output layer
  for (std::size_t part = 0; part + 1 < begins.size(); ++part) {
    const std::size_t first = std::max<std::size_t>(begins[part], 1);
    const std::size_t end = std::max(first, std::min(begins[part + 1], last_unit));
    blocks.push_back(static_cast<std::int64_t>(end - first));
  }
  return blocks;
}

/// Blocks of each of the stage's chunks.
std::vector<std::int64_t> blocks_of_chunks(const TransformerOptions& model, const GptPart& part) {
  const std::vector<std::int64_t> of_parts = blocks_of_parts(model, part.stages * part.chunks);
  std::vector<std::int64_t> blocks;
  for (int c = 0; c < part.chunks; ++c) {
    blocks.push_back(of_parts[static_cast<std::size_t>(c * part.stages + part.stage)]);
  }
  return blocks;
}

std::int64_t blocks_of(const TransformerOptions& model, const GptPart& part) {
  return blocks_of_stages(model, part.stages, part.chunks)[static_cast<std::size_t>(part.stage)];
}
bool has_embeddings(const GptPart& part) {
  return part.stage == 0;
}
bool has_head(const GptPart& part) {
  return part.stage + 1 == part.stages;
}

/// Bytes that ZeRO has in addition to a rank's shard while an update runs.
struct ShardBuffers {
  struct Moment {
    std::size_t units = 0, gradients = 0;
  };
  Moment forward, end_of_forward, loss;
  Moment first_block, later_block;  ///< in backward
};

/// Steps through forward and backward as nn/gpt.cpp does, and finds the moment with the most memory.
class PeakOfGptUpdate {
 public:
  PeakOfGptUpdate(const GptMemoryProblem& p, const ShardBuffers& buffers)
      // Each micro-batch through a chunk has its own tape, and its own last segment, which is not recomputed.
      // All are counted like those of the largest chunk.
      : buffers_(buffers),
        layers_(std::ranges::max(blocks_of_chunks(p.model, p.part))),
        segment_(p.recompute),
        in_flight_(p.part.in_flight * p.part.chunks),
        is_swiglu_(is_swiglu(p.model)),
        has_head_(has_head(p.part)) {
    const TransformerOptions& o = p.model;
    const int ranks = p.part.tensor;
    const std::int64_t rows = p.sequences * p.tokens / p.part.context,
                       own_rows = p.part.sequence ? rows / ranks : rows;
    const auto values = [&](std::int64_t columns) { return allocated_bytes(rows * columns, p.compute); };
    stream_ = allocated_bytes(own_rows * o.width, p.compute);
    hidden_ = values(part_of(o.hidden_or_default(), p.part));
    logits_ = values(part_of(o.vocabulary, p.part));
    // Where ranks have parts of the logits, their gradient is not written over them.
    loss_in_place_ = p.compute != DType::f16 && ranks == 1;
    // The input of a divided layer: the norm's result, or with sequence parallelism all ranks' results.
    entered_ = values(o.width);
    norm_ = entered_ + (o.norm == Norm::Kind::layer ? 2 : 1) * allocated_bytes(own_rows, DType::f32);
    const std::size_t qkv = values(o.qkv_columns() / ranks);
    const std::size_t attention =
        values(o.width / ranks) + allocated_bytes(rows * o.heads / ranks, DType::f32);
    mlp_ = (is_swiglu_ ? 3 : 2) * hidden_;
    block_ = norm_ + qkv + attention + stream_ + norm_ + mlp_ + stream_;
    if (p.part.context > 1) ring_ = 4 * values(2 * o.kv_heads_or_default() * o.head_size() / ranks);
    qkv_ = qkv;
    // With sequence parallelism a term of the sum over the ranks, of all tokens and in two buffers; only the
    // rank's tokens remain.
    branch_ = p.part.sequence ? 2 * entered_ : stream_;
    if (is_swiglu_ && p.part.sequence) block_ += entered_;  // both of its layers gather what they read
    // A stage keeps the gradient that a chunk sent to the stage before it until the chunk sends the next one.
    // Before a chunk's only backward there is none.
    const int sent = p.part.micro_batches > 1 ? p.part.chunks : p.part.chunks - 1;
    if (p.part.stage > 0) sent_ = static_cast<std::size_t>(sent) * stream_;
  }

  BytesByCategory find() {
    const std::int64_t segment = segment_ == 0 ? layers_ : segment_;
    const std::int64_t segments = ceil_div(layers_, segment);
    const std::int64_t of_last = layers_ - (segments - 1) * segment;
    // Inputs of all segments, the first of which is the embeddings.
    std::size_t kept = static_cast<std::size_t>(segments) * stream_;
    const std::size_t of_forward = kept + static_cast<std::size_t>(of_last) * block_;
    // Other micro-batches in flight keep what they have after their forward.
    const auto others = static_cast<std::size_t>((in_flight_ - 1) * static_cast<double>(of_forward));
    kept += others;
    if (segments > 1) {
      // A segment's first run holds all its activations, and the last sum together with the branch added to
      // it.
      note(kept - stream_ + static_cast<std::size_t>(segment) * block_ + branch_, 0, buffers_.forward);
    }
    const std::size_t last = kept + static_cast<std::size_t>(of_last) * block_;
    note(last, 0, buffers_.end_of_forward);
    // Logits with a gradient of their own are freed before the gradient of the output layer's input is made.
    const std::size_t of_loss = loss_in_place_ ? entered_ : std::max(logits_, entered_);
    if (has_head_) note(last + norm_ + logits_, of_loss, buffers_.loss);
    backward_of_mlp(last, buffers_.first_block);
    // In the block before it there are fewer activations, and one more bucket in flight.
    if (of_last > 1) backward_of_mlp(last - block_, buffers_.later_block);
    if (segments > 1) {
      kept -= stream_;  // the last segment's input is gone
      const std::size_t again = kept + static_cast<std::size_t>(segment) * block_;
      // Again the branch, and the gradient of the segment's result.
      note(again + branch_, stream_, buffers_.later_block);
      backward_of_mlp(again, buffers_.later_block);
    }
    return peak_;
  }

 private:
  void note(std::size_t results, std::size_t of_results, const ShardBuffers::Moment& buffers) {
    using enum MemoryCategory;
    BytesByCategory moment;
    moment[parameters] = buffers.units;
    moment[gradients] = buffers.gradients;
    moment[activations] = results;
    moment[activation_gradients] = of_results + sent_;
    if (moment.total() > peak_.total()) peak_ = moment;
  }

  /// The backward of the newest block's MLP, with `kept` bytes of results. The block's result is not needed
  /// any more; its gradient goes on in the stream and in the branch.
  void backward_of_mlp(std::size_t kept, const ShardBuffers::Moment& buffers) {
    kept -= stream_;
    note(kept, stream_ + entered_ + hidden_, buffers);  // with the gradient of c_proj's input
    // SwiGLU's result and the branch's gradient are gone, and one gradient becomes two.
    if (is_swiglu_) note(kept - hidden_, stream_ + 3 * hidden_, buffers);
    // In the ring: what the MLP kept is gone, and the gradients of attention's result and of qkv exist.
    if (ring_ > 0) note(kept - mlp_ - norm_ - stream_, stream_ + entered_ + qkv_ + ring_, buffers);
  }

  ShardBuffers buffers_;
  std::int64_t layers_, segment_;
  double in_flight_;
  bool is_swiglu_, has_head_, loss_in_place_ = true;
  std::size_t stream_ = 0, branch_ = 0, entered_ = 0, hidden_ = 0, logits_ = 0, norm_ = 0, mlp_ = 0,
              block_ = 0, qkv_ = 0, ring_ = 0, sent_ = 0;
  BytesByCategory peak_;
};

void check_part(const TransformerOptions& model, const GptPart& part) {
  const std::int64_t kv_heads = model.kv_heads_or_default();
  check(part.tensor >= 1 && model.heads % part.tensor == 0 && kv_heads % part.tensor == 0,
        "GPT: {} ranks do not divide {} heads of queries and {} of keys and values", part.tensor, model.heads,
        kv_heads);
  check(part.tensor_rank >= 0 && part.tensor_rank < part.tensor, "GPT: rank {} of {}, expected 0 to {}",
        part.tensor_rank, part.tensor, part.tensor - 1);
  check(part.context >= 1, "GPT: {} context ranks, expected at least 1", part.context);
  check(part.stage >= 0 && part.stage < part.stages, "GPT: stage {} of {}, expected 0 to {}", part.stage,
        part.stages, part.stages - 1);
  check(blocks_of(model, part) >= 1, "GPT: of {} blocks stage {} of {} has none", model.layers, part.stage,
        part.stages);
  check(part.in_flight >= 1, "GPT: {} micro-batches in flight, expected at least 1", part.in_flight);
}

void check_problem(const GptMemoryProblem& p) {
  const auto check_size = [](const char* what, std::int64_t value, std::int64_t least) {
    check(value >= least, "memory estimate: {}: expected at least {}, found {}", what, least, value);
  };
  check_size("sequences", p.sequences, 1);
  check_size("tokens", p.tokens, 1);
  check_size("layers", p.model.layers, 1);
  check_size("heads", p.model.heads, 1);
  check_size("width", p.model.width, 1);
  check_size("vocabulary", p.model.vocabulary, 1);
  check_size("values of state per parameter", p.state_per_parameter, 0);
  check_size("blocks in a segment", p.recompute, 0);
  check(p.tokens % (2 * p.part.context) == 0 || p.part.context == 1,
        "memory estimate: {} tokens cannot be divided into two chunks for each of {} context ranks", p.tokens,
        p.part.context);
  check(p.tokens <= p.model.context, "memory estimate: {} tokens exceed the context of {}", p.tokens,
        p.model.context);
  check(p.compute == DType::f32 || p.compute == DType::bf16 || p.compute == DType::f16,
        "memory estimate: a model computes in f32, bf16 or f16, not in {}", name_of(p.compute));
}

std::vector<GptParameter> parameters_of_rank(const TransformerOptions& o, const GptPart& part) {
  const std::vector<std::int64_t> blocks = blocks_of_chunks(o, part);
  const bool norm_bias = o.norm == Norm::Kind::layer && o.bias;
  const std::int64_t ranks = part.tensor, hidden = part_of(o.hidden_or_default(), part);
  std::vector<GptParameter> parameters;
  std::int64_t block = -1;
  int chunk = has_embeddings(part) ? 0 : part.chunks - 1;
  const auto add = [&](std::int64_t elements, bool is_part) {
    parameters.push_back(
        {.elements = elements, .is_part = is_part && ranks > 1, .block = block, .chunk = chunk});
  };
  const auto add_norm = [&] {
    add(o.width, false);
    if (norm_bias) add(o.width, false);
  };
  const auto add_column = [&](std::int64_t in, std::int64_t out) {  // divided by outputs
    add(in * out, true);
    if (o.bias) add(out, true);
  };
  const auto add_row = [&](std::int64_t in, std::int64_t out) {  // by inputs
    add(in * out, true);
    if (o.bias) add(out, false);
  };
  const std::int64_t table = part_of(o.vocabulary, part) * o.width;
  if (has_embeddings(part) || (o.tied && has_head(part))) {
    add(table, true);
    parameters.back().is_copied = o.tied && part.stages > 1;
  }
  if (has_embeddings(part) && o.positions == PositionKind::learned) add(o.context * o.width, false);
  std::vector<int> chunk_of_block;
  for (int c = 0; c < part.chunks; ++c) {
    const auto of_chunk = static_cast<std::size_t>(blocks[static_cast<std::size_t>(c)]);
    chunk_of_block.insert(chunk_of_block.end(), of_chunk, c);
  }
  for (block = 0; block < std::ssize(chunk_of_block); ++block) {
    chunk = chunk_of_block[static_cast<std::size_t>(block)];
    add_norm();
    add_column(o.width, o.qkv_columns() / ranks);
    add_row(o.width / ranks, o.width);
    add_norm();
    if (is_swiglu(o)) add_column(o.width, hidden);
    add_column(o.width, hidden);
    add_row(hidden, o.width);
  }
  block = -1;
  chunk = part.chunks - 1;
  if (!has_head(part)) return parameters;
  add_norm();
  if (!o.tied) add(table, true);
  return parameters;
}

}  // namespace

std::vector<GptParameter> parameters_of(const TransformerOptions& model, const GptPart& part) {
  check_part(model, part);
  std::vector<GptParameter> parameters = parameters_of_rank(model, part);
  GptPart last = part;
  last.tensor_rank = part.tensor - 1;
  const std::vector<GptParameter> of_last = parameters_of_rank(model, last);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].room = of_last[i].elements;
  return parameters;
}

std::vector<std::int64_t> parameter_sizes(const TransformerOptions& model) {
  std::vector<std::int64_t> sizes;
  for (const GptParameter& parameter : parameters_of(model)) sizes.push_back(parameter.elements);
  return sizes;
}

std::vector<GptParameter> arena_order(const std::vector<GptParameter>& parameters, int stage) {
  std::vector<GptParameter> order(parameters.rbegin(), parameters.rend());
  if (stage < 3) return order;
  const auto key_of = [](const GptParameter& each) {
    return std::tuple(-each.block, each.chunk, each.is_copied);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const GptParameter& a, const GptParameter& b) { return key_of(a) < key_of(b); });
  return order;
}

ArenaLayout gpt_layout(const std::vector<GptParameter>& order, const ArenaSharding& sharding) {
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> runs;
  const auto run_of = [&](const GptParameter& each) {
    return std::tuple(sharding.zero_stage == 3 ? each.block : 0, each.chunk, each.is_copied);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || run_of(order[i]) != run_of(order[i - 1])) runs.push_back(0);
    ++runs.back();
    sizes.push_back(order[i].room);
  }
  return arena_layout(sizes, runs, sharding.zero_stage, sharding.world_size, sharding.bucket_sizes);
}

namespace {

/// Elements of a chunk's units.
struct ChunkUnits {
  std::int64_t of_all = 0;   ///< elements that are in no block
  std::int64_t blocks = 0;   ///< number of blocks
  std::int64_t largest = 0;  ///< elements of the largest block

  std::int64_t with_blocks(std::int64_t at_once) const {
    return of_all + std::min(at_once, blocks) * largest;
  }
};

std::vector<ChunkUnits> units_of_chunks(const std::vector<GptParameter>& order, const ArenaLayout& layout) {
  std::map<int, ChunkUnits> chunks;
  for (const GradientBucket& bucket : layout.buckets) {
    const GptParameter& first = order[bucket.first_entry];
    ChunkUnits& chunk = chunks[first.chunk];
    if (first.block < 0) {
      chunk.of_all += bucket.elements;
    } else {
      ++chunk.blocks;
      chunk.largest = std::max(chunk.largest, bucket.elements);
    }
  }
  std::vector<ChunkUnits> units;
  for (const auto& [number, chunk] : chunks) units.push_back(chunk);
  return units;
}

/// The largest with_blocks() of the chunks.
std::int64_t max_with_blocks(const std::vector<ChunkUnits>& chunks, std::int64_t at_once) {
  std::int64_t most = 0;
  for (const ChunkUnits& chunk : chunks) most = std::max(most, chunk.with_blocks(at_once));
  return most;
}

ShardBuffers buffers_of_units(const std::vector<GptParameter>& order, const ArenaLayout& layout,
                              const GptMemoryProblem& problem) {
  const std::vector<ChunkUnits> chunks = units_of_chunks(order, layout);
  // Backward reads the output layer's values, and writes its gradients first. Of the embeddings it only
  // writes gradients, at the end.
  std::vector<ChunkUnits> in_backward = chunks;
  std::int64_t blocks = 0;
  for (ChunkUnits& chunk : in_backward) {
    if (!has_head(problem.part)) chunk.of_all = 0;
    blocks = std::max(blocks, chunk.blocks);
  }
  const auto units = [&](const std::vector<ChunkUnits>& of, std::int64_t at_once) {
    const bool frees = problem.sharding.reshard_after_forward;
    return allocated_bytes(frees ? max_with_blocks(of, at_once) : layout.elements, problem.compute);
  };
  const auto gradients = [&](std::int64_t at_once) {
    return allocated_bytes(max_with_blocks(in_backward, at_once), DType::f32);
  };
  const std::int64_t at_once = std::max<std::int64_t>(problem.recompute, 1) + 1;
  return {.forward = {units(chunks, 2), 0},
          .end_of_forward = {units(chunks, 1), 0},
          .loss = {units(chunks, 0), gradients(0)},
          .first_block = {units(in_backward, at_once), gradients(1)},
          // This may be the last block, which has no neighbour to gather.
          .later_block = {units(in_backward, std::min(at_once, blocks - 1)), gradients(2)}};
}

/// In stage 2, at most two neighbouring buckets, and the bucket of tied weights, whose gradient the output
/// layer begins and the embeddings complete.
ShardBuffers buffers_of_buckets(const ArenaLayout& layout, const GptMemoryProblem& problem) {
  std::span<const GradientBucket> buckets = layout.buckets;
  std::int64_t early = buckets.front().elements, held = 0;
  if (problem.model.tied && has_head(problem.part)) {
    early = held = buckets.back().elements;
    buckets = buckets.first(buckets.size() - 1);
  }
  const std::size_t most = allocated_bytes(held + max_of_neighbours(buckets), DType::f32);
  return {.forward = {},
          .end_of_forward = {},
          .loss = {0, allocated_bytes(early, DType::f32)},
          .first_block = {0, most},
          .later_block = {0, most}};
}

}  // namespace

std::int64_t parameter_count(const TransformerOptions& model) {
  // All blocks have the same parameters, and there may be very many.
  const auto with_layers = [&model](std::int64_t layers) {
    TransformerOptions part = model;
    part.layers = std::min(layers, model.layers);
    const std::vector<std::int64_t> sizes = parameter_sizes(part);
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  };
  const std::int64_t one = with_layers(1), block = with_layers(2) - one;
  return one + (model.layers - 1) * block;
}

std::vector<double> costs_of_units(TransformerOptions options) {
  const std::int64_t layers = std::exchange(options.layers, 1);
  const double one = forward_flops(options, 1, options.context);
  options.layers = 2;
  const double block = forward_flops(options, 1, options.context) - one;
  std::vector<double> costs(static_cast<std::size_t>(layers) + 2, block);
  costs.front() = 0;
  costs.back() = one - block;
  return costs;
}

std::vector<std::int64_t> blocks_of_stages(const TransformerOptions& model, int stages, int chunks) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages), 0);
  const std::vector<std::int64_t> of_parts = blocks_of_parts(model, stages * chunks);
  for (std::size_t part = 0; part < of_parts.size(); ++part) {
    blocks[part % static_cast<std::size_t>(stages)] += of_parts[part];
  }
  return blocks;
}

double forward_flops(const TransformerOptions& o, std::int64_t sequences, std::int64_t tokens) {
  const std::vector<std::int64_t> weights = linear_weights(o);
  const auto of_block = static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
  const auto layers = static_cast<double>(o.layers), width = static_cast<double>(o.width);
  const double of_token = 2 * (layers * of_block + width * static_cast<double>(o.vocabulary));
  return static_cast<double>(sequences) * static_cast<double>(tokens) * of_token +
         attention_flops(o, sequences, tokens);
}

double attention_flops(const TransformerOptions& o, std::int64_t sequences, std::int64_t tokens) {
  const auto t = static_cast<double>(tokens);
  return static_cast<double>(sequences) * static_cast<double>(o.layers) * 2 * t * (t + 1) *
         static_cast<double>(o.width);
}

std::int64_t recomputed_blocks(const GptMemoryProblem& problem) {
  if (problem.recompute == 0) return 0;
  std::int64_t count = 0;
  for (const std::int64_t blocks : blocks_of_chunks(problem.model, problem.part)) {
    count += std::max<std::int64_t>(0, blocks - 1) / problem.recompute * problem.recompute;
  }
  return count;
}

BytesByCategory estimate_memory(const GptMemoryProblem& given) {
  using enum MemoryCategory;
  GptMemoryProblem problem = given;
  if (problem.tokens == 0) problem.tokens = problem.model.context;
  check_problem(problem);
  const int stage = problem.sharding.world_size > 1 ? problem.sharding.zero_stage : 0;
  const std::vector<GptParameter> order = arena_order(parameters_of(problem.model, problem.part), stage);
  const ArenaLayout layout = gpt_layout(order, problem.sharding);
  BytesByCategory estimate = estimate_arena(layout, stage, problem.state_per_parameter, problem.compute);
  ShardBuffers buffers;
  if (stage == 2) buffers = buffers_of_buckets(layout, problem);
  if (stage == 3) buffers = buffers_of_units(order, layout, problem);
  const BytesByCategory peak = PeakOfGptUpdate(problem, buffers).find();
  estimate[parameters] += peak[parameters];
  estimate[gradients] += peak[gradients];
  estimate[activations] = peak[activations];
  estimate[activation_gradients] = peak[activation_gradients];
  estimate[data] = 2 * allocated_bytes(problem.sequences * problem.tokens / problem.part.context, DType::i32);
  return estimate;
}

}  // namespace ringtape
